"""One call while it is made. Owns a single attempt - stream, assemble, count - and the plainer forms it may try."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from goalrunner.llm.assembler import Assembler
from goalrunner.llm.concessions import Concessions
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.reply import Reply
from goalrunner.llm.transport import Request, Transport
from goalrunner.model.usage import Usage


@dataclass
class Manners:
    """What a model instance has learned about its provider."""

    concessions: Concessions = field(default_factory=Concessions)
    schema_proved: bool = False
    """Whether an answer has come to a request with the schema form that is in use."""


@dataclass
class Call:
    """One call: `attempt` may be repeated, and `spent` adds up what every attempt used."""

    transport: Transport
    request: Request
    manners: Manners
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    on_text: Callable[[str], None] | None = None
    spent: Usage = field(default_factory=Usage)

    async def attempt(self) -> Reply:
        """Ask; where the provider refuses the request's form, ask at once in a plainer one. Raises ProviderFailure."""
        concessions = self.manners.concessions
        while True:
            request = concessions.apply(self.request, self.schema, self.schema_name)
            try:
                reply = await self._ask(request)
            except ProviderFailure as failure:
                plainer = concessions.after(failure, request, proved=self.manners.schema_proved)
                if plainer is None or not self.transport.adapts:
                    raise
                concessions = plainer
            else:
                self.manners.concessions = concessions
                self.manners.schema_proved |= request.response_format is not None
                return reply

    def count_retry(self) -> None:
        """An attempt is about to be repeated."""
        self.spent = self.spent + Usage(retries=1)

    async def _ask(self, request: Request) -> Reply:
        assembler = Assembler(self.on_text)
        try:
            await self._listen(request, assembler)
        except (ProviderFailure, asyncio.CancelledError):
            # Providers charge for what they had read and said before the break.
            if assembler.draft.started:
                self.spent = self.spent + self.transport.account(request, assembler.draft)
            raise
        draft = assembler.draft
        self.spent = self.spent + self.transport.account(request, draft) + Usage(calls=1)
        return Reply(draft.text, assembler.calls(_fresh_id), self.spent, draft.finish_reason)

    async def _listen(self, request: Request, assembler: Assembler) -> None:
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline, aclosing(self.transport.stream(request)) as stream:
                async for delta in stream:
                    assembler.add(delta)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise ProviderFailure(f"no whole answer within {request.timeout:g} s", kind=FailureKind.TIMEOUT) from error
        if not assembler.draft.finish_reason:
            raise ProviderFailure("the stream ended before the answer did", kind=FailureKind.CUT)


def _fresh_id(number: int) -> str:
    """An id for a call that came without one; random, so that it is new in a resumed conversation too."""
    return f"call_{secrets.token_hex(6)}_{number}"
