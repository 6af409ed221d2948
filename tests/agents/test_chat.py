"""The turns of the built-in agent: its requests, its record, and its chat after every kind of end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.toolbox import Toolbox
from goalrunner.core.agent_ports import Conversation, Message, Recorder, Unfinished
from goalrunner.core.errors import (
    BudgetExhausted,
    ContextWindowExceeded,
    ProviderUnavailable,
    RecordError,
)
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM, ToolCall
from goalrunner.system.launcher import ProcessLauncher
from tests.support.agents import (
    ONE_CALL,
    MemoryRecorder,
    ScriptedModel,
    asked,
    call,
    said,
)


@pytest.fixture
def toolbox(workspace: Path) -> Toolbox:
    return Toolbox(workspace, ProcessLauncher(), dict(os.environ))


def roles(messages: Any) -> list[str]:
    return [message["role"] for message in messages]


async def test_a_round_runs_tools_until_the_model_answers(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    model = ScriptedModel(
        asked(call("shell", command="echo hello"), text="I look."), said("All done.")
    )
    chat = ChatConversation(model, toolbox=toolbox)
    reply = await chat.send("Say hello.", recorder)
    assert (reply.text, reply.reason, reply.steps) == ("All done.", "answered", 2)
    assert roles(chat.messages) == ["user", "assistant", "tool", "assistant"]
    assert chat.messages[2] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "[o1] (exit 0)\nhello\n",
    }
    assert recorder.texts == ["I look.", "All done."]
    assert recorder.usages == [("agent", ONE_CALL), ("agent", ONE_CALL)]
    assert recorder.trail == [
        "message system",
        "message user",
        "budget",
        "usage",
        "message assistant",
        "called call_1 shell echo hello",
        "result call_1 exit 0",
        "message tool",
        "budget",
        "usage",
        "message assistant",
    ]


async def test_text_streams_only_if_the_recorder_shows_it(
    recorder: MemoryRecorder,
) -> None:
    model = ScriptedModel(said("one"), said("two"))
    chat = ChatConversation(model)
    await chat.send("Go.", recorder)
    recorder.streams_text = False
    await chat.send("Go on.", recorder)
    assert recorder.texts == ["one"]


async def test_the_model_gets_system_prompt_chat_and_tools(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    model = ScriptedModel(said("ok"))
    await ChatConversation(model, toolbox=toolbox, system_prompt="Be brief.").send(
        "Go.", recorder
    )
    assert model.requests == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
    ]
    assert model.tools == [
        (
            "shell",
            "read_file",
            "write_file",
            "edit_file",
            "report_blocked",
            "ask",
            "plan",
        )
    ]


async def test_the_built_in_prompt_names_the_workspace(
    toolbox: Toolbox, workspace: Path
) -> None:
    assert (
        str(workspace)
        in ChatConversation(ScriptedModel(), toolbox=toolbox).system_prompt
    )
    assert "tool" not in ChatConversation(ScriptedModel()).system_prompt


async def test_calls_of_one_reply_run_one_after_another(
    toolbox: Toolbox, recorder: MemoryRecorder, workspace: Path
) -> None:
    first = call("shell", "call_1", command="sleep 0.1; echo one > log")
    second = call("shell", "call_2", command="cat log")
    chat = ChatConversation(
        ScriptedModel(asked(first, second), said("ok")), toolbox=toolbox
    )
    await chat.send("Go.", recorder)
    assert recorder.outputs == [b"", b"one\n"]
    assert chat.messages[2]["content"] == "[o1] (exit 0)\n[no output]"


async def test_the_step_limit_ends_the_round(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    steps = [
        asked(call("shell", f"call_{n}", command="true"), text=f"step {n}")
        for n in (1, 2)
    ]
    chat = ChatConversation(ScriptedModel(*steps), toolbox=toolbox, max_steps=2)
    reply = await chat.send("Go.", recorder)
    assert (reply.text, reply.reason, reply.steps) == ("step 2", "max_steps", 2)
    assert roles(chat.messages) == ["user", "assistant", "tool", "assistant", "tool"]


async def test_an_empty_reply_is_an_answer(recorder: MemoryRecorder) -> None:
    reply = await ChatConversation(ScriptedModel(said(""))).send("Go.", recorder)
    assert (reply.text, reply.reason, reply.steps) == ("", "answered", 1)


async def test_a_second_round_goes_on_in_the_same_list(
    recorder: MemoryRecorder,
) -> None:
    chat = ChatConversation(ScriptedModel(said("one"), said("two")))
    messages = chat.messages
    await chat.send("Go.", recorder)
    await chat.send("Again.", recorder)
    assert messages is chat.messages
    assert [message["content"] for message in messages] == [
        "Go.",
        "one",
        "Again.",
        "two",
    ]
    assert roles(recorder.messages) == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]


async def test_a_chat_given_beforehand_is_kept_and_recorded_once(
    recorder: MemoryRecorder,
) -> None:
    history = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
    ]
    model = ScriptedModel(said("one"), said("two"))
    chat = ChatConversation(model, messages=history, system_prompt="")
    await chat.send("Go.", recorder)
    await chat.send("Again.", recorder)
    assert [message["content"] for message in model.requests[0]] == [
        "Hi.",
        "Hello.",
        "Go.",
    ]
    assert [message["content"] for message in recorder.messages] == [
        "Hi.",
        "Hello.",
        "Go.",
        "one",
        "Again.",
        "two",
    ]


async def test_another_run_records_the_chat_from_its_beginning(
    recorder: MemoryRecorder, tmp_path: Path
) -> None:
    chat = ChatConversation(
        ScriptedModel(said("one"), said("two")), system_prompt="Be brief."
    )
    await chat.send("Go.", recorder)
    later = MemoryRecorder(tmp_path)
    await chat.send("Something else.", later)
    assert [message["content"] for message in later.messages] == [
        "Be brief.",
        "Go.",
        "one",
        "Something else.",
        "two",
    ]


async def test_an_own_system_message_replaces_the_built_in_one(
    recorder: MemoryRecorder,
) -> None:
    model = ScriptedModel(said("ok"))
    chat = ChatConversation(model, messages=[{"role": "system", "content": "Mine."}])
    await chat.send("Go.", recorder)
    assert [message["content"] for message in model.requests[0]] == ["Mine.", "Go."]
    assert roles(recorder.messages) == ["system", "user", "assistant"]


async def test_malformed_arguments_go_back_and_leave_a_sendable_chat(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    broken = ToolCall("call_1", "shell", '{"command": "ls"')
    model = ScriptedModel(asked(broken), said("ok"))
    chat = ChatConversation(model, toolbox=toolbox)
    await chat.send("Go.", recorder)
    tool_call = chat.messages[1]["tool_calls"][0]
    assert (
        tool_call["function"]["arguments"]
        == '{"malformed_arguments": "{\\"command\\": \\"ls\\""}'
    )
    assert recorder.results[0].facts == ("error",)
    assert chat.messages[2]["content"].startswith(
        "[o1] (error)\nthe arguments are malformed JSON: "
    )


async def test_a_made_up_name_leaves_a_sendable_chat(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    chat = ChatConversation(
        ScriptedModel(asked(call("functions.shell", command="ls")), said("ok")),
        toolbox=toolbox,
    )
    await chat.send("Go.", recorder)
    assert chat.messages[1]["tool_calls"][0]["function"]["name"] == "functions_shell"
    assert (
        'called call_1 unknown_tool functions.shell {"command": "ls"}' in recorder.trail
    )


async def test_an_empty_answer_stays_in_the_chat(recorder: MemoryRecorder) -> None:
    model = ScriptedModel(said(""), said("ok"))
    chat = ChatConversation(model, system_prompt="")
    await chat.send("Go.", recorder)
    await chat.send("Again.", recorder)
    assert chat.messages[1] == {"role": "assistant", "content": ""}


async def test_a_call_without_tools_is_refused(recorder: MemoryRecorder) -> None:
    chat = ChatConversation(
        ScriptedModel(asked(call("shell", command="ls")), said("ok"))
    )
    await chat.send("Go.", recorder)
    assert recorder.outputs == [b"this conversation has no tools\n"]


async def test_long_output_is_shown_by_its_ends_and_kept_whole(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    chat = ChatConversation(
        ScriptedModel(asked(call("shell", command="seq 100000")), said("ok")),
        toolbox=toolbox,
    )
    await chat.send("Go.", recorder)
    shown = chat.messages[2]["content"]
    assert recorder.outputs[0] == b"".join(b"%d\n" % n for n in range(1, 100_001))
    assert shown.startswith("[o1] (exit 0)\n1\n2\n")
    assert shown.endswith("\n99999\n100000\n")
    assert (
        "\n[... 568,895 characters left out; the whole output is kept ...]\n" in shown
    )


async def test_cancelled_in_a_tool_every_call_has_its_answer(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    first, second = (
        call("shell", "call_1", command="sleep 30"),
        call("shell", "call_2", command="true"),
    )
    chat = ChatConversation(
        ScriptedModel(asked(first, second), said("later")), toolbox=toolbox
    )
    task = asyncio.create_task(chat.send("Go.", recorder))
    while not any(word.startswith("called") for word in recorder.trail):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [
        (message["tool_call_id"], message["content"]) for message in chat.messages[2:]
    ] == [
        ("call_1", "interrupted; its effect is unknown"),
        ("call_2", "not run: the turn was interrupted before it"),
    ]
    assert recorder.messages[1:] == chat.messages
    assert (await chat.send("Go on.", recorder)).text == "later"


async def test_cancelled_in_a_model_call_the_chat_ends_with_the_prompt(
    recorder: MemoryRecorder, tmp_path: Path
) -> None:
    recording = tmp_path / "replies.jsonl"
    recording.write_text('{"text": "late", "delay": 30}\n')
    chat = ChatConversation(LLM(f"scripted/{recording}"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(chat.send("Go.", recorder), 0.1)
    assert chat.messages == [{"role": "user", "content": "Go."}]


async def test_a_log_that_cannot_be_written_leaves_a_sendable_chat(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    class FullDisk(MemoryRecorder):
        def message(self, message: Message) -> None:
            if message["role"] == "assistant":
                raise RecordError("the disk is full")
            super().message(message)

    chat = ChatConversation(
        ScriptedModel(asked(call("shell", command="true"))), toolbox=toolbox
    )
    with pytest.raises(RecordError, match="the disk is full"):
        await chat.send("Go.", FullDisk(tmp_path))
    assert roles(chat.messages) == ["user", "assistant", "tool"]


async def test_an_interrupted_call_in_a_given_chat_is_answered(
    recorder: MemoryRecorder,
) -> None:
    function = {"name": "shell", "arguments": "{}"}
    asking = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "type": "function", "function": function}],
    }
    model = ScriptedModel(said("ok"))
    chat = ChatConversation(
        model, messages=[{"role": "user", "content": "Hi."}, asking], system_prompt=""
    )
    await chat.send("Go.", recorder)
    assert roles(model.requests[0]) == ["user", "assistant", "tool", "user"]


async def test_a_spent_budget_stops_before_the_call(tmp_path: Path) -> None:
    model = ScriptedModel(said("never"))
    chat = ChatConversation(model)
    with pytest.raises(BudgetExhausted):
        await chat.send("Go.", MemoryRecorder(tmp_path, budget=0))
    assert model.requests == []
    assert roles(chat.messages) == ["user"]


async def test_what_a_given_up_call_cost_is_counted(recorder: MemoryRecorder) -> None:
    chat = ChatConversation(ScriptedModel(ProviderUnavailable("down")))
    with pytest.raises(ProviderUnavailable):
        await chat.send("Go.", recorder)
    assert recorder.usages == [("agent", Usage(retries=2))]


async def test_restoring_brings_back_messages_prompt_and_model_in_the_same_list(
    recorder: MemoryRecorder,
) -> None:
    model = ScriptedModel(said("one"), said("two"))
    chat = ChatConversation(
        model, messages=[{"role": "user", "content": "Hi."}], system_prompt="A."
    )
    messages, checkpoint = chat.messages, chat.checkpoint()
    await chat.send("Go.", recorder)
    chat.system_prompt = "B."
    chat.messages[0]["content"] = "changed"
    chat.restore(checkpoint)
    assert chat.messages is messages
    assert (chat.messages, chat.system_prompt) == (
        [{"role": "user", "content": "Hi."}],
        "A.",
    )
    await chat.send("Go again.", recorder)
    chat.restore(checkpoint)
    assert chat.messages == [{"role": "user", "content": "Hi."}]
    assert model.usage == ONE_CALL + ONE_CALL
    assert [message["content"] for message in recorder.messages] == [
        "A.",
        "Hi.",
        "Go.",
        "one",
        "Go again.",
        "two",
    ]


def test_a_foreign_checkpoint_is_refused() -> None:
    with pytest.raises(TypeError):
        ChatConversation(ScriptedModel()).restore({"messages": []})


async def test_a_chat_too_long_is_shortened_and_asked_again(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    objective = "Objective. " * 500
    model = ScriptedModel(
        asked(call("shell", command="seq 3000")),
        asked(call("shell", command="echo two")),
        ContextWindowExceeded("too long"),
        said("ok"),
    )
    chat = ChatConversation(model, toolbox=toolbox, system_prompt="")
    await chat.send(objective, recorder)
    assert len(chat.messages[2]["content"]) < 1_200
    assert (
        "characters left out to fit the context window ...]"
        in chat.messages[2]["content"]
    )
    assert (chat.messages[0]["content"], chat.messages[4]["content"]) == (
        objective,
        "[o2] (exit 0)\ntwo\n",
    )
    assert model.requests[3] == chat.messages[:-1]


async def test_a_resumed_chat_protects_the_runs_own_objective(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    """What another run was told first stays, and so does what this one was."""
    first, between, own = "First. " * 500, "Go on. " * 500, "Own. " * 500
    words = [first, between, own, "Again."]
    chat = [
        item
        for text in words
        for item in (
            {"role": "user", "content": text},
            {"role": "assistant", "content": "x"},
        )
    ]
    model = ScriptedModel(ContextWindowExceeded("too long"), said("ok"))
    conversation = ChatConversation(model, toolbox=toolbox, system_prompt="")
    conversation.load(chat, Unfinished(objective=4), recorder)
    await conversation.send("And now?", recorder)
    kept = [
        message["content"]
        for message in conversation.messages
        if message["role"] == "user"
    ]
    assert (kept[0], kept[2], kept[3]) == (first, own, "Again.")
    assert len(kept[1]) < len(between)


async def test_a_resumed_chat_without_an_objective_takes_its_next_prompt(
    recorder: MemoryRecorder,
) -> None:
    too_long = ContextWindowExceeded("too long")
    model = ScriptedModel(too_long, said("ok. " * 500), too_long, said("ok"))
    conversation = ChatConversation(model, system_prompt="")
    earlier = [
        {"role": "user", "content": "Hi. " * 500},
        {"role": "assistant", "content": "Ho. " * 500},
    ]
    conversation.load(earlier, Unfinished(), recorder)
    await conversation.send("Own. " * 500, recorder)
    await conversation.send("Next. " * 500, recorder)
    assert conversation.messages[2]["content"] == "Own. " * 500


async def test_a_chat_with_nothing_to_shorten_fails_as_too_long(
    recorder: MemoryRecorder,
) -> None:
    chat = ChatConversation(ScriptedModel(ContextWindowExceeded("too long")))
    with pytest.raises(ContextWindowExceeded):
        await chat.send("A very long objective. " * 1_000, recorder)


async def test_the_real_model_class_fits(
    recorder: MemoryRecorder, tmp_path: Path
) -> None:
    recording = tmp_path / "replies.jsonl"
    recording.write_text('{"text": "All done."}\n')
    chat: Conversation = ChatConversation(LLM(f"scripted/{recording}"))
    port: Recorder = recorder
    assert (await chat.send("Go.", port)).text == "All done."


async def test_a_turn_goes_on_at_the_model_call_that_failed(
    toolbox: Toolbox, recorder: MemoryRecorder
) -> None:
    unavailable = ProviderUnavailable("529 overloaded")
    model = ScriptedModel(
        asked(call("shell", command="echo hello")),
        unavailable,
        unavailable,
        said("Done."),
    )
    chat = ChatConversation(model, toolbox=toolbox)
    with pytest.raises(ProviderUnavailable):
        await chat.send("Say hello.", recorder)
    with pytest.raises(ProviderUnavailable):
        await chat.resume_turn("", Unfinished(), recorder)
    reply = await chat.resume_turn("", Unfinished(), recorder)
    assert reply.text == "Done."
    assert roles(chat.messages) == ["user", "assistant", "tool", "assistant"]
    assert [message["role"] for message in recorder.messages] == [
        "system",
        *roles(chat.messages),
    ]
