"""What the adapters share: models of a framework as `LLM`, messages in OpenAI's shape, and the record of a turn."""

from __future__ import annotations

import asyncio
import importlib
import json
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from goalrunner.app.build import PreparedRun
from goalrunner.app.keywords import JudgeChoice
from goalrunner.app.session import finish
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, ToolResult
from goalrunner.core.errors import AgentError, AuthenticationFailed, GoalError, ModelNotFound, ProviderUnavailable
from goalrunner.core.events import Account
from goalrunner.core.messages import blocks_of, trail_of
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.llm import LLM, Reply
from goalrunner.llm.custom import OutsideModel

Wrapper = TypeVar("Wrapper")

_wrappers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""By id of the framework's object, so that two runs over it are seen to use one conversation."""


def wrapped(original: object, wrapper: Callable[[Any], Wrapper]) -> Wrapper:
    """Return the conversation over a framework's object: the one that is in use, or a new one."""
    found = _wrappers.get(id(original))
    if found is None:
        found = _wrappers[id(original)] = wrapper(original)
    return cast(Wrapper, found)


def imported(module: str, extra: str) -> Any:
    """Import a module of a framework. Raise ImportError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"{module} cannot be imported ({error}); run: pip install 'goalrunner[{extra}]'"
        raise ImportError(message) from error


def converted(options: dict[str, Any], judge_choice: Callable[[Any], JudgeChoice]) -> dict[str, Any]:
    """Return keywords of `run_goal`, in which `judge` is one of the library's."""
    return {**options, "judge": judge_choice(options["judge"])} if "judge" in options else options


Ask = Callable[[Sequence[Message]], Awaitable[tuple[str, Usage]]]
"""Sends system and user messages (OpenAI's shape) to a model; returns its text and the usage of the call."""


class FrameworkModel(OutsideModel):
    """A model object of a framework, with its own usage account. Retries, keys and addresses are the framework's."""

    def __init__(self, name: str, ask: Ask, account: Account = "agent") -> None:
        super().__init__(name, account)
        self._ask = ask

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Ask once. Tools, schema, temperature and streaming are not used. Raise ModelError."""
        try:
            text, usage = await self._ask(messages)
        except Exception as error:
            raise failure_of(error, self.model) from error
        self.usage = self.usage + usage
        return Reply(text, (), usage, "stop")

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account."""
        return FrameworkModel(self.model, self._ask, account)


def usage_of(input_tokens: int, output_tokens: int, calls: int, cost: float | None = None) -> Usage:
    """Return the usage of so many calls; no tokens at all means that they are unknown."""
    known = input_tokens or output_tokens
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost if cost or not calls else None,
        calls=calls,
        uncounted_calls=0 if known else calls,
    )


def failure_of(error: BaseException, model: str = "") -> GoalError:
    """Return the error of a framework as one of ours. `model` is the name of a judge's model; empty: an agent failed."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    own = next((item for item in chain if isinstance(item, GoalError)), None)
    if own is not None:
        return own
    codes = (getattr(item, "status_code", None) for item in chain)
    status = next((code for code in codes if isinstance(code, int)), None)
    text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    if status in (401, 403):
        return AuthenticationFailed(f"the provider refused the key ({status}): {text}", "set the key of the model")
    if status == 404:
        return ModelNotFound(f"the model was not found: {text}", "correct the name of the model")
    if model:
        return ProviderUnavailable(f"{model} did not answer: {text}")
    return AgentError(f"the agent failed: {text}")


class TurnRecorder:
    """Records the messages of one turn; tool results become reported observations, the agent's text stays a claim."""

    def __init__(self, agent: str, recorder: Recorder) -> None:
        self.recorder = recorder
        self._agent = agent
        self._calls: dict[str, Any] = {}
        self._begun: set[str] = set()

    def begin(self, call_id: str) -> None:
        """Record that the tool of a remembered call is about to run."""
        item = observed(self._calls.get(call_id), {"role": "tool", "tool_call_id": call_id, "content": ""})
        if item is not None and call_id not in self._begun:
            self._begun.add(call_id)
            self.recorder.tool_called(call_id, item.source, item.command)

    async def add(self, message: Message, facts: tuple[str, ...] = ()) -> None:
        """Record a message in OpenAI's shape. `facts` are what the framework says of a tool's result."""
        if message["role"] == "tool":
            await self._result(message, facts)
        self._calls |= {str(call["id"]): call for call in message.get("tool_calls") or ()}
        self.recorder.message(message)

    async def _result(self, message: Message, facts: tuple[str, ...]) -> None:
        call_id = str(message.get("tool_call_id"))
        item = observed(self._calls.get(call_id), message)
        if item is not None:  # a result that only repeats an argument is text of the agent
            self.begin(call_id)
            result = ToolResult(
                tool_call_id=call_id,
                tool=item.source,
                command=item.command,
                facts=facts,
                output=str(message["content"]).encode(errors="replace"),
                summary=", ".join(facts),
                writes=False,
                reported_by=self._agent,
            )
            await self.recorder.tool_result(result)


