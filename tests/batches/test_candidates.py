"""The runs of a group: agents, models and their number."""

from __future__ import annotations

import pytest

from goalrunner.batches.candidates import MOST_RUNS, candidates
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
    runs = candidates(agents, models, number, "builtin")
    assert [run.name for run in runs] == names


def test_a_run_replaces_only_what_was_named() -> None:
    (first, second) = candidates(["claude", "codex"], ["a"], None, "")
    assert first.options == {"agent.use": "claude", "agent.model": "a"}
    assert second.options == {"agent.use": "codex", "agent.model": "a"}
    assert candidates([], [], 2, "builtin")[0].options == {}


@pytest.mark.parametrize(
    ("agents", "models", "number", "problem"),
    [
        ([], [], 0, "the best of 0 runs"),
        (["claude"], [], 1, "the best of 1 runs"),
        ([], [], -3, "the best of -3 runs"),
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
        candidates(agents, models, number, "builtin")
    assert refusal.value.hint
