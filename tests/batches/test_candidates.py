"""The runs of a group: agents, models and their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.batches.candidates import MOST_RUNS, GroupChoice, refuse_options
from goalrunner.cli.run import run
from goalrunner.core.errors import UsageError

MODELS = ["openai/a", "openai/b"]


@pytest.mark.parametrize(
    ("agents", "models", "number", "names"),
    [
        ([], [], 2, ["builtin 1", "builtin 2"]),
        (["claude"], [], 3, ["claude 1", "claude 2", "claude 3"]),
        (["claude", "codex"], [], None, ["claude", "codex"]),
        (["claude", "codex"], [], 3, ["claude 1", "codex", "claude 2"]),
        ([], MODELS, None, MODELS),
        (["codex"], ["a", "b"], None, ["codex a", "codex b"]),
        (["claude", "codex"], ["a", "b"], None, ["claude a", "codex b"]),
        (["claude", "claude"], ["a", "b"], None, ["claude a", "claude b"]),
        (["claude", "codex"], ["a"], None, ["claude a", "codex a"]),
        (["claude,codex", "gemini"], [], None, ["claude,codex", "gemini"]),
    ],
)
def test_agents_and_models_are_used_in_turn(
    agents: list[str], models: list[str], number: int | None, names: list[str]
) -> None:
    choice = GroupChoice(agents, models, number)
    assert choice.is_group()
    runs = choice.candidates("builtin")
    assert [run.name for run in runs] == names


def test_a_run_replaces_only_what_was_named() -> None:
    (first, second) = GroupChoice(["claude", "codex"], ["a"]).candidates("")
    assert first.options == {"agent.use": "claude", "agent.model": "a"}
    assert second.options == {"agent.use": "codex", "agent.model": "a"}
    assert GroupChoice(number=2).candidates("builtin")[0].options == {}


@pytest.mark.parametrize(
    ("agents", "models", "number", "problem"),
    [
        ([], [], 0, "at least 2 runs, not 0"),
        (["claude"], [], 1, "at least 2 runs, not 1"),
        ([], [], -3, "at least 2 runs, not -3"),
        ([], [], MOST_RUNS + 1, "33 runs of one goal are too many"),
        (["a", "b", "c"], [], 2, "2 runs are fewer than the 3 agents or models"),
        (["a", "b"], ["x", "y", "z"], None, "2 agents and 3 models"),
        (["a", "a"], [], None, '"a" is named 2 times'),
        (["a"], ["x", "x"], None, '"a" with "x" is named 2 times'),
    ],
)
def test_what_makes_no_group_is_refused(
    agents: list[str], models: list[str], number: int | None, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem) as refusal:
        GroupChoice(agents, models, number).candidates("builtin")
    assert refusal.value.hint


def test_a_single_agent_or_model_is_no_group() -> None:
    assert not GroupChoice().is_group()
    assert not GroupChoice(["claude"], ["a"]).is_group()
    assert GroupChoice(number=2).is_group()
    with pytest.raises(UsageError, match="--all is for several runs"):
        GroupChoice(["claude"], first=False).is_group()
    with pytest.raises(UsageError, match="--first is for several runs"):
        GroupChoice(first=True).is_group()


def test_the_others_are_ended_unless_all_are_wanted() -> None:
    assert GroupChoice(number=2).ends_at_first
    assert GroupChoice(number=2, first=True).ends_at_first
    assert not GroupChoice(number=2, first=False).ends_at_first


def test_an_option_of_a_single_run_is_refused_with_another_way() -> None:
    refuse_options({"--record": None, "--detach": False})
    with pytest.raises(UsageError, match="--record is for a single run") as refusal:
        refuse_options({"--detach": False, "--record": "replies.jsonl"})
    assert refusal.value.hint


@pytest.mark.parametrize(
    "option",
    [
        {"record": Path("replies.jsonl")},
        {"continue_from": "k3f9"},
        {"detach": True},
        {"dry_run": True},
        {"fresh": True},
        {"run_id": "nightly"},
    ],
)
def test_the_command_refuses_each_option_of_a_single_run(
    option: dict[str, Any],
) -> None:
    with pytest.raises(UsageError, match="is for a single run") as refusal:
        run("Make it work.", best_of=2, **option)
    assert refusal.value.hint
