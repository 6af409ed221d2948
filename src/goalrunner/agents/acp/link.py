"""The agent's process and session as they are now. Owns starting, opening, and falling back to a fresh session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress

from goalrunner.agents.acp.peer import Refusal
from goalrunner.agents.acp.running import Running, running
from goalrunner.agents.acp.session import NotAnAgent, Opened, Speechless, greet
from goalrunner.agents.external.agent import ExternalAgent
from goalrunner.agents.external.failure import not_installed
from goalrunner.agents.external.invocation import Round, invocation
from goalrunner.errors import AgentNotInstalled, GoalError
from goalrunner.ports import Connector, Recorder

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
