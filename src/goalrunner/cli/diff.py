"""`goal diff`."""

from __future__ import annotations

import os
from typing import Annotated

from typer import Argument, Option

from goalrunner.cli import output, runs
from goalrunner.cli.options import Run


def diff(
    run: Run = None,
    number: Annotated[
        int | None, Argument(metavar="ROUND", help="Number of a round; default: the whole run, from start to end.")
    ] = None,
    stat: Annotated[bool, Option("--stat", help="Print the paths and how many lines changed, no patch.")] = False,
    json: Annotated[bool, Option("--json", help="Print round, changes and patch as JSON.")] = False,
) -> int:
    """Print what a run or a round changed, as a unified patch."""
    import asyncio

    from goalrunner.app.run_snapshots import RoundPatch, round_patch, snapshots_of
    from goalrunner.core.events import RoundStarted
    from goalrunner.reports.patch import patch_text, patch_value, stat_text

    folder = runs.find(run)
    snapshots = snapshots_of(runs.records(folder))
    started = number is not None or snapshots.starts
    no_round = not started and not any(isinstance(one.event, RoundStarted) for one in runs.records(folder))
    patch = (
        RoundPatch(None, (), "") if no_round else asyncio.run(round_patch(snapshots, runs.home(), os.environ, number))
    )
    if json:
        output.say_json(patch_value(folder.run_id, patch))
        return 0
    if no_round:
        output.complain(f"No round of run {folder.run_id} has started: the agent has not run, so nothing was changed.")
    elif not patch.changes:
        part = "Run" if patch.round is None else f"Round {patch.round} of run"
        output.complain(f"{part} {folder.run_id} changed no files.")
    columns = output.columns()
    output.say(stat_text(patch, columns=columns) if stat else patch_text(patch, terminal=columns is not None))
    return 0
