"""Whether the records of a run are what was written, offline."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeVar

from goalrunner.app.citation_review import CitationReview
from goalrunner.core import events
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.observation import ArtifactRef, EvidenceRow
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import observations_of, outcome_of, summary_of
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.reading import LogDamage, TornTail, read_places
from goalrunner.records.run_folder import RunFolder

T = TypeVar("T")

_FIRST = ("status", "iterations", "verdict")
"""Fields of an outcome that must be there, and that are compared first."""


@dataclass(frozen=True)
class Broken:
    """The first damage: the file, the byte where it begins (None: the file as a whole), and what is wrong."""

    file: str
    byte: int | None
    what: str


@dataclass
class Verification:
    """What was checked, and the first damage; None if there is none."""

    run_id: str
    path: str
    events: int = 0
    messages: int = 0
    artifacts: int = 0
    citations: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be checked, or is unusual and no damage."""
    broken: Broken | None = None


class _Damage(Exception):
    def __init__(self, file: Path, byte: int | None, what: str) -> None:
        super().__init__(what)
        self.broken = Broken(str(file), byte, what)


async def verify(folder: RunFolder, home: Path, environ: Mapping[str, str]) -> Verification:
    """Check a run's folder up to the first damage. `home` is where snapshots are kept."""
    done = Verification(folder.run_id, str(folder.path))
    try:
        review = CitationReview(folder, _outputs(folder.goal_file), home, environ)
        state = await _check_log(folder, review, done)
        _check_outcome(folder, state, review.evidence.rows(state), done)
    except _Damage as damage:
        done.broken = damage.broken
    except LogDamage as damage:
        done.broken = Broken(str(damage.path), damage.offset, damage.message.removeprefix(f"{damage.path}: "))
    except RecordError as error:
        done.broken = Broken(str(folder.path), None, error.message)
    return done


def _outputs(goal_file: Path) -> list[str]:
    """Return the patterns of what checks may write, as the run had them."""
    try:
        table = tomllib.loads(goal_file.read_text(encoding="utf-8")).get("workspace", {})
        return [str(pattern) for pattern in table.get("outputs", [])]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise _Damage(goal_file, None, f"the goal of the run cannot be read: {error}") from error


async def _check_log(folder: RunFolder, review: CitationReview, done: Verification) -> RunState:
    """Check schema, sequence and chain, what the events refer to, the verdicts, and that the events fold."""
    torn: list[TornTail] = []
    seen: set[str] = set()
    chained, hashed = True, False
    kept: dict[str, str] = {}
    for record, place in _one_behind(read_places(folder.events, torn.append)):
        chained = chained and bool(record.p)
        done.events += 1
        try:
            refused = await review.add(record)
        except RecordError as error:
            raise _Damage(folder.events, place, error.message) from error
        hashed = hashed or (isinstance(record.event, events.RunStarted) and bool(record.event.goal_sha256))
        _check_references(folder, review.artifacts, record, seen, done)
        if isinstance(record.event, events.StartKept):
            kept = dict(record.event.files)  # a resumed run may record the start anew
        if refused:
            raise _Damage(folder.events, place, refused)
    for name, sha256 in kept.items():
        _check_hash(folder.start / name, sha256, "the recorded start of the run")
    done.citations = review.checked
    for tail in torn:
        if folder.outcome.exists() or review.state is None:
            raise _Damage(folder.events, tail.offset, f"the last {tail.length} bytes are an incomplete record")
        done.notes.append(f"{folder.events}: the last {tail.length} bytes are an incomplete record and are ignored")
    if review.state is None:
        raise _Damage(folder.events, None, "it contains no event")
    if not chained:
        done.notes.append("the log, or its beginning, has no hash chain: a changed line may not be noticed")
    if not hashed:
        done.notes.append("the log has no hash of the goal, so a changed goal.toml is not noticed")
    if review.unchecked:
        what = f"{review.unchecked} cited observations were" if review.unchecked > 1 else "a cited observation was"
        done.notes.append(f"whether {what} fresh cannot be checked again: {review.gone}")
    return review.state


