"""`goal list`: every run, newest first. Reads summaries alone."""

from __future__ import annotations

import os
import sys

from goalrunner.cli import output


def list_runs(*, json: bool = False) -> int:
    """Print the runs as a table, or their summaries as a JSON list; gives exit code 0."""
    from datetime import UTC, datetime

    from goalrunner import runs
    from goalrunner.reports.listing import listing_text
    from goalrunner.reports.outcome import json_text
    from goalrunner.reports.summary import Summary

    home = runs.goal_home(os.environ)
    found = [Summary(values).told for values in runs.list_runs(home)]
    if json:
        output.say(json_text(found))
        return 0
    if not found:
        output.complain(f"No runs yet in {home}. To start one: goal run goal.toml")
    output.say(listing_text(found, now=datetime.now(UTC), columns=output.columns(sys.stdout)))
    return 0
