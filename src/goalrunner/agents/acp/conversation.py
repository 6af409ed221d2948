"""An agent that speaks the Agent Client Protocol: one process a run. Owns the conversation over its rounds.

What holds of approvals: the agent asks, and what it asks for is what it says of itself. Nothing keeps one from acting
without asking; only a jail does. A run that waits for a person has ended the agent's turn and its process; when it goes
on, the agent is told to go on, and the approval counts once, for the very same action, when it asks for that again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from goalrunner.agents.acp.peer import Refusal
from goalrunner.agents.acp.reading import text
from goalrunner.agents.acp.running import Running, running
from goalrunner.agents.acp.session import PATIENCE, NotAnAgent, Opened, deaf, greet
from goalrunner.agents.acp.stopping import ending_of, failure_of, note_of
from goalrunner.agents.acp.turn import Turn
from goalrunner.agents.acp.usage import Meter
from goalrunner.agents.external.agent import ExternalAgent
from goalrunner.agents.external.failure import not_installed
from goalrunner.agents.external.history import with_history
from goalrunner.agents.external.invocation import Round, invocation
from goalrunner.errors import AgentNotInstalled, ConversationBusy, GoalError, RecordError
from goalrunner.model.dialogue import text_of
from goalrunner.model.usage import AgentSession, Usage
from goalrunner.ports import Connector, Message, Recorder, RoundReply, ToolResult, Unfinished

GO_ON = (
    "The run was interrupted in the middle of your turn. It is not known what the commands did that were under way. Look at"
    " what is done already, and go on with the task."
)
"""What an agent is told whose turn was cut, where there is nothing else to tell."""

FORGOTTEN = "its earlier session could not be taken up; a new one began, with what was said before in its prompt"

CANCELLING = 1.0
"""Seconds that an agent has to end a turn that is cancelled."""


@dataclass(frozen=True)
class AcpCheckpoint:
    """What was said. An agent's own memory only grows, so no checkpoint holds it."""

    messages: tuple[dict[str, Any], ...]


