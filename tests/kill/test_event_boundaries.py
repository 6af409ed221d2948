"""A run killed with -9 before and after every event that it records, and resumed."""

from __future__ import annotations

import pytest

from tests.support.killed_run import Place, same_end

EVENTS = 41
"""Events of the run if it is not killed; a test below checks this number."""
DONE = (1, 7, 10, 15, 19, 21, 28, 37, 40)
"""Events before which something is done that they tell of: a file written, a command run, a model asked."""
AFTER = (*range(1, 23), 28, 31, 35, 37, 38, 39, 40, 41)
"""Events after which the run is killed: those of round 1, and those of round 2 that have another place in the run."""
BEGUN = 2
"""Events after which there is a run to go on with."""


def test_the_run_without_a_kill(place: Place) -> None:
    ended = place.goal("run", "goal.toml")
    same_end(place, ended)
    assert place.effects.read_text().split() == ["one", "two", "three"]
    assert len(place.records()) == EVENTS


@pytest.mark.parametrize(
    ("moment", "number"),
    [("after", number) for number in AFTER] + [("before", number) for number in DONE],
)
def test_killed_at_an_event_and_resumed_it_ends_the_same(
    place: Place, moment: str, number: int
) -> None:
    died = place.goal("run", "goal.toml", kill=(moment, number))
    assert died.code == -9, died
    resumed = place.goal("resume")
    if len(place.records()) < BEGUN:
        assert resumed.code != 0
        assert "goal run starts a run" in resumed.err
        assert not place.effects.exists()
        return
    same_end(place, resumed)
