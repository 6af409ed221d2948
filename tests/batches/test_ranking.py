"""The order of the runs of a group."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from goalrunner.batches.ranking import GroupRun, advantage, ranked
from goalrunner.core.observation import DiffStat


def run_of(name: str, *, status: str = "complete", **fields: Any) -> GroupRun:
    return GroupRun(name, name, f"k3f9-{name}", status, **fields)


def lines(added: int, removed: int = 0) -> DiffStat:
    return DiffStat(files=1, added=added, removed=removed)


PAIRS: dict[str, tuple[GroupRun, GroupRun]] = {
    "": (run_of("verified"), run_of("capped", status="capped", score=1.0)),
    "fewer failures of hidden validators": (
        run_of("one", hidden_failures=1, score=0.8, changes=lines(90), cost_usd=9.0),
        run_of("two", hidden_failures=2, score=1.0, changes=lines(1), cost_usd=0.1),
    ),
    "a higher score of the judge": (
        run_of("sure", score=0.95, changes=lines(90), cost_usd=9.0),
        run_of("unsure", score=0.9, changes=lines(1), cost_usd=0.1),
    ),
    "a smaller change": (
        run_of("short", score=1.0, changes=lines(3, 4), cost_usd=9.0),
        run_of("long", score=1.0, changes=lines(8), cost_usd=0.1),
    ),
    "a lower cost": (
        run_of("cheap", changes=lines(8), cost_usd=0.1, tokens=900),
        run_of("dear", changes=lines(4, 4), cost_usd=0.2, tokens=100),
    ),
    "fewer tokens": (
        run_of("few", changes=lines(8), tokens=100),
        run_of("many", changes=lines(8), tokens=900),
    ),
}
"""The better and the worse run, by the rule that decides."""

UNKNOWN = (
    (
        run_of("known size", changes=lines(9_000), cost_usd=1.0),
        run_of("unknown size", cost_usd=0.0),
    ),
    (run_of("known cost", cost_usd=9.0), run_of("unknown cost", tokens=1)),
    (run_of("known tokens", tokens=9_000), run_of("unknown tokens")),
    (run_of("a low score", score=0.1), run_of("no score", changes=lines(0))),
)


@pytest.mark.parametrize(("rule", "pair"), PAIRS.items(), ids=PAIRS)
def test_each_rule_decides_before_those_after_it(
    rule: str, pair: tuple[GroupRun, GroupRun]
) -> None:
    better, worse = pair
    assert ranked([worse, better]) == ranked([better, worse]) == [better, worse]
    assert advantage(better, worse) == rule
    assert advantage(worse, better) == ""


@pytest.mark.parametrize("pair", UNKNOWN, ids=lambda pair: pair[0].name)
def test_what_is_not_known_is_not_0(pair: tuple[GroupRun, GroupRun]) -> None:
    assert ranked(reversed(pair)) == list(pair)


def test_the_order_of_many_runs_does_not_depend_on_the_order_of_the_plan() -> None:
    best = run_of("best", score=1.0, changes=lines(2))
    second = run_of("second", score=1.0, changes=lines(3))
    third = run_of("third", score=0.9, changes=lines(1))
    for order in permutations((best, second, third)):
        assert ranked(order) == [best, second, third]


def test_runs_that_no_rule_tells_apart_keep_their_order() -> None:
    first, second = run_of("1", score=1.0), run_of("2", score=1.0)
    assert ranked([second, first]) == [second, first]
    assert advantage(second, first) == ""
    stopped = [run_of("3", status="cancelled", score=1.0), run_of("4", status="failed")]
    assert ranked([*stopped, first]) == [first, *stopped]


def test_no_runs_have_no_order() -> None:
    assert ranked([]) == []
