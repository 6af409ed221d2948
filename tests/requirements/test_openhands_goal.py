"""What the documentation of OpenHands' goal feature says of `run_goal` and its result, for runs of the library."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    LLM,
    Goal,
    GoalController,
    GoalOutcome,
    GoalVerdict,
    Recorder,
    RoundReply,
    ToolResult,
    chat_conversation,
    judge_goal,
    read_chat,
    run_goal,
)
from goalrunner.app.run_options import RunKeywords
from goalrunner.core.errors import UsageError
from goalrunner.testing import ScriptedConversation, ScriptedRound
from tests.support.library_runs import Command, Judge, misses, proves, ran, roles, said, says, scripted_llm
from tests.support.recordings import agent, recording, shell

PASS = Goal(objective="The tests pass.")


def test_h01_run_goal_has_the_names_and_the_order_of_openhands(tmp_path: Path) -> None:
    assert list(inspect.signature(run_goal).parameters)[:3] == ["conversation", "objective", "judge_llm"]
    assert "max_iterations" in RunKeywords.__annotations__
    llm = scripted_llm(tmp_path / "judge.jsonl", proves("o1", "3 passed"))
    outcome = run_goal(conversation=ScriptedConversation(ran("3 passed")), objective=PASS, judge_llm=llm)
    assert (outcome.status, outcome.limits["max_iterations"]) == ("complete", 10)
    assert outcome.verdict is not None
    assert outcome.verdict.score == 1.0
    by_position = run_goal(ScriptedConversation("a"), PASS, Judge(misses("x")), max_iterations=1)
    assert by_position.status == "capped"


def test_h02_what_is_missing_is_the_next_user_message_until_it_is_complete() -> None:
    conversation = ScriptedConversation("I made them pass.", ran("1 failed", exit_code=1), ran("3 passed"))
    judge = Judge(misses("Run the tests."), misses("One fails."), proves("o2", "3 passed"))
    outcome = run_goal(conversation, PASS, judge)
    assert (outcome.status, outcome.iterations, len(judge.asked)) == ("complete", 3, 3)
    assert "Run the tests." in conversation.prompts[1]
    assert "One fails." in conversation.prompts[2]


def test_h03_the_cap_ends_the_run_with_the_last_verdict() -> None:
    outcome = run_goal(ScriptedConversation("a", "b"), PASS, Judge(misses("first"), misses("second")), max_iterations=2)
    assert (outcome.status, outcome.iterations) == ("capped", 2)
    assert outcome.verdict is not None
    assert (outcome.verdict.complete, outcome.verdict.missing) == (False, "second")


def test_h04_a_claim_of_the_agent_proves_nothing_even_if_the_judge_believes_it() -> None:
    claim = "All tests pass: 3 passed."
    outcome = run_goal(ScriptedConversation(claim), PASS, Judge(*[proves("o1", "3 passed")] * 2), max_iterations=1)
    assert (outcome.status, outcome.attempts[0].passed) == ("capped", False)
    shown = ScriptedConversation(ran("3 passed", claim))
    assert run_goal(shown, PASS, Judge(proves("o1", "3 passed")), max_iterations=1).passed


def test_h05_a_status_is_equal_to_its_text() -> None:
    complete = run_goal(ScriptedConversation("good"), "x", validators=says("good"))
    capped = run_goal(ScriptedConversation("bad"), "x", validators=says("good"), max_iterations=1)
    assert (complete.status, capped.status) == ("complete", "capped")
    assert (str(complete.status), f"{capped.status}") == ("complete", "capped")
    assert json.loads(capped.model_dump_json())["status"] == "capped"


def test_h06_iterations_are_the_rounds_that_were_checked() -> None:
    assert run_goal(ScriptedConversation("good"), "x", validators=says("good")).iterations == 1
    capped = run_goal(ScriptedConversation("bad", "bad"), "x", validators=says("good"), max_iterations=2)
    assert (capped.status, capped.iterations) == ("capped", 2)
    cut = run_goal(ScriptedConversation(ScriptedRound(delay=60)), "x", validators=says("good"), timeout=0.1)
    assert (cut.status, cut.iterations, cut.verdict) == ("capped", 0, None)


def test_h07_a_verdict_has_score_complete_and_missing() -> None:
    outcome = run_goal(ScriptedConversation("a"), PASS, Judge(misses("Run the tests.")), max_iterations=1)
    verdict = outcome.verdict
    assert isinstance(verdict, GoalVerdict)
    assert (verdict.score, verdict.complete, verdict.missing) == (0.3, False, "Run the tests.")
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="score"):
            GoalVerdict(score=wrong, complete=False)


@pytest.mark.parametrize("objective", ["", " \n"])
def test_h08_the_objective_is_not_empty(objective: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        run_goal(ScriptedConversation("a"), objective, validators=says("a"))
    with pytest.raises(UsageError, match="empty"):
        GoalController(objective, validators=says("a"))
    with pytest.raises(UsageError, match="empty"):
        judge_goal(Judge(proves("o1", "x")), objective, [said("x")])


@pytest.mark.parametrize("limit", [0, -1])
def test_h09_the_cap_is_at_least_one(limit: int) -> None:
    with pytest.raises(UsageError, match="max_iterations"):
        run_goal(ScriptedConversation("a"), "x", validators=says("a"), max_iterations=limit)


def test_h10_every_turn_is_in_the_conversation_that_was_passed() -> None:
    conversation = ScriptedConversation(ran("1 failed"), ran("3 passed"))
    assert run_goal(conversation, PASS, Judge(misses("Go on."), proves("o2", "3 passed"))).passed
    assert roles(conversation) == ["user", "tool", "assistant"] * 2
    assert PASS.objective in conversation.prompts[0]
    assert "Go on." in conversation.prompts[1]


def test_h11_a_conversation_with_a_history_goes_on() -> None:
    conversation = ScriptedConversation("good", "better")
    run_goal(conversation, "Be good.", validators=says("good"))
    run_goal(conversation, "Be better.", validators=says("better"))
    assert [prompt.partition("\n")[0] for prompt in conversation.prompts] == ["Be good.", "Be better."]
    assert roles(conversation) == ["user", "assistant"] * 2


def test_h12_the_judge_is_an_instance_of_its_own_with_its_own_account(tmp_path: Path) -> None:
    model = recording(
        tmp_path / "replies.jsonl",
        agent("3 passed", usage={"input_tokens": 50, "output_tokens": 5}),
        {"account": "judge", "text": proves("o1", "3 passed"), "usage": {"input_tokens": 7, "output_tokens": 1}},
    )
    own, judge = LLM(model), LLM(model, account="judge")
    goal = Goal(objective="Say it.", deliverable="response")
    outcome = run_goal(chat_conversation(own, workspace=tmp_path), goal, judge)
    assert outcome.passed
    used = {account: usage.input_tokens for account, usage in outcome.usage.items()}
    assert used == {"agent": 50, "judge": 7}
    assert (own.usage.input_tokens, judge.usage.input_tokens) == (50, 7)


def test_h13_a_model_is_made_of_name_account_and_the_variable_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    llm = LLM("openai/gpt-5-mini", account="judge", api_key_env="JUDGE_KEY")
    assert (llm.model, llm.account, llm.api_key_env) == ("openai/gpt-5-mini", "judge", "JUDGE_KEY")
    outcome = run_goal(ScriptedConversation("a"), "x", llm)
    assert (outcome.status, outcome.stop_reason) == ("failed", "authentication")
    assert "JUDGE_KEY" in outcome.message


class OwnAgent:
    """An agent that runs a command and records everything itself."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        for message in ({"role": "user", "content": prompt}, said("I ran them.")):
            self.messages.append(message)
            recorder.message(message)
        await recorder.tool_result(ToolResult("c1", "shell", "pytest", ("exit 0",), b"3 passed"))
        return RoundReply("I ran them.")

    def checkpoint(self) -> Any:
        return list(self.messages)

    def restore(self, checkpoint: Any) -> None:
        self.messages[:] = checkpoint


