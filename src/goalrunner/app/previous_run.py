"""The content of a run's folder: state, events, chat, outcome, and the goal with its
secrets.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalrunner.app.goal_models import goal_redactor
from goalrunner.checking.ignored_content import PACK
from goalrunner.core.agent_ports import Message, Observer
from goalrunner.core.errors import GoalError, RecordError, UsageError, record_errors
from goalrunner.core.events import Event, MessageRecorded, RunStarted
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import FINAL, GoalAttempt, GoalOutcome, GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.engine.resumption import Resumption
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.records.event_log import LogEnd, read_lines, read_records
from goalrunner.records.files import UNFINISHED
from goalrunner.records.markers import is_redacted
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.records.run_search import find_run
from goalrunner.records.run_summaries import summary_writer
from goalrunner.records.transcript_file import read_message
from goalrunner.records.writer_lock import is_written

NEW_RUN = "start a new run: goal run GOAL_FILE"

Reference = GoalOutcome | Path | str  # a run: its outcome, its folder, or its id


def run_folder(run: Reference, home: Path | str | None = None) -> RunFolder:
    """Return the folder of a run under `home` (default: GOAL_HOME).

    Raise UsageError if there is none.
    """
    name = run.run_path or run.run_id if isinstance(run, GoalOutcome) else run
    if not isinstance(name, str | Path) or not str(name).strip():
        raise UsageError(
            f"{run!r:.60} is not a run",
            "pass its outcome, its folder (outcome.run_path), or its id",
        )
    return find_run(Path(home or goal_home(os.environ)), str(name))


def read_state(run: Reference, *, home: Path | str | None = None) -> RunState:
    """Return the state of a run, folded from its log.

    Raise UsageError, and RecordError for damage.
    """
    return load_run(run_folder(run, home)).state


def read_events(run: Reference, *, home: Path | str | None = None) -> Iterator[Event]:
    """Yield the events of a run, oldest first.

    Raise UsageError, and RecordError for damage.
    """
    for record in read_records(run_folder(run, home).events):
        yield record.event


def read_attempts(
    run: Reference, *, home: Path | str | None = None
) -> Iterator[GoalAttempt]:
    """Yield all attempts of a run, oldest first; `outcome.attempts` has the last 100.

    Raise as `read_events` does.
    """
    state, found = None, dict[int, GoalAttempt]()
    for record in read_records(run_folder(run, home).events):
        state = apply(state, record)
        found |= {attempt.attempt: attempt for attempt in state.attempts[-1:]}
    yield from found.values()


def read_chat(
    run: Reference, *, home: Path | str | None = None
) -> list[dict[str, Any]]:
    """Return the chat of a run in OpenAI's shape, its system prompt first.

    Raise as `read_events` does.
    """
    return [dict(message) for message in _chat(run_folder(run, home))]


def _chat(folder: RunFolder, *, fresh_rounds: bool = False) -> tuple[Message, ...]:
    left = Resumption(fresh_rounds=fresh_rounds)
    for record in read_records(folder.events):
        left.add(record)
    return left.messages(partial(read_message, folder.transcript))


def sent_prompts(folder: RunFolder) -> list[str]:
    """Return the prompts of the runner in a run, oldest first.

    Raise RecordError for damage.
    """
    sent = (record.event for record in read_records(folder.events))
    texts = [
        event.text
        for event in sent
        if isinstance(event, MessageRecorded) and event.role == "user"
    ]
    return [
        text_of(read_message(folder.transcript, text).get("content")) for text in texts
    ]


@dataclass(frozen=True)
class LoadedRun:
    """The content of a run's log; `end` is where the log ended."""

    log: Path
    state: RunState
    beginning: RunStarted | None
    """None: the process was killed before the run began.

    Such a run can be read, but not continued.
    """
    evidence: EvidenceIndex
    end: LogEnd

    @property
    def started(self) -> RunStarted:
        """Return how the run began. Raise RecordError if it did not."""
        if self.beginning is None:
            raise RecordError(f"{self.log} ends before the run began", NEW_RUN)
        return self.beginning

    @property
    def goal_file(self) -> Path | None:
        return Path(self.started.goal_file) if self.started.goal_file else None

    def outcome(self, folder: RunFolder) -> GoalOutcome:
        """Return the outcome of the run, with its evidence."""
        rows = self.evidence.rows(self.state)
        return outcome_of(self.state, str(folder.path), evidence=rows)


