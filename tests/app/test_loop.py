"""`run_goal` and `arun_goal` over the built-in agent with recorded words: tools, validators and files are real."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

import goalrunner
from goalrunner import (
    LLM,
    Goal,
    GoalStatus,
    JudgeConfig,
    ValidationOutcome,
    arun_goal,
    chat_conversation,
    run_goal,
)
from goalrunner.app.external_agent import built_in_conversation
from goalrunner.core.errors import ConversationBusy, RecordError, UsageError
from goalrunner.core.events import Event
from goalrunner.core.goal_tables import Approvals
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.testing import ScriptedApprover, ScriptedConversation
from tests.support.clocks import deadlines
from tests.support.recordings import agent, judge, quote, recording, shell


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_the_first_steps_of_the_readme(tmp_path: Path, workspace: Path) -> None:
    def short(response: dict[str, Any], agent: Any) -> bool | dict[str, Any]:
        words = len(" ".join(block["text"] for block in response["content"]).split())
        return (
            True
            if words <= 5
            else {"passed": False, "feedback": f"{words} words; at most 5"}
        )

    model = recording(
        tmp_path / "r.jsonl",
        agent("one two three four five six"),
        agent("light bends in drops"),
    )
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "Explain rainbows.",
        validators=[short],
    )
    assert (outcome.status, outcome.stop_reason, outcome.passed) == (
        "complete",
        "satisfied",
        True,
    )
    assert [(a.attempt, a.passed, a.feedback) for a in outcome.attempts] == [
        (1, False, "validator short: 6 words; at most 5"),
        (2, True, None),
    ]


async def test_every_turn_lands_in_the_conversation_that_was_passed(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell("echo 1 > a")),
        agent("first"),
        agent("second"),
    )
    conversation = chat_conversation(model, workspace=workspace)
    outcome = await arun_goal(
        conversation, "two rounds", validators=[Counter(2)], workspace=workspace
    )
    assert outcome.iterations == 2
    assert [message["role"] for message in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert (workspace / "a").read_text() == "1\n"


def passes(response: object, agent: object) -> bool:
    """A check of the response that is always content; unlike a command it needs a round first."""
    return True


def fails(response: object, agent: object) -> bool:
    """A check that is never content."""
    return False


class Counter:
    """A callable validator that passes at its n-th call."""

    def __init__(self, passes_at: int) -> None:
        self._left = passes_at

    async def __call__(self, response: object, agent: object) -> ValidationOutcome:
        self._left -= 1
        return ValidationOutcome(passed=self._left <= 0, feedback="not yet")


async def test_a_judge_of_its_own_with_an_account_of_its_own(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent(
            "",
            shell("printf 'hel'; echo 'lo world'"),
            usage={"input_tokens": 100, "output_tokens": 10},
        ),
        agent("said it", usage={"input_tokens": 120, "output_tokens": 5}),
        judge(
            ("it says hello", [quote("o1", "hello world")]),
            usage={"input_tokens": 300, "output_tokens": 20},
        ),
    )
    judge_llm = LLM(model, account="judge")
    events: list[Event] = []
    outcome = await arun_goal(
        chat_conversation(model, workspace=workspace),
        "say hello",
        judge_llm,
        on_event=events.append,
    )
    assert outcome.passed
    assert outcome.usage["agent"].tokens == 235
    assert outcome.usage["judge"].tokens == judge_llm.usage.tokens == 320
    assert [event.type for event in events[:2]] == ["goal_created", "run_started"]
    assert events[-1].type == "run_ended"


@pytest.mark.parametrize(
    ("tools", "kept"),
    [({}, True), ({"tools": ["read_file"]}, True), ({"tools": []}, False)],
)
def test_a_response_is_written_with_tools_unless_the_goal_has_none(
    tmp_path: Path, workspace: Path, tools: dict[str, Any], kept: bool
) -> None:
    goal = Goal(objective="Summarize README.md.", deliverable="response", agent=tools)
    llm = LLM(recording(tmp_path / "r.jsonl", agent("x")))
    conversation = built_in_conversation(goal, llm, workspace, ProcessLauncher(), {})
    assert (conversation.toolbox is not None) is kept


def test_a_claim_is_no_evidence(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("all tests pass"),
        *[judge(("tests pass", [quote("o1", "all tests pass")]))] * 2,
    )
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "tests pass",
        model,
        max_iterations=1,
    )
    assert outcome.status is GoalStatus.CAPPED
    assert outcome.verdict is not None
    assert not outcome.verdict.complete


def test_stateless_retries_see_the_original_input_and_the_latest_feedback(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("a"), agent("b"), agent("c"))
    conversation = chat_conversation(model, workspace=workspace)
    prompts: list[str] = []

    def check(response: object, agent: Any) -> dict[str, Any] | bool:
        prompts.append(
            "|".join(m["content"] for m in agent.messages if m["role"] == "user")
        )
        return (
            True
            if len(prompts) == 3
            else {"passed": False, "feedback": f"feedback {len(prompts)}"}
        )

    outcome = run_goal(
        conversation,
        "quality bar",
        validators=[check],
        preserve_context=False,
        prompt="Explain rainbows.",
        resume_prompt=lambda feedback: f"Start over: {feedback}",
    )
    assert outcome.passed
    assert prompts == [
        "Explain rainbows.",
        "Explain rainbows.\n\nStart over: validator check: feedback 1",
        "Explain rainbows.\n\nStart over: validator check: feedback 2",
    ]


async def test_run_goal_inside_a_running_loop_names_its_async_twin(
    tmp_path: Path, workspace: Path
) -> None:
    conversation = chat_conversation(
        recording(tmp_path / "r.jsonl", agent("a")), workspace=workspace
    )
    with pytest.raises(UsageError, match=r"await arun_goal"):
        run_goal(conversation, "x", validators=[passes])


async def test_a_second_driver_is_refused_and_leaves_nothing(
    tmp_path: Path, workspace: Path, own_home: Path
) -> None:
    conversation = chat_conversation(
        recording(tmp_path / "r.jsonl", agent("a", delay=20)), workspace=workspace
    )
    first = asyncio.create_task(arun_goal(conversation, "x", validators=[passes]))
    await asyncio.sleep(0.2)
    runs = sorted((own_home / "runs").iterdir())
    with pytest.raises(ConversationBusy):
        await arun_goal(conversation, "y", validators=[passes])
    assert sorted((own_home / "runs").iterdir()) == runs
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


def test_without_validators_the_agents_own_model_judges_as_a_separate_instance(
    tmp_path: Path, workspace: Path
) -> None:
    replies = [
        agent("", shell("printf 'hel'; echo 'lo world'")),
        agent("said"),
        judge(("it says hello", [quote("o1", "hello world")])),
    ]
    for number, choice in enumerate(
        (None, "agent", JudgeConfig(system_prompt="be strict"))
    ):
        model = recording(tmp_path / f"{number}.jsonl", *replies)
        outcome = run_goal(
            chat_conversation(model, workspace=workspace), "say hello", choice
        )
        assert (outcome.passed, outcome.usage["judge"].calls) == (True, 1)


def test_a_judge_that_was_asked_for_never_disappears(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl", agent("done"), judge(("it works", []), missing="show it")
    )
    goal = Goal(objective="x", judge=JudgeConfig(minimum_score=0.9))
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        goal,
        validators=[passes],
        max_iterations=1,
    )
    assert (outcome.status, outcome.usage["judge"].calls) == ("capped", 1)
    with pytest.raises(UsageError, match="is not a judge"):
        run_goal(
            chat_conversation(model, workspace=workspace), "x", "", validators=[passes]
        )


@pytest.mark.parametrize(
    ("objective", "options", "said"),
    [
        ("", {}, "objective: .*is empty"),
        ("x", {"max_iterations": 0}, "max_iterations"),
        ("x", {"timeout": -1}, "timeout"),
        ("x", {"resume_prompt": "{nope}"}, "resume_prompt is not valid: 'nope'"),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    tmp_path: Path, workspace: Path, objective: str, options: dict[str, Any], said: str
) -> None:
    conversation = chat_conversation(
        recording(tmp_path / "r.jsonl", agent("a")), workspace=workspace
    )
    with pytest.raises(UsageError, match=said):
        run_goal(conversation, objective, validators=[passes], **options)


def test_a_validator_that_raises_is_red_and_the_run_goes_on(
    tmp_path: Path, workspace: Path
) -> None:
    class Broken:
        name, command, serial, hidden = "broken", "broken()", False, False

        async def validate(self, context: object) -> Any:
            raise ZeroDivisionError("by zero")

    model = recording(tmp_path / "r.jsonl", agent("a"))
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "x",
        validators=[Broken()],
        max_iterations=1,
    )
    assert (outcome.status, outcome.attempts[0].feedback) == (
        "capped",
        "validator broken: ZeroDivisionError: by zero",
    )


def test_a_watcher_that_fails_is_told_nothing_more_and_the_run_goes_on(
    tmp_path: Path, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def watch(event: Event) -> None:
        told.append(event.type)
        raise ZeroDivisionError

    model = recording(tmp_path / "r.jsonl", agent("a"))
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "x",
        validators=[passes],
        on_event=watch,
    )
    assert (outcome.passed, told) == (True, ["goal_created"])
    assert "Callback failed" in caplog.text


def test_a_log_that_goes_away_in_mid_run_still_leaves_an_outcome(
    tmp_path: Path, workspace: Path, own_home: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell(f"rm {own_home}/runs/*/transcript.jsonl")),
        agent("a"),
    )
    with pytest.raises(RecordError, match=r"transcript\.jsonl"):
        run_goal(
            chat_conversation(model, workspace=workspace), "x", validators=[passes]
        )
    (path,) = own_home.glob("runs/*/outcome.json")
    outcome = json.loads(path.read_text())
    assert (outcome["status"], outcome["stop_reason"]) == ("failed", "internal_error")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_keyboard_interrupt_of_a_validator_ends_the_run_like_a_ctrl_c(
    own_home: Path, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def check(response: object, agent: object) -> bool:
        raise KeyboardInterrupt

    async def async_check(response: object, agent: object) -> bool:
        raise KeyboardInterrupt

    async def slow(response: object, agent: object) -> bool:
        await asyncio.sleep(30)
        return True

    conversation = ScriptedConversation("a")
    with pytest.raises(KeyboardInterrupt):
        run_goal(
            conversation, "x", validators=[async_check if is_async else check, slow]
        )
    gc.collect()
    assert caplog.text == ""
    (path,) = own_home.glob("runs/*/outcome.json")
    outcome = json.loads(path.read_text())
    assert (outcome["status"], outcome["stop_reason"], outcome["signal"]) == (
        "cancelled",
        "interrupted",
        2,
    )


def test_a_judge_without_its_key_costs_no_round() -> None:
    conversation = ScriptedConversation("a")
    outcome = run_goal(
        conversation, "x", JudgeConfig("openai/gpt-5-mini", api_key_env="JUDGE_KEY")
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "failed",
        "authentication",
        0,
    )
    assert "JUDGE_KEY is not set" in outcome.message
    assert conversation.prompts == []


def test_a_goal_without_validator_and_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a validator nor a judge") as refusal:
        run_goal(ScriptedConversation("a"), "x")
    assert 'judge="openai/gpt-5-mini"' in refusal.value.hint
    assert "validators=" in refusal.value.hint


def test_the_run_leaves_its_records_and_nothing_in_the_workspace(
    tmp_path: Path, workspace: Path, own_home: Path
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("done"))
    outcome = run_goal(
        chat_conversation(model, workspace=workspace),
        "x",
        validators=[passes],
        workspace=workspace,
    )
    folder = Path(outcome.run_path)
    assert folder.parent == own_home / "runs"
    assert {path.name for path in folder.iterdir()} >= {
        "artifacts",
        "events.jsonl",
        "goal.toml",
        "outcome.json",
        "summary.json",
        "transcript.jsonl",
    }
    written = json.loads((folder / "outcome.json").read_text())
    assert (written["status"], written["iterations"], written["run_id"]) == (
        "complete",
        1,
        folder.name,
    )
    assert list(workspace.iterdir()) == []


def test_the_deadline_cuts_a_tool_and_the_outcome_is_written(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell("touch begun; sleep 60")))
    for seconds in deadlines():
        conversation = chat_conversation(model, workspace=workspace)
        outcome = run_goal(
            conversation, "x", validators=[fails], timeout=seconds, workspace=workspace
        )
        assert (outcome.status, outcome.stop_reason) == ("capped", "timeout")
        assert outcome.duration < 40
        if (workspace / "begun").exists():
            break
    assert (
        json.loads((Path(outcome.run_path) / "outcome.json").read_text())["stop_reason"]
        == "timeout"
    )
    assert "interrupted" in str(conversation.messages[-1]["content"])


def test_inf_lifts_the_cap(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl", *(agent(str(number)) for number in range(11))
    )
    conversation = chat_conversation(model, workspace=workspace)
    with pytest.warns(RuntimeWarning, match="this run has no limit"):
        outcome = run_goal(
            conversation, "x", validators=[Counter(11)], max_iterations=float("inf")
        )
    assert (outcome.passed, outcome.iterations) == (True, 11)


def test_every_public_name_is_there() -> None:
    for name in goalrunner.__all__:
        assert getattr(goalrunner, name) is not None
    assert set(goalrunner.__all__) <= set(dir(goalrunner))
    with pytest.raises(AttributeError):
        _ = goalrunner.nothing


async def test_a_program_decides_where_the_goal_wants_a_person(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl", agent("", shell("touch done")), agent("made it")
    )
    goal = Goal(
        objective="make done", approvals=Approvals(require=("shell", "complete"))
    )
    person = ScriptedApprover(True, "not like this")
    conversation = chat_conversation(model, workspace=workspace)
    outcome = await arun_goal(
        conversation, goal, validators=[passes], workspace=workspace, approver=person
    )
    assert [request.approval.kind for request in person.requests] == [
        "shell",
        "complete",
    ]
    assert person.requests[1].changed == ("done",)
    assert (
        "+++ b/done" in person.requests[1].preview
        or "done" in person.requests[1].preview
    )
    assert (outcome.status, outcome.stop_reason) == ("blocked", "denied")
    assert [(item.decision, item.by) for item in outcome.approvals] == [
        ("approved", "ada@desk"),
        ("denied", "ada@desk"),
    ]


async def test_without_a_program_that_decides_the_run_ends_waiting(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell("touch done")))
    goal = Goal(objective="make done", risk_class="critical")
    outcome = await arun_goal(
        chat_conversation(model, workspace=workspace),
        goal,
        validators=[passes],
        workspace=workspace,
    )
    assert (outcome.stop_reason, (workspace / "done").exists()) == (
        "approval_required",
        False,
    )
