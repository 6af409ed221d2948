"""What a program reads of a run that it has, or had, under way: state, events, attempts and chat."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from goalrunner.app.previous_run import load_state
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalAttempt, GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.engine.recorder import Resumption
from goalrunner.records.artifacts import read_message
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder, find_run, goal_home

Reference = GoalOutcome | Path | str
"""A run: its outcome, its folder, or its id."""


def run_folder(run: Reference, home: Path | str | None = None) -> RunFolder:
    """Return the folder of a run under `home` (default: GOAL_HOME). Raise UsageError if there is none."""
    name = run.run_path or run.run_id if isinstance(run, GoalOutcome) else run
    if not isinstance(name, str | Path) or not str(name).strip():
        raise UsageError(f"{run!r:.60} is not a run", "pass its outcome, its folder (outcome.run_path), or its id")
    return find_run(Path(home or goal_home(os.environ)), str(name))


def read_state(run: Reference, *, home: Path | str | None = None) -> RunState:
    """Return the state of a run, folded from its log. Raise UsageError, and RecordError for damage."""
    return load_state(run_folder(run, home))


def read_events(run: Reference, *, home: Path | str | None = None) -> Iterator[Event]:
    """Yield the events of a run, oldest first. Raise UsageError, and RecordError for damage."""
    for record in read_records(run_folder(run, home).events):
        yield record.event


def read_attempts(run: Reference, *, home: Path | str | None = None) -> Iterator[GoalAttempt]:
    """Yield all attempts of a run, oldest first; `outcome.attempts` has the last 100. Raise as `read_events` does."""
    state: RunState | None = None
    last: GoalAttempt | None = None
    for record in read_records(run_folder(run, home).events):
        state = apply(state, record)
        newest = state.attempts[-1] if state.attempts else None
        if last is not None and newest is not None and newest.attempt != last.attempt:
            yield last
        last = newest
    if last is not None:
        yield last


def read_chat(run: Reference, *, home: Path | str | None = None) -> list[dict[str, Any]]:
    """Return the chat of a run in OpenAI's shape, its system prompt first. Raise as `read_events` does."""
    folder = run_folder(run, home)
    reader = Resumption()
    for record in read_records(folder.events):
        reader.add(record)
    return [dict(message) for message in reader.messages(partial(read_message, folder.transcript))]
