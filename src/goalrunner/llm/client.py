"""Requests to models, their replies, and the base class of models: timeouts and usage accounts."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import secrets
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from goalrunner.core.activity import RetryScheduled, report_activity
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import (
    RETRIES,
    TRANSIENT,
    Endpoint,
    FailureKind,
    ProviderFailure,
    explain,
    pause_before,
)

DEFAULT_TIMEOUT = 600.0
"""Seconds that one call may take; `params["timeout"]` replaces it."""


def object_arguments(arguments: str) -> str:
    """Return the arguments of a tool call as the text of a JSON object, which contains them if they are none."""
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(arguments or "{}"), dict):
            return arguments or "{}"
    return json.dumps({"malformed_arguments": arguments})


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def offer(self) -> dict[str, Any]:
        """Return the tool as a request offers it, in OpenAI's format."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it. `arguments` is raw text: it should be JSON, and may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """A complete answer of a model and what it used, retries included."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: str

    def message(self) -> dict[str, Any]:
        """Return the assistant message in OpenAI's format.

        Names and arguments of tool calls are valid, because providers check the whole history: an invalid call would make
        every later request fail.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64]
                        or "unknown",
                        "arguments": object_arguments(call.arguments),
                    },
                }
                for call in self.tool_calls
            ]
        return message


@dataclass
class Request:
    """One request, which may be sent several times; `spent` is the usage of all attempts."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    temperature: float | None = None
    on_text: Callable[[str], None] | None = None
    """Gets the text piece by piece. Without it, an answer streams only if the provider needs that: it takes longer."""
    timeout: float = 600.0  # seconds for the whole call
    most_tokens: int | None = None  # of the answer; None: as the model's parameters say
    spent: Usage = field(default_factory=Usage)

    @property
    def is_streamed(self) -> bool:
        """Whether the caller wants the answer in pieces."""
        return self.on_text is not None


@dataclass
class Draft:
    """An answer while it arrives; `on_text` gets its text at once. Without a finish reason the answer was cut."""

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: dict[int, ToolCall] = field(default_factory=dict)
    report: Usage | None = (
        None  # the tokens that the provider counted, and the dollars where the source knows them
    )
    detail: Any = None  # the report as LiteLLM gives it, for its prices
    finish_reason: str = ""

    @property
    def started(self) -> bool:
        """Whether a part has arrived: from then on the provider counts tokens."""
        return bool(self.text or self.calls or self.report)

    def add_text(self, text: str) -> None:
        """Append a piece of text."""
        if text:
            self.text += text
            if self.on_text is not None:
                self.on_text(text)

    def add_call(
        self,
        index: int,
        id: str = "",  # noqa: A002
        name: str = "",
        arguments: str = "",
    ) -> None:
        """Append a piece of the tool call with this number; id and name come once, the arguments in parts."""
        begun = self.calls.get(index, ToolCall("", "", ""))
        self.calls[index] = ToolCall(
            begun.id or id, begun.name or name, begun.arguments + arguments
        )

    def reply(self, usage: Usage) -> Reply:
        """Return the answer, without lone surrogates. A call without an id gets a random one, new after a resume too."""
        calls = [
            ToolCall(
                call.id or f"call_{secrets.token_hex(6)}",
                clean(call.name),
                clean(call.arguments),
            )
            for call in self.calls.values()
        ]
        return Reply(clean(self.text), tuple(calls), usage, self.finish_reason)


Tape = Callable[[Account, Reply], None]  # records a reply


