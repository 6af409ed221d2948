"""What was said so far, for an agent that does not remember it. Owns the words and the bound; pure."""

from __future__ import annotations

from collections.abc import Sequence

from goalrunner.agents.external.bounded import shortened
from goalrunner.ports import Message

LONGEST = 60_000
"""Characters of history in one prompt."""
_LONGEST_MESSAGE = 8_000

_OPENING = """\
You have worked on this before, and do not remember it. The files are as you left them. This is what was said, oldest first; \
what you said then is quoted as you said it, whether it was right or not."""
_OMITTED = "[{number} more left out here]"
_CLOSING = "This is what you are told now:"
_NAMES = {"user": "You were told", "assistant": "You said"}


def with_history(messages: Sequence[Message], prompt: str, longest: int = LONGEST) -> str:
    """The prompt, with what was said before it. The first message and the newest are kept, in `longest` characters."""
    said = [_entry(message) for message in messages if message.get("role") in _NAMES and _content(message)]
    if not said:
        return prompt
    first, rest = said[0], said[1:]
    room = longest - len(first)
    kept: list[str] = []
    for entry in reversed(rest):
        room -= len(entry)
        if room < 0:
            break
        kept.insert(0, entry)
    gap = [_OMITTED.format(number=len(rest) - len(kept))] if len(kept) < len(rest) else []
    return "\n\n".join([_OPENING, first, *gap, *kept, _CLOSING, prompt])


def _entry(message: Message) -> str:
    text = shortened(_content(message), _LONGEST_MESSAGE)
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    return f"{_NAMES[message['role']]}:\n{quoted}"


def _content(message: Message) -> str:
    content = message.get("content")
    return content.strip() if isinstance(content, str) else ""
