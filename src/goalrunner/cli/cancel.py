"""`goal cancel`: a run ends for good, whether it lives or waits."""

from __future__ import annotations

import os

from goalrunner.cli import output


def cancel(reference: str | None, *, reason: str = "", json: bool = False) -> int:
    """Cancel a run and print how it ended; gives exit code 0. Raises UsageError for one that is over for good."""
    from goalrunner import runs
    from goalrunner.api.cancelling import cancel_run
    from goalrunner.reports.outcome import json_text

    folder = runs.find_run(runs.goal_home(os.environ), reference)
    state = cancel_run(folder, reason)
    if json:
        output.say(json_text({"run_id": folder.run_id, "status": str(state.status), "message": state.message}))
    else:
        output.say(f"{state.status}  {folder.run_id}  {state.message}\n")
    return 0
