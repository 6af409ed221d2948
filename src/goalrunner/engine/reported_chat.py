"""Recording of the chat of an agent that does not record what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goalrunner.core.agent_ports import Message, Recorder, ToolResult
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.observation import Observation, Trail, UserText, source_of
from goalrunner.core.user_messages import persons_text

_Entry = tuple[str, str, str, str]
"""Kind, source, command and text of an item of a chat."""


class ReportedChat:
    """The chat of an agent that does not record what it does.

    If a chat does not begin with the previous one, all of it is new.
    """

    def __init__(self, reporter: str, redact: Callable[[str], str] = str) -> None:
        """Start without a chat.

        `reporter` reports the tool results; `redact` replaces secrets as in the
        records.
        """
        self._reporter = reporter
        self._redact = redact
        self._previous: list[_Entry] = []
        self._prompts: list[str] = []
        self._recorded_texts: set[str] = set()

    def note_prompts(self, *prompts: str) -> None:
        """Note prompts of the runner, which are not what a person wrote."""
        self._prompts += map(self._redact, prompts)

    def record_user_texts(self, texts: Sequence[UserText], recorder: Recorder) -> None:
        """Record what a person wrote, once."""
        for user_text in texts:
            text = persons_text(self._redact(user_text.text), self._prompts)
            if text and text not in self._recorded_texts:
                recorder.user_said(text)
                self._recorded_texts.add(text)

    def continue_from(self, trail: Trail) -> None:
        """Take a chat, or the record of an earlier process, as the previous chat."""
        self._recorded_texts.update(self._redact(text.text) for text in trail.said)
        self._previous = []
        for item in trail.items:
            source = command = ""
            if isinstance(item, Observation):
                source, command = item.source, item.command
            text = self._redact(trail.read(item))
            entry = (item.kind, source_of(source), self._redact(command), text)
            self._previous.append(entry)

    async def record(self, messages: Sequence[Message], recorder: Recorder) -> str:
        """Record what is new, and return the last new text of the agent.

        Tool results become reported observations, texts of the agent claims.
        """
        trail, previous = trail_of(messages), self._previous
        self.record_user_texts(trail.said, recorder)
        self.continue_from(trail)
        continues = self._previous[: len(previous)] == previous
        new_items = trail.items[len(previous) :] if continues else trail.items
        response = ""
        for item in new_items:
            text = trail.read(item)
            if isinstance(item, Observation):
                await recorder.tool_result(self._tool_result(item, text))
            else:
                recorder.message({"role": "assistant", "content": text})
                response = text
        return response

    def _tool_result(self, observation: Observation, text: str) -> ToolResult:
        return ToolResult(
            tool_call_id=observation.id,
            tool=observation.source,
            command=observation.command,
            facts=observation.facts,
            output=text.encode("utf-8", errors="replace"),
            reported_by=self._reporter,
            started=observation.started,
            ended=observation.started,
        )
