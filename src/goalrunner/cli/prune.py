"""`goal prune`: old runs are removed, with what they kept. Owns asking; never touches a living or a waiting run."""

from __future__ import annotations

import os
import sys

from goalrunner.cli import output
from goalrunner.errors import UsageError


def prune_runs(older_than: str, *, yes: bool = False, dry_run: bool = False, json: bool = False) -> int:
    """Remove every run that ended longer ago than that; gives exit code 0. Asks first, unless told not to."""
    from datetime import UTC, datetime

    from goalrunner import runs
    from goalrunner.compose.pruning import old_runs, remove_run
    from goalrunner.goalfile import parse_duration
    from goalrunner.reports.outcome import json_text

    seconds = parse_duration(older_than)
    if seconds is None:
        raise UsageError(f'--older-than "{older_than}" is no duration', 'write days, hours or minutes: "30d", "12h"')
    home = runs.goal_home(os.environ)
    found = old_runs(home, seconds, datetime.now(UTC))
    if found and not (dry_run or yes or _agreed(len(found))):
        output.complain("nothing was removed")
        return 0
    for folder in found if not dry_run else ():
        remove_run(home, folder)
    names = [folder.run_id for folder in found]
    if json:
        output.say(json_text({"removed": [] if dry_run else names, "found": names}))
    else:
        verb = "would remove" if dry_run else "removed"
        output.say("".join(f"{verb}  {name}\n" for name in names) or "no run is that old\n")
    return 0


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"{count} runs would be removed for good", "say so: goal prune --older-than AGE --yes")
    output.complain(f"remove {count} runs for good? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
