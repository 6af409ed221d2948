"""`goal show --state`, `--at` and `--events`: a run explained from its log alone."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goalrunner.events import Record


def show_state(reference: str | None, at: int | None, *, json: bool = False) -> int:
    """Print the state after event `at` (None: after the last one); gives exit code 0."""
    from goalrunner.reports.outcome import json_text
    from goalrunner.reports.state import state_text
    from goalrunner.state import RunState, apply

    if at is not None and at < 1:
        raise UsageError(f"--at {at}: events are numbered from 1", "goal show RUN --events lists them")
    state: RunState | None = None
    for record in _records(reference):
        state = apply(state, record)
        if at is not None and record.seq >= at:
            break
    if state is None or (at is not None and state.memory.version < at):
        last = state.memory.version if state else 0
        raise UsageError(f"the run has {last} events", f"goal show RUN --at N with N up to {last}")
    if json:
        output.say(json_text(state.model_dump(mode="json")))
    else:
        output.say(state_text(state, output.columns(sys.stdout)))
    return 0


def show_events(reference: str | None, *, json: bool = False) -> int:
    """Print the events, a line each; as JSON, the records themselves. Gives exit code 0."""
    from goalrunner.reports.trail import trail_text

    records = _records(reference)
    lines = (
        (f"{record.model_dump_json()}\n" for record in records)
        if json
        else trail_text(records, output.columns(sys.stdout))
    )
    for line in lines:
        output.say(line)
    return 0


def _records(reference: str | None) -> Iterator[Record]:
    from goalrunner import runs
    from goalrunner.eventlog import read_records

    return read_records(runs.find_run(runs.goal_home(os.environ), reference).events)
