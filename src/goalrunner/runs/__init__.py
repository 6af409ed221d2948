"""The folders of runs: where they are, what they are called, and finding one. Owns their layout; reads no log.

`goal list` and `goal status` start here, so nothing heavy is imported: no pydantic, no Rich.
"""

from __future__ import annotations

from goalrunner.runs.finding import find_run, list_runs, read_summary
from goalrunner.runs.folder import RunFolder, goal_home
from goalrunner.runs.naming import RunIds, new_run_id

__all__ = ["RunFolder", "RunIds", "find_run", "goal_home", "list_runs", "new_run_id", "read_summary"]
