"""The forms in which the library takes goals, validators and judges, and what callers see while a run goes on."""

from __future__ import annotations

import json
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import goalrunner
from goalrunner import (
    LLM,
    Goal,
    GoalContinue,
    GoalController,
    GoalDone,
    JudgeConfig,
    ValidationOutcome,
    arun_goal,
    chat_conversation,
    json_schema,
    judge_goal,
    read_attempts,
    read_events,
    read_state,
    run_goal,
)
from goalrunner.core.errors import UsageError
from tests.app.test_callers_mistakes import Agent, says
from tests.support.recordings import agent, judge, quote, recording, shell

PASSED = judge(("short", [quote("o1", "a short answer")]))["text"]
REFUSED = judge(("short", []), missing="make it shorter")["text"]


class Judge:
    """A judge of the calling program."""

    def __init__(self, *answers: str) -> None:
        self.asked: list[Any] = []
        self._answers = list(answers)

    def complete(self, messages: Any) -> str:
        self.asked.append(messages)
        return self._answers.pop(0)


def test_a_text_objective_without_a_workspace_judges_the_response() -> None:
    outcome = run_goal(Agent("a short answer"), "Be short.", Judge(PASSED))
    assert outcome.status == "complete"
    assert [row.source for row in outcome.evidence] == ["response"]


def test_a_goal_has_callables_among_its_validators(tmp_path: Path) -> None:
    def short(response: dict[str, Any]) -> bool:
        return len(str(response["content"])) < 20

    goal = Goal(
        objective="Be short.",
        validators=[short, "test -d ."],
        workspace={"path": str(tmp_path)},
        max_iterations=2,
    )
    outcome = run_goal(Agent("a very long answer indeed", "short"), goal)
    state = read_state(outcome)
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert sorted(state.plan.validators) == ["short", "test"]
    with pytest.raises(UsageError, match="cannot call the validators"):
        goalrunner.run_batch([goal])


def test_a_text_objective_with_a_workspace_judges_the_workspace(tmp_path: Path) -> None:
    for outcome in (
        run_goal(
            Agent("a short answer"),
            "Be short.",
            Judge(PASSED, PASSED),
            workspace=tmp_path,
            max_iterations=1,
        ),
        run_goal(
            Agent("a short answer"),
            Goal(objective="Be short."),
            Judge(PASSED, PASSED),
            max_iterations=1,
        ),
    ):
        assert outcome.status == "capped"
    model = recording(tmp_path / "r.jsonl", agent("a short answer"))
    conversation = chat_conversation(model, workspace=tmp_path)
    assert (
        run_goal(
            conversation, "Be short.", Judge(PASSED, PASSED), max_iterations=1
        ).status
        == "capped"
    )


def test_a_validator_that_returned_false_gives_no_feedback() -> None:
    told: list[str | None] = []

    def template(feedback: str | None) -> str:
        told.append(feedback)
        return "again"

    checks = [lambda response: False]
    outcome = run_goal(
        Agent("a", "b"),
        "x",
        validators=checks,
        resume_prompt=template,
        max_iterations=2,
    )
    assert [attempt.feedback for attempt in outcome.attempts] == [None, None]
    assert told == [None]
    assert outcome.verdict
    assert outcome.verdict.missing == "validator validator: not passed"


def test_without_a_template_the_agent_reads_that_there_were_no_details() -> None:
    own = Agent("a", "b")
    run_goal(own, "x", validators=[lambda response: False], max_iterations=2)
    assert "the check did not say what is missing" in own.prompts[1]


def test_feedback_beside_a_false_is_kept() -> None:
    checks = [
        lambda response: False,
        lambda response: {"passed": False, "feedback": "too long"},
    ]
    outcome = run_goal(Agent("a"), "x", validators=checks, max_iterations=1)
    assert "too long" in str(outcome.attempts[0].feedback)


@dataclass
class Verdict:
    passed: bool
    feedback: str | None = None


