"""The agent's process while it runs: what it wrote, how it ended, and what a failure of it is called. Owns both files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from goalrunner.agents.acp.peer import Peer, Refusal
from goalrunner.agents.acp.session import AUTH_REQUIRED, Greeting
from goalrunner.agents.acp.speechless import speechless
from goalrunner.agents.external.agent import ExternalAgent
from goalrunner.agents.external.failure import failed, not_installed, not_signed_in, tail_of
from goalrunner.errors import AgentError, RecordError
from goalrunner.ports import AgentRun, Connection, Connector, Recorder
from goalrunner.ports.launcher import HIDDEN
from goalrunner.process.status import words_of

KEPT = 256_000_000
"""Bytes of what it wrote that are kept as they came."""

_OWN_CODES = 128
"""Exit codes beyond it tell of a signal within a shell or a jail."""


class Running:
    """One process of an agent. `peer` is the other side, `connection` the process itself."""

    def __init__(self, agent: ExternalAgent, connection: Connection, peer: Peer, output: Path, errors: Path) -> None:
        self.connection = connection
        self.peer = peer
        self.greeting: Greeting | None = None
        """What it said of itself; None before."""
        self._notes: list[str] = []
        self._agent = agent
        self._output = output
        self._errors = errors
        self._began = time.monotonic()

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.connection.exit_code
        return "still running" if code is None else words_of(code)

    def add_note(self, note: str) -> None:
        """Something that people must be told; nothing for an empty one."""
        if note and note not in self._notes:
            self._notes.append(note)

    async def lost(self, error: ConnectionError) -> AgentError:
        """Nothing more is heard of it. How it ended is known a moment later."""
        for _ in range(50):
            if self.connection.exit_code is not None:
                break
            await asyncio.sleep(0.01)
        code = self.connection.exit_code
        if self.greeting is None and 0 <= (code or 0) <= _OWN_CODES:  # nobody killed it
            return self.speechless(str(error) if code is None else f"it ended ({self.ending}) without an answer")
        return self.failure(str(error) if code is None else "")

    def speechless(self, why: str) -> AgentError:
        """It does not speak the protocol; `why` is how that shows. What keeps it from being started comes first."""
        obstacle = self.connection.obstacle
        if HIDDEN in obstacle:
            return not_installed(self._agent, obstacle)
        if obstacle:
            return AgentError(f"the agent {self._agent.name} cannot be started: {obstacle}", "goal doctor looks for it")
        return speechless(self._agent, why, self.connection.exit_code, self._output, tail_of(self._errors))

    def failure(self, said: str) -> AgentError:
        """Its failure, with what stderr tells of it."""
        how = "" if self.connection.exit_code is None else self.ending
        return failed(self._agent, said, how, tail_of(self._errors))

    def refused(self, refusal: Refusal) -> AgentError:
        """It answered with an error."""
        if refusal.code == AUTH_REQUIRED:
            return not_signed_in(self._agent, str(refusal))
        return self.failure(str(refusal))

    def told(self) -> AgentRun:
        """For the log, when it is over."""
        return AgentRun(
            self._agent.name,
            self.ending,
            time.monotonic() - self._began,
            self._output,
            self._errors,
            "; ".join(self._notes),
        )


@asynccontextmanager
async def running(
    agent: ExternalAgent, argv: tuple[str, ...], connector: Connector, recorder: Recorder
) -> AsyncIterator[Running]:
    """Start it; at the end nobody of it is left. Raises AgentNotInstalled."""
    output, errors = recorder.scratch(".acp.jsonl"), recorder.scratch(".err")
    async with connector.connect(argv, cwd=agent.workspace, env=agent.env, errors=errors) as connection:
        with contextlib.closing(_Kept(connection, output)) as kept:
            peer = Peer(kept)
            try:
                yield Running(agent, connection, peer, output, errors)
            finally:
                await peer.close()


class _Kept:
    """A connection of which everything that is read is kept in a file as well."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
        self._room = KEPT

    async def read(self) -> bytes:
        piece = await self._connection.read()
        self._room = self._room - len(piece) if self._room >= len(piece) and self._wrote(piece) else 0
        return piece

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    def close(self) -> None:
        os.close(self._file)

    def _wrote(self, piece: bytes) -> bool:
        """A full disk ends this copy, and not the turn: the log has its own to say about that."""
        try:
            return os.write(self._file, piece) == len(piece)
        except OSError:
            return False
