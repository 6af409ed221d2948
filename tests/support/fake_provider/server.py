"""A provider that answers from a script, in the wire format of each request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, cast
from urllib.parse import urlsplit

from tests.support.fake_provider import anthropic, chat, gemini, responses
from tests.support.fake_provider.listener import Handler, Listener, Serving
from tests.support.fake_provider.messages import Answer, Reply, Request, Tool, fail, say
from tests.support.fake_provider.tools import as_call, command_tool, sample

Player = Callable[[Request, Sequence[Reply]], Answer | None]
"""Request, and the model's turns in it -> the answer; None where the script is at its end."""


@dataclass
class ByConversation:
    """Goes by what the conversation holds already, so that a request that is sent again gets the same answer again.

    A failure stands before the answer that follows it, and is counted, since no conversation shows it.
    """

    script: Sequence[Answer]
    _failed: dict[int, int] = field(default_factory=dict)

    def __call__(self, request: Request, replies: Sequence[Reply]) -> Answer | None:
        """The answer after those that are in the conversation."""
        left = list(replies)
        for place, answer in enumerate(self.script):
            if answer.status != 200:
                failed = self._failed.get(place, 0)
                if answer.times and failed >= answer.times:
                    continue
                self._failed[place] = failed + 1
                return answer
            if not _drop_through(left, answer):
                return answer
        return None


@dataclass
class InOrder:
    """Goes from answer to answer, whatever is asked: for programs that begin a fresh conversation each time."""

    script: Sequence[Answer]
    _place: int = 0
    _failed: int = 0

    def __call__(self, request: Request, replies: Sequence[Reply]) -> Answer | None:
        """The next one."""
        if self._place >= len(self.script):
            return None
        answer = self.script[self._place]
        self._failed += 1
        if answer.status == 200 or (answer.times and self._failed >= answer.times):
            self._place += 1
            self._failed = 0
        return answer


def _drop_through(replies: list[Reply], answer: Answer) -> bool:
    """Whether the replies hold that answer; it and what stands before it is then dropped.

    Programs put words into the model's mouth, so not every reply is one of the script's.
    """
    for place, reply in enumerate(replies):
        if (
            answer.text.strip() in reply.text
            and bool(answer.commands or answer.tool_calls) == reply.calls
        ):
            del replies[: place + 1]
            return True
    return False


WireName = Literal["openai", "responses", "anthropic", "gemini"]
"""Chat completions, Responses, messages, generateContent."""


