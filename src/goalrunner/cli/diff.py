"""`goal diff`: what a run or a round changed. Reads log and snapshots; owns how a patch reaches a terminal or a pipe."""

from __future__ import annotations

import os
import sys

from goalrunner.cli import output


def print_diff(reference: str | None, number: int | None, *, stat: bool = False, json: bool = False) -> int:
    """Print the patch of a round (None: of the whole run), or its paths and figures; gives exit code 0. Raises GoalError."""
    import asyncio

    from goalrunner import review, runs
    from goalrunner.eventlog import read_records
    from goalrunner.reports.patch import patch_json, patch_text, stat_text

    home = runs.goal_home(os.environ)
    folder = runs.find_run(home, reference)
    snapshots = review.snapshots_of(read_records(folder.events))
    patch = asyncio.run(review.round_patch(snapshots, home, os.environ, number))
    if json:
        output.say(patch_json(folder.run_id, patch))
        return 0
    if not patch.changes:
        part = "" if patch.round is None else f"round {patch.round} of "
        output.complain(f"{part}run {folder.run_id} changed nothing")
    columns = output.columns(sys.stdout)
    output.say(stat_text(patch, columns=columns) if stat else patch_text(patch, terminal=columns is not None))
    return 0
