"""What a Python validator is called with. Owns the shape of the response: a message with text blocks."""

from __future__ import annotations

from typing import Any


def response_message(text: str) -> dict[str, Any]:
    """The round's last message as GoalLoop's validators get it: `response["content"]` is a list of `{"text": ...}`."""
    return {"role": "assistant", "content": [{"text": text}]}
