"""Whether the records of a run still hold, offline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from goalrunner.app.citation_review import CitationReview, Freshness, goal_outputs
from goalrunner.core import events
from goalrunner.core.errors import RecordError
from goalrunner.core.evidence import EvidenceIndex, observations_of
from goalrunner.core.fold import apply
from goalrunner.core.observation import ArtifactRef, EvidenceRow
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of, summary_of
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.reading import LogDamage, TornTail, read_places
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

_FIRST = ("status", "iterations", "verdict")


def outcome_differs(state: RunState, rows: Sequence[EvidenceRow], outcome: dict[str, Any]) -> str:
    """The first field of an outcome that the log does not bear out, in words; empty when all of them hold.

    Fields that only one of them has are of another version. The run's folder may have been moved.
    """
    ours = {**outcome_of(state).model_dump(mode="json"), "evidence": [row.model_dump(mode="json") for row in rows]}
    del ours["run_path"], ours["schema_version"]
    if outcome.get("schema_version") == "1.0":
        ours["usage"] = {account: _before(usage) for account, usage in state.usage.items()}
    if not outcome.get("evidence"):
        del ours["evidence"]
    return _first_difference(ours, outcome)


def summary_differs(state: RunState, summary: dict[str, Any]) -> str:
    """The same of a summary."""
    ours = json.loads(json.dumps(summary_of(state)))
    if "uncounted_calls" not in summary:
        judge = state.usage.get("judge", Usage())
        ours |= {"tokens": state.total.tokens, "cost_usd": state.total.cost_usd, "judge_tokens": judge.tokens}
    return _first_difference(ours, summary)


def _before(usage: Usage) -> dict[str, Any]:
    """Usage as outcomes of schema 1.0 had it: 0 where nothing was known."""
    values = usage.model_dump(mode="json")
    return values | {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}


def _first_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    shared = [key for key in ours if key in theirs]
    for key in sorted(shared, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        found = _difference(key, ours[key], theirs[key])
        if found:
            return found
    absent = [key for key in _FIRST if key in ours and key not in theirs]
    return f"it has no {absent[0]}" if absent else ""


def _difference(place: str, ours: Any, theirs: Any) -> str:
    match ours, theirs:
        case dict(), dict():
            shared = [key for key in ours if key in theirs]
            found = (_difference(f"{place}.{key}", ours[key], theirs[key]) for key in shared)
            return next(filter(None, found), "")
        case list(), list() if len(ours) == len(theirs):
            pairs = enumerate(zip(ours, theirs, strict=True))
            return next(filter(None, (_difference(f"{place}[{index}]", *pair) for index, pair in pairs)), "")
        case _:
            same = ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)
            return "" if same else f"{place} is {_short(theirs)}, and {_short(ours)} by the log"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True)
class Broken:
    """The first thing that does not hold: in which file, from which byte (None: the file as a whole), and what."""

    file: str
    byte: int | None
    what: str


@dataclass
class Verification:
    """What was checked, and what does not hold; `broken` None: everything does."""

    run_id: str
    path: str
    events: int = 0
    messages: int = 0
    artifacts: int = 0
    citations: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be checked, or is no damage and still worth a word."""
    broken: Broken | None = None


class _Damage(Exception):
    """Ends a verification at the first record that does not hold."""

    def __init__(self, file: Path, byte: int | None, what: str) -> None:
        super().__init__(what)
        self.broken = Broken(str(file), byte, what)


async def verify(folder: RunFolder, home: Path, environ: Mapping[str, str]) -> Verification:
    """Check a run's folder; the first thing that does not hold ends it. `home` is where snapshots are kept."""
    done = Verification(folder.run_id, str(folder.path))
    try:
        state, index = _check_log(folder, done)
        _check_start(folder, done)
        _check_references(folder, done)
        _check_words(folder, state, index, done)
        await _check_citations(folder, home, environ, done)
    except _Damage as damage:
        done.broken = damage.broken
    except LogDamage as damage:
        done.broken = Broken(str(damage.path), damage.offset, damage.message.removeprefix(f"{damage.path}: "))
    except RecordError as error:
        done.broken = Broken(str(folder.path), None, error.message)
    return done


