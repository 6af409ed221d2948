"""The Protocol of transports, with requests, replies and the pieces of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.llm.failure import Caller


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def offer(self) -> dict[str, Any]:
        """The tool as it is offered in a request, in OpenAI's shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it. `arguments` is raw text: it should be JSON, and may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """A model's whole answer, and what it cost: this call's tokens and dollars, its retries included."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: str

    def message(self) -> dict[str, Any]:
        """The assistant message in OpenAI's shape. `content` is never None: some servers answer 500 to that."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message


@dataclass(frozen=True)
class Request:
    """One call as it goes out. None means: do not send it at all."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    response_format: dict[str, Any] | None = None
    temperature: float | None = None
    streaming: bool = True
    """Whether the answer is to come piece by piece: worth its price only where somebody listens."""
    stream_usage: bool = True
    """Whether to ask for token counts at the end of the stream."""
    timeout: float = 600.0
    """Seconds for the whole call."""


@dataclass(frozen=True)
class TextPiece:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True)
class CallPiece:
    """A piece of a tool call: the id and name come once, the arguments in parts. `index` says which call it is of."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True)
class UsageReport:
    """The provider's own count; `cost_usd` where the source knows the dollars itself, `detail` what pricing needs."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None
    detail: Any = None


@dataclass(frozen=True)
class Finish:
    """Why the model stopped: "stop", "tool_calls", "length", ... A stream without one was cut."""

    reason: str


Delta = TextPiece | CallPiece | UsageReport | Finish


@dataclass
class Draft:
    """An answer while it comes in."""

    text: str = ""
    calls: list[CallPiece] = field(default_factory=list)
    report: UsageReport | None = None
    finish_reason: str = ""

    @property
    def started(self) -> bool:
        """Whether anything at all has come: from then on the provider counts tokens."""
        return bool(self.text or self.calls or self.report)


class Transport(Protocol):
    """A way to a model. Streams raise `ProviderFailure` and nothing else for what goes wrong on the way."""

    @property
    def adapts(self) -> bool:
        """Whether a refused request may be sent again in a plainer form."""
        ...

    def check(self) -> None:
        """See what can be seen without a request. Raises AuthenticationFailed for a named key that is not there."""
        ...

    async def foresee(self) -> None:
        """See what can be seen before the first request, a provider that does not exist above all. Raises ProviderFailure."""
        ...

    async def prepare(self) -> None:
        """Load what the first request needs; not counted against its deadline."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Send the request and give the answer piece by piece."""
        ...

    def account(self, request: Request, draft: Draft) -> Usage:
        """What this answer used: as reported, or estimated where nothing was reported. Counts no call by itself."""
        ...

    def context_window(self) -> int | None:
        """The most input tokens that the model takes; None when unknown."""
        ...

    def has_price(self) -> bool:
        """Whether dollars can be counted."""
        ...

    def caller(self) -> Caller:
        """Who asks whom: what an error needs to name."""
        ...

    def cost_of(self, usage: Usage) -> float | None:
        """US dollars for that many tokens; None where there is no price. May wait for an import."""
        ...

    def skip(self, replies: int) -> None:
        """Begin after that many answered replies, where answers are played."""
        ...
