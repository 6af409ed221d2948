"""`goal verify`."""

from __future__ import annotations

import os

from goalrunner.cli import output, runs
from goalrunner.cli.options import Json, Run
from goalrunner.core.errors import ExitCode


def verify(run: Run = None, json: Json = False) -> int:
    """Check offline that the records of a run are intact.

    Log, transcript, artifacts, outcome, and the citations of each verdict. The first fault is printed with its file and
    byte, and the exit code is 4.
    """
    import asyncio

    from goalrunner.app import verification
    from goalrunner.reports.audit import verification_text, verification_value

    done = asyncio.run(verification.verify(runs.find(run), runs.home(), os.environ))
    if json:
        output.say_json(verification_value(done))
    else:
        output.say(verification_text(done))
    return int(ExitCode.FAILED if done.broken else ExitCode.COMPLETE)
