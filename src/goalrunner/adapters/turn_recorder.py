"""The record of one turn of a framework's agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.agents.turn import reported_result
from goalrunner.core.agent_ports import CALLED, Message, Recorder
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.freshness import start_of
from goalrunner.core.messages import TIMESTAMP
from goalrunner.core.observation import Observation
from goalrunner.core.user_messages import persons_text


class TurnRecorder:
    """Records the messages of one turn.

    Tool results become reported observations; the agent's text stays a claim.
    """

    def __init__(self, agent: str, recorder: Recorder, prompt: str = "") -> None:
        """`prompt` is that of the turn.

        With it, other user messages count as a person's, else as the framework's.
        """
        self.recorder = recorder
        self._prompt = prompt
        self._agent = agent
        # The calls of the turn by id, in OpenAI's format.
        self._calls: dict[str, Any] = {}
        # A time before the tool of each call started, in nanoseconds since 1970.
        self._starts: dict[str, int | None] = {}

    def begin(self, call_id: str) -> None:
        """Record that the tool of a remembered call is about to run."""
        if self._starts.get(call_id) == CALLED:
            return
        result = {"role": "tool", "tool_call_id": call_id, "content": ""}
        item = observed(self._calls.get(call_id), result)
        if item is not None:
            self._starts[call_id] = CALLED
            self.recorder.tool_called(call_id, item.source, item.command)

    async def add(self, message: Message, facts: tuple[str, ...] = ()) -> None:
        """Record a message in OpenAI's format.

        `facts` are the framework's facts about a tool's result.
        """
        if message["role"] == "tool":
            await self._result(message, facts)
        calls = {str(call["id"]): call for call in message.get("tool_calls") or ()}
        self._calls |= calls
        # A tool starts after the message with its call.
        self._starts |= dict.fromkeys(calls, start_of(message.get(TIMESTAMP)))
        entry = {key: value for key, value in message.items() if key != TIMESTAMP}
        self.recorder.message(entry)
        # Without its text, the prompt cannot be told from a person's message.
        if not self._prompt:
            return
        for user_message in trail_of([message]).said:
            words = persons_text(user_message.text, [self._prompt])
            if words:
                self.recorder.user_said(words)

    async def _result(self, message: Message, facts: tuple[str, ...]) -> None:
        call_id = str(message.get("tool_call_id"))
        item = observed(self._calls.get(call_id), message)
        # A result that only repeats an argument is text of the agent.
        if item is None:
            return
        started = self._starts.get(call_id)
        # A framework may run a tool without an event before it.
        self.begin(call_id)
        result = reported_result(
            self._agent,
            call_id,
            item.source,
            item.command,
            facts,
            output=str(message["content"]),
            started=started,
        )
        await self.recorder.tool_result(result)


def observed(call: Mapping[str, Any] | None, result: Message) -> Observation | None:
    """Return the observation of a tool's result, with tool and command.

    None if the result is text of the agent.
    """
    chat: list[Message] = [result]
    if call:
        chat.insert(0, {"role": "assistant", "content": "", "tool_calls": [call]})
    item = trail_of(chat).items[-1]
    return item if isinstance(item, Observation) else None
