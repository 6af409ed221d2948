"""What a caller hands in as a chat or as a conversation. Owns their refusal at the call, before anything is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goalrunner.errors import UsageError
from goalrunner.model.dialogue import KNOWN_BLOCKS, ROLES, unknown_block

_HINT = "pass the whole chat in OpenAI's shape: [{'role': 'assistant', 'content': '...'}, ...]"


def refuse_no_chat(messages: object) -> None:
    """Raises UsageError for what is no list of chat messages; an empty one is a chat in which nothing was said."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise UsageError(f"messages must be a list of chat messages, not {_kind(messages)}", _HINT)
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping):
            raise UsageError(f"message {number} is no chat message but {_kind(message)}", _HINT)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in ROLES:
            raise UsageError(f"message {number} has the role {role!r:.40}; known: {', '.join(sorted(ROLES))}", _HINT)
        if not isinstance(content, str | list | tuple | Mapping | None):
            raise UsageError(f"the content of message {number} is neither text nor blocks but {_kind(content)}", _HINT)
        if kind := unknown_block(content):
            raise UsageError(f"message {number} has a block of the unknown kind {kind!r}", KNOWN_BLOCKS)


def refuse_no_conversation(value: Any) -> None:
    """Raises UsageError for what cannot be driven."""
    if callable(getattr(value, "send", None)) and hasattr(value, "messages") and not isinstance(value, type):
        return
    name = f'"{value}"' if isinstance(value, str) else _kind(value)
    wanted = value if isinstance(value, str) and value.strip() else "provider/model"
    raise UsageError(
        f"{name} is no conversation: it has no send and messages",
        f'pass chat_conversation("{wanted}"), or an object like goalrunner.ports.Conversation',
    )


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
