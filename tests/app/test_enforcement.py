"""What `GoalController` enforces on an agent that the caller drives, and what it refuses because it cannot."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalContinue,
    GoalController,
    GoalDone,
    GoalOutcome,
    Usage,
    chat_conversation,
    run_goal,
)
from goalrunner.app.controller import reported_usage
from goalrunner.core.errors import UsageError
from goalrunner.testing import ScriptedApprover, ScriptedConversation
from tests.app.test_controller import tool_turn
from tests.support.clocks import leaping
from tests.support.recordings import agent, judge, quote, recording

SAID = [{"role": "assistant", "content": "done"}]


def goal(**keys: Any) -> Goal:
    return Goal.model_validate({"objective": "x", **keys})


def ended(step: GoalContinue | GoalDone) -> GoalOutcome:
    assert isinstance(step, GoalDone)
    return step.outcome


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"approvals": {"require": ["shell"]}},
            'require = ["shell"] cannot be enforced',
        ),
        (
            {"approvals": {"require": ["complete", "write"]}},
            'require = ["write"] cannot be enforced',
        ),
        ({"approvals": {"commands": ["git push*"]}}, "commands cannot be enforced"),
        ({"risk_class": "critical"}, 'risk_class = "critical" cannot be enforced'),
        ({"workspace": {"sandbox": "bwrap"}}, 'sandbox = "bwrap" cannot be enforced'),
    ],
)
def test_what_a_controller_cannot_enforce_is_refused_at_construction(
    own_home: Path, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        GoalController(goal(**keys), validators="true")
    assert said in refusal.value.message
    assert refusal.value.hint
    assert list(own_home.iterdir()) == []


def test_reports_alone_can_never_prove_what_only_the_runner_may() -> None:
    strict = goal(judge={"model": "scripted/none", "require": "runner"})
    with pytest.raises(UsageError, match=r'require = "runner" needs a validator'):
        GoalController(strict)
    for checks in ("true", [lambda response, agent: True]):
        GoalController(strict, validators=checks)
    GoalController(strict.model_copy(update={"deliverable": "response"}))


def test_a_sandbox_of_a_conversation_that_exists_is_refused_for_run_goal_too(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r'sandbox = "bwrap" cannot be enforced'):
        run_goal(
            ScriptedConversation("a"),
            goal(workspace={"sandbox": "bwrap"}),
            validators="true",
        )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"approvals": {"require": ["shell"]}},
            'require = ["shell"] cannot be enforced',
        ),
        ({"approvals": {"commands": ["git push*"]}}, "commands cannot be enforced"),
        ({"risk_class": "critical"}, 'risk_class = "critical" cannot be enforced'),
    ],
)
def test_approvals_are_refused_for_a_conversation_that_does_not_say_that_it_asks(
    own_home: Path, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(
        UsageError,
        match=re.escape(
            f"ScriptedConversation does not set supports_approvals, so {said}"
        ),
    ) as refusal:
        run_goal(ScriptedConversation("a"), goal(**keys), validators="true")
    assert "supports_approvals = True" in refusal.value.hint
    assert list(own_home.iterdir()) == []


def test_a_conversation_that_says_that_it_asks_is_driven(tmp_path: Path) -> None:
    class Asking(ScriptedConversation):
        supports_approvals = True

    keys = {"approvals": {"require": ["shell"]}, "workspace": {"path": str(tmp_path)}}
    assert run_goal(Asking("a"), goal(**keys), validators="true").passed


@pytest.mark.parametrize(
    "keys", [{"approvals": {"require": ["complete"]}}, {"risk_class": "high"}]
)
def test_a_completion_waits_for_a_person(keys: dict[str, Any]) -> None:
    for person, how in (
        (ScriptedApprover(True), "satisfied"),
        (ScriptedApprover(False), "denied"),
    ):
        controller = GoalController(goal(**keys), validators="true", approver=person)
        controller.start()
        assert ended(controller.on_run_finished(SAID)).stop_reason == how
        assert [request.approval.kind for request in person.requests] == ["complete"]


def test_the_deadline_counts_while_the_callers_agent_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def check(response: Any, agent: Any) -> bool:
        calls.append("called")
        return True

    leap = leaping(monkeypatch)
    controller = GoalController("x", validators=[check], timeout=60)
    controller.start()
    leap(60)
    outcome = ended(controller.on_run_finished(SAID))
    assert (outcome.status.value, outcome.stop_reason, outcome.iterations) == (
        "capped",
        "timeout",
        0,
    )
    assert (calls, outcome.duration >= 60) == ([], True)


def test_what_the_agent_used_counts_against_the_budget() -> None:
    events: list[Any] = []
    controller = GoalController(
        goal(budget={"tokens": 1000}),
        validators=[lambda response, agent: False],
        on_event=events.append,
    )
    controller.start()
    assert isinstance(
        controller.on_run_finished(
            SAID, usage=Usage(input_tokens=500, output_tokens=100)
        ),
        GoalContinue,
    )
    outcome = ended(
        controller.on_run_finished(
            SAID, usage=Usage(input_tokens=500, output_tokens=100)
        )
    )
    assert (outcome.status.value, outcome.stop_reason) == ("capped", "budget_exhausted")
    assert outcome.message.startswith("1,200 of 1,000 tokens are spent")
    assert (outcome.usage["agent"].calls, outcome.usage["agent"].cost_usd) == (2, None)


@pytest.mark.parametrize(
    ("budget", "usage", "said"),
    [
        ({"tokens": 9}, None, "the goal has a budget of tokens"),
        ({"tokens": 9}, Usage(cost_usd=0.1), "the goal has a budget of tokens"),
        ({"cost_usd": 9}, Usage(input_tokens=1), "the goal has a budget of cost_usd"),
        ({}, {"input_tokens": 1}, "usage must be a Usage, not a dict"),
    ],
)
def test_a_budget_without_the_usage_that_it_needs_is_refused_and_the_round_can_be_given_again(
    budget: dict[str, Any], usage: Any, said: str
) -> None:
    controller = GoalController(goal(budget=budget), validators="true")
    controller.start()
    with pytest.raises(UsageError, match=said):
        controller.on_run_finished(SAID, usage=usage)
    assert ended(
        controller.on_run_finished(
            SAID, usage=Usage(input_tokens=1, output_tokens=1, cost_usd=0.1)
        )
    ).passed


def test_a_usage_that_is_said_to_be_unknown_ends_the_run_unless_the_goal_allows_it() -> (
    None
):
    for allowed, passes in (([], False), (["tokens"], True)):
        budget = {"tokens": 1000, "allow_unenforced": allowed}
        answers = iter([False, True])
        controller = GoalController(
            goal(budget=budget),
            validators=[lambda response, agent: next(answers)],  # noqa: B023
        )
        controller.start()
        step = controller.on_run_finished(SAID, usage=Usage.unknown())
        if not passes:
            assert ended(step).stop_reason == "budget_exhausted"
            assert "the calling program" in ended(step).message
        else:
            assert ended(controller.on_run_finished(SAID)).passed


def test_what_a_usage_leaves_out_is_unknown() -> None:
    assert reported_usage(None) == Usage.unknown()
    dollars = reported_usage(Usage(cost_usd=0.1))
    assert (
        dollars.input_tokens,
        dollars.cost_usd,
        dollars.calls,
        dollars.uncounted_calls,
    ) == (None, 0.1, 1, 1)
    tokens = reported_usage(Usage(input_tokens=7))
    assert (tokens.tokens, tokens.cost_usd, tokens.calls, tokens.uncounted_calls) == (
        7,
        None,
        1,
        0,
    )
    whole = Usage(input_tokens=7, output_tokens=1, cost_usd=0.1, calls=3)
    assert reported_usage(whole) == whole


def test_a_controller_takes_a_baseline_and_its_agent_works_all_the_same(
    tmp_path: Path,
) -> None:
    events: list[Any] = []
    controller = GoalController("x", validators="true", on_event=events.append)
    controller.start()
    assert [event.standing for event in events if event.type == "baseline_taken"] == [
        "green"
    ]
    outcome = ended(controller.on_run_finished(SAID))
    assert (outcome.passed, outcome.iterations) == (True, 1)
    with pytest.raises(
        UsageError, match=r"the run ended before it began: .*no-such-program"
    ):
        GoalController("x", validators="no-such-program --check").start()


def test_a_check_of_the_response_is_not_called_before_there_is_one(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    def check(response: Any, agent: Any) -> bool:
        said.append(response["content"][0]["text"])
        return True

    model = recording(tmp_path / "r.jsonl", agent("the answer"))
    outcome = run_goal(chat_conversation(model), "x", validators=["true", check])
    assert (outcome.passed, outcome.iterations, said) == (True, 1, ["the answer"])


def test_a_proof_that_rests_on_what_the_caller_reports_says_so(tmp_path: Path) -> None:
    for validators, labels in (
        ((), ("rests on reports",)),
        ("true", ("nothing changed",)),
    ):
        model = recording(
            tmp_path / "r.jsonl",
            judge(("x", [quote("o1" if not validators else "o2", "3 passed")])),
        )
        controller = GoalController("x", model, validators=validators)
        controller.start()
        outcome = ended(
            controller.on_run_finished([*tool_turn("c1", "pytest", "3 passed"), *SAID])
        )
        assert (outcome.passed, outcome.labels) == (True, labels)