def test_h15_an_agent_of_ones_own_is_a_conversation() -> None:
    own = OwnAgent()
    outcome = run_goal(own, PASS, Judge(misses("Again."), proves("o2", "3 passed")), preserve_context=False)
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert [message["role"] for message in own.messages] == ["user", "assistant"]
    assert isinstance(outcome, GoalOutcome)


class Echo:
    """The smallest agent: it records nothing, and answers with a text."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, prompt: str) -> str:
        return "good"


class SyncEcho(Echo):
    """The same with a plain function."""

    def send(self, prompt: str) -> str:  # type: ignore[override]
        return "good"


class Reporting(Echo):
    """The same, which records a tool result alone."""

    async def send(self, prompt: str, recorder: Recorder) -> str:  # type: ignore[override]
        await recorder.tool_result(ToolResult("c1", "shell", "ls", ("exit 0",), b"a.txt", reported_by="echo"))
        return "good"


@pytest.mark.parametrize("kind", [Echo, Reporting])
def test_h16_an_agent_may_answer_with_a_text_and_record_no_message(kind: type[Echo]) -> None:
    outcome = run_goal(kind(), "Be good.", validators=says("good"))
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert [message["content"] for message in read_chat(outcome)] == ["Be good.", "good"]


def test_h17_send_may_be_a_plain_function() -> None:
    outcome = run_goal(SyncEcho(), "Be good.", validators=says("good"))
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert [message["content"] for message in read_chat(outcome)] == ["Be good.", "good"]


def test_h18_an_agent_with_a_critic_of_its_own_makes_one_round_of_its_turns() -> None:
    class Critical(ScriptedConversation):
        """An agent that refines its answer until its own critic likes it."""

        async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
            reply = await super().send(prompt, recorder)
            return reply if "good" in reply.text else await self.send("Refine it.", recorder)

    conversation = Critical("bad", "good")
    outcome = run_goal(conversation, "Be good.", validators=says("good"), max_iterations=1)
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert conversation.prompts[1] == "Refine it."


CRITIC = """\
objective = "Make a.txt."
validator = "test -e a.txt"
model = "scripted/replies.jsonl"
max_iterations = 1
[critic]
run = "grep -q friendly && echo 0.9 || echo '{\\"score\\": 0.2, \\"feedback\\": \\"Be friendly.\\"}'"
"""


def test_h19_a_goal_file_may_have_a_critic_that_refines_inside_a_round(goal_command: Command, here: Path) -> None:
    (here / "goal.toml").write_text(CRITIC)
    recording(here / "replies.jsonl", agent("", shell("touch a.txt")), agent("done"), agent("friendly"))
    ended = goal_command("run", "--json")
    outcome = json.loads(ended.out)
    assert (ended.code, outcome["iterations"]) == (0, 1)
    prompts = [message["content"] for message in read_chat(outcome["run_path"]) if message["role"] == "user"]
    assert prompts[1].startswith("[critic] ")
    assert "Be friendly." in prompts[1]


def test_h20_a_stop_hook_decides_at_each_stop_of_a_session(goal_command: Command, here: Path) -> None:
    (here / "goal.toml").write_text(
        'objective = "The file done exists."\nvalidator = "test -e done"\nagent = "claude"\n'
    )

    def hook(name: str) -> Any:
        event = {"session_id": "s1", "hook_event_name": name, "cwd": str(here), "last_assistant_message": "Done."}
        ended = goal_command("hook", "claude", stdin=json.dumps(event))
        assert ended.code == 0
        return json.loads(ended.out or "{}")

    assert hook("UserPromptSubmit") == {}
    blocked = hook("Stop")
    assert (blocked["decision"], "validator test: exit 1" in blocked["reason"]) == ("block", True)
    (here / "done").touch()
    assert "verified in round 2" in hook("Stop")["systemMessage"]
