"""What is known of a run from its folder: state, goal with its secrets, chat and outcome."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.app.external_agent import resolve_agent
from goalrunner.app.resolve import goal_redactor, withheld
from goalrunner.checking.ignored_content import PACK
from goalrunner.core.agent_ports import Message, Observer
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.events import RunStarted
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.progress import FINAL
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import EvidenceIndex, outcome_of, summary_of
from goalrunner.engine.recorder import Resumption
from goalrunner.goalfile import dump_goal, load_goal, place_in, resolve_goal
from goalrunner.records.artifacts import read_message
from goalrunner.records.event_log import LogEnd, read_lines, read_records
from goalrunner.records.files import UNFINISHED, is_written
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.secret_formats import is_redacted


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
    for record, end in read_lines(folder.events, wait=lambda: False):  # noqa: B007  the last one is kept
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


def refuse_final(state: RunState) -> None:
    """Raise UsageError for a run that is over for good."""
    run = state.goal.run_id
    if state.stop_reason in FINAL:
        ended = "is already complete" if state.status is GoalStatus.COMPLETE else "was cancelled, which is final"
        raise UsageError(f"run {run} {ended}", f"goal show {run}")


def frozen_goal(
    folder: RunFolder, environ: Mapping[str, str], goal_file: Path | None = None, *, runnable: bool = True
) -> Goal:
    """Return the goal that was kept with the run, with literal secrets from the goal file.

    Raise UsageError if a secret is missing there; and, if the goal has to be `runnable`, without an agent and a check.
    """
    text = folder.goal_file.read_text(encoding="utf-8") if folder.goal_file.is_file() else ""
    without_defaults = {name: value for name, value in environ.items() if name not in ("GOAL_MODEL", "GOAL_JUDGE")}
    if not is_redacted(text):
        return load_goal(folder.goal_file, {}, without_defaults, runnable=runnable)
    table = with_secrets(text, goal_file, environ)
    return resolve_goal(table, {}, without_defaults, folder.path, name=str(folder.goal_file), runnable=runnable)


def frozen_table(folder: RunFolder) -> dict[str, Any]:
    """Return the goal that was kept with a run as a table, without its secrets. Raise RecordError."""
    try:
        return tomllib.loads(folder.goal_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder.goal_file} cannot be read: {error}", NEW_RUN) from error


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
    reader = Resumption(fresh_rounds=frozen_table(folder).get("preserve_context") is False)
    for record in read_records(folder.events):
        reader.add(record)
    chat = reader.messages(lambda ref: read_message(folder.transcript, ref))
    messages = tuple(message for message in chat if message.get("role") != "system")
    if not any(message.get("role") == "assistant" for message in messages):
        raise UsageError(
            f"run {run} has no conversation to continue: its agent wrote nothing", "remove --continue-from"
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


Place = tuple[str | int, ...]
"""Where a text is in a goal: keys, and positions in lists."""

NEW_RUN = "start a new run: goal run GOAL_FILE"
_OPTIONS = (("agent", "use"), ("agent", "model"), ("judge", "model"), ("workspace", "path"))
"""Keys that options may have set instead of the file."""
_UNQUOTED = re.compile(r"-|.*[\s*?\[]", re.DOTALL)
"""What a variable of a validator must not be: more than one word where the command does not quote it, or an option."""


def secret_notes(frozen: str, goal: Goal, goal_file: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if the goal holds literal secrets, which the text kept with the run does not."""
    places = list(_redacted(tomllib.loads(frozen)))
    if not places:
        return ()
    try:
        found, kept = with_secrets(frozen, goal_file, environ), tomllib.loads(dump_goal(goal))
        again = all(_text(found, place) == _text(kept, place) for place in places)
    except UsageError:
        again = False
    where = goal_file or "the agent's own file"
    resume = f"goal resume reads it from {where} again" if again else "this run cannot be resumed"
    advice = "export it as a variable, which the agent and the checks get, and write $NAME instead"
    return (f"{_names(places)}: a secret is not stored with the run, and {resume}; {advice}",)


def with_secrets(frozen: str, goal_file: Path | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the table of a goal that was kept with a run, with the secrets of the goal file.

    They may have been renewed. Raise UsageError if one is missing, or if the text around it has changed.
    """
    table = tomllib.loads(frozen)
    places = list(_redacted(table))
    try:
        goal = _goal_in(goal_file, table, environ)
        redactor = goal_redactor(goal, environ, withheld(goal, resolve_agent(goal, environ)))
    except GoalError as error:
        raise UsageError(
            f"{_names(places)}: a secret that was not stored with the run cannot be read again: {error.message}",
            f"correct {goal_file or 'the file of the agent'}, or {NEW_RUN}",
        ) from error
    found = tomllib.loads(dump_goal(goal))
    for place in places:
        text = _text(found, place)
        variable = place[0] == "validators" and "env" in place
        if text is None or redactor.text(text) != _text(table, place) or (variable and _UNQUOTED.match(text)):
            where = f"{place_in(goal_file, place)} " if goal_file is not None else ""
            raise UsageError(f"{where}{_names([place])} was changed after the run began", f"put it back, or {NEW_RUN}")
        target: Any = table
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = text
    return table


def _redacted(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places where something was replaced; what `[redact]` says is kept as it is."""
    match value:
        case str():
            if is_redacted(value):
                yield place
        case Mapping():
            for key, item in value.items():
                if place or key != "redact":
                    yield from _redacted(item, (*place, key))
        case list():
            for number, item in enumerate(value):
                yield from _redacted(item, (*place, number))


def _goal_in(goal_file: Path | None, table: Mapping[str, Any], environ: Mapping[str, str]) -> Goal:
    """Return the goal in the file; without one, only the user's own agents. Raise GoalError."""
    options = {f"{name}.{key}": table.get(name, {}).get(key) for name, key in _OPTIONS}
    without = {name: value for name, value in environ.items() if not name.startswith("GOAL_")}
    if goal_file is not None:
        return load_goal(goal_file, options, without, runnable=False)
    return resolve_goal({}, {**options, "objective": table["objective"]}, without, runnable=False)


def _text(value: Any, place: Place) -> str | None:
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value if isinstance(value, str) else None


def _names(places: list[Place]) -> str:
    """Return the keys as a person writes them: `validators[0].env.TOKEN`."""
    named = [
        "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
        for place in places[:3]
    ]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(named) + more