def _check_log(folder: RunFolder, done: Verification) -> tuple[RunState, EvidenceIndex]:
    """Schema, sequence, chain, and that the events fold."""
    torn: list[TornTail] = []
    state: RunState | None = None
    index, chained = EvidenceIndex(), True
    for record, place in read_places(folder.events, torn.append):
        try:
            state = apply(state, record)
        except RecordError as error:
            raise _Damage(folder.events, place, error.message) from error
        index.add(record)
        chained = chained and bool(record.p)
        done.events += 1
    for tail in torn:
        if folder.outcome.exists() or state is None:
            raise _Damage(folder.events, tail.offset, f"the last {tail.length} bytes are half a record")
        done.notes.append(f"{folder.events}: the last {tail.length} bytes are half a record and do not count")
    if state is None:
        raise _Damage(folder.events, None, "it holds no event")
    if not chained:
        done.notes.append("the log, or its beginning, has no hash chain: a changed line there is not always seen")
    return state, index


def _check_start(folder: RunFolder, done: Verification) -> None:
    """The goal, and the files about the start of the run, by their hashes in the log."""
    goal = ""
    kept: dict[str, str] = {}
    for record, _ in read_places(folder.events):
        match record.event:
            case events.RunStarted(goal_sha256=sha256):
                goal = sha256
            case events.StartKept(files=files):
                kept = files
            case _:
                pass
    if goal:
        _check_hash(folder.goal_file, goal, "the goal of the run")
    else:
        done.notes.append("the log has no hash of the goal, so a changed goal.toml is not seen")
    for name, sha256 in kept.items():
        _check_hash(folder.start / name, sha256, "what was kept of the start of the run")


def _check_references(folder: RunFolder, done: Verification) -> None:
    """Transcript lines and artifacts that the log names, by their hashes."""
    place = ArtifactStore(folder.artifacts, Redactor({})).path
    seen: set[str] = set()
    transcript: BinaryIO | None = None
    try:
        for record, _ in read_places(folder.events):
            if isinstance(record.event, events.MessageRecorded):
                transcript = transcript or _opened(folder.transcript)
                ref = record.event.text
                transcript.seek(ref.offset)
                line = transcript.read(ref.length + 1)
                if hashlib.sha256(line[:-1]).hexdigest() != ref.sha256 or line[-1:] != b"\n":
                    said = f"the message of event {record.seq} is not what was written"
                    raise _Damage(folder.transcript, ref.offset, said)
                done.messages += 1
            for what, output in _outputs(record.event):
                if output.sha256 not in seen:
                    _check_hash(place(output), output.sha256, f"{what} of event {record.seq}")
                    seen.add(output.sha256)
                    done.artifacts += 1
    finally:
        if transcript is not None:
            transcript.close()


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise _Damage(path, None, f"it cannot be read: {error.strerror}") from error


def _outputs(event: events.Event) -> Iterator[tuple[str, ArtifactRef]]:
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
        raise _Damage(path, None, f"{what} is not what was written")


def _check_words(folder: RunFolder, state: RunState, index: EvidenceIndex, done: Verification) -> None:
    """What the run said of itself is what its log folds to."""
    if state.status is GoalStatus.RUNNING and not folder.outcome.exists():
        done.notes.append("the run has not ended; what is written so far was checked")
        return
    found = outcome_differs(state, index.rows(state), _table(folder.outcome))
    if found:
        raise _Damage(folder.outcome, None, found)
    found = summary_differs(state, _table(folder.summary))
    if found:
        raise _Damage(folder.summary, None, found)


def _table(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _Damage(path, None, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else None
        raise _Damage(path, place, "it is no JSON") from error
    if not isinstance(value, dict):
        raise _Damage(path, 0, "it is no JSON object")
    return value


async def _check_citations(folder: RunFolder, home: Path, environ: Mapping[str, str], done: Verification) -> None:
    """Each verdict of the judge, by the check that it passed when it was made."""
    try:
        outputs = goal_outputs(folder.goal_file)
    except RecordError as error:
        raise _Damage(folder.goal_file, None, error.message) from error
    freshness = Freshness(outputs, home, environ)
    review = CitationReview(folder, freshness)
    for record, place in read_places(folder.events):
        refused = await review.add(record)
        if refused:
            raise _Damage(folder.events, place, refused)
    done.citations = review.checked
    if freshness.unchecked:
        many = freshness.unchecked > 1
        what = f"{freshness.unchecked} cited observations were" if many else "a cited observation was"
        done.notes.append(f"whether {what} fresh cannot be checked again: {freshness.gone}")
