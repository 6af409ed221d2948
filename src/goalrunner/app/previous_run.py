"""What is known of a run from its folder: state, goal, chat and outcome."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.goal_secrets import NEW_RUN, with_secrets
from goalrunner.checking.ignored_files import PACK
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import RunStarted
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.ports import Message, Observer
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import EvidenceIndex, outcome_of, summary_of
from goalrunner.engine.resumption import ResumptionReader
from goalrunner.goalfile import load_goal, resolve_goal
from goalrunner.records.artifacts import read_message
from goalrunner.records.event_log import is_written
from goalrunner.records.reading import LogEnd, read_lines, read_records
from goalrunner.records.run_folder import UNFINISHED, RunFolder
from goalrunner.records.token_formats import is_redacted


@dataclass(frozen=True)
class LoadedRun:
    """What one reading of a run's log gives; `end` is where the log ended."""

    state: RunState
    started: RunStarted
    evidence: EvidenceIndex
    end: LogEnd


def load_run(folder: RunFolder) -> LoadedRun:
    """Fold a run's log, once. Raise RecordError for a log that is damaged or too short."""
    state: RunState | None = None
    started: RunStarted | None = None
    evidence, end = EvidenceIndex(), LogEnd()
    if not folder.events.exists():  # killed between the folder and its log; or the log was deleted
        raise RecordError(f"{folder.events} does not exist: the run never began, or its log was deleted", NEW_RUN)
    for record, end in read_lines(folder.events, lambda: False):  # noqa: B007  the last one is kept
        state = apply(state, record)
        evidence.add(record)
        if isinstance(record.event, RunStarted):
            started = record.event
    if state is None or started is None:
        raise RecordError(f"{folder.events} ends before the run began", NEW_RUN)
    return LoadedRun(state, started, evidence, end)


def load_state(folder: RunFolder) -> RunState:
    """Return the state of a run. Raise RecordError like `load_run`."""
    return load_run(folder).state


def frozen_goal(folder: RunFolder, environ: Mapping[str, str], goal_file: Path | None = None) -> Goal:
    """Return the goal that was kept with the run, with literal secrets from the goal file.

    Raise UsageError if a secret is missing there.
    """
    text = folder.goal_file.read_text(encoding="utf-8") if folder.goal_file.is_file() else ""
    without_defaults = {name: value for name, value in environ.items() if name not in ("GOAL_MODEL", "GOAL_JUDGE")}
    if not is_redacted(text):
        return load_goal(folder.goal_file, {}, without_defaults)
    table = with_secrets(text, folder.goal_file, goal_file, environ)
    return resolve_goal(table, {}, without_defaults, folder.path, name=str(folder.goal_file))


def goal_file_of(started: RunStarted) -> Path | None:
    """Return the goal file of a run; None if its goal was not read from a file."""
    return Path(started.goal_file) if started.goal_file else None


def goal_hash(folder: RunFolder) -> str:
    """Return the SHA-256 of the goal that was kept with a run; empty if it cannot be read."""
    try:
        return hashlib.sha256(folder.goal_file.read_bytes()).hexdigest()
    except OSError:
        return ""


def kept_files(folder: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of each file about the start of a run. Raise RecordError for one that cannot be read.

    A pack of contents is left out: a record beside it has the hash of each content.
    """
    found = sorted(path for path in folder.start.rglob("*") if path.is_file() and path.suffix not in (UNFINISHED, PACK))
    return {path.relative_to(folder.start).as_posix(): file_hash(path) for path in found}


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file. Raise RecordError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", NEW_RUN) from error


def chat_of(folder: RunFolder) -> tuple[Message, ...]:
    """Return the conversation of a run without its system prompt.

    Raise UsageError if there is none to continue, and RecordError for damage.
    """
    run = folder.run_id
    if is_written(folder.events):
        raise UsageError(
            f"run {run} is still active, so its conversation has not ended", "wait for its end, or cancel it"
        )
    reader = ResumptionReader(fresh_rounds=_has_fresh_rounds(folder))
    for record in read_records(folder.events):
        reader.add(record)
    chat = reader.chat(lambda ref: read_message(folder.transcript, ref))
    messages = tuple(message for message in chat if message.get("role") != "system")
    if not any(message.get("role") == "assistant" for message in messages):
        raise UsageError(
            f"run {run} has no conversation to continue: its agent wrote nothing", "leave --continue-from out"
        )
    return messages


def refuse_continuing(goal: Goal, *, has_own_agent: bool) -> None:
    """Raise UsageError for a goal that cannot continue a conversation."""
    if not goal.preserve_context:
        raise UsageError(
            "with preserve_context = false each round starts a new conversation, so none can be continued",
            "omit --continue-from, or set preserve_context = true",
        )
    if has_own_agent:
        raise UsageError("only the built-in agent can continue the conversation of another run", "omit --continue-from")


def _has_fresh_rounds(folder: RunFolder) -> bool:
    try:
        return tomllib.loads(folder.goal_file.read_text(encoding="utf-8")).get("preserve_context") is False
    except (OSError, ValueError):
        return False


def summary_writer(folder: RunFolder) -> Callable[[RunState], None]:
    """Return what rewrites summary.json from a state; it raises RecordError if the file cannot be written."""
    owner = {"pid": os.getpid(), "path": str(folder.path)}

    def save(state: RunState) -> None:
        summary = {**summary_of(state), **owner}
        # The log holds all of it, and while the run goes on the next summary follows soon.
        folder.write_json(folder.summary, summary, lasting=summary["status"] != "running")

    return save


def finalize(folder: RunFolder, loaded: LoadedRun, observers: Sequence[Observer] = ()) -> GoalOutcome | None:
    """Write and return the outcome of a run whose process was killed between its end and its outcome; else return None.

    The observers get its records. Raise RecordError if the outcome cannot be written.
    """
    if loaded.state.status is GoalStatus.RUNNING or _has_outcome(folder) or is_written(folder.events):
        return None
    rows = loaded.evidence.rows(loaded.state)
    outcome = outcome_of(loaded.state, str(folder.path)).model_copy(update={"evidence": rows})
    folder.write_json(folder.outcome, outcome.model_dump(mode="json"))
    summary_writer(folder)(loaded.state)
    for record in read_records(folder.events):
        for observer in observers:
            observer.on_record(record)
    return outcome


def _has_outcome(folder: RunFolder) -> bool:
    """Return whether there is an outcome; it is removed when a run goes on."""
    with contextlib.suppress(OSError, ValueError):
        return isinstance(json.loads(folder.outcome.read_bytes()), dict)
    return False