def observed(call: Mapping[str, Any] | None, result: Message) -> Observation | None:
    """Return the observation of a tool's result, with tool and command; None if it is text of the agent."""
    asked = [{"role": "assistant", "content": "", "tool_calls": [call]}] if call else []
    item = trail_of([*asked, result]).items[-1]
    return item if isinstance(item, Observation) else None


def call_block(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    """Return a tool call in OpenAI's shape; `arguments` are JSON text or what is to be written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def openai_messages(message: Message) -> list[dict[str, Any]]:
    """Return a message of blocks (Strands, Bedrock, Anthropic) in OpenAI's shape; each tool result is a message."""
    blocks = blocks_of(message["content"])
    text = "\n".join(block.text for block in blocks if block.kind == "text")
    if message["role"] == "assistant":
        calls = [call_block(block.id, block.name, block.given) for block in blocks if block.kind == "call"]
        return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}]
    results = [
        {"role": "tool", "tool_call_id": block.id, "content": block.text} for block in blocks if block.kind == "result"
    ]
    return [*results, *([{"role": message["role"], "content": text}] if text or not results else [])]


def block_messages(chat: Iterable[Message]) -> list[dict[str, Any]]:
    """Return a chat in OpenAI's shape as Strands' messages, without its system prompt."""
    found: list[dict[str, Any]] = []
    for message in chat:
        content: list[dict[str, Any]] = [{"text": message["content"]}] if message["content"] else []
        if message["role"] == "tool":
            block = {"toolUseId": message["tool_call_id"], "status": "success", "content": content or [{"text": ""}]}
            content = [{"toolResult": block}]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            given = {"toolUseId": call["id"], "name": function["name"], "input": _parsed(function["arguments"])}
            content.append({"toolUse": given})
        role = "assistant" if message["role"] == "assistant" else "user"
        if message["role"] == "system" or not content:
            continue
        if found and found[-1]["role"] == role:  # results of parallel calls, and a user message after them, are one
            found[-1]["content"].extend(content)
        else:
            found.append({"role": role, "content": content})
    return found


def _parsed(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


class HostedRun:
    """A run whose rounds a framework drives: it asks for the next prompt where a run would send one.

    Use it in one event loop: `start()` for the first prompt, then `next(reply)` after each turn.
    """

    def __init__(self, prepared: PreparedRun) -> None:
        self._prepared = prepared
        self._prompts: asyncio.Queue[str] = asyncio.Queue()
        self._replies: asyncio.Queue[RoundReply | GoalError] = asyncio.Queue()
        self._task: asyncio.Future[GoalOutcome] | None = None

    async def turn(self, prompt: str) -> RoundReply:
        """Hand a prompt to the framework, and wait for the end of its turn. Raise what `next` was given as an error."""
        self._prompts.put_nowait(prompt)
        reply = await self._replies.get()
        if isinstance(reply, GoalError):
            raise reply
        return reply

    async def start(self) -> str | GoalOutcome:
        """Begin the run; return the first prompt, or the outcome of a run that ended before its first round."""
        self._task = asyncio.ensure_future(finish(self._prepared))
        return await self._advance(self._task)

    async def next(self, reply: RoundReply | GoalError) -> str | GoalOutcome:
        """Give the reply of a turn; return the next prompt, or the outcome."""
        if self._task is None:
            raise RuntimeError("the run was not started")
        self._replies.put_nowait(reply)
        return await self._advance(self._task)

    async def cancel(self, reason: str) -> GoalOutcome:
        """End the run as cancelled."""
        if self._task is None:
            raise RuntimeError("the run was not started")
        self._prepared.run.cancel(reason)
        self._task.cancel()
        return await self._task

    async def _advance(self, task: asyncio.Future[GoalOutcome]) -> str | GoalOutcome:
        prompt = asyncio.ensure_future(self._prompts.get())
        try:
            await asyncio.wait((prompt, task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the framework's own task ends
            task.cancel()
            raise
        finally:
            prompt.cancel()
        return await task if task.done() else prompt.result()
