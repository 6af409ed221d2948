"""The rehearsal itself: a script, and the server that plays it to whatever program asks, in the format it asks in."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from goalrunner.rehearsal.answer import Answer, fail, say
from goalrunner.rehearsal.commands import as_call, command_tool
from goalrunner.rehearsal.listener import Handler, Listener, Serving
from goalrunner.rehearsal.request import Request
from goalrunner.rehearsal.sample import sample
from goalrunner.rehearsal.script import ByConversation, InOrder
from goalrunner.rehearsal.wires import PREFIX, WIRES, Wire, WireName, wire_of

_OVER = "the rehearsal's script is at its end"


@dataclass
class Rehearsal(Serving):
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
        self._player = InOrder(self.script) if self.fresh else ByConversation(self.script)
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
            return fail(400, "the rehearsal found no tool that runs commands")
        made = tuple(as_call(command, tool) for command in found.commands)
        return replace(found, tool_calls=(*found.tool_calls, *made))


def _aside(wire: Wire, request: Request) -> Answer:
    schema = wire.schema(request)
    return say("Rehearsal" if schema is None else json.dumps(sample(schema)))


class _Handler(Handler):
    owner: ClassVar[Rehearsal]

    def do_HEAD(self) -> None:  # noqa: N802 - the base class looks for it
        """Whether the server is there."""
        self.reply(200, {})

    def do_GET(self) -> None:  # noqa: N802 - the base class looks for it
        """Lists of models, as every format has them."""
        if self.path.split("?")[0].rstrip("/").endswith("/models"):
            self.reply(200, {"object": "list", "data": [], "models": [], "has_more": False})
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
            headers = {"x-should-retry": _advice(answer.status)} if self.owner.advises else {}
            if answer.retry_after is not None:
                headers["Retry-After"] = answer.retry_after
            self.reply(answer.status, wire.failure(answer.status, answer.message), headers)
        elif wire.streams(request):
            self.stream(wire.pieces(request, answer), pace=answer.pace, cut=answer.cut, last=wire.LAST)
        else:
            self.reply(200, wire.whole(request, answer), missing=16 if answer.cut == "abrupt" else 0)


def _advice(status: int) -> str:
    return "true" if status in (408, 409, 429) or status > 499 else "false"


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