def load_run(folder: RunFolder) -> LoadedRun:
    """Fold a run's log, once.

    Raise RecordError for a log that is damaged or has no event.
    """
    state: RunState | None = None
    beginning: RunStarted | None = None
    evidence, end = EvidenceIndex(), LogEnd()
    # Killed between the folder and its log; or the log was deleted.
    if not folder.events.exists():
        raise RecordError(
            f"{folder.events} does not exist: the run never began, or its log was "
            "deleted",
            NEW_RUN,
        )
    # The last value of `end` is kept.
    for record, end in read_lines(folder.events, wait=lambda: False):  # noqa: B007
        state = apply(state, record)
        evidence.add(record)
        if isinstance(record.event, RunStarted):
            beginning = record.event
    if state is None:
        raise RecordError(f"{folder.events} has no event: the run never began", NEW_RUN)
    return LoadedRun(folder.events, state, beginning, evidence, end)


def sub_goals(
    run_id: str, summaries: Sequence[Mapping[str, Any]], depth: int = 1
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the depth, from 1, and the summary of each sub-goal of a run, in the given
    order, parents first.
    """
    for summary in summaries:
        if summary.get("parent") == run_id != summary["run_id"]:
            yield depth, summary
            yield from sub_goals(
                summary["run_id"],
                [one for one in summaries if one is not summary],
                depth + 1,
            )


def load_state(folder: RunFolder) -> RunState:
    """Return the state of a run. Raise RecordError like `load_run`."""
    return load_run(folder).state


def refuse_final(state: RunState) -> None:
    """Raise UsageError for a run that has ended permanently."""
    run = state.goal.run_id
    if state.stop_reason in FINAL:
        ended = (
            "is already complete"
            if state.status is GoalStatus.COMPLETE
            else "was cancelled, which is final"
        )
        raise UsageError(f"run {run} {ended}", f"goal show {run}")


def kept_files(folder: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of each file in the start folder of a run.

    Packs are left out: their records have hashes.
    """
    found = sorted(
        path
        for path in folder.start.rglob("*")
        if path.is_file() and path.suffix not in (UNFINISHED, PACK)
    )
    return {
        path.relative_to(folder.start).as_posix(): file_hash(path) for path in found
    }


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file. Raise RecordError if it cannot be read."""
    with record_errors(f"{path} cannot be read", NEW_RUN), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def chat_to_continue(
    folder: RunFolder, goal: Goal, *, has_own_agent: bool
) -> tuple[Message, ...]:
    """Return the conversation of a run without its system prompt.

    Raise UsageError if the goal cannot continue it.
    """
    run = folder.run_id
    if not goal.preserve_context:
        raise UsageError(
            "with preserve_context = false each round starts a new conversation, so "
            "none can be continued",
            "omit --continue-from, or set preserve_context = true",
        )
    if has_own_agent:
        raise UsageError(
            "only the built-in agent can continue the conversation of another run",
            "omit --continue-from",
        )
    if is_written(folder.events):
        why = f"run {run} is still active, so its conversation has not ended"
        raise UsageError(why, "wait for its end, or cancel it")
    chat = _chat(
        folder, fresh_rounds=frozen_table(folder).get("preserve_context") is False
    )
    messages = tuple(message for message in chat if message.get("role") != "system")
    if not any(message.get("role") == "assistant" for message in messages):
        why = f"run {run} has no conversation to continue: its agent wrote nothing"
        raise UsageError(why, "remove --continue-from")
    return messages


def finalize(
    folder: RunFolder, loaded: LoadedRun, observers: Sequence[Observer] = ()
) -> None:
    """Write the outcome of a run whose process was killed before it wrote it."""
    if loaded.state.status is GoalStatus.RUNNING or is_written(folder.events):
        return
    # Resuming a run renames outcome.json.
    with contextlib.suppress(OSError, ValueError):
        if isinstance(json.loads(folder.outcome.read_bytes()), dict):
            return
    folder.write_outcome(loaded.outcome(folder).model_dump(mode="json"))
    summary_writer(folder)(loaded.state)
    for record in read_records(folder.events):
        for observer in observers:
            observer.on_record(record)


def frozen_table(folder: RunFolder) -> dict[str, Any]:
    """Return the goal that was kept with a run as a table, without its secrets.

    Raise RecordError.
    """
    try:
        return tomllib.loads(folder.goal_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{folder.goal_file} cannot be read: {error}", NEW_RUN
        ) from error


def frozen_goal(
    folder: RunFolder,
    environ: Mapping[str, str],
    goal_file: Path | None = None,
    *,
    runnable: bool = True,
) -> Goal:
    """Return the goal that was kept with the run, with literal secrets from the goal
    file.

    Raise UsageError if a secret is missing there, or if a `runnable` goal has no agent
    or no check.
    """
    table = with_secrets(frozen_table(folder), goal_file, environ)
    without_defaults = {
        name: value
        for name, value in environ.items()
        if name not in ("GOAL_MODEL", "GOAL_JUDGE")
    }
    return resolve_goal(
        table,
        {},
        without_defaults,
        folder.path,
        name=str(folder.goal_file),
        runnable=runnable,
    )


# Keys that options may have set instead of the file.
_OPTIONS = (
    ("agent", "use"),
    ("agent", "model"),
    ("judge", "model"),
    ("workspace", "path"),
)
# A renewed secret must be a plain word: the command may use its variable without
# quotes.
_UNQUOTED = re.compile(r"-|.*[\s*?\[]", re.DOTALL)


def secret_notes(frozen: str, goal_file: Path | None) -> tuple[str, ...]:
    """Return a warning if the goal holds literal secrets, which the text kept with the
    run does not.
    """
    if not (names := [name for name, _, _ in _redacted(tomllib.loads(frozen))]):
        return ()
    resume = f"goal resume reads it from {goal_file or 'the file of the agent'} again"
    advice = (
        "export it as a variable, which the agent and the checks get, and write $NAME "
        "instead"
    )
    return (
        (
            f"{', '.join(names)}: a secret is not stored with the run, and {resume}; "
            f"{advice}"
        ),
    )


def with_secrets(
    table: dict[str, Any], goal_file: Path | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the table of a goal that was kept, with secrets of the goal file.

    Raise UsageError if one changed.
    """
    if not (redacted := _redacted(table)):
        return table
    options = {f"{name}.{key}": table.get(name, {}).get(key) for name, key in _OPTIONS}
    without = {
        name: value for name, value in environ.items() if not name.startswith("GOAL_")
    }
    try:
        if goal_file is not None:
            goal = load_goal(goal_file, options, without, runnable=False)
        else:  # only the user's own agents
            goal = resolve_goal(
                {},
                {**options, "objective": table["objective"]},
                without,
                runnable=False,
            )
        redact = goal_redactor(goal, environ).text
    except GoalError as error:
        raise UsageError(
            "a secret that was not stored with the run cannot be read again: "
            f"{error.message}",
            f"correct {goal_file or 'the file of the agent'}, or {NEW_RUN}",
        ) from error
    found = {
        name: holder[key]
        for name, holder, key in _texts(tomllib.loads(dump_goal(goal)))
    }
    for name, holder, key in redacted:
        value = found.get(name)
        is_variable = name.startswith("validators") and ".env." in name
        if (
            value is None
            or redact(value) != holder[key]
            or (is_variable and _UNQUOTED.match(value))
        ):
            where = (
                f"{name} in {goal_file or 'the file of the agent'} was changed after "
                "the run began"
            )
            raise UsageError(where, f"put it back, or {NEW_RUN}")
        holder[key] = value
    return table


def _texts(holder: Any, above: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each text in a table: its name, such as `validators[0].env.TOKEN`, and the
    table or list and the key in it.
    """
    for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
        name = (
            f"{above}[{key}]"
            if isinstance(key, int)
            else f"{above}.{key}".removeprefix(".")
        )
        if isinstance(item, str):
            yield name, holder, key
        elif isinstance(item, dict | list):
            yield from _texts(item, name)


def _redacted(table: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the texts in which a secret was replaced.

    Those of [redact] are stored unchanged.
    """
    found = (text for text in _texts(table) if not text[0].startswith("redact."))
    return [text for text in found if is_redacted(text[1][text[2]])]