class LLM:
    """One model with its own usage account.

    `model` is LiteLLM's name (`openai/gpt-5-mini`) or `scripted/<file>`. `params` are sent to the provider as they are;
    a temperature in them takes precedence over a caller's. For keys and addresses see `goalrunner.llm.endpoints`. Raise
    GoalError for an invalid recording, and UsageError for an invalid timeout. Subclasses send the requests.
    """

    endpoint = Endpoint()  # what an error message names
    class_of: ClassVar[Callable[[str], type[LLM]]]
    """Returns the subclass for a model's name. Set by the package, which imports the subclasses."""

    def __new__(cls, model: str = "", *_: Any, **__: Any) -> Self:
        """Make a model of the class that the name asks for."""
        return super().__new__(cls.class_of(model) if cls is LLM else cls)  # type: ignore[return-value]

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key_env: str | None = None,
        params: Mapping[str, Any] | None = None,
        account: Account = "agent",
        tape: Tape | None = None,
    ) -> None:
        self.model = model
        self.account: Account = account
        self.usage = Usage()
        self.api_key_env = api_key_env
        self._api_base = api_base
        self.params = dict(params or {})
        self._tape = tape
        self._timeout = self.params.pop("timeout", DEFAULT_TIMEOUT)
        if not (isinstance(self._timeout, int | float) and self._timeout > 0):
            hint = "Write the seconds that one call may take: timeout = 600"
            raise UsageError(
                f"timeout in [{account}.params] is {self._timeout!r}", hint
            )

    @property
    def address(self) -> tuple[str | None, ...]:
        """Name, server and variable of the key: models with the same ones are accepted or refused together."""
        return (self.model, self._api_base, self.api_key_env)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Ask once and return the whole answer. With `on_text` the answer streams, and `on_text` gets each piece of text.

        `schema` (JSON schema) asks for structured output where the provider supports it; validate the answer all the
        same. `temperature` is left out for models that refuse it. The usage of the reply includes its retries. Raise
        AuthenticationFailed, ModelNotFound, ContextWindowExceeded, RequestRejected, or ProviderUnavailable after the
        last retry.
        """
        await self.prepare()
        request = Request(
            messages, tools, schema, schema_name, temperature, on_text, self._timeout
        )
        try:
            reply = await self._persist(request)
        except ProviderFailure as failure:
            raise self.explained(failure, request.spent.retries) from failure
        finally:
            self.usage = self.usage + request.spent
        if self._tape is not None:
            self._tape(self.account, reply)
        return reply

    async def _persist(self, request: Request) -> Reply:
        """Send the request until it is answered. Raise the last ProviderFailure if a repetition cannot help."""
        while True:
            try:
                return await self.attempt(request)
            except ProviderFailure as failure:
                retry = request.spent.retries + 1
                if failure.kind not in TRANSIENT or retry > RETRIES or failure.is_long:
                    raise
                pause = pause_before(retry, failure.retry_after)
                reason = (
                    f"{failure.status} {failure.kind}"
                    if failure.status
                    else str(failure.kind)
                )
            request.spent = request.spent + Usage(retries=1)
            report_activity(RetryScheduled(reason, pause, retry, RETRIES))
            await sleep(pause)

    async def attempt(self, request: Request) -> Reply:
        """Send the request once, and count what it used. Raise ProviderFailure."""
        draft = Draft(request.on_text)
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline:
                await self.send(request, draft)
        except (ProviderFailure, TimeoutError, asyncio.CancelledError) as error:
            # Providers charge for an interrupted answer, even if no part of it arrived.
            is_abandoned = not request.is_streamed and not isinstance(
                error, ProviderFailure
            )
            if draft.started or is_abandoned:
                request.spent = request.spent + self.used(request, draft)
            if isinstance(error, TimeoutError) and deadline.expired():
                late = ProviderFailure(
                    f"no complete answer within {request.timeout:g} s",
                    kind=FailureKind.TIMEOUT,
                )
                raise late from error
            raise
        request.spent = request.spent + self.used(request, draft) + Usage(calls=1)
        return draft.reply(request.spent)

    async def prepare(self) -> None:
        """Load what the first request needs; this does not count towards its timeout."""

    async def send(self, request: Request, draft: Draft) -> None:
        """Send the request and add the answer to the draft. Raise ProviderFailure for everything that goes wrong."""
        raise NotImplementedError

    def used(self, request: Request, draft: Draft) -> Usage:
        """Return the usage of the answer, as reported or estimated, without a call count."""
        return draft.report or Usage()

    def explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        """Return the error for users."""
        return explain(failure, self.model, self.account, self.endpoint, retries)

    def context_window(self) -> int | None:
        """Return the most input tokens that the model takes; None if unknown, scripted, or before LiteLLM is imported."""
        return None

    def has_price(self) -> bool:
        """Return whether the cost can be counted. May wait seconds for an import: do not call it in an event loop."""
        return False

    def cost_of(self, usage: Usage) -> float | None:
        """Return the US dollars for these tokens, None without a price. May wait seconds, as `has_price`."""
        return None

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account, for `judge = "agent"`. A recording begins again.

        The temperature in `params` was chosen for this account and is left out.
        """
        other = copy.copy(self)
        other.account, other.usage = account, Usage()
        other.params = {
            name: value for name, value in self.params.items() if name != "temperature"
        }
        return other

    def check(self) -> None:
        """Check what needs no request and no import: the provider's name, and whether a key is set.

        Raise ModelNotFound for an unknown provider, AuthenticationFailed if a variable for the key is known and not set.
        """

    async def probe(self) -> str:
        """Ask for one token, to learn before any work whether the provider accepts the key and knows the model.

        Return a warning if it does not answer. Raise AuthenticationFailed or ModelNotFound, and RequestRejected if the
        quota is used up. Models without a provider have nothing to ask.
        """
        return ""

    def skip(self, replies: int) -> None:
        """Skip the first `replies` answered replies of a recording. Other models have nothing to skip."""
