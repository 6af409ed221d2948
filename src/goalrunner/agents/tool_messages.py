"""The messages that answer tool calls."""

from __future__ import annotations

import re
from typing import Any

from goalrunner.core.agent_ports import Recorded
from goalrunner.core.errors import shortened

LONGEST_RESULT = 20_000
"""Characters of one tool result that the model gets."""

# https://en.wikipedia.org/wiki/ANSI_escape_code#Control_Sequence_Introducer_commands
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Control characters that are neither a tab nor a line end.
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


def tool_message_text(recorded: Recorded) -> str:
    """Return the text of a tool message.

    It has the result's id and facts, then its output, truncated.
    """
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}]"
    if facts:
        heading = f"{heading} ({facts})"
    text = recorded.head.decode(errors="replace")
    if recorded.tail:
        tail = recorded.tail.decode(errors="replace")
        text = f"{text}\n[... {recorded.omitted:,} bytes left out ...]\n{tail}"
    text = shortened(text, LONGEST_RESULT, "; the whole output is kept")
    # Colours cost tokens, and some providers reject control characters.
    text = _COLOUR.sub("", text).translate(_CONTROL)
    return f"{heading}\n{text or '[no output]'}"


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """Return the answer to a tool call in OpenAI's format."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}
