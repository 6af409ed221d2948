"""One process of an ACP agent: its JSON-RPC messages, its sessions, and the errors for its failures."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalrunner.agents.error_kinds import ErrorMeaning, response_meaning
from goalrunner.agents.external_agents import ExternalAgent, program_of
from goalrunner.agents.external_chat import (
    NOT_STARTED,
    failed,
    first_lines,
    last_lines,
    not_installed,
    not_signed_in,
)
from goalrunner.agents.parser import Lines, at, items, object_in, text
from goalrunner.agents.silence import written_to
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import AgentError, RecordError
from goalrunner.core.events import AgentRan
from goalrunner.core.ports import HIDDEN
from goalrunner.system.child import describe_status
from goalrunner.system.connection import ProcessConnection
from goalrunner.system.launcher import tail_of

PROTOCOL_VERSION = 1
PATIENCE = 120.0
"""Seconds for a response outside of a turn. At its start, an agent may be downloaded or start servers."""
KEPT = 256_000_000
"""Bytes of an agent's output that are written to a file."""
CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The response to a permission request that is neither allowed nor rejected."""

_AUTH_REQUIRED = -32000
_LONGEST_ID = 1_000
_LARGEST_OWN_CODE = 128
"""Larger exit codes stand for a signal in a shell or sandbox."""
_MOST_WAITING = 10_000
"""The most messages that wait for an agent that does not read."""
_AT_ONCE = 0.01
"""Seconds in which output that is already written is read."""

Handler = Callable[[dict[str, Any]], Awaitable[object]]
"""Called with each request and notification of the agent, one after another."""


_HELLO = {
    "protocolVersion": PROTOCOL_VERSION,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
    "clientInfo": {"name": "goal", "title": "goal", "version": VERSION},
}


class Refusal(Exception):
    """The agent answered a request with an error, in its own words and with its code, or it breaks the protocol."""

    def __init__(
        self, message: str, code: int = 0, meaning: ErrorMeaning | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.meaning = meaning or ErrorMeaning()


class Peer:
    """The agent's side of a connection. What the agent sends is also written to the new file `output`.

    Raise RecordError if the file cannot be created.
    """

    def __init__(self, connection: ProcessConnection, output: Path) -> None:
        self.connection = connection
        try:
            self._file = os.open(
                output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise RecordError(
                f"cannot write {output}: {error.strerror}",
                "free some space, or set GOAL_HOME",
            ) from error
        self._room = KEPT
        self.received = 0
        """Bytes that the agent has sent."""
        self._lines = Lines()
        self._received: deque[dict[str, Any]] = deque()
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._last = 0
        self._writing = asyncio.create_task(self._write())

    async def request(
        self, method: str, params: Mapping[str, Any], handler: Handler
    ) -> Any:
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
            elif message.get("id") == self._last and not isinstance(
                message["id"], bool
            ):
                return _result_of(message)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def answer(
        self, request: Mapping[str, Any], result: Any, key: str = "result"
    ) -> None:
        """Answer a request; ignore a notification."""
        if isinstance(request.get("id"), str | int):
            self._post({"id": request["id"], key: result})

    def refuse(self, request: Mapping[str, Any]) -> None:
        """Answer that this client does not offer the method of the request (-32601)."""
        message = f"not offered by this client: {text(request.get('method'))[:100]}"
        self.answer(request, {"code": -32601, "message": message}, "error")

    async def catch_up(self, handler: Handler) -> None:
        """Call `handler` with what has arrived since the last answer, without waiting. Raise ConnectionError."""
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
        try:
            self._unsent.put_nowait(
                json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False).encode()
                + b"\n"
            )
        except asyncio.QueueFull:
            raise ConnectionError(
                "it keeps sending requests and reads no responses"
            ) from None

    async def _write(self) -> None:
        with suppress(OSError):  # the end of its output is an error for the reader
            while True:
                await self.connection.write(await self._unsent.get())

    async def _receive(self) -> dict[str, Any]:
        """Return the next message. Nothing is lost if this is cancelled."""
        while not self._received:
            piece = await self.connection.read()
            if not piece:
                raise ConnectionError("it has ended, or no longer reads its input")
            self.received += len(piece)
            self._room = max(0, self._room - len(piece))
            if self._room:
                with suppress(OSError):  # a full disk ends the copy, but not the turn
                    os.write(self._file, piece)
            self._received.extend(
                message
                for line in self._lines.feed(piece)
                if (message := object_in(line))
            )
        return self._received.popleft()


def _result_of(response: Mapping[str, Any]) -> Any:
    error = response.get("error")
    if error is None:
        return response.get("result")
    code, data = at(error, "code"), at(error, "data")
    said = text(at(error, "message")) or text(error) or "an error without a message"
    details = text(at(data, "details")) or text(at(data, "message")) or text(data)
    said = said if details in said else f"{said}: {details}"
    raise Refusal(said, code if isinstance(code, int) else 0, response_meaning(error))


class AcpProcess(Peer):
    """One process of an agent."""

    def __init__(
        self,
        agent: ExternalAgent,
        connection: ProcessConnection,
        output: Path,
        errors: Path,
    ) -> None:
        super().__init__(connection, output)
        self._agent = agent
        self._output, self._errors = output, errors
        self._hello: Any = None
        self._notes: dict[str, None] = {}
        self._began = time.monotonic()

    async def open_session(self, earlier: str) -> tuple[str, bool]:
        """Resume the session `earlier`, or open a new one. Return the session's id, and whether it was resumed.

        Raise Refusal, TimeoutError and ConnectionError.
        """
        if self._hello is None:
            self._hello = await self._ask("initialize", _HELLO)
            version = at(self._hello, "protocolVersion")
            if version != PROTOCOL_VERSION:
                self._hello = None
                raise Refusal(
                    f"it speaks version {version} of the protocol, not {PROTOCOL_VERSION}"
                )
        can = at(self._hello, "agentCapabilities")
        methods = []
        if isinstance(at(can, "sessionCapabilities", "resume"), dict):
            methods.append("session/resume")
        if at(can, "loadSession") is True:
            methods.append("session/load")
        place: dict[str, Any] = {"cwd": str(self._agent.workspace), "mcpServers": []}
        for method in methods if earlier else ():
            try:
                await self._ask(method, {**place, "sessionId": earlier})
            except (Refusal, TimeoutError):
                continue
            return earlier, True
        try:
            answer = await self._ask("session/new", place)
        except Refusal as refusal:
            login = self._login() if refusal.code == _AUTH_REQUIRED else ""
            if not login:
                raise
            await self._ask("authenticate", {"methodId": login})
            answer = await self._ask("session/new", place)
        name = at(answer, "sessionId")
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise Refusal("it opened a session without a usable id")
        return name, False

    def _login(self) -> str:
        """Return a sign-in method whose variables are all set; empty if there is none."""
        for method in items(at(self._hello, "authMethods")):
            names = [
                text(at(one, "name"))
                for one in items(at(method, "vars"))
                if at(one, "optional") is not True
            ]
            if (
                at(method, "type") == "env_var"
                and names
                and all(self._agent.env.get(name) for name in names)
            ):
                return text(at(method, "id"))
        return ""

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self.request(method, params, self.reject)

    async def reject(self, message: dict[str, Any]) -> None:
        """Handle a message outside of a turn: nothing is recorded, and nothing is allowed."""
        match message.get("method"):
            case "session/request_permission":
                self.answer(message, CANCELLED)
            case "initialize":
                raise Refusal("it repeats its input, as cat does")
            case "session/update":
                pass
            case _:
                self.refuse(message)

    def written(self) -> int:
        """Return the bytes of its messages and of its stderr so far."""
        return self.received + written_to(self._errors)

    def add_note(self, note: str) -> None:
        """Add a note to the record of the process, unless it is empty."""
        if note:
            self._notes[note] = None

    def failure(self, message: str, meaning: ErrorMeaning | None = None) -> AgentError:
        """Return the error for a failure, with the end of stderr."""
        how = "" if self.connection.exit_code is None else self._ending
        known = meaning or ErrorMeaning()
        errors = tail_of(self._errors)
        return failed(
            self._agent,
            message,
            how,
            errors,
            outage=known.outage,
            obstacle=known.obstacle,
        )

    async def explain(self, error: Exception) -> AgentError:
        """Return the error for an exception of `open_session` or of a prompt."""
        if isinstance(error, Refusal) and error.code == _AUTH_REQUIRED:
            return not_signed_in(self._agent, str(error))
        why = str(error) or f"it did not answer within {PATIENCE:g} s"
        if isinstance(error, ConnectionError):
            for _ in range(50):  # the exit code may be known a moment later
                if self.connection.exit_code is not None:
                    why = (
                        ""
                        if self._hello is not None
                        else f"it ended ({self._ending}) without an answer"
                    )
                    break
                await asyncio.sleep(0.01)
        code = self.connection.exit_code
        if self._hello is not None:
            return self.failure(
                why, error.meaning if isinstance(error, Refusal) else None
            )
        return (
            self._not_acp(why)
            if 0 <= (code or 0) <= _LARGEST_OWN_CODE
            else self.failure("")
        )

    def _not_acp(self, why: str) -> AgentError:
        """Return the error for a program that does not speak the protocol. A known cause takes precedence."""
        agent, obstacle, code = (
            self._agent,
            self.connection.obstacle,
            self.connection.exit_code,
        )
        errors = tail_of(self._errors)
        if HIDDEN in obstacle or code in NOT_STARTED:
            return not_installed(agent, obstacle or last_lines(errors))
        if obstacle:
            return AgentError(
                f"the agent {agent.name} cannot be started: {obstacle}",
                f"goal agents {agent.name} checks it",
            )
        known = failed(
            agent, why if code is None else "", self._ending, errors, hint=""
        )
        if known.hint:
            return known
        program = program_of(agent.preset.acp)
        name = f"{agent.name} ({Path(program).name})" if program else agent.name
        words = last_lines(errors) or first_lines(tail_of(self._output))
        said = f"; it printed:\n{words}" if words else ""
        hint = 'write the whole command that starts ACP, such as command = ["my-agent", "--acp"], or use = "command"'
        if agent.preset.argv:
            hint = f'write protocol = "command", or update it: {agent.preset.install or "see its manual"}'
        return AgentError(f"the agent {name} does not speak ACP: {why}{said}", hint)

    @property
    def _ending(self) -> str:
        code = self.connection.exit_code
        return "still running" if code is None else describe_status(code)

    async def record(self, recorder: Recorder) -> None:
        """Record the process after its end."""
        duration, note = time.monotonic() - self._began, "; ".join(self._notes)
        ran = AgentRan(
            agent=self._agent.name, ending=self._ending, duration=duration, note=note
        )
        await recorder.agent_ran(ran, self._output, self._errors)
