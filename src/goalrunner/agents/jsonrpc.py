"""JSON-RPC over the stdin and stdout of an agent."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalrunner.agents.parser import Lines, at, object_in, text
from goalrunner.core.errors import RecordError
from goalrunner.system.connection import ProcessConnection

KEPT = 256_000_000
"""Bytes of an agent's output that are written to a file."""
METHOD_NOT_FOUND = -32601

_MOST_WAITING = 10_000
"""The most messages that wait for an agent that does not read."""
_LAST_WORDS = 1.0
"""Seconds for which the output of an agent that no longer reads is still read."""
_AT_ONCE = 0.01
"""Seconds in which output that is already written is read."""

Handler = Callable[[dict[str, Any]], Awaitable[object]]
"""Called with each request and notification of the agent, one after another."""


class Refusal(Exception):
    """The agent answered a request with an error. `code` is that of JSON-RPC; the text is the agent's own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """The agent's side of a connection. What the agent sends is also written to the new file `path`.

    Raise RecordError if the file cannot be created.
    """

    def __init__(self, connection: ProcessConnection, path: Path) -> None:
        self._connection = connection
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
        self._room = KEPT
        self._received: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(1)
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._is_over = False
        self._last = 0
        self._reading = asyncio.create_task(self._read())
        self._writing = asyncio.create_task(self._write())

    async def request(self, method: str, params: Mapping[str, Any], handler: Handler) -> Any:
        """Send a request and return its result; `handler` gets every other message meanwhile.

        Raise Refusal, ConnectionError if the agent is gone, and what `handler` raises.
        """
        self._last += 1
        self._post({"id": self._last, "method": method, "params": params})
        return await self.result(handler)

    async def result(self, handler: Handler) -> Any:
        """Return the result of the newest request. Call it again to wait after an interruption."""
        while True:
            message = await self._receive()
            if "method" in message:
                await handler(message)
            elif message.get("id") == self._last and not isinstance(message["id"], bool):
                return _result_of(message)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def answer(self, request: Mapping[str, Any], result: Any, key: str = "result") -> None:
        """Answer a request; ignore a notification."""
        if isinstance(request.get("id"), str | int):
            self._post({"id": request["id"], key: result})

    def refuse(self, request: Mapping[str, Any]) -> None:
        """Answer that this client does not offer the method of the request."""
        message = f"not offered by this client: {text(request.get('method'))[:100]}"
        self.answer(request, {"code": METHOD_NOT_FOUND, "message": message}, "error")

    async def catch_up(self, handler: Handler) -> None:
        """Call `handler` with what has arrived since the last answer, without waiting. Raise ConnectionError."""
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_AT_ONCE):
                    message = await self._receive()
                if "method" in message:
                    await handler(message)

    async def close(self) -> None:
        """Stop reading and writing. Never raises."""
        for task in (self._writing, self._reading):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await task
        os.close(self._file)

    def _post(self, message: Mapping[str, Any]) -> None:
        try:
            self._unsent.put_nowait(json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode() + b"\n")
        except asyncio.QueueFull:
            raise ConnectionError("it keeps sending requests and reads no responses") from None

    async def _write(self) -> None:
        try:
            while True:
                await self._connection.write(await self._unsent.get())
        except OSError:
            await asyncio.sleep(_LAST_WORDS)
            self._reading.cancel()

    async def _receive(self) -> dict[str, Any]:
        """Return the next message. Nothing is lost if this is cancelled."""
        message = None if self._is_over and self._received.empty() else await self._received.get()
        if message is None:
            raise ConnectionError("it has ended, or no longer reads its input")
        return message

    async def _read(self) -> None:
        """Read the messages, each after the previous one was received."""
        lines = Lines()
        try:
            while piece := await self._connection.read():
                self._room = max(0, self._room - len(piece))
                if self._room:
                    with suppress(OSError):  # a full disk ends the copy, but not the turn
                        os.write(self._file, piece)
                for line in lines.feed(piece):
                    if (message := object_in(line)) is not None:
                        await self._received.put(message)
        finally:
            self._is_over = True
            if self._received.empty():
                self._received.put_nowait(None)


def _result_of(response: Mapping[str, Any]) -> Any:
    error = response.get("error")
    if error is None:
        return response.get("result")
    code, data = at(error, "code"), at(error, "data")
    said = text(at(error, "message")) or text(error) or "an error without a message"
    details = text(at(data, "details")) or text(at(data, "message")) or text(data)
    said = said if details in said else f"{said}: {details}"
    raise Refusal(code if isinstance(code, int) else 0, said)
