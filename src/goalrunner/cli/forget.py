"""`goal forget`: an item of the memory is removed, with what it had corrected."""

from __future__ import annotations

import os

from goalrunner.cli import output
from goalrunner.errors import UsageError


def forget_item(memory_id: str) -> int:
    """Remove an item and print what is gone; gives 0. Raises UsageError for none of that id, RecordError."""
    from goalrunner import memory, runs
    from goalrunner.reports.remembered import forgotten_text

    file = memory.find_item(runs.goal_home(os.environ), memory_id)
    if file is None:
        raise UsageError(f'no remembered item has the id "{memory_id[:40]}"', "goal memory lists all items")
    with file.writing():
        gone = file.forget(memory_id)
    output.say(forgotten_text(gone))
    return 0
