"""Agents of one's own: an asynchronous one, and a plain function."""

import asyncio
from typing import Any

from goalrunner import (
    Conversation,
    Goal,
    Recorder,
    RoundReply,
    ToolResult,
    Usage,
    arun_goal,
    run_goal,
)


class Recording:
    """Records what it does, and can return to an earlier chat."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        self.messages.append({"role": "user", "content": prompt})
        denied: str | None = await recorder.permit("c1", "shell", "make", preview="")
        if denied is None:
            recorder.tool_called("c1", "shell", "make")
            result = ToolResult("c1", "shell", "make", ("exit 0",), b"ok", writes=False)
            recorded = await recorder.tool_result(result)
            assert recorded.head == b"ok"
        recorder.usage("agent", Usage(input_tokens=3, output_tokens=2, calls=1))
        self.messages.append({"role": "assistant", "content": "made"})
        return RoundReply("made", steps=1)

    def checkpoint(self) -> object:
        return list(self.messages)

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, list)
        self.messages[:] = checkpoint


class Plain:
    """Is a plain function with its messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    def send(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        return "4"


def is_four(response: dict[str, Any]) -> bool:
    return "4" in str(response["content"])


def main() -> None:
    whole: Conversation = Recording()
    made = Goal(objective="Make it.", deliverable="response", validator=lambda: True)
    outcome = asyncio.run(arun_goal(whole, made, preserve_context=False))
    assert outcome.status.value == "complete", outcome.message
    assert outcome.total.input_tokens == 3
    simple = run_goal(Plain(), "What is 2 + 2?", validators=is_four)
    assert simple.status.value == "complete", simple.message
