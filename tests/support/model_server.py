"""A scripted, OpenAI-compatible model server on loopback: the far end of the real LiteLLM path in tests.

    with ModelServer([call("shell", command="pytest -q"), say("Done.")]) as server:
        llm = LLM("openai/agent", api_base=server.base_url, api_key_env="TEST_KEY")
        ...
        assert server.requests[0].body["tools"]

What it answers is a list (played in order), a dict from model name to such a list (agent and judge at one server:
`{"agent": [...], "judge": [...]}` for `openai/agent` and `openai/judge`), or a function from request to answer.
When a list is at its end the server answers 400 and keeps the fact in `server.exhausted`; leaving the `with` block
then raises, so no test passes on a script that was too short.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tests.support.fake_provider import Answer, call, calls, cut, fail, hang, say
from tests.support.fake_provider import Request as Seen
from tests.support.fake_provider.chat import LAST, failure, pieces, whole
from tests.support.fake_provider.listener import Handler, Listener, Serving

__all__ = [
    "Answer",
    "ModelServer",
    "Seen",
    "call",
    "calls",
    "cut",
    "fail",
    "hang",
    "say",
]


Script = Iterable[Answer] | Mapping[str, Iterable[Answer]] | Callable[[Seen], Answer]


@dataclass
class ModelServer(Serving):
    """The server; a context manager. `base_url` is what goes into `api_base`.

    `refuses` maps what a request may hold to the status it is refused with: a response format's type ("json_schema",
    "json_object"), or a top-level key ("temperature", "stream_options"). `api_key` makes every other key a 401. Refusals
    use up no answer.
    """

    script: Script = ()
    refuses: Mapping[str, int] = field(default_factory=dict)
    api_key: str | None = None
    repeat: bool = False
    """Begin again at the end of a list: for measurements."""
    port: int = 0
    requests: list[Seen] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    """What was asked after the end of the script; must be empty."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, list[Answer]] = {}
        self._used: dict[str, int] = {}
        if isinstance(self.script, Mapping):
            self._queues = {
                name: list(answers) for name, answers in self.script.items()
            }
        elif not callable(self.script):
            self._queues = {"": list(self.script)}
        self._listener = Listener(_Handler, port=self.port, owner=self)

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:<port>/v1`."""
        return f"{self._listener.address}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON bodies of the requests, in their order."""
        return [seen.body for seen in self.requests]

    def add(self, *answers: Answer, model: str = "") -> None:
        """Answers to be played after those that are left."""
        with self._lock:
            self._queues.setdefault(model, []).extend(answers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None and self.exhausted:
            raise AssertionError(self.exhausted[0])

    def answer(self, seen: Seen) -> Answer:
        """What this request gets."""
        with self._lock:
            self.requests.append(seen)
            refusal = self._refusal(seen)
            if refusal is not None:
                return refusal
            if callable(self.script):
                return self.script(seen)
            return self._next(seen.model if seen.model in self._queues else "")

    def _next(self, name: str) -> Answer:
        queue = self._queues.get(name, [])
        used = self._used.get(name, 0)
        self._used[name] = used + 1
        if queue and (self.repeat or used < len(queue)):
            return queue[used % len(queue)]
        of = f" of {name}" if name else ""
        self.exhausted.append(
            f"the model server's script{of} is at its end after {len(queue)} answers"
        )
        # Not a 500: that would be tried again and again, and the reason come late.
        return fail(400, self.exhausted[-1])

    def _refusal(self, seen: Seen) -> Answer | None:
        if self.api_key is not None and seen.key != self.api_key:
            return fail(401, f"Incorrect API key provided: {seen.key}.")
        form = (seen.body.get("response_format") or {}).get("type", "")
        for name, status in self.refuses.items():
            if name == form:
                return fail(status, f"response_format of type {name} is not supported")
            if name in seen.body:
                return fail(
                    status,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                )
        return None


class _Handler(Handler):
    owner: ModelServer

    def do_POST(self) -> None:  # noqa: N802 - the base class looks for it
        """/v1/chat/completions."""
        raw = self.body()
        if not self.path.endswith("/chat/completions"):
            self.reply(404, {"error": {"message": f"no such path {self.path}"}})
            return
        seen = Seen(self.path, self.lowered(), json.loads(raw))
        answer = self.owner.answer(seen)
        if answer.delay and self.stopping.wait(answer.delay):
            self.close_connection = True
        elif answer.status != 200:
            headers = (
                {}
                if answer.retry_after is None
                else {"Retry-After": answer.retry_after}
            )
            self.reply(answer.status, failure(answer.status, answer.message), headers)
        elif seen.body.get("stream"):
            self.stream(
                pieces(seen, answer), pace=answer.pace, cut=answer.cut, last=LAST
            )
        else:
            self.reply(
                200, whole(seen, answer), missing=16 if answer.cut == "abrupt" else 0
            )
