"""The order of the runs of a group: of several verified ones, which is the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from goalrunner.core.observation import DiffStat


@dataclass(frozen=True)
class GroupRun:
    """What the order of the runs of a group rests on, for one of them."""

    key: str
    """That of its entry in the plan."""
    name: str
    run_id: str
    """Empty: it never began."""
    status: str
    hidden_failures: int = 0
    """The checks in which a hidden validator was red."""
    score: float | None = None
    """The judge's, from 0 to 1; None: no judge decided."""
    changes: DiffStat | None = None
    """What it changed in its workspace; None: not known."""
    cost_usd: float | None = None
    """None: not known."""
    tokens: int | None = None
    """None: not known."""

    @property
    def is_verified(self) -> bool:
        """Whether the run has ended with a proof, so that it can be the winner."""
        return self.status == "complete"

    @property
    def changed_lines(self) -> int | None:
        """Lines added and removed; None if they are not known."""
        if self.changes is None:
            return None
        return self.changes.added + self.changes.removed


def _unknown_last(number: float | None) -> float:
    """Return a number that is better the smaller it is, or infinity for None.

    An unknown cost is not 0.
    """
    return math.inf if number is None else number


_RULES: tuple[tuple[str, Callable[[GroupRun], float]], ...] = (
    # A hidden validator is not known to the agent. A run that it never refused has met
    # a test that the agent had no chance to work towards.
    ("fewer failures of hidden validators", lambda run: run.hidden_failures),
    ("a higher score of the judge", lambda run: -(run.score or 0.0)),
    # All of them do what was asked: the smaller change is easier to review.
    ("a smaller change", lambda run: _unknown_last(run.changed_lines)),
    ("a lower cost", lambda run: _unknown_last(run.cost_usd)),
    ("fewer tokens", lambda run: _unknown_last(run.tokens)),
)
"""What makes one verified run better than another, the most important rule first: its
name, and a number that is smaller for the better run.
"""


def ranked(runs: Iterable[GroupRun]) -> list[GroupRun]:
    """Return the runs, the best one first.

    Those that are not verified come last. Runs that no rule tells apart keep their
    order.
    """
    return sorted(runs, key=_rank)


def _rank(run: GroupRun) -> tuple[bool, tuple[float, ...]]:
    if not run.is_verified:
        return True, ()
    return False, tuple(value(run) for _, value in _RULES)


def advantage(better: GroupRun, worse: GroupRun) -> str:
    """Return the rule by which the first run comes before the second.

    Empty if none does, or if one of the runs is not verified.
    """
    if not (better.is_verified and worse.is_verified):
        return ""
    for name, value in _RULES:
        if value(better) != value(worse):
            return name if value(better) < value(worse) else ""
    return ""