class AcpConversation:
    """An agent over rounds. Implements the ports `Conversation`, `Resumable` and `Closing`.

    `command` is its command with placeholders. `guarded`: what may happen is asked each time, so an agent never gets leave
    for ever. `patience` is in seconds.
    """

    def __init__(
        self,
        agent: ExternalAgent,
        command: Sequence[str],
        connector: Connector,
        *,
        guarded: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self._command = tuple(command)
        self._connector = connector
        self._guarded = guarded
        self._patience = patience
        self._stack = AsyncExitStack()
        self._running: Running | None = None
        self._recorder: Recorder | None = None
        self._session = ""
        self._earlier = ""
        self._known = True
        """Whether the agent itself remembers what was said."""
        self._meter = Meter()
        self._told: float | None = None
        self._unsaid: list[str] = []
        self._busy = False

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """One round. Raises AgentError, BudgetExhausted, ApprovalPending, and ConversationBusy within another turn."""
        async with self._turn(recorder):
            return await self._round(prompt, recorder)

    async def proceed(self, notice: str, left: Unfinished, recorder: Recorder) -> RoundReply:
        """Go on in the middle of a turn: the agent is told, in its own session where it still knows it."""
        async with self._turn(recorder):
            for name in left.cut:
                await recorder.tool_result(_cut(name, self.agent.name))
            return await self._round(notice or GO_ON, recorder)

    def load(self, messages: Sequence[Message], left: Unfinished, recorder: Recorder) -> None:
        """Take up what an earlier process recorded: the chat, and the agent's own session."""
        self.messages[:] = _said(messages)
        session = left.session
        if session is not None and session.agent == self.agent.name:
            self._earlier = session.id
            self._meter = Meter(session.total.cost_usd)

    def take_over(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run, which the agent is told in its prompt."""
        self._forget()
        self.messages.clear()
        for message in _said(messages):
            self._add(message, recorder)

    def checkpoint(self) -> AcpCheckpoint:
        """What was said so far."""
        return AcpCheckpoint(tuple(dict(message) for message in self.messages))

    def restore(self, checkpoint: object) -> None:
        """Make it what it was: the agent gets a fresh session. Raises TypeError for what is no checkpoint of its own."""
        if not isinstance(checkpoint, AcpCheckpoint):
            raise TypeError(f"not a checkpoint of an ACP conversation: {type(checkpoint).__name__}")
        self.messages[:] = [dict(message) for message in checkpoint.messages]
        self._forget()

    async def close(self) -> None:
        """End the agent's process, and everybody below it."""
        running, recorder = self._running, self._recorder
        self._running = None
        try:
            with suppress(GoalError, OSError):
                await self._stack.aclose()
        finally:
            self._session = ""
            if running is not None and recorder is not None:
                with suppress(GoalError, OSError):
                    await recorder.agent_ran(running.told())

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        if self._busy:
            raise ConversationBusy("this conversation is in the middle of a turn", "wait for it, or use another one")
        self._busy, self._recorder = True, recorder
        try:
            recorder.check_budget()
            yield
        except BaseException:  # whatever it was: nothing of this turn goes on behind the runner's back
            self._earlier = self._session or self._earlier
            await self.close()
            raise
        finally:
            self._busy = False

    async def _round(self, prompt: str, recorder: Recorder) -> RoundReply:
        running = await self._opened(recorder)
        told = "\n\n".join([*self._unsaid, prompt])
        self._unsaid.clear()
        whole = told if self._known else with_history(self.messages, told)
        self._known = True
        self._add({"role": "user", "content": told}, recorder)
        agent = self.agent
        turn = Turn(
            agent.name, agent.workspace, self._session, running.peer, recorder, self._meter, guarded=self._guarded
        )
        running.connection.mark()
        try:
            response = await self._prompt(running, whole, turn)
        except Refusal as refusal:
            raise running.refused(refusal) from refusal
        except ConnectionError as error:
            raise await running.lost(error) from error
        finally:
            with suppress(RecordError):
                await turn.close()
            self.messages += [{"role": "assistant", "content": said} for said in turn.texts]
            self._unsaid += turn.denials
        return await self._settled(running, response, turn, recorder)

    async def _prompt(self, running: Running, prompt: str, turn: Turn) -> Any:
        """The answer to one prompt. Where something else breaks it off, the agent is told to stop."""
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": prompt}]}
        try:
            return await running.peer.ask("session/prompt", params, turn.hear)
        except (Refusal, ConnectionError):
            raise
        except BaseException:
            with suppress(ConnectionError, Refusal, TimeoutError):
                async with asyncio.timeout(CANCELLING):
                    running.peer.tell("session/cancel", {"sessionId": self._session})
                    await running.peer.answered(deaf(running.peer))
            raise

    async def _settled(self, running: Running, response: Any, turn: Turn, recorder: Recorder) -> RoundReply:
        """What the turn amounts to."""
        recorder.usage("agent", self._meter.turn(response))
        if self._meter.total != self._told:
            self._tell_session(recorder)
        left = await running.connection.sweep()
        why = failure_of(response, spoke=bool(turn.texts), worked=bool(turn.calls), denied=bool(turn.denials))
        if why:
            raise running.failure(why)
        running.add_note(note_of(response))
        return RoundReply(turn.texts[-1] if turn.texts else "", ending_of(response), 1, left)

    async def _opened(self, recorder: Recorder) -> Running:
        """The process, with a session open in it. Raises AgentError."""
        running = self._running or await self._start(recorder)
        if self._session:
            return running
        earlier, self._earlier = self._earlier, ""
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
        except (NotAnAgent, TimeoutError) as error:
            raise running.failure(str(error) or "it did not answer in time") from error
        except ConnectionError as error:
            raise await running.lost(error) from error
        except Refusal as refusal:
            raise running.refused(refusal) from refusal
        self._session = opened.id
        self._known = opened.known or not self.messages
        if not opened.known:
            self._meter = Meter()
        if earlier and not opened.known:
            running.add_note(FORGOTTEN)
        self._tell_session(recorder)
        return running

    async def _open(self, running: Running, earlier: str) -> Opened:
        if running.greeting is None:
            running.greeting = await greet(running.peer, self.agent.env, self._patience)
        return await running.greeting.open(self.agent.workspace, earlier)

    async def _start(self, recorder: Recorder) -> Running:
        started = invocation(self._command, self._words(), recorder.scratch)
        try:
            self._running = await self._stack.enter_async_context(
                running(self.agent, started.argv, self._connector, recorder)
            )
        except AgentNotInstalled as error:
            raise not_installed(self.agent, error.message) from error
        return self._running

    def _words(self) -> Round:
        return Round("", self.agent.workspace, model=self.agent.model, args=self.agent.args)

    def _tell_session(self, recorder: Recorder) -> None:
        self._told = self._meter.total
        total = Usage(cost_usd=self._told)
        recorder.session(AgentSession(agent=self.agent.name, id=text(self._session), total=total))

    def _forget(self) -> None:
        """The next round begins in a session of its own."""
        self._session, self._earlier = "", ""
        self._unsaid.clear()

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


def _said(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What was told and answered, without what only a chat model knows."""
    texts = ((message.get("role"), text_of(message.get("content"))) for message in messages)
    return [{"role": role, "content": said} for role, said in texts if role in ("user", "assistant") and said]


def _cut(name: str, agent: str) -> ToolResult:
    """The end of a call that an earlier process saw begin."""
    return ToolResult(
        tool_call_id=name,
        tool="other",
        command="",
        facts=("interrupted",),
        output=b"",
        summary="interrupted",
        writes=False,
        reported_by=agent,
    )
