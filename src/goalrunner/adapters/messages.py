"""Recording of the messages of LangChain, LangGraph, deepagents and pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.adapters.framework import framework_module, usage_of
from goalrunner.adapters.message_formats import call_block
from goalrunner.adapters.turn_recorder import TurnRecorder
from goalrunner.agents.chat import answers_due
from goalrunner.core.agent_ports import Message, Recorder
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.messages import ROLES, block_text, facts_of, text_of
from goalrunner.core.observation import OF_SUBAGENT
from goalrunner.core.outcome import Usage
from goalrunner.core.tool_arguments import is_subagent

_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
}
"""The roles of LangChain's types of messages."""
# System prompts, and the removal of an old message from a graph's state.
_LANGCHAIN_OTHERS = ("system", "remove")


@dataclass(frozen=True)
class _Entry:
    """A message in OpenAI's format, with the facts about the result in it."""

    message: dict[str, Any]
    facts: tuple[str, ...] = ()


class MessageRecorder:
    """Records one turn of an agent of another framework while it works.

    Results of tools become observations that the agent reports, its texts claims. The
    usage that the messages contain is counted.
    """

    def __init__(
        self, recorder: Recorder, agent: str, earlier: Iterable[object] = ()
    ) -> None:
        """`agent` is the name of the reporter; `earlier` are messages of other turns.

        Example: `MessageRecorder(recorder, "langgraph", earlier=self.chat)`
        """
        self._recorder = recorder
        self._turn = TurnRecorder(agent, recorder)
        # The messages themselves, because a key may be the address of one.
        self._recorded: dict[object, object] = {}
        for message in earlier:
            self._remember(message)

    async def add(self, messages: Iterable[Any]) -> None:
        """Record those of the messages that are new.

        `messages` is the chat so far, or a part of it: messages of LangChain or
        pydantic-ai, or mappings in OpenAI's format. Call this after each step of the
        agent: results then count if no file changed after their tools were called. A
        result that comes together with its call counts only if no file changed in the
        whole round. Raise UsageError for another message, and BudgetExhausted if the
        budget is spent before the next model call.
        """
        new_messages = [item for item in messages if not self._is_recorded(item)]
        entries = []
        for message in new_messages:
            self._remember(message)
            entries += _entries_of(message)
        for message in new_messages:
            usage = _usage_of(message)
            if usage is not None:
                self._recorder.usage("agent", usage)
        for entry in entries:
            await self._turn.add(entry.message, entry.facts)
        self._begin_calls(entries)
        # After its last answer, the agent calls no model.
        if entries and _is_before_a_call(entries[-1].message):
            self._recorder.check_budget()

    def _begin_calls(self, entries: Sequence[_Entry]) -> None:
        """Record the calls whose tools are about to run."""
        results = {entry.message.get("tool_call_id") for entry in entries}
        for entry in entries:
            for call in entry.message.get("tool_calls") or ():
                if call["id"] not in results:
                    self._turn.begin(call["id"])

    def _is_recorded(self, message: object) -> bool:
        return any(key in self._recorded for key in _keys_of(message))

    def _remember(self, message: object) -> None:
        self._recorded |= dict.fromkeys(_keys_of(message), message)


def openai_chat(messages: Iterable[Any]) -> list[Message]:
    """Return messages of LangChain or pydantic-ai in OpenAI's format.

    Raise UsageError for another message.
    """
    return [entry.message for message in messages for entry in _entries_of(message)]


def langchain_chat(messages: Sequence[Message]) -> list[Any]:
    """Return a recorded chat in OpenAI's format as messages of LangChain.

    Calls without a result get one that says so.
    """
    langchain = framework_module("langchain_core.messages", "langchain-core")
    chat: list[Any] = langchain.convert_to_messages(_settled(messages))
    return chat


def pydantic_chat(messages: Sequence[Message]) -> list[Any]:
    """Return a recorded chat in OpenAI's format as messages of pydantic-ai.

    Calls without a result get one that says so.
    """
    module = framework_module("pydantic_ai.messages", "pydantic-ai")
    tools: dict[str, str] = {}
    chat: list[Any] = []
    for message in _settled(messages):
        content = text_of(message["content"])
        call_id = str(message.get("tool_call_id"))
        if message["role"] == "user":
            chat.append(module.ModelRequest([module.UserPromptPart(content)]))
        elif message["role"] == "tool":
            part = module.ToolReturnPart(tools.get(call_id, ""), content, call_id)
            chat.append(module.ModelRequest([part]))
        elif message["role"] == "assistant":
            parts = [module.TextPart(content)] if content else []
            for call in message.get("tool_calls") or ():
                name, arguments = (
                    call["function"]["name"],
                    call["function"]["arguments"],
                )
                tools[call["id"]] = name
                parts.append(module.ToolCallPart(name, arguments, call["id"]))
            chat.append(module.ModelResponse(parts))
    return chat