@pytest.mark.parametrize(
    "result",
    [
        Verdict(False, "too long"),
        types.SimpleNamespace(passed=False, feedback="too long"),
        ValidationOutcome(False, "too long"),
        {"passed": False, "feedback": "too long"},
    ],
)
async def test_any_object_with_passed_and_feedback_counts(result: Any) -> None:
    async def check(response: Any, agent: Any) -> Any:
        return result

    outcome = await arun_goal(Agent("a"), "x", validators=check, max_iterations=1)
    assert outcome.attempts[0].feedback == "validator check: too long"


def test_a_validator_takes_the_response_and_the_agent_or_less() -> None:
    own = Agent("a")
    seen: list[Any] = []

    def both(response: Any, agent: Any) -> bool:
        seen.append((response["content"], agent))
        return True

    def one(response: Any) -> bool:
        seen.append(response["role"])
        return True

    def none() -> bool:
        seen.append("none")
        return True

    assert run_goal(own, "x", validators=[both, one, none]).passed
    assert len(seen) == 3
    assert ([{"text": "a"}], own) in seen


def test_run_goal_takes_a_duration_in_words() -> None:
    assert (
        run_goal(Agent("good"), "x", validators=[says("good")], timeout="30m").limits[
            "timeout"
        ]
        == 1800.0
    )


def forms(given: Judge) -> list[Any]:
    async def afunction(messages: Any) -> str:
        return given.complete(messages)

    return [
        given,
        given.complete,
        afunction,
        JudgeConfig(model=given),
        JudgeConfig(given.complete),
    ]


@pytest.mark.parametrize("form", range(5))
@pytest.mark.parametrize("keyword", ["judge", "judge_llm"])
def test_a_judge_may_be_a_function_or_an_object_with_complete(
    form: int, keyword: str
) -> None:
    given = Judge(REFUSED, PASSED.replace("o1", "o2"))
    outcome = run_goal(
        Agent("a long answer", "a short answer"),
        "Be short.",
        **{keyword: forms(given)[form]},
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert outcome.attempts[0].feedback == "make it shorter"
    used = outcome.usage["judge"]
    assert (used.input_tokens, used.cost_usd, used.calls) == (None, None, 2)
    assert outcome.models["judge"].startswith("custom/")


def test_a_judge_config_takes_a_model_itself(tmp_path: Path) -> None:
    model = recording(tmp_path / "r.jsonl", {"account": "judge", "text": PASSED})
    config = JudgeConfig(model=LLM(model, account="judge"), system_prompt="Judge.")
    outcome = run_goal(Agent("a short answer"), "Be short.", judge=config)
    assert outcome.status == "complete"
    assert outcome.models["judge"] == model


def test_a_judge_in_a_goal_may_be_an_object_and_has_its_own_prompt() -> None:
    given = Judge(PASSED)
    goal = Goal(
        objective="Be short.",
        deliverable="response",
        judge=JudgeConfig(model=given, system_prompt="Be strict."),
    )
    assert run_goal(Agent("a short answer"), goal).status == "complete"
    assert given.asked[0][0]["content"].startswith("Be strict.")


def test_judge_goal_takes_the_same_judges() -> None:
    chat = [{"role": "assistant", "content": "a short answer"}]
    goal = Goal(objective="Be short.", deliverable="response")
    for given in (
        Judge(PASSED),
        Judge(PASSED).complete,
        JudgeConfig(model=Judge(PASSED)),
    ):
        assert judge_goal(given, goal, chat).complete


@pytest.mark.parametrize(
    ("answer", "said"),
    [(5, "returned an int"), (ValueError("no key"), "ValueError: no key")],
)
def test_a_judge_that_fails_ends_the_run_and_the_verdict_says_so(
    answer: Any, said: str
) -> None:
    def broken(messages: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    outcome = run_goal(Agent("a short answer"), "Be short.", judge=broken)
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "failed",
        "judge_failed",
        1,
    )
    assert outcome.verdict
    assert (outcome.verdict.complete, outcome.verdict.source) == (False, "fallback")
    assert said in outcome.verdict.missing
    written = json.loads((Path(outcome.run_path) / "outcome.json").read_text())
    assert written["verdict"]["missing"] == outcome.verdict.missing


def test_a_verdict_that_says_nothing_still_says_what_is_missing() -> None:
    nothing = json.dumps(
        {"criteria": [], "score": 0.2, "complete": False, "missing": ""}
    )
    unreadable = run_goal(Agent("a"), "Be short.", Judge(*["?"] * 9), max_iterations=1)
    silent = run_goal(Agent("a"), "Be short.", Judge(*[nothing] * 3), max_iterations=1)
    for outcome in (unreadable, silent):
        assert outcome.verdict
        assert outcome.verdict.missing


def test_a_step_of_the_controller_has_the_verdict_and_the_count() -> None:
    controller = GoalController(
        "Be short.", validators=[says("good")], max_iterations=3
    )
    assert (controller.objective, controller.max_iterations, controller.iteration) == (
        "Be short.",
        3,
        0,
    )
    controller.start()
    step = controller.on_run_finished([{"role": "assistant", "content": "bad"}])
    assert isinstance(step, GoalContinue)
    assert step.verdict
    assert (step.verdict.complete, step.verdict.missing) == (
        False,
        "validator check: not passed",
    )
    assert controller.iteration == 1
    done = controller.on_run_finished([{"role": "assistant", "content": "good"}])
    assert isinstance(done, GoalDone)
    assert controller.iteration == 2


async def test_the_controller_in_an_event_loop() -> None:
    controller = GoalController("Be short.", validators=[says("good")])
    first = await controller.astart()
    chat = [{"role": "user", "content": first}, {"role": "assistant", "content": "bad"}]
    step = await controller.aon_run_finished(chat)
    assert isinstance(step, GoalContinue)
    with pytest.raises(UsageError, match="aon_run_finished"):
        controller.on_run_finished(chat)
    chat += [
        {"role": "user", "content": step.followup},
        {"role": "assistant", "content": "good"},
    ]
    done = await controller.aon_run_finished(chat)
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 2)


