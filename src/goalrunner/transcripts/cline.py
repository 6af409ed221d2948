"""The reader of conversations of Cline and of its fork Roo Code."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from goalrunner.core.messages import at, blocks_of, calls_of, text_of
from goalrunner.transcripts.chat import ChatReader

# The beginning of a result, which is a text of the user.
_RESULT = re.compile(r"\[(\w{1,80})(?: for '(.*?)')?\] Result:\n?", re.DOTALL)
_ENVIRONMENT = "<environment_details>"
_SAID = re.compile(r"<(task|feedback|user_message|answer)>\n?(.*?)\n?</\1>", re.DOTALL)
_DENIED = "The user denied this operation"
_SHELL = "execute_command"
# Tools that ask the user, whose answer is no observation.
_ASKING = ("attempt_completion", "ask_followup_question", "plan_mode_respond")


class ClineReader(ChatReader):
    """Conversations: `tasks/*/api_conversation_history.json` of the extension.

    Results of tools are texts of the user that name their tools. Calls are blocks, or
    XML in the text of the agent.
    """

    DESCRIPTION = "conversation of Cline or Roo Code (JSON)"
    reporter = "cline"

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, deque[str]] = {}
        """By tool: the ids of calls in blocks that have no result yet."""
        self._count = 0

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("role") != "user":
            return False
        texts = [block.text for block in blocks_of(row.get("content"))]
        is_result = any(map(_RESULT.match, texts))
        return is_result or any(text.startswith(_ENVIRONMENT) for text in texts)

    def is_valid(self, row: Any) -> bool:
        has_role = at(row, "role") in ("user", "assistant")
        return has_role and isinstance(at(row, "content"), str | list)

    def add(self, row: Any) -> None:
        if row["role"] == "user":
            self._add_texts_of_user(row["content"])
            return
        self.trail.claimed(text_of(row["content"]))
        for call in calls_of(row):
            self._waiting.setdefault(call.name, deque()).append(call.id)
            self.trail.called(call.id, call.name, call.arguments)
            # The tool that ends the task says what the agent claims.
            if call.name == "attempt_completion":
                self.trail.claimed(str(at(call.arguments, "result") or ""))

    def _add_texts_of_user(self, content: Any) -> None:
        blocks = list(blocks_of(content))
        texts = [content] if isinstance(content, str) else []
        for block in blocks:
            if block.kind == "result":
                self._answer(block.id)
                self._add_result(block.id, block.text)
            elif block.kind == "text":
                texts.append(block.text)
        opening = None
        for text in texts:
            if opening is not None:
                # Older versions write the output into a text of its own.
                self._add_named_result(opening, text)
                opening = None
                continue
            match = _RESULT.match(text)
            if match is None:
                self._add_words(text)
            elif text[match.end() :].strip():
                self._add_named_result(match, text[match.end() :])
            else:
                opening = match

    def _answer(self, identifier: str) -> None:
        """Note that a call has its result."""
        for waiting in self._waiting.values():
            if identifier in waiting:
                waiting.remove(identifier)

    def _add_words(self, text: str) -> None:
        if text.startswith(_ENVIRONMENT):
            return
        parts = [match[2] for match in _SAID.finditer(text)]
        self.trail.user("\n".join(parts) or text)

    def _add_named_result(self, opening: re.Match[str], output: str) -> None:
        """Add a result that names its tool, and perhaps its command or file."""
        tool, argument = opening[1], opening[2] or ""
        waiting = self._waiting.get(tool)
        identifier = waiting.popleft() if waiting else ""
        if tool in _ASKING:
            self._add_words(output)
            return
        if identifier:
            self._add_result(identifier, output)
            return
        self._count += 1
        identifier = f"text-{self._count}"
        name = "command" if tool == _SHELL else "path"
        self.trail.called(identifier, tool, {name: argument} if argument else {})
        self._add_result(identifier, output)

    def _add_result(self, identifier: str, output: str) -> None:
        facts = ("denied",) if output.startswith(_DENIED) else ()
        self.trail.result(identifier, output, facts)
        for match in _SAID.finditer(output):
            self.trail.user(match[2])
