"""Which commands run again, and how their output is compared with what was cited."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.observation import Observation
from goalrunner.core.ports import AuditRequest
from goalrunner.judge.citations import matched
from goalrunner.judge.replay import Replays, is_command, same_words
from goalrunner.judge.verdict_parser import parse_reply
from tests.support.recordings import fact, judge, quote
from tests.support.trails import seen, trail


@pytest.mark.parametrize(
    ("quoted", "output", "found"),
    [
        ("3 passed in 0.31s", "ok\n3 passed in 0.45s\n", "3 passed in 0.45s"),
        ("3 passed in", "3 passed in 0.45s\n", "3 passed in"),
        ("ok  a  0.1s\n3 passed in 0.31s", "ok  a  0.2s\n3 passed in 0.45s\nend", "ok  a  0.2s\n3 passed in 0.45s"),
        (
            "log: /tmp/pytest-1/log at 10:00:01",
            "log: /tmp/pytest-2/log at 11:30:59\n",
            "log: /tmp/pytest-2/log at 11:30:59",
        ),
        ("3 passed in 0.31s", "13 passed in 0.45s\n", "3 passed in 0.31s"),
        ("3 passed in 0.31s", "3 failed in 0.31s\n", "3 passed in 0.31s"),
        ("ok 0.1s\n3 passed in 0.3s", "3 passed in 0.4s\nok 0.2s\n", "ok 0.1s\n3 passed in 0.3s"),
        ("3 passed in 0.31s", "", "3 passed in 0.31s"),
        ("...", "3 passed\n", "..."),
    ],
)
def test_a_quote_becomes_the_lines_that_differ_only_in_what_varies(quoted: str, output: str, found: str) -> None:
    assert same_words(quoted, output) == found


def observation(**more: Any) -> Observation:
    return Observation(**{"id": "o1", "source": "shell", "command": "pytest -q", "round": 1, **more})


def test_commands_of_a_shell_run_again() -> None:
    assert is_command(observation(facts=("exit 0",)))
    assert is_command(observation(source="Bash", reported_by="claude"))
    assert is_command(observation(source="run", reported_by="claude", facts=("exit 0",)))


@pytest.mark.parametrize(
    "more",
    [
        {"command": ""},
        {"source": "validator tests", "facts": ("exit 0", "green")},
        {"source": "read_file", "command": "a.py", "path": "a.py"},
        {"source": "replay", "facts": ("exit 0",)},
        {"source": "edit", "reported_by": "claude", "command": "a.py"},
        {"facts": ("denied",)},
    ],
)
def test_nothing_else_runs_again(more: dict[str, Any]) -> None:
    assert not is_command(observation(**more))


def request() -> AuditRequest:
    pairs = [
        seen(1, "3 passed in 0.3s", command="pytest -q", names=("suite:unit",)),
        seen(2, "text", source="read_file", command="a.txt", path="a.txt"),
        seen(9, "3 passed in 0.4s", source="replay", command="pytest -q"),
    ]
    return AuditRequest("x", (), (), "workspace", 1, trail(*pairs))


async def test_citations_of_a_command_name_its_replay_and_it_runs_once() -> None:
    asked: list[str] = []
    found = request()

    async def replay(item: Observation, _: object) -> Observation | None:
        asked.append(item.id)
        return found.trail.observation("o9")

    citations = [quote("[o1]", "3 passed in 0.3s"), fact("suite:unit", "exit 0"), quote("o2", "text"), quote("o7", "x")]
    outcome = matched(parse_reply(judge(("it works", citations))["text"]), found)
    moved, _ = await Replays(replay, None).moved(outcome, found)
    evidence = [item.model_dump(exclude_none=True) for item in moved.criteria[0].evidence]
    assert evidence == [quote("o9", "3 passed in 0.4s"), fact("o9", "exit 0"), quote("o2", "text"), quote("o7", "x")]
    assert asked == ["o1"]


async def test_an_open_verdict_runs_nothing() -> None:
    async def replay(item: Observation, _: object) -> Observation | None:
        raise AssertionError(item)

    outcome = parse_reply(judge(("it works", [quote("o1", "3 passed in 0.3s")]), ("b", []), missing="b")["text"])
    before = request()
    assert await Replays(replay, None).moved(outcome, before) == (outcome, before)
