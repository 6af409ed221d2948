"""`goal memory`, `goal promote` and `goal forget`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

from goalrunner.cli import output
from goalrunner.core.errors import UsageError


def list_memory(owner: str | None, *, json: bool = False) -> int:
    """Print the items as a table or a JSON list; damaged lines are named on stderr. Gives 0. Raises RecordError."""
    from datetime import UTC, datetime

    from goalrunner.records.memory import list_items
    from goalrunner.records.run_folder import goal_home
    from goalrunner.reports.summary import json_text
    from goalrunner.reports.tables import memory_text

    home = goal_home(os.environ)
    items, damages = list_items(home, owner)
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


@dataclass(frozen=True)
class Wish:
    """The options."""

    kind: Literal["event", "fact", "preference", "policy_reference"]
    text: str
    expires: str | None
    sensitivity: Literal["low", "medium", "high"]
    permission: str
    replaces: str


def promote_item(reference: str, item: str, wish: Wish) -> int:
    """Promote an observation or event of a run and print the new item; gives 0. Raises GoalError, naming what refuses it."""
    from goalrunner.app.decisions import run_redactor
    from goalrunner.app.memory import Request, promote
    from goalrunner.app.sandbox import SystemClock, person
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.tables import promoted_text

    home = goal_home(os.environ)
    request = Request(
        item=item,
        kind=wish.kind,
        by=person(),
        text=wish.text,
        expires=_seconds(wish.expires),
        sensitivity=wish.sensitivity,
        permission=wish.permission,
        replaces=wish.replaces,
    )
    folder = find_run(home, reference)
    kept = promote(folder, home, request, SystemClock(), run_redactor(folder, os.environ))
    output.say(promoted_text(kept))
    return 0


def _seconds(text: str | None) -> float | None:
    from goalrunner.goalfile import parse_duration

    if text is None:
        return None
    seconds = parse_duration(text)
    if not seconds or seconds > 1e9:
        raise UsageError(f'--expires: "{text}" is not a valid duration', 'use "90d", "12h" or "30m"')
    return seconds


def forget_item(memory_id: str) -> int:
    """Remove an item and print what is gone; gives 0. Raises UsageError for none of that id, RecordError."""
    from goalrunner.records.memory import find_item
    from goalrunner.records.run_folder import goal_home
    from goalrunner.reports.tables import forgotten_text

    file = find_item(goal_home(os.environ), memory_id)
    if file is None:
        raise UsageError(f'no remembered item has the id "{memory_id[:40]}"', "goal memory lists all items")
    with file.writing():
        gone = file.forget(memory_id)
    output.say(forgotten_text(gone))
    return 0
