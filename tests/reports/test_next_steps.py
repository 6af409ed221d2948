"""The commands that come next after a run: each is a line of its own that can be pasted."""

from __future__ import annotations

import shlex

import pytest

from goalrunner.reports.next_steps import Ending, Origin, message_lines, next_steps


def commands(**values: object) -> list[str]:
    """Return the commands after a run with these values."""
    beside = {name: values.pop(name) for name in ("goal_file", "handed", "round_ended") if name in values}
    origin = Origin(**beside)  # type: ignore[arg-type]
    facts = list(next_steps(Ending("k3f9", **{"status": "capped", "origin": origin, **values})))  # type: ignore[arg-type]
    assert all(fact.whole and fact.label for fact in facts)
    return [fact.text for fact in facts]


@pytest.mark.parametrize(
    ("reason", "values", "first"),
    [
        ("max_iterations", {"limits": {"max_iterations": 10}}, ["goal resume k3f9 --max-iterations 20"]),
        ("timeout", {"limits": {"timeout": 1800.0}}, ["goal resume k3f9 --timeout 1h"]),
        ("timeout", {"limits": {"timeout": 2.5}}, ["goal resume k3f9 --timeout 5"]),
        ("budget_exhausted", {"limits": {"tokens": 1000}, "tokens": 1200}, ["goal resume k3f9 --tokens 2400"]),
        ("budget_exhausted", {"limits": {"cost_usd": 0.5}, "cost": 0.5}, ["goal resume k3f9 --cost 1"]),
        (
            "budget_exhausted",
            {"limits": {"cost_usd": 0.5}, "cost_unknown": True},
            ["goal resume k3f9 --allow-unenforced cost_usd", "goal resume k3f9 --cost inf"],
        ),
        ("budget_exhausted", {}, ["goal resume k3f9"]),
    ],
)
def test_a_limit_is_raised_by_the_command(reason: str, values: dict[str, object], first: list[str]) -> None:
    assert commands(stop_reason=reason, rounds=2, round_ended=True, **values) == [*first, "goal diff k3f9"]


def test_what_waits_is_decided_first() -> None:
    found = commands(status="blocked", stop_reason="approval_required", waiting=["a1", "a2"], has_questions=True)
    assert found == [
        "goal approve k3f9 a1",
        'goal deny k3f9 a1 --reason "..."',
        "goal approve k3f9 a2",
        'goal deny k3f9 a2 --reason "..."',
        'goal answer k3f9 "..."',
        "goal resume k3f9",
    ]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"status": "complete"}, []),
        ({"status": "running"}, ["goal watch k3f9"]),
        ({"status": "cancelled", "stop_reason": "cancelled", "round_ended": True}, ["goal diff k3f9"]),
        ({"status": "cancelled", "stop_reason": "cancelled", "rounds": 1}, ["goal show k3f9"]),
        ({"status": "lost", "round_ended": True}, ["goal resume k3f9", "goal diff k3f9"]),
        ({"status": "failed", "stop_reason": "workspace_failed", "rounds": 0}, ["goal resume k3f9"]),
        (
            {"status": "capped", "stop_reason": "timeout", "limits": {"timeout": 60.0}, "handed": True},
            ["goal show k3f9"],
        ),
        (
            {
                "status": "blocked",
                "stop_reason": "approval_required",
                "waiting": ["a1"],
                "handed": True,
                "round_ended": True,
            },
            ["goal diff k3f9"],
        ),
        ({"status": "cancelled", "stop_reason": "interrupted"}, ["goal resume k3f9"]),
        (
            {"status": "failed", "stop_reason": "baseline_green", "goal_file": "/a b/g.toml"},
            ["'/a b/g.toml': validators or baseline", "goal run '/a b/g.toml'"],
        ),
        (
            {"status": "failed", "stop_reason": "validator_missing", "goal_file": "/g.toml"},
            ["--validator, or validators in /g.toml", "goal run /g.toml"],
        ),
        (
            {"status": "failed", "stop_reason": "environment_failed", "goal_file": "/g.toml", "message": "it is full"},
            ["goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "environment_failed",
                "goal_file": "/g.toml",
                "message": "[workspace] x",
            },
            ["/g.toml: [workspace]", "goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "model_not_found",
                "goal_file": "/g.toml",
                "message": "see [judge] model",
            },
            ["--judge, GOAL_JUDGE, or [judge] model in /g.toml", "goal run /g.toml"],
        ),
        (
            {
                "status": "failed",
                "stop_reason": "model_not_found",
                "goal_file": "/a b/g.toml",
                "message": "[agent] model",
            },
            ["--model, GOAL_MODEL, or [agent] model in '/a b/g.toml'", "goal run '/a b/g.toml'"],
        ),
        (
            {
                "status": "blocked",
                "stop_reason": "impossible",
                "goal_file": "/g.toml",
                "rounds": 3,
                "round_ended": True,
            },
            ["/g.toml: objective, success_criteria or validators", "goal run /g.toml", "goal diff k3f9"],
        ),
        ({"status": "blocked", "stop_reason": "impossible"}, ['goal resume k3f9 --note "..."']),
        ({"status": "failed", "stop_reason": "validator_missing"}, ["goal resume k3f9"]),
        (
            {"status": "failed", "stop_reason": "authentication", "goal_file": "/g.toml"},
            ["goal resume k3f9", "goal run /g.toml"],
        ),
        (
            {"status": "blocked", "stop_reason": "stalled", "rounds": 4, "by_judge": True, "round_ended": True},
            ['goal resume k3f9 --note "..."', "goal diff k3f9", "goal show k3f9 --evidence"],
        ),
    ],
)
def test_the_commands_fit_the_ending(values: dict[str, object], found: list[str]) -> None:
    assert commands(**values) == found
    assert all(shlex.split(command)[0] == "goal" for command in found if ": " not in command and " in " not in command)


def test_only_lines_that_are_replaced_are_left_out_of_a_message() -> None:
    facts = list(message_lines("it waits\n\ngoal approve k3f9, or goal deny k3f9\ngoal doctor claude\n"))
    assert [(fact.text, fact.whole) for fact in facts] == [("it waits", False), ("goal doctor claude", True)]