def _check_references(
    folder: RunFolder, artifacts: ArtifactStore, record: Record, seen: set[str], done: Verification
) -> None:
    """Check the files that an event names by their hashes; `seen` are the artifacts that were checked."""
    match record.event:
        case events.RunStarted(goal_sha256=sha256) if sha256:
            _check_hash(folder.goal_file, sha256, "the goal of the run")
        case events.MessageRecorded(text=ref):
            _check_message(folder.transcript, ref.offset, ref.length, ref.sha256, record.seq)
            done.messages += 1
        case _:
            pass
    for what, output in _artifacts(record.event):
        if output.sha256 not in seen:
            _check_hash(artifacts.path(output), output.sha256, f"{what} of event {record.seq}")
            seen.add(output.sha256)
            done.artifacts += 1


def _one_behind(records: Iterator[T]) -> Iterator[T]:
    """Yield each record after the next one was read, which has its hash: a damaged record is found before it is used."""
    for before, _ in pairwise(chain(records, (None,))):
        if before is not None:
            yield before


def _check_message(transcript: Path, offset: int, length: int, sha256: str, seq: int) -> None:
    try:
        with transcript.open("rb") as file:
            file.seek(offset)
            line = file.read(length + 1)
    except OSError as error:
        raise _Damage(transcript, None, f"it cannot be read: {error.strerror}") from error
    if hashlib.sha256(line[:-1]).hexdigest() != sha256 or line[-1:] != b"\n":
        raise _Damage(transcript, offset, f"the message of event {seq} differs from what was recorded")


def _artifacts(event: events.Event) -> Iterator[tuple[str, ArtifactRef]]:
    for item in observations_of(event):
        if item.output:
            yield f"the output of {item.id}", item.output
    if isinstance(event, events.BaselineTaken | events.ValidatorsFinished):
        for result in event.results:
            if result.output:
                yield f"the output of validator {result.name}", result.output


def _check_hash(path: Path, sha256: str, what: str) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _Damage(path, None, f"{what} cannot be read: {error.strerror}") from error
    if digest != sha256:
        raise _Damage(path, None, f"{what} differs from what was recorded")


def _check_outcome(folder: RunFolder, state: RunState, rows: Sequence[EvidenceRow], done: Verification) -> None:
    """Compare outcome.json and summary.json with the state that the log folds to."""
    if state.status is GoalStatus.RUNNING and not folder.outcome.exists():
        done.notes.append("the run has not ended; only what is recorded so far was checked")
        return
    for path, differs in (
        (folder.outcome, outcome_differs(state, rows, _table(folder.outcome))),
        (folder.summary, summary_differs(state, _table(folder.summary))),
    ):
        if differs:
            raise _Damage(path, None, differs)


def _table(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _Damage(path, None, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else None
        raise _Damage(path, place, "it is not JSON") from error
    if not isinstance(value, dict):
        raise _Damage(path, 0, "it is not a JSON object")
    return value


def outcome_differs(state: RunState, rows: Sequence[EvidenceRow], outcome: dict[str, Any]) -> str:
    """Return the first field of an outcome that does not follow from the log, in words; empty if all of them do.

    Fields that only one of them has are of another version. The run's folder may have been moved.
    """
    ours = {**outcome_of(state).model_dump(mode="json"), "evidence": [row.model_dump(mode="json") for row in rows]}
    del ours["run_path"], ours["schema_version"]
    if not outcome.get("evidence"):
        del ours["evidence"]
    return _first_difference(ours, outcome)


def summary_differs(state: RunState, summary: dict[str, Any]) -> str:
    """Return the same for a summary."""
    return _first_difference(json.loads(json.dumps(summary_of(state))), summary)


def _first_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    shared = sorted((key for key in ours if key in theirs), key=lambda key: key not in _FIRST)
    if found := next(filter(None, (_difference(key, ours[key], theirs[key]) for key in shared)), ""):
        return found
    return next((f"it has no {key}" for key in _FIRST if key in ours and key not in theirs), "")


def _difference(place: str, ours: Any, theirs: Any) -> str:
    match ours, theirs:
        case dict(), dict():
            pairs = [(f"{place}.{key}", ours[key], theirs[key]) for key in ours if key in theirs]
        case list(), list() if len(ours) == len(theirs):
            pairs = [(f"{place}[{at}]", *pair) for at, pair in enumerate(zip(ours, theirs, strict=True))]
        case _:
            same = ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)
            return "" if same else f"{place} is {_short(theirs)}, and {_short(ours)} by the log"
    return next(filter(None, (_difference(*pair) for pair in pairs)), "")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
