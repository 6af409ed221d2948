"""The model of a large fleet, against what is known of small ones."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean

import pytest

pytest.importorskip("simpy", reason="the extra `bench` is not installed")

from tests.bench.scale_costs import Measures, demands
from tests.bench.scale_model import FleetShape, simulate
from tests.bench.scale_page import PAGE, load_of, page_text, stored_results

pytestmark = pytest.mark.bench

QUEUE = FleetShape(
    goals=60_000,
    workers=10,
    service=10.0,
    load=0.8,
    batch=1,
    shares=(1.0,),
    accounts=1,
    allowance=None,
    between_losses=None,
    start=0.0,
)
"""Single goals and nothing else: the queue that is called M/M/c."""
SMALL = FleetShape(
    goals=20_000, workers=200, batch=100, between_losses=3600.0, allowance=1.05
)


def _erlang_wait(servers: int, load: float, service: float) -> float:
    """The mean wait of M/M/c, by Erlang's formula."""
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    others = sum(offered**k / math.factorial(k) for k in range(servers))
    return last / (others + last) * service / (servers * (1 - load))


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (5, 0.7), (20, 0.8)])
def test_waits_are_those_of_the_closed_form(servers: int, load: float) -> None:
    shape = replace(QUEUE, workers=servers, load=load)
    means = [mean(simulate(shape, seed).waits[0]) for seed in range(4)]
    # Waits that follow each other are alike: of 60,000, the mean varies by a tenth.
    assert mean(means) == pytest.approx(_erlang_wait(servers, load, 10.0), rel=0.15)


def test_every_goal_ends_once_whatever_is_lost_or_paused() -> None:
    result = simulate(SMALL)
    assert result.losses > 100
    assert result.pauses > 10
    assert result.submitted == result.ended == SMALL.goals
    assert sum(map(len, result.waits)) == SMALL.goals
    assert result.starts == SMALL.goals + result.losses
    assert result.enqueued == result.starts + result.holds


def test_the_queue_holds_what_its_goals_wait() -> None:
    """Little's law, as an identity of the whole simulation."""
    result = simulate(SMALL)
    assert result.queue_area == pytest.approx(result.total_wait, rel=1e-6)


def test_higher_priorities_wait_less() -> None:
    low, middle, high = simulate(replace(SMALL, load=0.98, allowance=None)).waits
    assert mean(high) < mean(middle) < mean(low)


def test_a_seed_determines_the_result() -> None:
    assert simulate(SMALL, 7) == simulate(SMALL, 7)
    assert simulate(SMALL, 7).seconds != simulate(SMALL, 8).seconds


def test_the_page_has_the_figures_that_are_stored() -> None:
    text = PAGE.read_text("utf-8")
    assert page_text(text, stored_results(), Measures.read()) == text


def test_the_database_has_no_more_to_do_for_the_same_runs_at_fewer_workers() -> None:
    measures = Measures.read()
    many, few = (demands(load_of(1_000, jobs), measures) for jobs in (1, 10))
    assert all(few[cause].cores <= many[cause].cores for cause in many)
