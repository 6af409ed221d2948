"""What the three documents ask of every entry point of the library: limits, evidence, labels, resuming and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalContinue,
    GoalController,
    GoalDone,
    JudgeConfig,
    Recorder,
    ToolResult,
    Usage,
    judge_goal,
    read_attempts,
    resume,
    run_goal,
)
from goalrunner.core import events
from goalrunner.core.errors import UsageError
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.event_log import EventLog
from goalrunner.records.files import SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.testing import ScriptedConversation
from tests.support.clocks import leaping
from tests.support.library_runs import (
    Command,
    Judge,
    chatting,
    misses,
    proves,
    ran,
    returns,
    said,
    says,
    scripted_llm,
    shell_turn,
)
from tests.support.recordings import agent, judge, quote, shell


class Echo:
    """An agent that does not report what it used; what it records itself is chosen."""

    def __init__(self, *answers: str, messages: bool = False, results: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self._answers = list(answers)
        self._records = messages, results

    async def send(self, prompt: str, recorder: Recorder) -> str:
        messages, results = self._records
        if messages:
            recorder.message({"role": "user", "content": prompt})
        if results:
            await recorder.tool_result(
                ToolResult("c1", "shell", "pytest", ("exit 0",), b"3 passed", reported_by="echo")
            )
        return self._answers.pop(0)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"messages": True}, id="messages"),
        pytest.param({"results": True}, id="tool results"),
    ],
)
def test_x01_a_budget_needs_to_know_what_an_agent_of_ones_own_used(records: dict[str, bool]) -> None:
    goal = Goal(objective="x", budget={"tokens": 100})
    outcome = run_goal(Echo("bad", "good", **records), goal, validators=says("good"))
    assert (outcome.status, outcome.stop_reason) == ("capped", "budget_exhausted")
    assert "unknown" in outcome.message
    controller = GoalController(goal, validators=says("good"))
    controller.start()
    with pytest.raises(UsageError, match="was not given the agent's usage"):
        controller.on_run_finished([said("bad")])
    done = controller.on_run_finished([said("bad")], usage=Usage(input_tokens=90, output_tokens=20))
    assert isinstance(done, GoalDone)
    assert (done.outcome.stop_reason, done.outcome.usage["agent"].input_tokens) == ("budget_exhausted", 90)


def test_x02_without_context_the_followup_has_the_original_input() -> None:
    controller = GoalController("Be good.", validators=says("good"), preserve_context=False, prompt="ORIGINAL")
    assert controller.start() == "ORIGINAL"
    step = controller.on_run_finished([said("bad")])
    assert isinstance(step, GoalContinue)
    assert step.followup.startswith("ORIGINAL\n")
    assert "not complete yet" in step.followup
    controller.close()


def test_x03_the_time_of_the_callers_agent_counts_for_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    leap = leaping(monkeypatch)
    controller = GoalController("Be good.", validators=says("good"), timeout=60)
    controller.start()
    leap(60)
    done = controller.on_run_finished([said("good")])
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.stop_reason) == ("capped", "timeout")


GREEN = Goal(objective="a.txt says GREEN.")


def test_x04_a_report_before_an_edit_of_the_same_round_is_out_of_date(here: Path) -> None:
    (here / "a.txt").write_text("GREEN\n")
    controller = GoalController(GREEN, Judge(proves("o1", "GREEN")), workspace=here)
    first = controller.start()
    chat = [{"role": "user", "content": first}, *shell_turn("c1", "cat a.txt", "GREEN")]
    (here / "a.txt").write_text("RED\n")
    step = controller.on_run_finished([*chat, *shell_turn("c2", "sed -i s/GREEN/RED/ a.txt", ""), said("It is green.")])
    assert isinstance(step, GoalContinue)
    assert "o1 is stale" in step.followup
    controller.close()


def test_x05_a_report_of_an_earlier_round_is_out_of_date_once_the_workspace_changed(here: Path) -> None:
    (here / "a.txt").write_text("GREEN\n")
    judge = Judge(misses("Look again."), proves("o1", "GREEN"), proves("o2", "GREEN and more"))
    controller = GoalController(GREEN, judge, workspace=here)
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    chat += [*shell_turn("c1", "cat a.txt", "GREEN"), said("It is.")]
    controller.on_run_finished(chat)
    (here / "a.txt").write_text("GREEN and more\n")
    step = controller.on_run_finished([*chat, said("It still is.")])
    assert isinstance(step, GoalContinue)
    assert "o1 is stale" in step.followup
    done = controller.on_run_finished([*chat, said("It still is."), *shell_turn("c2", "cat a.txt", "GREEN and more")])
    assert isinstance(done, GoalDone)
    assert done.outcome.status == "complete"


def test_x06_a_run_that_judges_itself_is_labelled(tmp_path: Path) -> None:
    goal = Goal(objective="Be good.", deliverable="response")
    replies = (agent("good"), judge(("it holds", [quote("o1", "good")])))
    own = run_goal(chatting(tmp_path, *replies), goal)
    named = run_goal(chatting(tmp_path, *replies), goal, "agent")
    other = run_goal(chatting(tmp_path, *replies), goal, Judge(proves("o1", "good")))
    assert [outcome.status for outcome in (own, named, other)] == ["complete"] * 3
    assert [outcome.labels for outcome in (own, named, other)] == [("self-judged",), ("self-judged",), ()]
    assert own.models["agent"].startswith("scripted/")


def test_x07_checks_run_in_the_workspace_of_the_conversation(tmp_path: Path, here: Path) -> None:
    (here / "done").touch()
    outcome = run_goal(chatting(tmp_path, agent("a")), "x", validators="test -e done", max_iterations=1)
    assert (outcome.status, outcome.workspace) == ("capped", str(tmp_path))
    conversation = chatting(tmp_path, agent("", shell("touch done")), agent("b"))
    assert run_goal(conversation, "x", validators="test -e done").passed
    with pytest.raises(UsageError, match="the conversation works in"):
        run_goal(conversation, "x", validators="test -e done", workspace=here)


def test_x08_a_run_of_the_library_is_resumed_with_what_the_program_passes_again() -> None:
    first = run_goal(ScriptedConversation("bad"), "Be good.", validators=says("good"), max_iterations=1)
    with pytest.raises(UsageError, match="has the callable validators check"):
        resume(first.run_path, ScriptedConversation("good"), max_iterations=2)
    assert resume(first.run_path, ScriptedConversation("good"), validators=says("good"), max_iterations=2).passed
    controller = GoalController("Be good.", validators=says("good"))
    controller.start()
    controller.on_run_finished([said("bad")])
    controller.close()
    again = GoalController.resume(controller.run_path, validators=says("good"))
    again.start()
    done = again.on_run_finished([said("bad"), said("good")])
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 2)


def test_x09_a_keyword_overrides_the_field_of_the_goal() -> None:
    goal = Goal(objective="x", max_iterations=3, timeout=60)
    options: list[dict[str, Any]] = [{}, {"max_iterations": 10}, {"max_iterations": None}]
    outcomes = [run_goal(ScriptedConversation("good"), goal, validators=says("good"), **one) for one in options]
    assert [outcome.limits["max_iterations"] for outcome in outcomes] == [3, 10, None]
    assert {outcome.limits["timeout"] for outcome in outcomes} == {60.0}


@pytest.mark.parametrize(("least", "status"), [(0.9, "capped"), (0.7, "complete")])
def test_x10_a_verdict_below_the_least_score_is_not_complete(least: float, status: str) -> None:
    answer = json.dumps({**json.loads(proves("o1", "3 passed")), "score": 0.8})
    config = JudgeConfig(model=Judge(answer, answer), minimum_score=least)
    outcome = run_goal(ScriptedConversation(ran("3 passed")), Goal(objective="x", judge=config), max_iterations=1)
    assert outcome.status == status
    if outcome.verdict is not None and status == "capped":
        assert outcome.verdict.missing


def test_x11_goal_status_takes_the_goal_of_a_file(goal_command: Command, here: Path) -> None:
    chat = [*shell_turn("c1", "pytest", "3 passed in 0.1s"), said("They pass.")]
    (here / "chat.json").write_text(json.dumps(chat))
    (here / "goal.toml").write_text(
        'objective = "The tests pass."\nsuccess_criteria = ["they pass"]\njudge = "scripted/judge.jsonl"\n'
    )
    scripted_llm(here / "judge.jsonl", proves("o1", "3 passed", "they pass"))
    shown = goal_command("status", "chat.json", "--goal", "goal.toml")
    assert shown.code == 0
    assert shown.out.startswith("verdict    complete · 1.00\ncriteria   ✓ they pass\n")
    scripted_llm(here / "judge.jsonl", *[proves("o1", "3 passed", "something else")] * 3)
    assert goal_command("status", "chat.json", "--goal", "goal.toml").code != 0


STRANDS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"text": "Run the tests."}]},
    {
        "role": "assistant",
        "content": [
            {"text": "I run them."},
            {"toolUse": {"toolUseId": "t1", "name": "shell", "input": {"command": "pytest -q"}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"text": "3 passed in 0.1s"}]}}
        ],
    },
    {"role": "assistant", "content": [{"text": "All 3 tests pass."}]},
]


def test_x15_messages_of_strands_are_judged_as_they_are() -> None:
    assert judge_goal(Judge(proves("o1", "3 passed")), Goal(objective="x"), STRANDS).complete
    claimed = judge_goal(Judge(*[proves("o1", "All 3 tests pass")] * 2), Goal(objective="x"), STRANDS)
    assert (claimed.complete, bool(claimed.missing)) == (False, True)
    with pytest.raises(UsageError, match="unknown kind"):
        judge_goal(Judge(), Goal(objective="x"), [{"role": "user", "content": [{"toolSomething": {}}]}])


def test_x16_a_red_validator_costs_no_call_of_the_judge() -> None:
    own = Judge(proves("o2", "3 passed"))
    conversation = ScriptedConversation(ran("3 passed"), ran("3 passed"))
    outcome = run_goal(conversation, Goal(objective="x"), own, validators=returns(False, False), max_iterations=2)
    assert (outcome.status, own.asked) == ("capped", [])
    conversation = ScriptedConversation(ran("3 passed"))
    own = Judge(proves("o1", "3 passed"))
    assert run_goal(conversation, Goal(objective="x"), own, validators=returns(True)).passed
    assert len(own.asked) == 1


def test_x17_all_attempts_of_a_long_run_can_be_read(tmp_path: Path) -> None:
    outcome = run_goal(ScriptedConversation("bad"), "x", validators=says("good"), max_iterations=1)
    folder = Path(outcome.run_path)
    red = (ValidatorResult(name="check", passed=False),)
    (folder / "events.jsonl").unlink()
    record = events.GoalRecord(goal_id="g", run_id=folder.name, description="x", created_at="t", updated_at="t")
    plan = events.RunRules(validators=("check",))
    with EventLog(folder / "events.jsonl", SystemClock(), Redactor({})) as log:
        log.append(events.GoalCreated(goal=record, plan=plan))
        for number in range(1, 131):
            log.append(events.RoundStarted(round=number, prompt="retry"))
            log.append(events.RoundFinished(round=number))
            log.append(events.ValidatorsFinished(round=number, results=red))
    assert [attempt.attempt for attempt in read_attempts(folder)] == list(range(1, 131))
