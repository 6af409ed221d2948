"""The chat of the built-in agent in the form and length that models accept, and the system prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from goalrunner.core.agent_ports import Message, Recorded
from goalrunner.core.errors import ConversationBusy, shortened
from goalrunner.llm.client import object_arguments


@contextmanager
def only_turn(lock: Lock) -> Iterator[None]:
    """Hold the lock of a conversation in the context. Raise ConversationBusy if another turn holds it."""
    if not lock.acquire(blocking=False):
        hint = "wait for it to end, or use another conversation"
        raise ConversationBusy("the turn of this conversation has not ended", hint)
    try:
        yield
    finally:
        lock.release()


SYSTEM_PROMPT = """\
You are a software agent. You work on your own, without a person to ask, until the objective is reached.

Your workspace is the folder {workspace}. You act through your tools alone: commands run there, and files are read and \
written there and nowhere else.

After your turn a runner checks by itself whether the objective is reached: it runs its own checks and reads what your tool \
calls really gave. Only observed results count. What you say about your work counts for nothing, so let a command show it.

- Look before you change: read the files concerned, and run the existing checks.
- Keep to what is asked. Never weaken a test or a check to make it pass.
- When a call fails, read its output and find the cause before you try again.
- When the work is done, clean up what you do not need, and then check last: run the commands whose output shows that each \
requirement holds, on the final state of the files.
- If the objective cannot be reached, say so, and show by a command why.

End your turn with a short summary and no tool call."""

ANSWER_PROMPT = """\
You answer on your own, without a person to ask. After your turn a runner checks your last message against the objective, so \
put the whole answer into it and nothing else."""
"""The prompt of an agent without tools."""


def built_in_prompt(workspace: Path | None) -> str:
    """Return the system prompt of an agent with tools in `workspace`, or of one without tools (None)."""
    return ANSWER_PROMPT if workspace is None else SYSTEM_PROMPT.format(workspace=workspace)


SHOWN_CHARACTERS = 20_000
"""Characters of one tool result that the model gets."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


def shown(recorded: Recorded) -> str:
    """Return the text of a tool message: the result's id and facts, then its output, truncated."""
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}] ({facts})" if facts else f"[{recorded.observation.id}]"
    text = recorded.head.decode(errors="replace")
    if recorded.tail:
        text = f"{text}\n[... {recorded.omitted:,} bytes left out ...]\n{recorded.tail.decode(errors='replace')}"
    text = shortened(text, SHOWN_CHARACTERS, "; the whole output is kept")
    return f"{heading}\n{_COLOUR.sub('', text).translate(_CONTROL) or '[no output]'}"


_NOTE = " to fit the context window"
_SAVING = 100
"""Characters that a truncation must save: the mark that it leaves takes some itself."""
_PASSES = ((1_000, False), (100, False), (1_000, True), (100, True))
"""The passes of a truncation: the characters of a text that are kept, and whether the newest step is included."""


def size(*messages: Message) -> int:
    """Return the characters of messages as they are sent."""
    return sum(len(json.dumps(message, ensure_ascii=False, default=str)) for message in messages)


def shorten(messages: Sequence[Message], target: int, protected: Collection[int]) -> list[Message] | None:
    """Return the chat, truncated to `target` characters or as near as possible; None if nothing can be truncated.

    The oldest texts are truncated first. `protected` are the indexes of messages that are never truncated; system
    messages never are.
    """
    result = list(messages)
    weight = before = size(*messages)
    newest = max((at for at, message in enumerate(result) if message.get("role") == "assistant"), default=len(result))
    for keep, includes_newest in _PASSES:
        for at, message in enumerate(result):
            if weight <= target:
                return result
            if at not in protected and message.get("role") != "system" and (at < newest or includes_newest):
                result[at] = _cut(message, keep)
                weight += size(result[at]) - size(message)
    return result if weight < before else None


def _cut(message: Message, keep: int) -> Message:
    """Return the message with its long texts truncated. Arguments stay a JSON object, because providers parse them."""

    def cut(value: Any) -> Any:
        is_long = isinstance(value, str) and len(value) > keep + _SAVING
        return shortened(value, keep, _NOTE) if is_long else value

    changed = {**message, "content": cut(message.get("content"))}
    if message.get("tool_calls"):
        changed["tool_calls"] = []
        for call in message["tool_calls"]:
            given = json.loads(object_arguments(call["function"]["arguments"]))
            arguments = {name: cut(value) for name, value in given.items()}
            function = {**call["function"], "arguments": json.dumps(arguments, ensure_ascii=False)}
            changed["tool_calls"].append({**call, "function": function})
    return changed


INTERRUPTED = "interrupted; its effect is unknown"
NOT_RUN = "not run: the turn was interrupted before it"


def answers_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the tool messages that are missing at the end of the chat, in order.

    Calls run one after another: the first without an answer may have begun, the others have not.
    """
    due = calls_due(messages)
    return [tool_message(call["id"], INTERRUPTED if at == 0 else NOT_RUN) for at, call in enumerate(due)]


def calls_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the tool calls at the end of the chat that have no answer, in order."""
    answered = 0
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        answered += 1
    asked = messages[-1 - answered] if answered < len(messages) else {}
    calls = (asked.get("tool_calls") or []) if asked.get("role") == "assistant" else []
    return list(calls[answered:])


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """Return the answer to a tool call in OpenAI's format."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}
