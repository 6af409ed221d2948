"""JSON-RPC messages over the input and output of an ACP agent's process."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalrunner.agents.error_kinds import ErrorMeaning, response_meaning
from goalrunner.agents.json_lines import Lines, object_in
from goalrunner.core.errors import RecordError
from goalrunner.core.messages import at, text
from goalrunner.system.connection import ProcessConnection

RECORDED_OUTPUT = 256_000_000
"""Bytes of an agent's output that are written to a file."""

# https://www.jsonrpc.org/specification#error_object
_METHOD_NOT_FOUND = -32601
# The most messages that wait for an agent that does not read.
_MOST_WAITING = 10_000
# Seconds in which output that is already written is read.
_AT_ONCE = 0.01

Handler = Callable[[dict[str, Any]], Awaitable[object]]
"""Called with each request and notification of the agent, one after another."""


class Refusal(Exception):
    """The agent answered a request with an error, or it breaks the protocol.

    The message is the agent's own; `code` is that of the error, 0 if there is none.
    """

    def __init__(
        self, message: str, code: int = 0, meaning: ErrorMeaning | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.meaning = meaning or ErrorMeaning()


class Peer:
    """The agent's side of a connection.

    What the agent sends is also written to the new file `output`. Raise RecordError if
    the file cannot be created.
    """

    def __init__(self, connection: ProcessConnection, output: Path) -> None:
        self.connection = connection
        # The scratch folder may be visible to the agent: never follow a link there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            self._file = os.open(output, flags, 0o600)
        except OSError as error:
            raise RecordError(
                f"cannot write {output}: {error.strerror}",
                "free some space, or set GOAL_HOME",
            ) from error
        self._room = RECORDED_OUTPUT
        self.received = 0
        """Bytes that the agent has sent."""
        self._lines = Lines()
        self._messages: deque[dict[str, Any]] = deque()
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._last_id = 0
        # Messages are written by a task of their own: an agent that reads no input must
        # not keep the runner from reading its output.
        self._writing = asyncio.create_task(self._write())

    async def request(
        self, method: str, params: Mapping[str, Any], handler: Handler
    ) -> Any:
        """Send a request and return its result; `handler` gets the messages until then.

        Raise Refusal, ConnectionError if the agent is gone, and what `handler` raises.
        """
        self._last_id += 1
        self._post({"id": self._last_id, "method": method, "params": params})
        return await self.result(handler)

    async def result(self, handler: Handler) -> Any:
        """Return the result of the newest request.

        Call it again to wait after an interruption.
        """
        while True:
            message = await self._receive()
            if "method" in message:
                await handler(message)
                continue
            # In Python, True is equal to 1, which is an id of ours.
            response_id = message.get("id")
            if response_id == self._last_id and not isinstance(response_id, bool):
                return _result_of(message)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def answer(
        self, request: Mapping[str, Any], result: Any, key: str = "result"
    ) -> None:
        """Answer a request; ignore a notification, which has no id."""
        if isinstance(request.get("id"), str | int):
            self._post({"id": request["id"], key: result})

    def refuse(self, request: Mapping[str, Any]) -> None:
        """Answer that this client does not offer the method of the request."""
        message = f"not offered by this client: {text(request.get('method'))[:100]}"
        self.answer(request, {"code": _METHOD_NOT_FOUND, "message": message}, "error")

    async def catch_up(self, handler: Handler) -> None:
        """Call `handler` with what has arrived since the last answer, without waiting.

        Raise ConnectionError.
        """
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_AT_ONCE):
                    message = await self._receive()
                if "method" in message:
                    await handler(message)

    async def close(self) -> None:
        """Stop writing. Never raises."""
        self._writing.cancel()
        with suppress(asyncio.CancelledError):
            await self._writing
        os.close(self._file)

    def _post(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False) + "\n"
        try:
            self._unsent.put_nowait(line.encode())
        except asyncio.QueueFull:
            raise ConnectionError(
                "it keeps sending requests and reads no responses"
            ) from None

    async def _write(self) -> None:
        # If the agent has closed its input, the end of its output is the error.
        with suppress(OSError):
            while True:
                await self.connection.write(await self._unsent.get())

    async def _receive(self) -> dict[str, Any]:
        """Return the next message. Nothing is lost if this is cancelled."""
        while not self._messages:
            piece = await self.connection.read()
            if not piece:
                raise ConnectionError("it has ended, or no longer reads its input")
            self.received += len(piece)
            self._record(piece)
            for line in self._lines.feed(piece):
                message = object_in(line)
                if message:
                    self._messages.append(message)
        return self._messages.popleft()

    def _record(self, piece: bytes) -> None:
        """Write a piece of the agent's output to the file, up to the limit."""
        self._room = max(0, self._room - len(piece))
        if self._room:
            # A full disk ends the copy, but not the turn.
            with suppress(OSError):
                os.write(self._file, piece)


def _result_of(response: Mapping[str, Any]) -> Any:
    """Return the result in a response. Raise Refusal for an error."""
    error = response.get("error")
    if error is None:
        return response.get("result")
    code, data = at(error, "code"), at(error, "data")
    message = text(at(error, "message")) or text(error) or "an error without a message"
    details = text(at(data, "details")) or text(at(data, "message")) or text(data)
    if details not in message:
        message = f"{message}: {details}"
    code = code if isinstance(code, int) else 0
    raise Refusal(message, code, response_meaning(error))
