"""`goal diff`: what a run or a round changed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from goalrunner.cli import output

if TYPE_CHECKING:
    from goalrunner.runs import RunFolder


def print_diff(reference: str | None, number: int | None, *, stat: bool = False, json: bool = False) -> int:
    """Print the patch of a round (None: of the whole run), or its paths and figures; return 0. Raises GoalError."""
    import asyncio

    from goalrunner import review, runs
    from goalrunner.eventlog import read_records
    from goalrunner.reports.patch import patch_json, patch_text, stat_text

    home = runs.goal_home(os.environ)
    folder = runs.find_run(home, reference)
    snapshots = review.snapshots_of(read_records(folder.events))
    no_round = number is None and not snapshots.starts and not _has_round(folder)
    patch = (
        review.RoundPatch(None, (), "")
        if no_round
        else asyncio.run(review.round_patch(snapshots, home, os.environ, number))
    )
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
    from goalrunner.eventlog import read_records
    from goalrunner.events import RoundStarted

    return any(isinstance(record.event, RoundStarted) for record in read_records(folder.events))