def _settled(messages: Sequence[Message]) -> list[Message]:
    return [*messages, *answers_due(messages)]


def _keys_of(message: object) -> list[object]:
    """Return what identifies a message: its address, and LangChain's id."""
    identifier = getattr(message, "id", None)
    return [id(message), identifier] if isinstance(identifier, str) else [id(message)]


def _is_before_a_call(message: Message) -> bool:
    return message["role"] != "assistant" or bool(message.get("tool_calls"))


def _entries_of(message: Any) -> list[_Entry]:
    """Return a message in OpenAI's format; nothing for a system prompt."""
    if isinstance(message, Mapping) and message.get("role") in ROLES:
        return [_Entry(dict(message))]
    kind = getattr(message, "type", None)
    if kind in _LANGCHAIN_ROLES:
        return _langchain_entries(message, _LANGCHAIN_ROLES[kind])
    if kind in _LANGCHAIN_OTHERS:
        return []
    match getattr(message, "kind", None):
        case "request":
            return [*filter(None, map(_request_entry, message.parts))]
        case "response":
            return _response_entries(message)
    raise UsageError(
        f"{kind_of(message)} is not a message of LangChain, pydantic-ai or OpenAI",
        "convert it to a mapping with role and content, as in OpenAI's format",
    )


def _usage_of(message: Any) -> Usage | None:
    """Return the usage of the model call that made a message; None if none did."""
    if getattr(message, "kind", None) == "response":
        used = message.usage
        return usage_of(used.input_tokens, used.output_tokens, 1, _cost_of(message))
    if _LANGCHAIN_ROLES.get(getattr(message, "type", "")) != "assistant":
        return None
    counts = message.usage_metadata or {}
    # LangChain knows no prices.
    return usage_of(counts.get("input_tokens", 0), counts.get("output_tokens", 0), 1)


def _cost_of(response: Any) -> float | None:
    """Return the price of a response in US dollars; None if it is not known."""
    # A gateway reports what it charged.
    reported = getattr(response.usage, "cost", None)
    if reported is not None:
        return float(reported)
    try:
        return float(response.cost().total_price)
    # What pydantic-ai raises for a model without a price, or without a name.
    except (LookupError, ValueError, AssertionError):
        return None


def _langchain_entries(message: Any, role: str) -> list[_Entry]:
    match role:
        case "user":
            return [_user_entry(message.content)]
        case "assistant":
            calls = []
            for call in message.tool_calls:
                calls.append(call_block(str(call["id"]), call["name"], call["args"]))
            return [_agent_entry(text_of(message.content), calls)]
        case _:
            output = block_text(message.content)
            return [_result_entry(message, message.name, output, message.status)]


def _request_entry(part: Any) -> _Entry | None:
    """Return a part of a request of pydantic-ai; None if it is an instruction."""
    match part.part_kind:
        case "tool-return" | "builtin-tool-return":
            output = part.model_response_str()
            # Versions before 1.0 have no outcome.
            outcome = getattr(part, "outcome", "success")
            return _result_entry(part, part.tool_name, output, outcome)
        # Later versions make it a result with the outcome "retried".
        case "retry-prompt" if part.tool_name:
            return _result_entry(part, part.tool_name, part.model_response(), "retried")
        case "user-prompt":
            return _user_entry(part.content)
    return None


def _response_entries(response: Any) -> list[_Entry]:
    """Return a response of pydantic-ai, with results of tools of the provider."""
    texts = []
    calls = []
    results = []
    for part in response.parts:
        match part.part_kind:
            case "text":
                texts.append(part.content)
            case "tool-call" | "builtin-tool-call":
                arguments = part.args_as_json_str()
                calls.append(call_block(part.tool_call_id, part.tool_name, arguments))
            case "builtin-tool-return":
                results.append(_request_entry(part))
    return [_agent_entry("\n".join(texts), calls), *filter(None, results)]


def _user_entry(content: object) -> _Entry:
    return _Entry({"role": "user", "content": text_of(content)})


def _agent_entry(text: str, calls: list[dict[str, Any]]) -> _Entry:
    entry: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        entry["tool_calls"] = calls
    return _Entry(entry)


def _result_entry(source: Any, tool: str | None, output: str, outcome: str) -> _Entry:
    """Return the result of a tool; `source` is the framework's own message or part."""
    entry = {
        "role": "tool",
        "tool_call_id": source.tool_call_id,
        "name": tool or "",
        "content": output,
    }
    facts = facts_of(output, failed=outcome != "success")
    # As in saved transcripts, the report of another agent is a claim.
    if is_subagent(tool or ""):
        facts = (*facts, OF_SUBAGENT)
    return _Entry(entry, facts)
