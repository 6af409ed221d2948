"""The history of a chat in the prompt of an agent that does not remember it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import shortened
from goalrunner.core.messages import text_of

LONGEST_HISTORY = 60_000
"""Characters of history in one prompt."""
_LONGEST_QUOTED = 8_000

_OPENING = """\
You have worked on this before, and do not remember it. The files are as you left \
them. This is what was said, oldest first; \
what you said then is quoted as you said it, whether it was right or not."""
_OTHERS_OPENING = """\
Another agent has worked on this before you, and could not go on. The files are as it \
left them. This is what was said, oldest \
first; what the agent said is quoted as it said it, whether it was right or not."""


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the prompts and answers of a chat as text, without tool calls."""
    entries = []
    for message in messages:
        role = message.get("role")
        text = text_of(message.get("content"))
        if role in ("user", "assistant") and text:
            entries.append({"role": role, "content": text})
    return entries


def with_history(
    messages: Sequence[Message], prompt: str, *, by_another: bool = False
) -> str:
    """Return the prompt, preceded by the chat.

    The prompt is not repeated if it is the last message of the chat. If the chat is
    long, its first and its newest messages are quoted. `by_another`: another agent may
    have written the answers in the chat.
    """
    earlier = spoken(messages)
    if earlier and earlier[-1] == {"role": "user", "content": prompt}:
        del earlier[-1]
    names = {"user": "User", "assistant": "The agent" if by_another else "You"}
    quotes = []
    for message in earlier:
        text = message["content"].strip()
        if text:
            quotes.append(_quoted(names[message["role"]], text))
    if not quotes:
        return prompt
    opening = _OTHERS_OPENING if by_another else _OPENING
    history = _within_limit(quotes)
    return "\n\n".join([opening, *history, "This is the new message:", prompt])


def _within_limit(quotes: list[str]) -> list[str]:
    """Return the first quote and as many of the newest as LONGEST_HISTORY allows."""
    # The first message has the task, so it is never left out.
    first, *later = quotes
    room = LONGEST_HISTORY - len(first)
    omitted = len(later)
    while omitted and len(later[omitted - 1]) <= room:
        omitted -= 1
        room -= len(later[omitted])
    if not omitted:
        return quotes
    return [first, f"[{omitted} more left out here]", *later[omitted:]]


def _quoted(name: str, text: str) -> str:
    # Marked line by line, so that a message cannot pretend to be the next one.
    lines = shortened(text, _LONGEST_QUOTED).split("\n")
    quoted = "\n".join(f"> {line}" for line in lines)
    return f"{name}:\n{quoted}"
