"""JSON-RPC over the stdin and stdout of an agent."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from goalrunner.agents.acp_calls import at, text
from goalrunner.agents.stream_events import Lines

LONGEST_MESSAGE = 128_000_000
"""Bytes. A longer line is left out, and never in memory as a whole."""


class Messages:
    """Collects pieces of a stream and gives the messages in it. `longest` in bytes."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._lines = Lines(longest)

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """The messages that end within the piece."""
        # No name is given to a line: a long one is let go as soon as it is read.
        return [message for message in map(message_in, self._lines.feed(piece)) if message is not None]


def message_in(line: str | None) -> dict[str, Any] | None:
    """The JSON object that a line holds; None for anything else, and for no line."""
    try:
        value = json.loads(line or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


METHOD_NOT_FOUND = -32601


class Stream(Protocol):
    """What is talked over."""

    async def read(self) -> bytes:
        """As `Connection.read`."""
        ...

    async def write(self, data: bytes) -> None:
        """As `Connection.write`."""
        ...


Hear = Callable[[dict[str, Any]], Awaitable[object]]
"""Is given every request and notification that comes meanwhile, one after another."""

_MOST_WAITING = 10_000
"""Messages that may wait for an agent that does not read."""
_LAST_WORDS = 1.0
"""Seconds in which an agent that no longer listens may still say something."""

_AT_ONCE = 0.01
"""Seconds in which what has been written is read."""


class Refusal(Exception):
    """The agent answered a request with an error. `code` is JSON-RPC's; the text is the agent's own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """The other side of a connection."""

    def __init__(self, connection: Stream) -> None:
        self._connection = connection
        self._messages = Messages()
        self._heard: deque[dict[str, Any]] = deque()
        self._said: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._last = 0
        self._reading: asyncio.Task[bytes] | None = None
        self._writing = asyncio.create_task(self._write())

    async def ask(self, method: str, params: Mapping[str, Any], hear: Hear) -> Any:
        """Send a request and give its result; meanwhile `hear` is given whatever else comes.

        Raises Refusal, ConnectionError when the agent is gone, and what `hear` raises.
        """
        self._last += 1
        self._post({"id": self._last, "method": method, "params": params})
        return await self.answered(hear)

    async def answered(self, hear: Hear) -> Any:
        """The result of the newest request, as `ask` gives it: for one whose asking was broken off."""
        number = self._last
        while True:
            message = await self._receive()
            if "method" in message:
                await hear(message)
                del message  # it may hold 64 MB, and the next one as much
            elif message.get("id") == number and not isinstance(message.get("id"), bool):
                return _result_of(message)

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def answer(self, request: Mapping[str, Any], result: Any) -> None:
        """Answer a request of the agent's; a notification needs none."""
        if _is_id(request.get("id")):
            self._post({"id": request["id"], "result": result})

    def refuse(self, request: Mapping[str, Any]) -> None:
        """Say that this is not offered; nothing is said to a notification."""
        if _is_id(request.get("id")):
            name = text(request.get("method"))[:100]
            error = {"code": METHOD_NOT_FOUND, "message": f"not offered by this client: {name}"}
            self._post({"id": request["id"], "error": error})

    async def catch_up(self, hear: Hear) -> None:
        """Let `hear` have what came since the last answer, without waiting for more. Raises ConnectionError."""
        while self._heard or await self._has_more():
            message = await self._receive()
            if "method" in message:
                await hear(message)

    async def close(self) -> None:
        """Say and hear nothing more. Never raises."""
        for task in (self._writing, self._reading):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await task

    def _post(self, message: Mapping[str, Any]) -> None:
        if len(self._said) >= _MOST_WAITING:
            raise ConnectionError("it asks on and on, and reads no answers")
        self._said.append(json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode() + b"\n")
        self._more.set()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            while self._said:
                await self._connection.write(self._said[0])
                self._said.popleft()
            self._more.clear()

    async def _receive(self) -> dict[str, Any]:
        while not self._heard:
            piece = await self._read()
            if not piece:
                raise ConnectionError("it has ended, or does not listen any more")
            self._heard.extend(self._messages.feed(piece))
        return self._heard.popleft()

    async def _has_more(self) -> bool:
        done, _ = await asyncio.wait({self._begun()}, timeout=_AT_ONCE)
        return bool(done)

    async def _read(self) -> bytes:
        """The next piece; empty at the end, and when it no longer listens. Cancelling loses nothing."""
        reading = self._begun()
        await asyncio.wait({reading, self._writing}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            await asyncio.wait({reading}, timeout=_LAST_WORDS)
        if not reading.done():
            return b""
        self._reading = None
        return reading.result()

    def _begun(self) -> asyncio.Task[bytes]:
        if self._reading is None:
            self._reading = asyncio.create_task(self._connection.read())
        return self._reading


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int)


def _result_of(response: Mapping[str, Any]) -> Any:
    error = response.get("error")
    if error is None:
        return response.get("result")
    code = at(error, "code")
    said = text(at(error, "message")) or text(error) or "an error without a word"
    details = at(error, "data", "details") or at(error, "data", "message") or at(error, "data")
    if isinstance(details, str) and details not in said:
        said = f"{said}: {text(details)}"
    raise Refusal(code if isinstance(code, int) else 0, said)
