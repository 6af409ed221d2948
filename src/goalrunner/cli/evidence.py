"""`goal show RUN --evidence`: what the last verdict of a run rests on, from its log."""

from __future__ import annotations

import os
import sys

from goalrunner.cli import output


def show_evidence(reference: str | None, *, path: bool = False, json: bool = False) -> int:
    """Print the evidence table of a run's last verdict; gives exit code 0. Raises RunNotFound, RecordError."""
    from goalrunner import runs
    from goalrunner.errors import UsageError
    from goalrunner.eventlog import read_records
    from goalrunner.reports.evidence import evidence_json, evidence_text
    from goalrunner.state.evidence import evidence_of

    if path:
        raise UsageError("--path and --evidence cannot be combined", "goal show RUN --evidence")
    folder = runs.find_run(runs.goal_home(os.environ), reference)
    state, rows = evidence_of(read_records(folder.events))
    verdict = state.verdict if state else None
    if json:
        output.say(evidence_json(folder.run_id, verdict, rows))
    else:
        output.say(evidence_text(folder.run_id, verdict, rows, columns=output.columns(sys.stdout)))
    return 0
