"""Reading a run from its folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalrunner.app.stored_goal import NEW_RUN, frozen_table
from goalrunner.checking.ignored_content import PACK
from goalrunner.core.agent_ports import Message, Observer
from goalrunner.core.errors import RecordError, UsageError, record_errors
from goalrunner.core.events import Event, MessageRecorded, RunStarted
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import FINAL, GoalAttempt, GoalOutcome, GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.engine.resumption import Resumption
from goalrunner.records.event_log import LogEnd, read_lines, read_records
from goalrunner.records.files import UNFINISHED
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.records.run_search import find_run
from goalrunner.records.run_summaries import summary_writer
from goalrunner.records.transcript_file import read_message
from goalrunner.records.writer_lock import has_writer

Reference = GoalOutcome | Path | str  # a run: its outcome, its folder, or its id


def run_folder(run: Reference, home: Path | str | None = None) -> RunFolder:
    """Return the folder of a run under `home` (default: GOAL_HOME).

    Raise UsageError if there is none.
    """
    name = run.run_path or run.run_id if isinstance(run, GoalOutcome) else run
    if isinstance(run, GoalOutcome) and not name:
        raise UsageError(
            'the run kept no records: records="none"',
            'keep those of the newest runs: records="last:20"',
        )
    if not isinstance(name, str | Path) or not str(name).strip():
        raise UsageError(
            f"{run!r:.60} is not a run",
            "pass its outcome, its folder (outcome.run_path), or its id",
        )
    return find_run(Path(home or goal_home(os.environ)), str(name))


def read_state(run: Reference, *, home: Path | str | None = None) -> RunState:
    """Return the state of a run, folded from its log.

    Raise UsageError, and RecordError for damage.

    >>> from goalrunner import read_state, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> read_state(run).round
    1
    """
    return load_run(run_folder(run, home)).state


def read_events(run: Reference, *, home: Path | str | None = None) -> Iterator[Event]:
    """Yield the events of a run, oldest first.

    Raise UsageError, and RecordError for damage.

    >>> from goalrunner import read_events, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> [event.round for event in read_events(run) if event.type == "round_started"]
    [1]
    """
    for record in read_records(run_folder(run, home).events):
        yield record.event


def read_attempts(
    run: Reference, *, home: Path | str | None = None
) -> Iterator[GoalAttempt]:
    """Yield all attempts of a run, oldest first.

    `outcome.attempts` has the last 100. Raise as `read_events` does.

    >>> from goalrunner import read_attempts, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> [attempt.passed for attempt in read_attempts(run)]
    [True]
    """
    state = None
    attempts: dict[int, GoalAttempt] = {}
    for record in read_records(run_folder(run, home).events):
        state = apply(state, record)
        # The newest attempt changes until it ends, so the last value counts.
        for attempt in state.attempts[-1:]:
            attempts[attempt.attempt] = attempt
    yield from attempts.values()


def read_chat(
    run: Reference, *, home: Path | str | None = None
) -> list[dict[str, Any]]:
    """Return the chat of a run in OpenAI's shape, its system prompt first.

    Raise as `read_events` does.

    >>> from goalrunner import read_chat, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> read_chat(run)[-1]
    {'role': 'assistant', 'content': '4'}
    """
    return [dict(message) for message in _chat(run_folder(run, home))]


def _chat(folder: RunFolder, *, fresh_rounds: bool = False) -> tuple[Message, ...]:
    resumption = Resumption(fresh_rounds=fresh_rounds)
    for record in read_records(folder.events):
        resumption.add(record)
    return resumption.messages(partial(read_message, folder.transcript))


def sent_prompts(folder: RunFolder) -> list[str]:
    """Return the prompts of the runner in a run, oldest first.

    Raise RecordError for damage.
    """
    prompts: list[str] = []
    for record in read_records(folder.events):
        event = record.event
        if isinstance(event, MessageRecorded) and event.role == "user":
            message = read_message(folder.transcript, event.text)
            prompts.append(text_of(message.get("content")))
    return prompts


@dataclass(frozen=True)
class LoadedRun:
    """The content of a run's log; `end` is where the log ended."""

    log: Path
    state: RunState
    start_event: RunStarted | None
    """None: the process was killed before the run began.

    Such a run can be read, but not continued.
    """
    evidence: EvidenceIndex
    end: LogEnd

    @property
    def started(self) -> RunStarted:
        """Return how the run began. Raise RecordError if it did not."""
        if self.start_event is None:
            raise RecordError(f"{self.log} ends before the run began", NEW_RUN)
        return self.start_event

    @property
    def goal_file(self) -> Path | None:
        return Path(self.started.goal_file) if self.started.goal_file else None

    def outcome(self, folder: RunFolder) -> GoalOutcome:
        """Return the outcome of the run, with its evidence."""
        rows = self.evidence.rows(self.state)
        return outcome_of(self.state, str(folder.path), evidence=rows)


