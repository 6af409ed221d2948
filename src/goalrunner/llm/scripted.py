"""Models that play recorded replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from goalrunner.core.base import Frozen
from goalrunner.core.errors import GoalError, ModelError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import Caller, FailureKind, ProviderFailure
from goalrunner.llm.transport import CallPiece, Delta, Draft, Finish, Request, TextPiece, UsageReport

PREFIX = "scripted/"


def is_scripted(model: str) -> bool:
    """Whether a model's name means a recording: `scripted/<path>`."""
    return model.startswith(PREFIX)


class ScriptedCall(Frozen):
    """A tool call of a recorded reply. Without an id it is given one when it is played: call_1, call_2, ..."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


class ScriptedUsage(Frozen):
    """What a recorded reply counts for. `cost_usd` null means that the price was unknown."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost_usd: Annotated[float, Field(ge=0)] | None = 0.0


class ScriptedError(Frozen):
    """A failure in place of an answer: an HTTP status, a timeout, a refused connection, or a stream that is cut."""

    status: int | None = Field(default=None, ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0, description="seconds")
    cut: bool = False
    timeout: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> ScriptedError:
        if (self.status is not None) + self.cut + self.timeout > 1:
            raise ValueError("an error has a status, or is cut, or is a timeout")
        return self


class ScriptedReply(Frozen):
    """One line of a recording."""

    account: Account | None = None
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage = Field(default_factory=ScriptedUsage)
    finish_reason: str = ""
    delay: float = Field(default=0.0, ge=0, description="seconds before the answer begins")
    error: ScriptedError | None = None

    @property
    def reason(self) -> str:
        """Why the model stopped; where the line does not say, what its content means."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Every line of a recording, checked. Raises GoalError that names the file, and the line that does not hold."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GoalError(
            f"the recording {path} cannot be read: {error.strerror or error}",
            f'A model "{PREFIX}<file>" plays the replies in that file; check the path.',
        ) from error
    lines = data.split(b"\n")
    return tuple(_parse(path, number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _parse(path: Path, number: int, line: bytes) -> ScriptedReply:
    try:
        return ScriptedReply.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        said = _plain(str(first["type"]), str(first["msg"]))
        known = ", ".join(ScriptedReply.model_fields)
        raise GoalError(
            f"{path}:{number}: {f'{key}: ' if key else ''}{said}",
            f"Each line is one JSON object; its keys: {known}.",
        ) from error


def _plain(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "unknown key"
        case "json_invalid":
            return f"not JSON ({message.removeprefix('Invalid JSON: ')})"
        case "value_error":
            return message.removeprefix("Value error, ")
        case _:
            return message[:1].lower() + message[1:]


PIECES = 4
"""A text comes in that many pieces, so that what reads a stream really reads one."""


class ScriptedTransport:
    """The lines of one recording that are for one account, in their order."""

    adapts = False

    def __init__(self, model: str, account: Account) -> None:
        self._model = model
        self._account = account
        self._path = Path(model.removeprefix(PREFIX))
        self._lines = [line for line in read_script(self._path) if line.account in (None, account)]
        self._next = 0
        self._calls = 0

    def check(self) -> None:
        """The recording was read when this was made; there is no key."""

    async def foresee(self) -> None:
        """A recording was read when it was opened."""

    async def prepare(self) -> None:
        """Nothing: the recording is read when the model is made."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Play the next line. Raises ModelError when there is none: a recording never makes anything up."""
        line = self._take()
        if line.delay:
            await asyncio.sleep(line.delay)
        if line.error is not None and not line.error.cut:
            raise failure_of(line.error)
        for piece in split(line.text, PIECES):
            await asyncio.sleep(0)
            yield TextPiece(piece)
        for delta in self._call_pieces(line):
            yield delta
        if line.error is not None:
            raise failure_of(line.error)
        usage = line.usage
        yield UsageReport(usage.input_tokens, usage.output_tokens, usage.cost_usd)
        yield Finish(line.reason)

    def account(self, request: Request, draft: Draft) -> Usage:
        """What the line says that it used; a line that says nothing used nothing."""
        report = draft.report
        if report is None:
            return Usage()
        return Usage(input_tokens=report.input_tokens, output_tokens=report.output_tokens, cost_usd=report.cost_usd)

    def context_window(self) -> int | None:
        """A recording has none."""
        return None

    def has_price(self) -> bool:
        """A recording says itself what it cost."""
        return True

    def cost_of(self, usage: Usage) -> float | None:
        """Nothing: nobody is asked."""
        return 0.0

    def caller(self) -> Caller:
        """What an error needs to name."""
        return Caller(self._model, self._account)

    def skip(self, replies: int) -> None:
        """Begin after that many answered replies, and after the errors among them."""
        while replies > 0:
            line = self._take()
            self._calls += len(line.tool_calls)
            replies -= line.error is None

    def _take(self) -> ScriptedReply:
        if self._next >= len(self._lines):
            raise ModelError(
                f"the recording has no more replies for the {self._account}: {self._next} were used",
                f"{self._path} is at its end; record a longer run, or name a real model.",
            )
        line = self._lines[self._next]
        self._next += 1
        return line

    def _call_pieces(self, line: ScriptedReply) -> list[Delta]:
        pieces: list[Delta] = []
        for index, call in enumerate(line.tool_calls):
            self._calls += 1
            pieces.append(CallPiece(index, id=call.id or f"call_{self._calls}", name=call.name))
            pieces += [CallPiece(index, arguments=piece) for piece in split(call.text, 2)]
        return pieces


def split(text: str, pieces: int) -> list[str]:
    """A text in about that many pieces of the same length; nothing for no text."""
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def failure_of(error: ScriptedError) -> ProviderFailure:
    """A recorded failure as a provider's would have come."""
    if error.cut:
        return ProviderFailure(error.message or "the stream ended before the answer did", kind=FailureKind.CUT)
    if error.timeout:
        return ProviderFailure(error.message or "no answer in time", kind=FailureKind.TIMEOUT)
    return ProviderFailure(error.message, status=error.status, retry_after=error.retry_after)
