"""The model of the built-in agent: its prompts, and a chat in the form and length that it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goalrunner.core.agent_ports import Message, Recorded
from goalrunner.core.errors import ConversationBusy


class TurnLock:
    """Allows one turn of a conversation at a time."""

    def __init__(self) -> None:
        self._held = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock in the context. Raise ConversationBusy if it is held already."""
        if self._held:
            raise ConversationBusy(
                "the turn of this conversation has not ended", "wait for it to end, or use another conversation"
            )
        self._held = True
        try:
            yield
        finally:
            self._held = False


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

OMISSION = re.compile(r"\n\[\.\.\. ([\d,]{1,15}) characters omitted[^\]\n]*\]\n")
"""The mark of an omission with the line ends around it; group 1 is the number of characters."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_PROBE = 8_000


def head_and_tail(text: str, limit: int, note: str) -> str:
    """Return `text`, or its two ends if it is longer than `limit`, with a mark that counts what is omitted.

    `note` ends the mark. An earlier mark in the omitted part is included in the count.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    head, middle, tail = text[:half], text[half : len(text) - half], text[len(text) - half :]
    missing = len(middle)
    for mark in OMISSION.finditer(middle):
        missing += int(mark[1].replace(",", "") or 0) - len(mark[0])
    return f"{head}\n[... {missing:,} characters omitted{note} ...]\n{tail}"


def shown(recorded: Recorded, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the text of a tool message: the result's id and facts, then its output, truncated."""
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}] ({facts})" if facts else f"[{recorded.observation.id}]"
    return f"{heading}\n{_body(recorded, limit)}"


def _body(recorded: Recorded, limit: int) -> str:
    head, tail = recorded.head, recorded.tail
    size = len(head) + recorded.omitted + len(tail)
    if not size:
        return "[no output]"
    if b"\0" in head[:_PROBE]:
        return f"[binary output, {size:,} bytes, beginning with {head[:16].hex(' ')}; the whole output is kept]"
    text = head.decode(errors="replace")
    if tail:
        mark = f"\n[... {recorded.omitted:,} characters omitted ...]\n"
        text = f"{text}{mark}{tail.decode(errors='replace')}"
    text = head_and_tail(text, limit, "; the whole output is kept")
    return _COLOUR.sub("", text).translate(_CONTROL)


_NOTE = " to fit the context window"
_SAVING = 100
"""Characters that a truncation must save at least, or else the mark costs more."""

_PASSES = (
    ("tool", False, 1_000),
    ("assistant", False, 1_000),
    ("tool", False, 100),
    ("assistant", False, 100),
    ("tool", True, 2_000),
    ("user", True, 1_000),
    ("assistant", True, 500),
    ("tool", True, 100),
    ("user", True, 100),
)
"""What is truncated, in order: role, whether the newest step is included, and the characters that are left."""


def size(message: Message) -> int:
    """Return the characters of a message, including its tool calls."""
    content = message.get("content")
    text = len(content) if isinstance(content, str) else len(json.dumps(content, default=str)) if content else 0
    calls = message.get("tool_calls") or ()
    return text + sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) + 40 for call in calls) + 20


def total(messages: Sequence[Message]) -> int:
    """Return the characters of a chat."""
    return sum(size(message) for message in messages)


def shorten(messages: Sequence[Message], target: int, protected: Collection[int]) -> list[Message] | None:
    """Return the chat, truncated to `target` characters or as near as possible; None if nothing can be truncated.

    `protected` are the indexes of messages that are never truncated; system messages never are.
    """
    result = list(messages)
    weight = before = total(result)
    newest = max((at for at, message in enumerate(result) if message.get("role") == "assistant"), default=len(result))
    for role, includes_newest, keep in _PASSES:
        for at, message in enumerate(result):
            if weight <= target:
                return result
            if at in protected or message.get("role") != role or (at >= newest and not includes_newest):
                continue
            result[at] = _shortened(message, keep)
            weight += size(result[at]) - size(message)
    return result if weight < before else None


def _shortened(message: Message, keep: int) -> Message:
    def cut(text: str) -> str:
        return head_and_tail(text, keep, _NOTE) if len(text) > keep + _SAVING else text

    changed, content = dict(message), message.get("content")
    if isinstance(content, str):
        changed["content"] = cut(content)
    elif isinstance(content, list):
        texts = (isinstance(block, dict) and isinstance(block.get("text"), str) for block in content)
        changed["content"] = [
            {**block, "text": cut(block["text"])} if is_text else block
            for block, is_text in zip(content, texts, strict=True)
        ]
    if message.get("tool_calls"):
        changed["tool_calls"] = [_cut_call(call, cut) for call in message["tool_calls"]]
    return changed


def _cut_call(call: dict[str, Any], cut: Callable[[str], str]) -> dict[str, Any]:
    """Truncate the long strings of a call. Its arguments stay a JSON object, because providers parse them."""
    function = call["function"]
    if cut(function["arguments"]) == function["arguments"]:
        return call
    try:
        arguments = _mapped(json.loads(function["arguments"]), cut)
    except (ValueError, RecursionError):
        arguments = {"malformed_arguments": cut(function["arguments"])}
    return {**call, "function": {**function, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return [_mapped(inner, change) for inner in value] if isinstance(value, list) else value


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


def never_empty(message: Message) -> Message:
    """Return the message, with a text if it is an empty one of the assistant, which some providers reject."""
    empty = message.get("role") == "assistant" and not message.get("content") and not message.get("tool_calls")
    return {**message, "content": "[no text]"} if empty else message
