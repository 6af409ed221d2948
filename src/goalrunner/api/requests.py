"""What another process asks of a living run. Owns looking for it; the driver ends the run."""

from __future__ import annotations

import asyncio
import json

from goalrunner.driver import Run
from goalrunner.model.outcome import GoalOutcome
from goalrunner.runs import RunFolder

EVERY = 0.25
"""Seconds between two looks: one stat of a file that is mostly not there."""

GRACE = 0.7
"""Seconds that child processes have to end by themselves; a cancelled run is over within two."""


async def heed(folder: RunFolder, run: Run, task: asyncio.Task[GoalOutcome]) -> None:
    """Wait until somebody asks the run to end, then cancel its task for good."""
    while not folder.cancellation.exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(EVERY)
    run.cancel(_said(folder))
    task.cancel()
    await asyncio.sleep(GRACE)
    task.cancel()  # a second time: children are killed without a time of grace


def _said(folder: RunFolder) -> str:
    """Who asks, and why, in the words of whoever asked."""
    try:
        return str(json.loads(folder.cancellation.read_bytes())["said"])
    except (OSError, ValueError, KeyError, TypeError):
        return "cancelled"
