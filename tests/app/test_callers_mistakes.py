"""What a calling program gets wrong is refused at the call, with what to write; what is unambiguous is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalOutcome,
    Recorder,
    RoundReply,
    ToolResult,
    arun_goal,
    read_chat,
    run_goal,
)
from goalrunner.core.errors import UsageError


class Agent:
    """A small conversation: it answers with what it is given, and has no `checkpoint`."""

    def __init__(self, *answers: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.prompts: list[str] = []
        self._answers = list(answers)

    async def send(self, prompt: str, recorder: Recorder) -> Any:
        return self.answer(prompt)

    def answer(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        return self._answers.pop(0)


class SyncAgent(Agent):
    def send(self, prompt: str, recorder: Recorder) -> Any:
        return self.answer(prompt)


class PromptOnly(Agent):
    def send(self, prompt: str) -> Any:  # type: ignore[override]
        return self.answer(prompt)


class Forwarding(Agent):
    """Its `send` is no coroutine function, and returns a coroutine."""

    def send(self, prompt: str, recorder: Recorder) -> Any:
        return super().send(prompt, recorder)


def says(word: str) -> Callable[[dict[str, Any]], bool]:
    def check(response: dict[str, Any]) -> bool:
        return word in response["content"][0]["text"]

    return check


@pytest.mark.parametrize("kind", [Agent, SyncAgent, PromptOnly, Forwarding])
@pytest.mark.parametrize(
    "answer",
    [
        "good",
        RoundReply("good"),
        [{"text": "good"}],
        [{"type": "text", "text": "good"}],
        {"role": "assistant", "content": "good"},
    ],
    ids=["text", "reply", "strands blocks", "openai blocks", "message"],
)
def test_each_form_of_send_and_of_its_answer_counts(
    kind: type[Agent], answer: Any
) -> None:
    agent = kind("bad", answer)
    outcome = run_goal(agent, "Be good.", validators=[says("good")], max_iterations=3)
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert len(agent.prompts) == 2


def test_what_a_conversation_does_not_record_is_recorded_for_it() -> None:
    class Chatty(PromptOnly):
        def answer(self, prompt: str) -> str:
            function = {"name": "shell", "arguments": '{"command": "ls"}'}
            call = {"id": "c1", "type": "function", "function": function}
            self.messages += [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
                {"role": "assistant", "content": "good"},
            ]
            return "good"

    events: list[Any] = []
    outcome = run_goal(
        Chatty(), "Be good.", validators=[says("good")], on_event=events.append
    )
    assert [message["content"] for message in read_chat(outcome)] == [
        Chatty_prompt(events, outcome),
        "good",
    ]
    (result,) = [
        event.observation for event in events if event.type == "tool_result_recorded"
    ]
    assert (result.source, result.command, result.reported_by) == (
        "shell",
        "ls",
        "Chatty",
    )
    assert outcome.usage["agent"].input_tokens is None


def Chatty_prompt(events: list[Any], outcome: GoalOutcome) -> str:  # noqa: N802
    """The prompt of the only round."""
    return str(read_chat(outcome)[0]["content"])


def test_a_send_in_a_thread_can_use_the_recorder() -> None:
    class Recording(Agent):
        def send(self, prompt: str, recorder: Any) -> str:  # type: ignore[override]
            recorder.message({"role": "user", "content": prompt})
            found = ToolResult("c1", "shell", "ls", ("exit 0",), b"a.txt")
            assert recorder.tool_result(found).head == b"a.txt"
            recorder.message({"role": "assistant", "content": "good"})
            return "good"

    outcome = run_goal(Recording(), "Be good.", validators=[says("good")])
    assert outcome.status == "complete"
    assert [message["role"] for message in read_chat(outcome)] == ["user", "assistant"]


def test_a_deadline_cuts_a_send_in_a_thread() -> None:
    import time

    class Slow(PromptOnly):
        def answer(self, prompt: str) -> str:
            time.sleep(30)
            return "late"

    outcome = run_goal(Slow(), "Be good.", validators=[says("good")], timeout=0.5)
    assert (outcome.status, outcome.stop_reason) == ("capped", "timeout")
    assert outcome.duration < 10


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "Agent.send returned None, not the answer of the agent"),
        (5, "Agent.send returned an int, not the answer of the agent"),
        ([], "Agent.send returned a list, not the answer of the agent"),
        ({"text": "x"}, "Agent.send returned a dict, not the answer of the agent"),
    ],
)
def test_an_answer_that_is_none_ends_the_run_with_what_to_write(
    answer: Any, said: str
) -> None:
    outcome = run_goal(Agent(answer), "Be good.", validators=[says("good")])
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert outcome.message.startswith(said)
    assert "async def send(self, prompt, recorder)" in outcome.message


def test_an_error_in_send_is_one_of_the_agent() -> None:
    outcome = run_goal(Agent(), "Be good.", validators=[says("good")])
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert outcome.message.startswith(
        "Agent.send raised IndexError: pop from empty list\nthe traceback is in "
    )


def test_an_exception_is_named_without_the_notes_of_a_framework() -> None:
    class Noting(Agent):
        async def send(self, prompt: str, recorder: Any) -> Any:
            error = ValueError("not\nenough")
            error.add_note("During task with name 'model'")
            raise error

    outcome = run_goal(Noting(), "Be good.", validators=[says("good")])
    assert outcome.message.startswith("Noting.send raised ValueError: not enough\n")


class NoMessages:
    async def send(self, prompt: str, recorder: Recorder) -> str:
        return "x"


class MethodMessages(NoMessages):
    def messages(self) -> list[Any]:
        return []


class WrongSend:
    messages: list[Any] = []  # noqa: RUF012

    async def send(self) -> str:
        return "x"


@pytest.mark.parametrize(
    ("conversation", "said"),
    [
        (NoMessages(), "a NoMessages is not a conversation: it has no messages"),
        (MethodMessages(), "MethodMessages.messages is a method, not a list"),
        (WrongSend(), "WrongSend.send cannot be called with a prompt and a recorder"),
        (Agent, "Agent is a class, not a conversation"),
    ],
)
def test_what_is_no_conversation_is_refused_before_the_run(
    conversation: Any, said: str, own_home: Path
) -> None:
    with pytest.raises(UsageError) as refusal:
        run_goal(conversation, "Be good.", validators=[says("good")])
    assert refusal.value.message == said
    assert refusal.value.hint
    assert list(own_home.iterdir()) == []


def test_a_fresh_chat_for_each_round_needs_checkpoint_and_restore(
    own_home: Path,
) -> None:
    with pytest.raises(
        UsageError,
        match=r"preserve_context=False needs Agent.checkpoint\(\) and .restore",
    ):
        run_goal(
            Agent("x"), "Be good.", validators=[says("good")], preserve_context=False
        )
    assert list(own_home.iterdir()) == []
    assert run_goal(Agent("good"), "Be good.", validators=[says("good")]).passed


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        (
            {"resume_prompt": 5},
            "resume_prompt must be a text, or a function of one argument, the feedback",
        ),
        (
            {"resume_prompt": lambda: "x"},
            "resume_prompt must be a text, or a function of one argument, the feedback",
        ),
        ({"prompt": " "}, "prompt must be a text that is not empty"),
        ({"on_event": "print"}, "on_event must be a function, not the string"),
        ({"on_text": 5}, "on_text must be a function, not the number 5"),
        (
            {"approver": object()},
            "approver must be an object with the methods approve and answer",
        ),
        ({"home": 5}, "home must be a path, not the number 5"),
        (
            {"judge": "a/b", "judge_llm": "a/b"},
            "judge and judge_llm are two names of one argument",
        ),
        ({"judge": 5}, "the number 5 is not a judge"),
        ({"judge": object()}, "an object is not a judge"),
        (
            {"validators": [lambda a, b, c: True]},
            "the validator <lambda> cannot be called with (response, agent)",
        ),
        (
            {"validators": [Agent]},
            "<class 'tests.app.test_callers_mistakes.Agent'> is not a valid"[:50],
        ),
    ],
)
def test_a_wrong_keyword_is_refused_before_the_run(
    keywords: dict[str, Any], said: str, own_home: Path
) -> None:
    with pytest.raises(UsageError) as refusal:
        run_goal(Agent("x"), "Be good.", **{"validators": [says("good")], **keywords})
    assert refusal.value.message.startswith(said)
    assert refusal.value.hint
    assert list(own_home.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["Again!", [{"text": "Again!"}], [{"type": "text", "text": "Again!"}]]
)
def test_a_resume_prompt_may_return_text_or_blocks(content: Any) -> None:
    agent = Agent("bad", "good")
    run_goal(
        agent,
        "Be good.",
        validators=[says("good")],
        resume_prompt=lambda feedback: content,
    )
    assert agent.prompts[1] == "Again!"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (lambda feedback: 5, "resume_prompt returned an int, not a text"),
        (lambda feedback: None, "resume_prompt returned None, not a text"),
        (
            lambda feedback: [{"image": b""}],
            "resume_prompt returned a list, not a text",
        ),
        (
            lambda feedback: feedback.strip(),
            "resume_prompt raised AttributeError: 'NoneType' object has no attribute",
        ),
    ],
)
def test_a_resume_prompt_that_fails_ends_the_run_with_what_to_write(
    template: Any, said: str
) -> None:
    outcome = run_goal(
        Agent("bad"),
        "Be good.",
        validators=[lambda response: False],
        resume_prompt=template,
    )
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert outcome.message.startswith(said)


async def test_a_goal_with_a_budget_refuses_a_judge_whose_tokens_are_unknown() -> None:
    goal = Goal(objective="Be good.", budget={"tokens": 1000})
    with pytest.raises(
        UsageError, match="the tokens of the judge custom/lambda are unknown"
    ):
        await arun_goal(Agent("good"), goal, judge=lambda messages: "{}")
