"""The process of an ACP agent: starting it, its session, and naming its failures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path

from goalrunner.agents.acp_session import AUTH_REQUIRED, Greeting, NotAnAgent, Opened, Speechless, greet, speechless
from goalrunner.agents.failure import failed, not_installed, not_signed_in, tail_of
from goalrunner.agents.invocation import ExternalAgent, Round, invocation
from goalrunner.agents.jsonrpc import Peer, Refusal
from goalrunner.core.agent_ports import AgentRun, Recorder
from goalrunner.core.errors import AgentError, AgentNotInstalled, GoalError, RecordError
from goalrunner.core.process_ports import HIDDEN, Connection, Connector
from goalrunner.system.launcher import words_of

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


FORGOTTEN = "its earlier session could not be taken up; a new one began, with what was said before in its prompt"


class Link:
    """One process at a time, and one session in it. `patience` in seconds."""

    def __init__(self, agent: ExternalAgent, command: Sequence[str], connector: Connector, patience: float) -> None:
        self.session = ""
        """Its id; empty: none is open."""
        self.earlier = ""
        """The id of the one that is to be taken up; empty: none is."""
        self._agent = agent
        self._command = tuple(command)
        self._connector = connector
        self._patience = patience
        self._stack = AsyncExitStack()
        self._running: Running | None = None
        self._recorder: Recorder | None = None

    async def open(self, recorder: Recorder) -> tuple[Running, Opened | None]:
        """The process, with a session open in it; and that session where it was opened just now. Raises AgentError."""
        running = self._running or await self._start(recorder)
        if self.session:
            return running, None
        earlier, self.earlier = self.earlier, ""
        try:
            try:
                opened = await self._open(running, earlier)
            except ConnectionError:
                if not earlier:
                    raise
                # Some die of a session that they no longer know: once more, without it.
                await self.close()
                running = await self._start(recorder)
                opened = await self._open(running, "")
        except Speechless as error:
            raise running.speechless(str(error)) from error
        except (NotAnAgent, TimeoutError) as error:
            raise running.failure(str(error) or "it did not answer in time") from error
        except ConnectionError as error:
            raise await running.lost(error) from error
        except Refusal as refusal:
            raise running.refused(refusal) from refusal
        self.session = opened.id
        if earlier and not opened.known:
            running.add_note(FORGOTTEN)
        return running, opened

    def paused(self) -> AbstractContextManager[None]:
        """Stop the process and all below it while the context is open; nothing if there is none."""
        return self._running.connection.paused() if self._running is not None else nullcontext()

    def forget(self) -> None:
        """The next round begins in a session of its own."""
        self.session, self.earlier = "", ""

    async def close(self) -> None:
        """End the process, and everybody below it; its session is then an earlier one."""
        running, recorder = self._running, self._recorder
        self._running = None
        self.session, self.earlier = "", self.session or self.earlier
        try:
            with suppress(GoalError, OSError):
                await self._stack.aclose()
        finally:
            if running is not None and recorder is not None:
                with suppress(GoalError, OSError):
                    await recorder.agent_ran(running.told())

    async def _open(self, running: Running, earlier: str) -> Opened:
        if running.greeting is None:
            running.greeting = await greet(running.peer, self._agent.env, self._patience)
        return await running.greeting.open(self._agent.workspace, earlier)

    async def _start(self, recorder: Recorder) -> Running:
        agent = self._agent
        words = Round("", agent.workspace, model=agent.model, args=agent.args)
        argv = invocation(self._command, words, recorder.scratch).argv
        try:
            self._running = await self._stack.enter_async_context(running(agent, argv, self._connector, recorder))
        except AgentNotInstalled as error:
            raise not_installed(agent, error.message) from error
        self._recorder = recorder
        return self._running
