"""`goal show` and `goal diff`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goalrunner.core.events import Record
    from goalrunner.core.observation import TranscriptRef
    from goalrunner.records.run_folder import RunFolder


def show_run(reference: str | None, *, path: bool = False, json: bool = False) -> int:
    """Print what happened in a run, or its folder's path, or path, summary and outcome as JSON; gives exit code 0."""
    from goalrunner.core.errors import UsageError
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    if path and json:
        raise UsageError("--path and --json cannot be combined", "--json contains the path")
    folder = find_run(goal_home(os.environ), reference)
    if path:
        output.say(f"{folder.path}\n")
    elif json:
        from goalrunner.reports.summary import json_text

        output.say(json_text(_values(folder)))
    else:
        _tell(folder)
    return 0


def _values(folder: RunFolder) -> dict[str, Any]:
    return {
        "path": str(folder.path),
        "summary": _json(folder.summary),
        "outcome": _json(folder.outcome),
    }


def _json(path: Path) -> Any:
    """A JSON file's value; None where it is not there (yet) or cannot be read."""
    from json import loads

    try:
        return loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _tell(folder: RunFolder) -> None:
    from goalrunner.records.reading import read_records
    from goalrunner.records.run_index import read_summary
    from goalrunner.reports.show import show_text
    from goalrunner.reports.summary import LOST, Summary

    for piece in show_text(
        read_records(folder.events),
        folder=str(folder.path),
        has_outcome=lambda: os.path.isfile(folder.outcome),  # noqa: PTH113 - never raises
        lost=lambda: Summary(read_summary(folder)).status == LOST,
        words=lambda message: _words(folder.transcript, message),
        columns=output.columns(sys.stdout),
    ):
        output.say(piece)


def _words(transcript: Path, message: TranscriptRef) -> str:
    """A message's text; nothing where the transcript is damaged, which is for `goal verify` to say."""
    from goalrunner.core.errors import RecordError
    from goalrunner.core.messages import text_of
    from goalrunner.records.artifacts import read_message

    try:
        return text_of(read_message(transcript, message).get("content"))
    except RecordError:
        return ""


def show_state(reference: str | None, at: int | None, *, json: bool = False) -> int:
    """Print the state after event `at` (None: after the last one); gives exit code 0."""
    from goalrunner.core.fold import apply
    from goalrunner.core.run_state import RunState
    from goalrunner.reports.show import state_text
    from goalrunner.reports.summary import json_text

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
    from goalrunner.reports.show import trail_text

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
    from goalrunner.records.reading import read_records
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    return read_records(find_run(goal_home(os.environ), reference).events)


def show_evidence(reference: str | None, *, path: bool = False, json: bool = False) -> int:
    """Print the evidence table of a run's last verdict; gives exit code 0. Raises RunNotFound, RecordError."""
    from goalrunner.core.errors import UsageError
    from goalrunner.core.evidence import evidence_of
    from goalrunner.records.reading import read_records
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.audit import evidence_json, evidence_text

    if path:
        raise UsageError("--path and --evidence cannot be combined", "goal show RUN --evidence")
    folder = find_run(goal_home(os.environ), reference)
    state, rows = evidence_of(read_records(folder.events))
    verdict = state.verdict if state else None
    if json:
        output.say(evidence_json(folder.run_id, verdict, rows))
    else:
        output.say(evidence_text(folder.run_id, verdict, rows, columns=output.columns(sys.stdout)))
    return 0


def print_diff(reference: str | None, number: int | None, *, stat: bool = False, json: bool = False) -> int:
    """Print the patch of a round (None: of the whole run), or its paths and figures; return 0. Raises GoalError."""
    import asyncio

    from goalrunner.app.run_snapshots import RoundPatch, round_patch, snapshots_of
    from goalrunner.records.reading import read_records
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.patch import patch_json, patch_text, stat_text

    home = goal_home(os.environ)
    folder = find_run(home, reference)
    snapshots = snapshots_of(read_records(folder.events))
    no_round = number is None and not snapshots.starts and not _has_round(folder)
    patch = RoundPatch(None, (), "") if no_round else asyncio.run(round_patch(snapshots, home, os.environ, number))
    if json:
        output.say(patch_json(folder.run_id, patch))
        return 0
    if no_round:
        output.complain(f"No round of run {folder.run_id} has started: the agent has not run, so nothing was changed.")
    elif not patch.changes:
        part = "Run" if patch.round is None else f"Round {patch.round} of run"
        output.complain(f"{part} {folder.run_id} changed no files.")
    columns = output.columns(sys.stdout)
    output.say(stat_text(patch, columns=columns) if stat else patch_text(patch, terminal=columns is not None))
    return 0


def _has_round(folder: RunFolder) -> bool:
    from goalrunner.core.events import RoundStarted
    from goalrunner.records.reading import read_records

    return any(isinstance(record.event, RoundStarted) for record in read_records(folder.events))
