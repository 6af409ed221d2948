"""JSON-RPC over the stdin and stdout of an agent."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalrunner.agents.output_reader import Lines
from goalrunner.agents.parser import at, text
from goalrunner.core.errors import RecordError
from goalrunner.system.connection import ProcessConnection

LONGEST_MESSAGE = 128_000_000
"""Bytes. A longer line is left out and never in memory as a whole."""
KEPT = 256_000_000
"""Bytes of an agent's output that are kept in a file."""
METHOD_NOT_FOUND = -32601

_MOST_WAITING = 10_000
"""Messages that may wait for an agent that does not read."""
_LAST_WORDS = 1.0
"""Seconds in which an agent that no longer reads may still write."""
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
        self._received: deque[dict[str, Any]] = deque()
        self._arrived, self._wanted, self._over = asyncio.Event(), asyncio.Event(), False
        self._unsent: deque[bytes] = deque()
        self._has_unsent = asyncio.Event()
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
        """Return the result of the newest request, whose `request` was interrupted."""
        number = self._last
        while True:
            message = await self._receive()
            if "method" in message:
                await handler(message)
                del message  # it may have 64 MB, and the next one as well
            elif message.get("id") == number and not isinstance(message.get("id"), bool):
                return _result_of(message)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def answer(self, request: Mapping[str, Any], result: Any, key: str = "result") -> None:
        """Answer a request; ignore a notification."""
        if isinstance(request.get("id"), str | int):
            self._post({"id": request["id"], key: result})

    def refuse(self, request: Mapping[str, Any]) -> None:
        """Answer a request that this client does not offer."""
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
        if len(self._unsent) >= _MOST_WAITING:
            raise ConnectionError("it keeps sending requests and reads no responses")
        self._unsent.append(json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode() + b"\n")
        self._has_unsent.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._has_unsent.wait()
                while self._unsent:
                    await self._connection.write(self._unsent[0])
                    self._unsent.popleft()
                self._has_unsent.clear()
        except OSError:
            await asyncio.sleep(_LAST_WORDS)
            self._reading.cancel()

    async def _receive(self) -> dict[str, Any]:
        """Return the next message. Nothing is lost if this is cancelled."""
        while not self._received:
            if self._over:
                raise ConnectionError("it has ended, or no longer reads its input")
            self._arrived.clear()
            self._wanted.set()
            await self._arrived.wait()
        return self._received.popleft()

    async def _read(self) -> None:
        """Read piece after piece, the next one when all messages of the last one were received."""
        lines = Lines(LONGEST_MESSAGE)
        try:
            while piece := await self._connection.read():
                self._room = max(0, self._room - len(piece))
                if self._room:
                    with suppress(OSError):  # a full disk ends the copy, but not the turn
                        os.write(self._file, piece)
                self._received.extend(lines.objects(piece))
                while self._received:
                    self._arrived.set()
                    await self._wanted.wait()
                    self._wanted.clear()
        finally:
            self._over = True
            self._arrived.set()


def _result_of(response: Mapping[str, Any]) -> Any:
    error = response.get("error")
    if error is None:
        return response.get("result")
    code = at(error, "code")
    said = text(at(error, "message")) or text(error) or "an error without a message"
    details = at(error, "data", "details") or at(error, "data", "message") or at(error, "data")
    if isinstance(details, str) and details not in said:
        said = f"{said}: {text(details)}"
    raise Refusal(code if isinstance(code, int) else 0, said)
