"""`goal verify`: whether the records of a run still hold. Checks through `review`; owns the exit code."""

from __future__ import annotations

import os

from goalrunner.cli import output
from goalrunner.errors import ExitCode


def verify_run(reference: str | None, *, json: bool = False) -> int:
    """Check a run's folder and print what was checked, or the first thing that does not hold; gives 0, or 4."""
    import asyncio

    from goalrunner import review, runs
    from goalrunner.reports.verification import verification_json, verification_text

    home = runs.goal_home(os.environ)
    done = asyncio.run(review.verify(runs.find_run(home, reference), home, os.environ))
    output.say(verification_json(done) if json else verification_text(done))
    return int(ExitCode.FAILED if done.broken else ExitCode.COMPLETE)
