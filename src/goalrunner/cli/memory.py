"""`goal memory`: what is remembered beyond runs, and for how long."""

from __future__ import annotations

import os
import sys

from goalrunner.cli import output


def list_memory(owner: str | None, *, json: bool = False) -> int:
    """Print the items as a table or a JSON list; damaged lines are named on stderr. Gives 0. Raises RecordError."""
    from datetime import UTC, datetime

    from goalrunner import memory, runs
    from goalrunner.reports.outcome import json_text
    from goalrunner.reports.remembered import memory_text

    home = runs.goal_home(os.environ)
    items, damages = memory.list_items(home, owner)
    for damage in damages:
        output.complain(f"Warning: {damage}")
    now = datetime.now(UTC)
    if json:
        output.say(json_text([{**item.model_dump(mode="json"), "expired": item.is_expired(now)} for item in items]))
        return 0
    if not items:
        output.complain("Nothing is remembered. To keep a fact of a run: goal promote RUN ITEM --kind fact")
    output.say(memory_text(items, now=now, columns=output.columns(sys.stdout)))
    return 0
