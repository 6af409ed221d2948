"""Plays recorded replies through the very path a provider's answer takes. Owns the playing; needs no LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from goalrunner.errors import ModelError
from goalrunner.events import Account
from goalrunner.llm.failure import Caller, FailureKind, ProviderFailure
from goalrunner.llm.script import PREFIX, ScriptedError, ScriptedReply, read_script
from goalrunner.llm.transport import CallPiece, Delta, Draft, Finish, Request, TextPiece, UsageReport
from goalrunner.model.usage import Usage

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
