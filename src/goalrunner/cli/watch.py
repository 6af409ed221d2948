"""`goal watch`: a living run, followed from another terminal. Reads its log; asks and changes nothing."""

from __future__ import annotations

import os
import sys
import time

from goalrunner.cli import output
from goalrunner.errors import ExitCode

_EVERY = 0.2
"""Seconds between two looks."""


def watch_run(reference: str | None) -> int:
    """Print what happens in a run until it ends; gives the run's exit code, and 4 where its process is gone."""
    from goalrunner import runs
    from goalrunner.eventlog import follow_records, is_written
    from goalrunner.reports.show import show_text
    from goalrunner.reports.summary import Summary

    folder = runs.find_run(runs.goal_home(os.environ), reference)

    def wait() -> bool:
        sys.stdout.flush()
        if not is_written(folder.events):
            return False
        time.sleep(_EVERY)
        return True

    pieces = show_text(
        follow_records(folder.events, wait),
        folder=str(folder.path),
        has_outcome=lambda: os.path.isfile(folder.outcome),  # noqa: PTH113 - never raises
        lost=lambda: not is_written(folder.events),
        columns=output.columns(sys.stdout),
    )
    try:
        for piece in pieces:
            output.say(piece)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)  # the run goes on
    return Summary(runs.read_summary(folder)).exit_code
