"""What an agent's request to its model says that the agent was told: in each wire format, the words of the last user's turn."""

from __future__ import annotations

from typing import Any

from tests.support.fake_provider import Request, texts


def last_prompt(request: Request) -> str:
    """The text of all that follows the model's last turn, results of tools apart."""
    body = request.body
    items = body.get("messages") or body.get("contents") or body.get("input") or []
    if isinstance(items, str):
        return items
    said: list[str] = []
    for item in items:
        if item.get("role") in ("assistant", "model"):
            said = []
        elif item.get("role") == "user":
            said.append(_text(item))
    return "\n".join(said)


def _text(item: dict[str, Any]) -> str:
    return texts(item.get("parts") if "parts" in item else item.get("content"))