class Wire(Protocol):
    """What a module of a wire format has."""

    LAST: str

    def tools(self, request: Request) -> list[Tool]:
        """The tools that are offered."""
        ...

    def replies(self, request: Request) -> Sequence[Reply]:
        """The model's turns in the conversation."""
        ...

    def schema(self, request: Request) -> dict[str, Any] | None:
        """The JSON schema that the answer must have; None: it is free."""
        ...

    def streams(self, request: Request) -> bool:
        """Whether the answer is to come in pieces."""
        ...

    def failure(self, status: int, message: str) -> dict[str, Any]:
        """The body of a refusal."""
        ...

    def whole(self, request: Request, answer: Answer) -> dict[str, Any]:
        """The answer as one body."""
        ...

    def pieces(self, request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
        """The answer as what a stream carries."""
        ...


WIRES: dict[WireName, Wire] = {
    "openai": cast(Wire, chat),
    "responses": cast(Wire, responses),
    "anthropic": cast(Wire, anthropic),
    "gemini": cast(Wire, gemini),
}

PREFIX: dict[WireName, str] = {
    "openai": "/v1",
    "responses": "/v1",
    "anthropic": "",
    "gemini": "",
}
"""What programs expect at the end of the address that they are given."""


def wire_of(path: str) -> WireName | None:
    """The format of requests to that path; None: no model is asked there."""
    bare = urlsplit(path).path.rstrip("/")
    if bare.endswith("/chat/completions"):
        return "openai"
    if bare.endswith("/responses"):
        return "responses"
    if bare.endswith("/messages"):
        return "anthropic"
    if bare.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return None


_OVER = "the script of the fake provider is at its end"


@dataclass
class FakeProvider(Serving):
    """The server; a context manager, or `start` and `stop`.

    Programs ask besides for titles, summaries and the like: a request without a tool that runs commands gets a harmless
    text and uses up no answer, unless `plain` says that the program has no such tool. `fresh`: the script goes on although
    conversations begin anew. `api_key` makes every other key a 401. `advises`: a refusal says whether another try may help,
    as Anthropic's do; gateways say nothing.
    """

    script: Sequence[Answer] = ()
    plain: bool = False
    fresh: bool = False
    api_key: str | None = None
    advises: bool = True
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    """All that were sent to a model, side requests among them."""
    strange: list[str] = field(default_factory=list)
    """Method and path of what was asked besides."""
    played: int = 0
    """How many answers of the script were given, failures among them."""
    exhausted: bool = False
    """Whether something was asked after the end of the script."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._player = (
            InOrder(self.script) if self.fresh else ByConversation(self.script)
        )
        self._listener = Listener(_Handler, port=self.port, owner=self)

    def base_url(self, wire: WireName) -> str:
        """The address as programs of that wire format want it: with "/v1" for OpenAI's."""
        return self._listener.address + PREFIX[wire]

    def answer(self, wire: Wire, request: Request) -> Answer:
        """What this request gets."""
        with self._lock:
            self.requests.append(request)
            if self.api_key is not None and request.key != self.api_key:
                return fail(401, f"Incorrect API key provided: {request.key[:4]}...")
            tool = command_tool(wire.tools(request))
            if tool is None and not self.plain:
                return _aside(wire, request)
            found = self._player(request, wire.replies(request))
            if found is None:
                self.exhausted = True
                # Not a 500: that would be tried again and again.
                return fail(400, _OVER)
            self.played += 1
        if not found.commands:
            return found
        if tool is None:
            return fail(400, "the fake provider found no tool that runs commands")
        made = tuple(as_call(command, tool) for command in found.commands)
        return replace(found, tool_calls=(*found.tool_calls, *made))


def _aside(wire: Wire, request: Request) -> Answer:
    schema = wire.schema(request)
    return say("Fake" if schema is None else json.dumps(sample(schema)))


class _Handler(Handler):
    owner: ClassVar[FakeProvider]

    def do_HEAD(self) -> None:  # noqa: N802 - the base class looks for it
        """Whether the server is there."""
        self.reply(200, {})

    def do_GET(self) -> None:  # noqa: N802 - the base class looks for it
        """Lists of models, as every format has them."""
        if self.path.split("?")[0].rstrip("/").endswith("/models"):
            self.reply(
                200, {"object": "list", "data": [], "models": [], "has_more": False}
            )
        else:
            self._unknown()

    def do_POST(self) -> None:  # noqa: N802 - the base class looks for it
        """A model is asked, or something is counted."""
        raw = self.body()
        name = wire_of(self.path)
        if name is not None:
            self._play(WIRES[name], Request(self.path, self.lowered(), _parsed(raw)))
        elif self.path.split("?")[0].endswith(("/count_tokens", ":countTokens")):
            count = len(raw) // 4
            self.reply(200, {"input_tokens": count, "totalTokens": count})
        else:
            self._unknown()

    def _unknown(self) -> None:
        self.owner.strange.append(f"{self.command} {self.path}")
        self.reply(404, {"error": {"message": f"no such path {self.path}"}})

    def _play(self, wire: Wire, request: Request) -> None:
        answer = self.owner.answer(wire, request)
        if answer.delay and self.stopping.wait(answer.delay):
            self.close_connection = True
        elif answer.status != 200:
            headers = (
                {"x-should-retry": _advice(answer.status)} if self.owner.advises else {}
            )
            if answer.retry_after is not None:
                headers["Retry-After"] = answer.retry_after
            body = wire.failure(answer.status, answer.message)
            if answer.resets_in is not None:
                resets_at = int(time.time() + answer.resets_in)
                headers |= _limit_headers(resets_at)
                body["error"] |= _limit_details(wire, resets_at)
            self.reply(answer.status, body, headers)
        elif wire.streams(request):
            self.stream(
                wire.pieces(request, answer),
                pace=answer.pace,
                cut=answer.cut,
                last=wire.LAST,
            )
        else:
            self.reply(
                200,
                wire.whole(request, answer),
                missing=16 if answer.cut == "abrupt" else 0,
            )


def _limit_details(wire: Wire, resets_at: int) -> dict[str, Any]:
    if wire is WIRES["responses"]:
        return {"type": "usage_limit_reached", "resets_at": resets_at}
    if wire is WIRES["gemini"]:
        violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
        return {
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [violation],
                }
            ]
        }
    return {}


def _limit_headers(resets_at: int) -> dict[str, str]:
    """Return the headers with which Anthropic and OpenAI tell a signed-in program that its subscription is used up."""
    anthropic_names = {
        "status": "rejected",
        "reset": str(resets_at),
        "representative-claim": "five_hour",
    }
    codex_names = {
        "used-percent": "100.0",
        "window-minutes": "300",
        "reset-at": str(resets_at),
    }
    return {
        "x-should-retry": "false",
        **{
            f"anthropic-ratelimit-unified-{name}": value
            for name, value in anthropic_names.items()
        },
        **{f"x-codex-primary-{name}": value for name, value in codex_names.items()},
    }


def _advice(status: int) -> str:
    return "true" if status in (408, 409, 429) or status > 499 else "false"


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
