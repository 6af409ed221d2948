"""A run with a critic, killed with -9 at every event of the critique and the refinement, and resumed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from goalrunner.core import events
from tests.support.forking import Forks
from tests.support.killed_run import Place
from tests.support.logs import read_messages
from tests.support.recordings import agent, judge, quote, recording, shell
from tests.support.transitions import faults

GOAL = """\
objective = "Write a friendly greeting."
success_criteria = ["it greets"]
model = "{model}"
judge = "{model}"
validator = "cat hello.txt"
[critic]
{critic}
threshold = 0.7
[workspace]
path = "."
"""
COMMAND = """\
run = "echo scored >> {effects}; grep -q friend && echo 0.9 || echo '{{\\"score\\": 0.4, \\"feedback\\": \\"be friendly\\"}}'"\
"""
BEGUN = 2
TYPES = [
    *(
        "critique_started",
        "critique_finished",
        "refinement_started",
        "message",
        "message",
        "round_finished",
    ),
    *("critique_started", "critique_finished"),
]
"""Of the events from the first critique on, those that must be there in this order."""


def prepared(root: Path, forks: Forks, *, is_model: bool) -> Place:
    """The goal and its recording: one round, which is refined once."""
    place = Place(root, forks)
    place.workspace.mkdir(parents=True)
    critiques = [
        {"account": "critic", "text": '{"score": 0.4, "feedback": "be friendly"}'},
        {"account": "critic", "text": '{"score": 0.9, "feedback": ""}'},
    ]
    model = recording(
        root / "models.jsonl",
        agent("", shell("echo hello, friend > hello.txt")),
        agent("It is written."),
        agent("It greets a friend."),
        judge(("it greets", [quote("o3", "hello, friend")])),
        *(critiques if is_model else ()),
    )
    critic = f'model = "{model}"' if is_model else COMMAND.format(effects=place.effects)
    (place.workspace / "goal.toml").write_text(GOAL.format(model=model, critic=critic))
    return place


def same_end(place: Place) -> None:
    """The run ends as if it had not been killed, and what was recorded of the critic was not done twice."""
    outcome = place.outcome()
    assert (outcome["status"], outcome["iterations"]) == ("complete", 1)
    records = place.records()
    assert set(faults(records)) == {""}
    said = [record.event for record in records]
    finished = [event for event in said if isinstance(event, events.CritiqueFinished)]
    assert [event.score for event in finished] == [0.4, 0.9]
    assert sum(isinstance(event, events.RefinementStarted) for event in said) == 1
    types = iter([str(event.type) for event in said])
    assert all(kind in types for kind in TYPES)
    assert place.folder is not None
    messages = [
        str(one["content"]) for one in read_messages(place.folder / "transcript.jsonl")
    ]
    asked = Counter(text for text in messages if text.startswith("[critic] "))
    assert set(asked.values()) <= {
        1,
        2,
    }  # a message that was written just before its event is written again
    assert len(asked) == 1


@pytest.fixture(scope="module", params=[False, True], ids=["command", "model"])
def places(request: pytest.FixtureRequest) -> bool:
    """Whether the critic is a model."""
    return bool(request.param)


def test_killed_at_each_event_and_resumed_it_ends_the_same(
    places: bool, root: Path, forks: Forks
) -> None:
    whole = prepared(root / "whole", forks, is_model=places)
    assert whole.goal("run", "goal.toml").code == 0
    same_end(whole)
    kinds = [record.event.type for record in whole.records()]
    first, last = (
        kinds.index("critique_started") + 1,
        len(kinds) - kinds[::-1].index("critique_finished"),
    )
    numbers = [*range(first - 1, last + 1)]
    if (
        places
    ):  # only the events of the critique itself differ from those with a command
        numbers = [
            number for number in numbers if kinds[number - 1].startswith("critique_")
        ]
    moments = [("after", number) for number in numbers]
    moments += [
        ("before", number + 1)
        for number, kind in enumerate(kinds)
        if kind == "critique_finished"
    ]
    for moment, number in moments:
        place = prepared(root / f"{moment}{number}", forks, is_model=places)
        died = place.goal("run", "goal.toml", kill=(moment, number))
        assert died.code == -9, (moment, number, died)
        resumed = place.goal("resume")
        assert resumed.code == 0, (moment, number, resumed)
        same_end(place)
        results = [
            one.event
            for one in place.records()
            if isinstance(one.event, events.CritiqueFinished)
        ]
        if not places:
            ran = place.effects.read_text().count("scored")
            lost = moment == "before" and kinds[number - 1] == "critique_finished"
            assert ran == len(results) + lost, (moment, number)
