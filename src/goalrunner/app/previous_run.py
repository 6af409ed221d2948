"""What is known of a run from its folder: state, goal and chat; its summary and outcome."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.secret_seals import retaken
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import RunStarted
from goalrunner.core.evidence import EvidenceIndex, TrailIndex
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.ports import Message
from goalrunner.core.run_parts import Observer
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of, summary_of
from goalrunner.engine.resumption import ResumptionReader
from goalrunner.goalfile import load_goal, resolve_goal
from goalrunner.records.artifacts import read_message
from goalrunner.records.event_log import is_written
from goalrunner.records.reading import LogEnd, read_lines, read_records
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.token_formats import is_redacted

_ANEW = "start a new run: goal run GOAL_FILE"


@dataclass(frozen=True)
class Past:
    """What one reading of a run's log gives."""

    state: RunState
    started: RunStarted
    trail: TrailIndex
    evidence: EvidenceIndex
    end: LogEnd
    """Where the log ended."""


def past_of(folder: RunFolder) -> Past:
    """Fold a run's log, once. Raises RecordError for a log that is damaged or too short."""
    state: RunState | None = None
    started: RunStarted | None = None
    trail, evidence, end = TrailIndex(), EvidenceIndex(), LogEnd()
    if not folder.events.exists():  # killed between the folder and its log; or the log was deleted
        raise RecordError(f"{folder.events} is not there: the run never began, or its log was deleted", _ANEW)
    for record, end in read_lines(folder.events, lambda: False):  # noqa: B007  the last one is kept
        state = apply(state, record)
        trail.add(record)
        evidence.add(record)
        if isinstance(record.event, RunStarted):
            started = record.event
    if state is None or started is None:
        raise RecordError(f"{folder.events} ends before the run began", _ANEW)
    return Past(state, started, trail, evidence, end)


def glance(folder: RunFolder) -> tuple[RunState, RunStarted]:
    """The state of a run, and how it was started. Raises RecordError as `past_of` does."""
    past = past_of(folder)
    return past.state, past.started


def frozen_goal(folder: RunFolder, environ: Mapping[str, str], started: RunStarted | None = None) -> Goal:
    """The goal as it was when the run began. Raises UsageError where a secret in it was not kept.

    With what the log says of its start, secrets are taken again from the goal file.
    """
    text = folder.goal_file.read_text(encoding="utf-8") if folder.goal_file.is_file() else ""
    without_defaults = {name: value for name, value in environ.items() if name not in ("GOAL_MODEL", "GOAL_JUDGE")}
    if not is_redacted(text):
        return load_goal(folder.goal_file, {}, without_defaults)
    goal_file = Path(started.goal_file) if started is not None and started.goal_file else None
    seals = started.goal_seals if started is not None else {}
    table = retaken(text, folder.goal_file, folder.path.parents[1], goal_file, seals, environ)
    return resolve_goal(table, {}, without_defaults, folder.path, name=str(folder.goal_file))


def goal_hash(folder: RunFolder) -> str:
    """The SHA-256 of a run's frozen goal; empty where it cannot be read."""
    try:
        return hashlib.sha256(folder.goal_file.read_bytes()).hexdigest()
    except OSError:
        return ""


def chat_of(folder: RunFolder) -> tuple[Message, ...]:
    """The conversation of a run as it is now, without its system prompt. Raises UsageError where there is none to go on
    with, and RecordError for damage."""
    run = folder.run_id
    if is_written(folder.events):
        raise UsageError(
            f"run {run} is still at work, so its conversation is not over", "wait for its end, or cancel it"
        )
    reader = ResumptionReader(fresh_rounds=_begins_afresh(folder))
    for record in read_records(folder.events):
        reader.add(record)
    chat = reader.chat(lambda ref: read_message(folder.transcript, ref))
    said = tuple(message for message in chat if message.get("role") != "system")
    if not any(message.get("role") == "assistant" for message in said):
        raise UsageError(
            f"run {run} has no conversation to go on with: its agent said nothing", "leave --continue-from out"
        )
    return said


def refuse_continuing(goal: Goal, *, has_own_agent: bool) -> None:
    """Raises UsageError for a goal that cannot go on with a conversation."""
    if not goal.preserve_context:
        raise UsageError(
            "with preserve_context = false each round begins afresh, so no conversation goes on in it",
            "leave --continue-from out, or set preserve_context = true",
        )
    if has_own_agent:
        raise UsageError("only the built-in agent can go on with the conversation of another run", "leave it out")


def _begins_afresh(folder: RunFolder) -> bool:
    try:
        return tomllib.loads(folder.goal_file.read_text(encoding="utf-8")).get("preserve_context") is False
    except (OSError, ValueError):
        return False


def saver(folder: RunFolder) -> Callable[[RunState], None]:
    """What rewrites summary.json from a state. Raises RecordError when called and it cannot be written."""
    owner = {"pid": os.getpid(), "path": str(folder.path)}
    # The log says all of it, and outcome.json, which lasts, is written into the same folder last.
    return lambda state: folder.write_json(folder.summary, {**summary_of(state), **owner}, lasting=False)


def settle(folder: RunFolder, past: Past, observers: Sequence[Observer] = ()) -> GoalOutcome | None:
    """The outcome of a run that has ended and could not say so any more; None for every other run.

    `past` is what its log says; the observers are told. Raises RecordError where it cannot be written.
    """
    if past.state.status is GoalStatus.RUNNING or _said(folder) or is_written(folder.events):
        return None
    rows = past.evidence.rows(past.state)
    outcome = outcome_of(past.state, str(folder.path)).model_copy(update={"evidence": rows})
    folder.write_json(folder.outcome, outcome.model_dump(mode="json"))
    saver(folder)(past.state)
    for record in read_records(folder.events):
        for observer in observers:
            observer.on_record(record)
    return outcome


def _said(folder: RunFolder) -> bool:
    """Whether the outcome that is there is of the run as its log ends: none is left by a run that goes on."""
    with contextlib.suppress(OSError, ValueError):
        return isinstance(json.loads(folder.outcome.read_bytes()), dict)
    return False
