"""`goal promote`: one fact of a run is kept beyond it. Owns how options become a request; the policy is the goal's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from goalrunner.cli import output
from goalrunner.errors import UsageError


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
    from goalrunner import memory, runs
    from goalrunner.compose import SystemClock, person, run_redactor
    from goalrunner.reports.remembered import promoted_text

    home = runs.goal_home(os.environ)
    request = memory.Request(
        item=item,
        kind=wish.kind,
        by=person(),
        text=wish.text,
        expires=_seconds(wish.expires),
        sensitivity=wish.sensitivity,
        permission=wish.permission,
        replaces=wish.replaces,
    )
    folder = runs.find_run(home, reference)
    kept = memory.promote(folder, home, request, SystemClock(), run_redactor(folder, os.environ))
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
