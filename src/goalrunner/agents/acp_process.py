"""One process of an ACP agent: it opens sessions, and explains its failures."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.agents.acp_peer import Peer, Refusal
from goalrunner.agents.agent_errors import (
    NOT_STARTED,
    failed,
    first_lines,
    last_lines,
    not_installed,
    not_signed_in,
)
from goalrunner.agents.error_kinds import ErrorMeaning
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.invocation import program_of
from goalrunner.agents.silence import written_to
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import AgentError
from goalrunner.core.events import AgentRan
from goalrunner.core.messages import at, items, text
from goalrunner.core.ports import HIDDEN
from goalrunner.system.child import describe_status
from goalrunner.system.connection import ProcessConnection
from goalrunner.system.launcher import tail_of

PROTOCOL_VERSION = 1
PATIENCE = 120.0
"""Seconds for a response outside of a turn. At its start, an agent may be downloaded or
start servers."""
CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The response to a permission request that is neither allowed nor rejected."""

# The code of the protocol for a request that needs `authenticate` first:
# https://agentclientprotocol.com/protocol/schema
_AUTH_REQUIRED = -32000
# Characters of a session's id.
_LONGEST_ID = 1_000
# Larger exit codes stand for a signal in a shell or sandbox.
_LARGEST_PROGRAM_CODE = 128
# The operating system may report the end of the output before the exit code.
_EXIT_CODE_LOOKS = 50
_EXIT_CODE_PAUSE = 0.01

_HELLO = {
    "protocolVersion": PROTOCOL_VERSION,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
    "clientInfo": {"name": "goal", "title": "goal", "version": VERSION},
}


