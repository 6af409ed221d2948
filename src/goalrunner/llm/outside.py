"""Models that LiteLLM does not call: recordings, and functions, objects and other frameworks' models of a program."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import (
    AgentError,
    AuthenticationFailed,
    GoalError,
    ModelError,
    ModelNotFound,
    ProviderUnavailable,
    RecordError,
    RequestRejected,
    UsageError,
    kind_of,
    one_line,
)
from goalrunner.core.events import Account
from goalrunner.core.field_types import Frozen
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage
from goalrunner.llm.client import LLM, Draft, Reply, Request, Tape
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.records.files import AppendFile
from goalrunner.system.event_loop import in_thread

PREFIX = "scripted/"
PIECES = 4  # a text arrives in about that many pieces, like a stream


def is_scripted(model: str) -> bool:
    """Return whether a model's name means a recording: `scripted/<path>`."""
    return model.startswith(PREFIX)


class ScriptedCall(Frozen):
    """A tool call of a recorded reply. Without an id it gets one when it is played: call_1, call_2, ..."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return (
            self.arguments
            if isinstance(self.arguments, str)
            else json.dumps(self.arguments, ensure_ascii=False)
        )


class ScriptedError(Frozen):
    """A failure in place of an answer: a stream that is cut, a timeout, an HTTP status, or else a refused connection."""

    status: int | None = Field(default=None, ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0, description="seconds")
    cut: bool = False
    timeout: bool = False

    def failure(self) -> ProviderFailure:
        """Return the failure that a provider would cause."""
        if self.cut:
            return ProviderFailure(
                self.message or "the answer ended early", kind=FailureKind.CUT
            )
        if self.timeout:
            return ProviderFailure(
                self.message or "no answer in time", kind=FailureKind.TIMEOUT
            )
        return ProviderFailure(
            self.message, status=self.status, retry_after=self.retry_after
        )


class ScriptedReply(Frozen):
    """One line of a recording."""

    account: Account | None = None
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: Usage = Field(default_factory=Usage)
    finish_reason: str = ""
    delay: float = Field(
        default=0.0, ge=0, description="seconds before the answer begins"
    )
    error: ScriptedError | None = None


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Return the lines of a recording. Raise UsageError with the file and the invalid line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        hint = f'A model "{PREFIX}<file>" replays the replies in that file; check the path.'
        raise UsageError(
            f"the recording {path} cannot be read: {error.strerror or error}", hint
        ) from error
    replies = []
    for number, line in enumerate(lines, start=1):
        try:
            replies += [ScriptedReply.model_validate_json(line)] if line.strip() else []
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            hint = f"Each line is one JSON object; its keys: {', '.join(ScriptedReply.model_fields)}."
            raise UsageError(
                f"{path}:{number}: {where and f'{where}: '}{first['msg']}", hint
            ) from error
    return tuple(replies)


def new_tape(path: Path | str, *, redact: Callable[[str], str] = str) -> Tape:
    """Return a function that appends the replies of agent and judge to a new file. Each line is on disk when it returns.

    `redact` replaces secrets in every text. The file is opened once, so a link that replaces it later is not followed.
    Raise UsageError if the file cannot be created or is not empty; the function raises RecordError.
    """
    target = Path(path).resolve()  # a link that the user gave is followed
    if os.path.exists(target) and not (target.is_file() and target.stat().st_size == 0):  # noqa: PTH110 - never raises
        raise UsageError(
            f"{path} exists and is not an empty file",
            "Name another file for the recording.",
        )
    try:
        file = AppendFile(target)
    except RecordError as error:
        hint = "Name a file in a folder that exists and is writable."
        raise UsageError(
            f"the recording cannot be written: {error.message}", hint
        ) from error
    lock = threading.Lock()

    def record(account: Account, reply: Reply) -> None:
        line: dict[str, Any] = {"account": account, "text": clean(redact(reply.text))}
        if reply.tool_calls:
            line["tool_calls"] = [
                {
                    "id": call.id,
                    "name": clean(redact(call.name)),
                    "arguments": clean(redact(call.arguments)),
                }
                for call in reply.tool_calls
            ]
        line["usage"] = reply.usage.model_dump(
            include={"input_tokens", "output_tokens", "cost_usd"}
        )
        line["finish_reason"] = reply.finish_reason
        with lock:
            file.append(json.dumps(line, allow_nan=False).encode())

    weakref.finalize(record, file.close)
    return record


class ScriptedModel(LLM):
    """Plays the lines of one recording that are for one account, in order."""

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._path = Path(model.removeprefix(PREFIX))
        self._lines = [
            line
            for line in read_script(self._path)
            if line.account in (None, self.account)
        ]
        self._next = 0
        self._calls = 0

    async def send(self, request: Request, draft: Draft) -> None:
        """Play the next line. Raise ModelError at the end of the recording."""
        line = self._take()
        await asyncio.sleep(line.delay)
        if line.error is not None and not line.error.cut:
            raise line.error.failure()
        size = max(1, -(-len(line.text) // PIECES))
        for start in range(0, len(line.text), size):
            await asyncio.sleep(0)
            draft.add_text(line.text[start : start + size])
        for index, call in enumerate(line.tool_calls):
            self._calls += 1
            draft.add_call(
                index, call.id or f"call_{self._calls}", call.name, call.text
            )
        if line.error is not None:
            raise line.error.failure()
        draft.report = line.usage
        draft.finish_reason = line.finish_reason or (
            "tool_calls" if line.tool_calls else "stop"
        )

    def separate(self, account: Account) -> LLM:
        return ScriptedModel(self.model, account=account, tape=self._tape)

    def has_price(self) -> bool:
        return True

    def cost_of(self, usage: Usage) -> float | None:
        return 0.0

    def skip(self, replies: int) -> None:
        """Skip the first `replies` answered replies, and the errors between them."""
        while replies > 0:
            line = self._take()
            self._calls += len(line.tool_calls)
            replies -= 0 if line.error else 1

    def _take(self) -> ScriptedReply:
        if self._next >= len(self._lines):
            raise ModelError(
                f"the recording has no more replies for the {self.account}: {self._next} were used",
                f"{self._path} is at its end; record a longer run, or name a real model.",
            )
        self._next += 1
        return self._lines[self._next - 1]


CUSTOM = "custom/"  # the prefix of the names of functions and objects

Ask = Callable[[Sequence[Message]], Awaitable[tuple[str, Usage]]]
"""Sends system and user messages (OpenAI's format) to a model; returns its text and the usage of the call."""


def is_custom(model: str) -> bool:
    """Return whether the name is that of a function or object of the calling program."""
    return model.startswith(CUSTOM)


class OutsideModel(LLM):
    """A model that is not called through LiteLLM, with its own usage account. Context window and price are unknown."""

    def __init__(self, name: str, ask: Ask, account: Account = "agent") -> None:
        super().__init__(name, account=account)
        self._ask = ask

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Ask once. Tools, schema, temperature and streaming are not used. Raise ModelError."""
        try:
            text, usage = await self._ask(messages)
        except Exception as error:
            raise goal_error_of(error, self.model) from error
        self.usage = self.usage + usage
        return Reply(text, (), usage, "stop")


class CustomModel(OutsideModel):
    """Asks `complete(messages)` of an object, or calls a function with the messages; the answer is a text.

    A plain function runs in a thread, a coroutine function in the event loop. If it raises, the model did not answer.
    Tokens and dollars are unknown.
    """

    def __init__(self, given: Any, account: Account = "judge") -> None:
        name = getattr(given, "__name__", type(given).__name__).strip("<>")
        complete = getattr(given, "complete", None)
        function: Callable[..., Any] = complete if callable(complete) else given

        async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
            asked = [dict(message) for message in messages]
            answer = (
                function(asked)
                if inspect.iscoroutinefunction(function)
                else await in_thread(function, asked)
            )
            answer = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(answer, str):
                said = f"{self.model} returned {kind_of(answer)}, not a text"
                raise RequestRejected(said, "return the answer of the model as a str")
            return answer, Usage.unknown()

        super().__init__(f"{CUSTOM}{name}", ask, account)


def as_model(value: object) -> LLM | None:
    """Return a function, or an object with `complete`, as a model; an LLM as it is; None for anything else."""
    if isinstance(value, LLM):
        return value
    if isinstance(value, type) or not (
        callable(value) or callable(getattr(value, "complete", None))
    ):
        return None
    return CustomModel(value)


def goal_error_of(error: BaseException, model: str = "") -> GoalError:
    """Return an exception of other code as a GoalError. `model` is the model that failed; empty if an agent failed."""
    chain = [error]
    while (
        cause := chain[-1].__cause__ or chain[-1].__context__
    ) and cause not in chain:
        chain.append(cause)
    for item in chain:
        if isinstance(item, GoalError):
            return item
    status = next(
        (
            code
            for item in chain
            if isinstance(code := getattr(item, "status_code", None), int)
        ),
        None,
    )
    text = one_line(f"{type(error).__name__}: {error}", 500)
    if status in (401, 403):
        return AuthenticationFailed(
            f"the provider refused the key ({status}): {text}",
            "set the key of the model",
        )
    if status == 404:
        return ModelNotFound(
            f"the model was not found: {text}", "correct the name of the model"
        )
    return (
        ProviderUnavailable(f"{model} did not answer: {text}")
        if model
        else AgentError(f"the agent failed: {text}")
    )
