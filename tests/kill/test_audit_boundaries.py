"""A run whose judge cannot be read at first, killed with -9 between its audits, and resumed."""

from __future__ import annotations

from pathlib import Path

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
[workspace]
path = "."
"""
UNREADABLE = {"account": "judge", "text": "It greets\nfriends, I think."}


def prepared(root: Path, forks: Forks, unreadable: int) -> Place:
    """The goal and its recording: one round, and a judge whose first answers cannot be read."""
    place = Place(root, forks)
    place.workspace.mkdir(parents=True)
    model = recording(
        root / "models.jsonl",
        agent("", shell("echo hello, friend > hello.txt")),
        agent("It is written."),
        *[UNREADABLE] * unreadable,
        judge(("it greets", [quote("o3", "hello, friend")])),
    )
    (place.workspace / "goal.toml").write_text(GOAL.format(model=model))
    return place


def prompts(place: Place) -> int:
    """Return how many prompts the agent was sent."""
    assert place.folder is not None
    return sum(
        one["role"] == "user"
        for one in read_messages(place.folder / "transcript.jsonl")
    )


def test_a_judge_that_cannot_be_read_is_asked_again_and_the_agent_is_not(
    root: Path, forks: Forks
) -> None:
    place = prepared(root, forks, 7)
    ended = place.goal("run", "goal.toml")
    assert ended.code == 0, ended
    verdicts = [
        one.event.verdict
        for one in place.records()
        if isinstance(one.event, events.VerdictRecorded)
    ]
    assert [verdict.source for verdict in verdicts] == ["fallback", "fallback", "judge"]
    assert (place.outcome()["iterations"], prompts(place)) == (1, 1)


def test_the_last_lines_show_what_the_judge_said(root: Path, forks: Forks) -> None:
    place = prepared(root, forks, 9)
    ended = place.goal("run", "goal.toml")
    assert ended.code == 4, ended
    outcome = place.outcome()
    assert (outcome["stop_reason"], outcome["iterations"], prompts(place)) == (
        "judge_failed",
        1,
        1,
    )
    assert 'it said: "It greets friends, I think."' in ended.out + ended.err
    # A person resumes it: the judge is asked once more, about the same round.
    assert place.goal("resume").code == 0
    assert (place.outcome()["iterations"], prompts(place)) == (1, 1)


def test_killed_between_its_audits_and_resumed_it_ends_the_same(
    root: Path, forks: Forks
) -> None:
    unreadable = 4
    whole = prepared(root / "whole", forks, unreadable)
    assert whole.goal("run", "goal.toml").code == 0
    kinds = [record.event.type for record in whole.records()]
    first = kinds.index("audit_started") + 1
    for number in range(first, len(kinds) + 1):
        place = prepared(root / f"after{number}", forks, unreadable)
        died = place.goal("run", "goal.toml", kill=("after", number))
        if kinds[number - 1] != "run_ended":
            assert died.code == -9, (number, died)
        resumed = place.goal("resume")
        assert resumed.code == 0, (number, kinds[number - 1], resumed)
        assert (place.outcome()["status"], place.outcome()["iterations"]) == (
            "complete",
            1,
        )
        assert prompts(place) == 1
        assert set(faults(place.records())) == {""}