@pytest.mark.slow
def test_every_attempt_of_a_long_run_can_be_read() -> None:
    agent = Agent(*[f"answer {number}" for number in range(130)])
    outcome = run_goal(
        agent, "x", validators=[lambda response: False], max_iterations=130
    )
    assert len(outcome.attempts) == 100
    found = list(read_attempts(outcome))
    assert [attempt.attempt for attempt in found] == list(range(1, 131))
    assert tuple(found[-100:]) == outcome.attempts


def test_a_run_can_be_read_by_its_outcome_folder_or_id() -> None:
    outcome = run_goal(Agent("good"), "x", validators=[says("good")])
    for run in (outcome, outcome.run_path, Path(outcome.run_path), outcome.run_id):
        assert read_state(run).status == "complete"
        assert [event.type for event in read_events(run)][-1] == "run_ended"
    with pytest.raises(UsageError):
        read_state("absent")


async def test_text_and_tool_progress_reach_the_caller(tmp_path: Path) -> None:
    pieces: list[str] = []
    seen: list[str] = []
    model = recording(
        tmp_path / "r.jsonl", agent("", shell("echo hello")), agent("It says hello.")
    )

    def on_event(event: goalrunner.Event) -> None:
        if event.type in ("tool_called", "tool_result_recorded"):
            seen.append(event.summary)

    outcome = await arun_goal(
        chat_conversation(model, workspace=tmp_path),
        "x",
        validators=[says("hello")],
        on_text=pieces.append,
        on_event=on_event,
    )
    assert outcome.passed
    assert "".join(pieces) == "It says hello."
    assert seen == ["echo hello", "exit 0"]


def test_the_names_for_callers_are_exported() -> None:
    for name in (
        "RoundReply",
        "ToolResult",
        "Conversation",
        "RunState",
        "Event",
        "Budget",
        "JUDGE_OUTCOME_SCHEMA",
    ):
        assert name in goalrunner.__all__
        assert getattr(goalrunner, name) is not None
    assert goalrunner.JUDGE_OUTCOME_SCHEMA["properties"].keys() >= {
        "complete",
        "missing",
    }


@pytest.mark.parametrize("name", ["goal", "outcome", "state", "events"])
def test_there_is_a_json_schema_of_each(name: Any) -> None:
    assert json_schema(name)["title"] == f"goal: {name}"
    with pytest.raises(UsageError, match="known: goal, outcome, state, events"):
        json_schema("other")
