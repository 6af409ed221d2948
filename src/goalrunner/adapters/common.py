"""Common parts of the adapters: `run_goal` over an agent, messages in OpenAI's format, and the record of a turn."""

from __future__ import annotations

import importlib
import json
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import goalrunner
from goalrunner import Goal
from goalrunner.agents.external_chat import GO_ON
from goalrunner.agents.turn import reported_result
from goalrunner.app.previous_run import Reference
from goalrunner.app.run_options import JudgeChoice, RunKeywords
from goalrunner.core.agent_ports import (
    CALLED,
    Message,
    Recorder,
    RoundReply,
    Unfinished,
)
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.freshness import start_of
from goalrunner.core.messages import TIMESTAMP, blocks_of
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.core.user_messages import persons_text


def framework_module(module: str, extra: str) -> Any:
    """Import a module of a framework. Raise ImportError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"{module} cannot be imported ({error}); run: pip install 'goalrunner[{extra}]'"
        raise ImportError(message) from error


class FrameworkConversation:
    """The base class of the frameworks' conversations. Subclasses add `send`, `load` and checkpoints."""

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        raise NotImplementedError

    def load(
        self, messages: Sequence[Message], left: Unfinished, recorder: Recorder
    ) -> None:
        raise NotImplementedError

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        self.load(messages, Unfinished(), recorder)
        for message in messages:
            recorder.message(message)

    async def resume_turn(
        self, notice: str, left: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn; the framework reports calls without a result to the model."""
        return await self.send(notice or GO_ON, recorder)


_wrappers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Conversations by the id of the framework's object, so that two runs over one object use the same conversation."""


class Library:
    """`run_goal` and `resume` over agents of a framework. `judge_llm` is a model of it, or a judge for `goalrunner`."""

    def __init__(
        self,
        conversation: Callable[[Any], Any],
        judge: Callable[[Any], JudgeChoice],
        max_iterations: int | None = None,
    ) -> None:
        """`max_iterations` is the framework's own default limit, if it has one."""
        self._conversation = conversation
        self._judge = judge
        self._defaults: RunKeywords = (
            {} if max_iterations is None else {"max_iterations": max_iterations}
        )

    def adapted(self, options: RunKeywords) -> RunKeywords:
        """Return the keywords of a new run. A model of the framework as `judge` is converted."""
        return {**self._defaults, **self.adapted_judge(options)}

    def adapted_judge(self, options: RunKeywords) -> RunKeywords:
        """Return the keywords of a run that is resumed, with a model of the framework as `judge` converted."""
        return (
            {**options, "judge": self._judge(options["judge"])}
            if "judge" in options
            else options
        )

    def run_goal(
        self,
        agent: Any,
        objective: str | Goal,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `goalrunner.run_goal` over an agent."""
        judge = self._judge(judge_llm)
        return goalrunner.run_goal(
            self._wrapped(agent), objective, judge, **self.adapted(options)
        )

    async def arun_goal(
        self,
        agent: Any,
        objective: str | Goal,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `run_goal` in the running event loop."""
        judge = self._judge(judge_llm)
        return await goalrunner.arun_goal(
            self._wrapped(agent), objective, judge, **self.adapted(options)
        )

    def resume(
        self,
        run: Reference,
        agent: Any,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `goalrunner.resume` over an agent, the same one or a new one, which gets the run's chat."""
        judge = self._judge(judge_llm)
        return goalrunner.resume(
            run, self._wrapped(agent), judge, **self.adapted_judge(options)
        )

    async def aresume(
        self,
        run: Reference,
        agent: Any,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `resume` in the running event loop."""
        judge = self._judge(judge_llm)
        return await goalrunner.aresume(
            run, self._wrapped(agent), judge, **self.adapted_judge(options)
        )

    def _wrapped(self, agent: object) -> Any:
        """Return the conversation over an agent: the existing one, or a new one."""
        found = _wrappers.get(id(agent))
        if found is None:
            found = _wrappers[id(agent)] = self._conversation(agent)
        return found


def usage_of(
    input_tokens: int, output_tokens: int, calls: int, cost: float | None = None
) -> Usage:
    """Return the usage of `calls` calls. If all tokens are zero, they count as unknown."""
    known = input_tokens or output_tokens
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost if cost or not calls else None,
        calls=calls,
        uncounted_calls=0 if known else calls,
    )


class TurnRecorder:
    """Records the messages of one turn; tool results become reported observations, the agent's text stays a claim."""

    def __init__(self, agent: str, recorder: Recorder, prompt: str = "") -> None:
        """`prompt` is that of the turn. Other user messages are a person's if it is given, else the framework's."""
        self.recorder = recorder
        self._prompt = prompt
        self._agent = agent
        self._calls: dict[str, Any] = {}
        self._starts: dict[str, int | None] = {}

    def begin(self, call_id: str) -> None:
        """Record that the tool of a remembered call is about to run."""
        item = observed(
            self._calls.get(call_id),
            {"role": "tool", "tool_call_id": call_id, "content": ""},
        )
        if item is not None and self._starts.get(call_id) != CALLED:
            self._starts[call_id] = CALLED
            self.recorder.tool_called(call_id, item.source, item.command)

    async def add(self, message: Message, facts: tuple[str, ...] = ()) -> None:
        """Record a message in OpenAI's format. `facts` are the framework's facts about a tool's result."""
        if message["role"] == "tool":
            await self._result(message, facts)
        calls = {str(call["id"]): call for call in message.get("tool_calls") or ()}
        self._calls |= calls
        self._starts |= dict.fromkeys(calls, start_of(message.get(TIMESTAMP)))
        self.recorder.message(
            {key: value for key, value in message.items() if key != TIMESTAMP}
        )
        if self._prompt:
            for one in trail_of([message]).said:
                if own := persons_text(one.text, [self._prompt]):
                    self.recorder.user_said(own)

    async def _result(self, message: Message, facts: tuple[str, ...]) -> None:
        call_id = str(message.get("tool_call_id"))
        item = observed(self._calls.get(call_id), message)
        if (
            item is not None
        ):  # a result that only repeats an argument is text of the agent
            started = self._starts.get(call_id)
            self.begin(call_id)
            output = str(message["content"])
            result = reported_result(
                self._agent,
                call_id,
                item.source,
                item.command,
                facts,
                output=output,
                started=started,
            )
            await self.recorder.tool_result(result)


def observed(call: Mapping[str, Any] | None, result: Message) -> Observation | None:
    """Return the observation of a tool's result, with tool and command; None if it is text of the agent."""
    asked = [{"role": "assistant", "content": "", "tool_calls": [call]}] if call else []
    item = trail_of([*asked, result]).items[-1]
    return item if isinstance(item, Observation) else None


def call_block(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    """Return a tool call in OpenAI's format; `arguments` are JSON text, or a value to convert to JSON."""
    text = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def openai_messages(message: Message) -> list[dict[str, Any]]:
    """Convert a message of blocks (Strands, Bedrock, Anthropic) to OpenAI's format; each tool result is a message."""
    blocks = blocks_of(message["content"])
    text = "\n".join(block.text for block in blocks if block.kind == "text")
    if message["role"] == "assistant":
        calls = [
            call_block(block.id, block.name, block.arguments)
            for block in blocks
            if block.kind == "call"
        ]
        return [
            {
                "role": "assistant",
                "content": text,
                **({"tool_calls": calls} if calls else {}),
            }
        ]
    results = [
        {"role": "tool", "tool_call_id": block.id, "content": block.text}
        for block in blocks
        if block.kind == "result"
    ]
    return [
        *results,
        *([{"role": message["role"], "content": text}] if text or not results else []),
    ]


def block_messages(chat: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert a chat from OpenAI's format to Strands' messages, without its system prompt."""
    found: list[dict[str, Any]] = []
    for message in chat:
        content: list[dict[str, Any]] = (
            [{"text": message["content"]}] if message["content"] else []
        )
        if message["role"] == "tool":
            block = {
                "toolUseId": message["tool_call_id"],
                "status": "success",
                "content": content or [{"text": ""}],
            }
            content = [{"toolResult": block}]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            try:
                arguments = json.loads(function["arguments"])
            except ValueError:
                arguments = {}
            given = {
                "toolUseId": call["id"],
                "name": function["name"],
                "input": arguments,
            }
            content.append({"toolUse": given})
        role = "assistant" if message["role"] == "assistant" else "user"
        if message["role"] == "system" or not content:
            continue
        if (
            found and found[-1]["role"] == role
        ):  # results of parallel calls, and a user message after them, are one
            found[-1]["content"].extend(content)
        else:
            found.append({"role": role, "content": content})
    return found