def load_run(folder: RunFolder) -> LoadedRun:
    """Fold a run's log, once. Raise RecordError if it is damaged or has no event."""
    if not folder.events.exists():
        # The process was killed before it made the log, or the log was deleted.
        raise RecordError(
            f"{folder.events} does not exist: the run never began, or its log was "
            "deleted",
            NEW_RUN,
        )
    state: RunState | None = None
    start_event: RunStarted | None = None
    evidence, end = EvidenceIndex(), LogEnd()
    # The last value of `end` is where the log ends.
    for record, end in read_lines(folder.events):  # noqa: B007
        state = apply(state, record)
        evidence.add(record)
        if isinstance(record.event, RunStarted):
            start_event = record.event
    if state is None:
        raise RecordError(f"{folder.events} has no event: the run never began", NEW_RUN)
    return LoadedRun(folder.events, state, start_event, evidence, end)


def sub_goals(
    run_id: str, summaries: Sequence[Mapping[str, Any]], depth: int = 1
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the depth, from 1, and the summary of each sub-goal of a run.

    They come in the order of the summaries, parents first.
    """
    for summary in summaries:
        if summary.get("parent") != run_id or summary["run_id"] == run_id:
            continue
        yield depth, summary
        # Without this one, a circle of damaged summaries has an end.
        others = [other for other in summaries if other is not summary]
        yield from sub_goals(summary["run_id"], others, depth + 1)


def load_state(folder: RunFolder) -> RunState:
    """Return the state of a run. Raise RecordError like `load_run`."""
    return load_run(folder).state


def refuse_final(state: RunState) -> None:
    """Raise UsageError for a run that has ended permanently."""
    if state.stop_reason not in FINAL:
        return
    ended = "was cancelled, which is final"
    if state.status is GoalStatus.COMPLETE:
        ended = "is already complete"
    run = state.goal.run_id
    raise UsageError(f"run {run} {ended}", f"goal show {run}")


def kept_files(folder: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of each file in the start folder of a run, by its path.

    Packs are left out: their records have hashes.
    """
    hashes: dict[str, str] = {}
    for path in sorted(folder.start.rglob("*")):
        if path.is_file() and path.suffix not in (UNFINISHED, PACK):
            hashes[path.relative_to(folder.start).as_posix()] = file_hash(path)
    return hashes


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
    if has_writer(folder.events):
        raise UsageError(
            f"run {run} is still active, so its conversation has not ended",
            "wait for its end, or cancel it",
        )
    fresh_rounds = frozen_table(folder).get("preserve_context") is False
    chat = _chat(folder, fresh_rounds=fresh_rounds)
    messages = tuple(message for message in chat if message.get("role") != "system")
    # Without an answer, it would be the prompt of a new run twice.
    if not any(message.get("role") == "assistant" for message in messages):
        raise UsageError(
            f"run {run} has no conversation to continue: its agent wrote nothing",
            "remove --continue-from",
        )
    return messages


def finalize(
    folder: RunFolder, loaded: LoadedRun, observers: Sequence[Observer] = ()
) -> None:
    """Write the outcome of a run whose process was killed before it wrote it."""
    # A killed run can be resumed, and a living process writes its outcome itself.
    if loaded.state.status is GoalStatus.RUNNING or has_writer(folder.events):
        return
    # An outcome that is missing or damaged is written again. A resumed run renames the
    # earlier one, so that it is missing until the new end.
    with contextlib.suppress(OSError, ValueError):
        if isinstance(json.loads(folder.outcome.read_bytes()), dict):
            return
    summary_writer(folder)(loaded.state)
    folder.write_outcome(loaded.outcome(folder).model_dump(mode="json"))
    # The killed process did not report the end either.
    for record in read_records(folder.events):
        for observer in observers:
            observer.on_record(record)