@dataclass(frozen=True)
class OpenedSession:
    """An open session of the agent."""

    id: str
    is_resumed: bool
    """Whether it is an earlier session, which contains the chat."""


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
        # The agent's answer to `initialize`; None before it.
        self._hello: Any = None
        self._notes: dict[str, None] = {}
        self._began = time.monotonic()

    async def open_session(self, earlier: str) -> OpenedSession:
        """Resume the session `earlier`, or open a new one if that is not possible.

        Raise Refusal, TimeoutError and ConnectionError.
        """
        await self._initialize()
        folder: dict[str, Any] = {"cwd": str(self._agent.workspace), "mcpServers": []}
        if earlier:
            for method in self._resuming_methods():
                try:
                    await self._ask(method, {**folder, "sessionId": earlier})
                except (Refusal, TimeoutError):
                    continue
                return OpenedSession(earlier, is_resumed=True)
        answer = await self._new_session(folder)
        session_id = at(answer, "sessionId")
        if not isinstance(session_id, str) or not 0 < len(session_id) <= _LONGEST_ID:
            raise Refusal("it opened a session without a usable id")
        return OpenedSession(session_id, is_resumed=False)

    async def _initialize(self) -> None:
        """Agree on the protocol, once. Raise Refusal for another version."""
        if self._hello is not None:
            return
        hello = await self._ask("initialize", _HELLO)
        version = at(hello, "protocolVersion")
        if version != PROTOCOL_VERSION:
            raise Refusal(
                f"it speaks version {version} of the protocol, not {PROTOCOL_VERSION}"
            )
        self._hello = hello

    def _resuming_methods(self) -> list[str]:
        """Return the methods with which the agent can resume a session, best first."""
        capabilities = at(self._hello, "agentCapabilities")
        methods = []
        # `resume` does not send the whole chat again, as `load` does.
        if isinstance(at(capabilities, "sessionCapabilities", "resume"), dict):
            methods.append("session/resume")
        if at(capabilities, "loadSession") is True:
            methods.append("session/load")
        return methods

    async def _new_session(self, folder: dict[str, Any]) -> Any:
        """Return the answer to `session/new`, after a sign-in if it is required."""
        try:
            return await self._ask("session/new", folder)
        except Refusal as refusal:
            login = self._login() if refusal.code == _AUTH_REQUIRED else ""
            if not login:
                raise
        await self._ask("authenticate", {"methodId": login})
        return await self._ask("session/new", folder)

    def _login(self) -> str:
        """Return a sign-in method whose variables are all set, or ""."""
        # Other methods open a browser or a terminal, so they need a person.
        for method in items(at(self._hello, "authMethods")):
            variables = items(at(method, "vars"))
            needed = [one for one in variables if at(one, "optional") is not True]
            values = [self._agent.env.get(text(at(one, "name"))) for one in needed]
            are_set = bool(values) and all(values)
            if at(method, "type") == "env_var" and are_set:
                return text(at(method, "id"))
        return ""

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self.request(method, params, self.reject)

    async def reject(self, message: dict[str, Any]) -> None:
        """Handle a message outside of a turn: record nothing, and allow nothing."""
        match message.get("method"):
            case "session/request_permission":
                self.answer(message, CANCELLED)
            # Only this client sends that request.
            case "initialize":
                raise Refusal("it repeats its input, as cat does")
            # Agents also report their commands and modes outside of a turn.
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
        return failed(self._agent, message, how, tail_of(self._errors), meaning)

    async def explain(self, error: Exception) -> AgentError:
        """Return the error for an exception of `open_session` or of a prompt."""
        if isinstance(error, Refusal) and error.code == _AUTH_REQUIRED:
            return not_signed_in(self._agent, str(error))
        speaks_acp = self._hello is not None
        why = str(error) or f"it did not answer within {PATIENCE:g} s"
        if isinstance(error, ConnectionError) and await self._has_ended():
            # Of a process that worked before, stderr and exit code say more.
            why = "" if speaks_acp else f"it ended ({self._ending}) without an answer"
        if speaks_acp:
            meaning = error.meaning if isinstance(error, Refusal) else None
            return self.failure(why, meaning)
        if 0 <= (self.connection.exit_code or 0) <= _LARGEST_PROGRAM_CODE:
            return self._not_acp(why)
        return self.failure("")

    async def _has_ended(self) -> bool:
        """Return whether the process has an exit code, or gets one in a moment."""
        for _ in range(_EXIT_CODE_LOOKS):
            if self.connection.exit_code is not None:
                return True
            await asyncio.sleep(_EXIT_CODE_PAUSE)
        return False

    def _not_acp(self, why: str) -> AgentError:
        """Return the error for a program that does not speak the protocol.

        A known cause takes precedence.
        """
        agent, code = self._agent, self.connection.exit_code
        obstacle = self.connection.obstacle
        stderr = tail_of(self._errors)
        if HIDDEN in obstacle or code in NOT_STARTED:
            return not_installed(agent, obstacle or last_lines(stderr))
        if obstacle:
            return AgentError(
                f"the agent {agent.name} cannot be started: {obstacle}",
                f"goal agents {agent.name} checks it",
            )
        message = why if code is None else ""
        explained = failed(agent, message, self._ending, stderr, hint="")
        # Only a known cause has a hint.
        if explained.hint:
            return explained
        return AgentError(
            f"the agent {self._name_with_program()} does not speak ACP: {why}"
            f"{self._last_words(stderr)}",
            self._protocol_hint(),
        )

    def _name_with_program(self) -> str:
        program = program_of(self._agent.preset.acp)
        if not program:
            return self._agent.name
        return f"{self._agent.name} ({Path(program).name})"

    def _last_words(self, stderr: str) -> str:
        """Return what the program printed, as the end of a sentence."""
        words = last_lines(stderr) or first_lines(tail_of(self._output))
        return f"; it printed:\n{words}" if words else ""

    def _protocol_hint(self) -> str:
        preset = self._agent.preset
        if preset.argv:
            update = preset.install or "see its manual"
            return f'write protocol = "command", or update it: {update}'
        return (
            "write the whole command that starts ACP, "
            'such as command = ["my-agent", "--acp"], or use = "command"'
        )

    @property
    def _ending(self) -> str:
        code = self.connection.exit_code
        return "still running" if code is None else describe_status(code)

    async def record(self, recorder: Recorder) -> None:
        """Record the process after its end."""
        ran = AgentRan(
            agent=self._agent.name,
            ending=self._ending,
            duration=time.monotonic() - self._began,
            note="; ".join(self._notes),
        )
        await recorder.agent_ran(ran, self._output, self._errors)
