"""`goal prune`: old runs are removed, with what they kept. Owns asking; never touches a living or a waiting run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.compose.pruning import OldRun


def prune_runs(older_than: str, *, yes: bool = False, dry_run: bool = False, json: bool = False) -> int:
    """Remove every run that ended longer ago than that, and the snapshots that no run needs; gives exit code 0.

    Asks first, unless told not to; each run is named, and why it may go.
    """
    from datetime import UTC, datetime

    from goalrunner import runs
    from goalrunner.compose.pruning import finish_removals, half_removed, old_runs, remove_run
    from goalrunner.compose.stores import StoresPruned, orphans, prune_stores
    from goalrunner.goalfile import parse_duration
    from goalrunner.reports.outcome import json_text

    seconds = parse_duration(older_than)
    if seconds is None:
        raise UsageError(f'--older-than: "{older_than}" is not a valid duration', 'use "30d", "12h" or "90m"')
    home, now = runs.goal_home(os.environ), datetime.now(UTC)
    found = old_runs(home, seconds, now)
    names = [run.folder.run_id for run in found]
    if found and not (dry_run or yes or _agreed(found)):
        output.complain("nothing was removed")
        return 0
    if dry_run:
        stores, alone, half = StoresPruned(), orphans(home, names), len(half_removed(home))
    else:
        half = finish_removals(home)
        for run in found:
            remove_run(home, run.folder)
        stores, alone = prune_stores(home, os.environ, now.timestamp() - seconds), ()
    if json:
        why = {run.folder.run_id: {"why": run.why, "resumable": run.resumable} for run in found}
        kept = {
            "stores": list(stores.removed),
            "snapshots": stores.dropped,
            "left": list(stores.left),
            "half_removed": half,
        }
        output.say(json_text({"removed": [] if dry_run else names, "found": names, "why": why, **kept}))
        return 0
    verb = "would remove" if dry_run else "removed"
    output.say("".join(f"{verb}  {line}\n" for line in _lines(found)) or "no run ended that long ago\n")
    output.say("".join(f"{verb}  the snapshots of {place}, which has no runs left\n" for place in alone))
    if half:
        output.say(f"{verb}  what an interrupted goal prune left: {half} folder{'s' if half > 1 else ''}\n")
    if stores.removed or stores.dropped:
        others = f"{len(stores.removed)} snapshot stores, and {stores.dropped} snapshots in other stores"
        output.say(f"removed  {others}, which no run needs\n")
    for why_left in stores.left:
        output.complain(f"left  {why_left}")
    return 0


def _lines(found: Sequence[OldRun]) -> list[str]:
    return [f"{run.folder.run_id}  {run.why}" for run in found]


def _agreed(found: Sequence[OldRun]) -> bool:
    count = f"{len(found)} runs" if len(found) > 1 else "1 run"
    if not sys.stdin.isatty():
        raise UsageError(
            f"{count} would be removed for good, and stdin is not a terminal", "add --yes, or --dry-run to list them"
        )
    output.complain("\n".join(_lines(found)))
    output.complain(f"remove {count} for good? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
