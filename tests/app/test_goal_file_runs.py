"""A goal file that a program runs has the outcome of `goal run`, with the same defaults and errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goalrunner import arun_goal_file, read_events, read_state, run_goal_file
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.outcome import GoalOutcome
from tests.support.command_line import outcome_of
from tests.support.forking import goal

AGENT = """#!/bin/sh
cat > told
echo line >> work
[ "$(wc -l < work)" -ge 2 ] && touch done
echo "It is all done!"
"""

GOAL = """objective = "make done"
validator = "test -e done"
agent = { use = "command", command = "./agent.sh" }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a workspace with a goal file and its agent."""
    return placed(tmp_path / "place")


def placed(folder: Path, text: str = GOAL) -> Path:
    folder.mkdir()
    (folder / "goal.toml").write_text(text)
    agent = folder / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    return folder


def comparable(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome without what differs between two equal runs."""
    varying = (
        "run_id",
        "started_at",
        "finished_at",
        "duration",
        "run_path",
        "workspace",
        "evidence",
    )
    return {key: value for key, value in outcome.items() if key not in varying}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", ["", "max_iterations = 1\n", 'baseline = "red"\n', 'timeout = "1h"\n']
)
def test_the_outcome_is_that_of_goal_run(
    more: str, tmp_path: Path, own_home: Path
) -> None:
    first = placed(tmp_path / "first", more + GOAL)
    second = placed(tmp_path / "second", more + GOAL)
    ended = goal("run", "goal.toml", cwd=first)
    commanded = outcome_of(own_home)
    outcome = run_goal_file(
        second / "goal.toml", workspace=second, home=tmp_path / "home"
    )
    assert outcome.exit_code == ended.code
    assert comparable(outcome.model_dump(mode="json")) == comparable(commanded)
    plan = read_state(outcome).plan
    assert plan == read_state(commanded["run_path"]).plan


def test_keywords_replace_those_of_the_file_and_add_validators(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    seen: list[str] = []

    def has_worked() -> bool:
        return (place / "work").exists()

    outcome: GoalOutcome = asyncio.run(
        arun_goal_file(
            validators=has_worked,
            max_iterations=1,
            tokens=None,
            on_event=lambda event: seen.append(event.type),
        )
    )
    state = read_state(outcome)
    assert (outcome.status, outcome.stop_reason) == ("capped", "max_iterations")
    assert sorted(state.plan.validators) == ["has_worked", "test"]
    assert (state.plan.wait, state.plan.timeout) == (6 * 3600, 4 * 3600)
    assert seen == [event.type for event in read_events(outcome)]


def test_a_goal_file_is_refused_with_the_words_of_goal_run(place: Path) -> None:
    path = place / "goal.toml"
    path.write_text(GOAL.replace("objective", "objectiv"))
    with pytest.raises(GoalError) as refused:
        run_goal_file(path)
    ended = goal("run", path, cwd=place)
    assert ended.code == 2
    assert ended.err.strip() == f"Error: {refused.value}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match=r"nothing\.toml"):
        run_goal_file(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("text", "keywords", "message"),
    [
        ("[workspace]\nisolate = true\n", {}, "needs a process of its own"),
        ("", {"max_iterations": 0}, "max_iterations"),
        ("", {"note": "x"}, "note is for a run that is resumed"),
        ("", {"validators": 5}, "5 is not a validator"),
    ],
)
def test_what_cannot_be_run_is_refused(
    text: str, keywords: Any, message: str, place: Path
) -> None:
    with (place / "goal.toml").open("a") as file:
        file.write(text)
    with pytest.raises(UsageError, match=message):
        run_goal_file(place / "goal.toml", **keywords)
    with pytest.raises(TypeError, match="max_iteration"):
        run_goal_file(place / "goal.toml", max_iteration=3)  # type: ignore[call-arg]
