"""An agent that speaks the Agent Client Protocol: one process for all rounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any

from goalrunner.agents.acp_calls import at, text
from goalrunner.agents.acp_process import Link, Running
from goalrunner.agents.acp_session import PATIENCE, deaf, ending_of, failure_of, note_of
from goalrunner.agents.acp_turn import Rule, Turn, nothing_waits
from goalrunner.agents.acp_usage import Meter
from goalrunner.agents.chat_model import Turns
from goalrunner.agents.command_turn import Checkpoint, cut_call, said_at, said_in
from goalrunner.agents.failure import denied, not_signed_in, with_history
from goalrunner.agents.invocation import ExternalAgent
from goalrunner.agents.jsonrpc import Refusal
from goalrunner.core.agent_ports import Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentNotSignedIn, RecordError
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Message
from goalrunner.core.process_ports import Connector

GO_ON = (
    "The run was interrupted in the middle of your turn. It is not known what the commands did that were under way. Look at"
    " what is done already, and go on with the task."
)
"""The prompt of an agent whose turn was interrupted, if there is no other."""

SHORT = 2_000
"""Characters of an answer within which a preset's own words of refusal count."""

CANCELLING = 1.0
"""Seconds that an agent has to end a turn that is cancelled."""


class AcpConversation:
    """An agent over rounds. Implements the ports `Conversation`, `Resumable` and `Closing`.

    `command` is its command with placeholders. `guarded`: what may happen is asked each time, so an agent never gets leave
    for ever. `waits` returns whether an action needs approval. `patience` is in seconds.
    """

    def __init__(
        self,
        agent: ExternalAgent,
        command: Sequence[str],
        connector: Connector,
        *,
        guarded: bool = True,
        waits: Rule = nothing_waits,
        patience: float = PATIENCE,
    ) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self._guarded = guarded
        self._waits = waits
        self._link = Link(agent, command, connector, patience)
        self._remembers = True
        """Whether the agent itself knows what was said."""
        self._meter = Meter(agent.preset.acp_reports)
        self._told: Usage | None = None
        self._unsaid: list[str] = []
        self._turns = Turns()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """One round. Raises AgentError, BudgetExhausted, ApprovalPending, and ConversationBusy within another turn."""
        async with self._turn(recorder):
            return await self._round(prompt, recorder)

    async def proceed(self, notice: str, left: Unfinished, recorder: Recorder) -> RoundReply:
        """Go on in the middle of a turn: the agent is told, in its own session where it still knows it."""
        async with self._turn(recorder):
            for name in left.cut:
                await recorder.tool_result(cut_call(name, left, self.agent.name, "other"))
            return await self._round(notice or GO_ON, recorder)

    def load(self, messages: Sequence[Message], left: Unfinished, recorder: Recorder) -> None:
        """Take up what an earlier process recorded: the chat, and the agent's own session."""
        self.messages[:] = said_in(messages)
        session = left.session
        if session is not None and session.agent == self.agent.name:
            self._link.earlier = session.id
            self._meter = Meter(self.agent.preset.acp_reports, session.total)

    def take_over(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run, which the agent is told in its prompt."""
        self._forget()
        self.messages.clear()
        for message in said_in(messages):
            self._add(message, recorder)

    def checkpoint(self) -> Checkpoint:
        """What was said so far."""
        return Checkpoint.of(self.messages)

    def restore(self, checkpoint: object) -> None:
        """Make it what it was: the agent gets a fresh session. Raises TypeError for what is no checkpoint of its own."""
        self.messages[:] = said_at(checkpoint)
        self._forget()

    def paused(self) -> AbstractContextManager[None]:
        """See `goalrunner.core.agent_ports.Pausing`."""
        return self._link.paused()

    async def close(self) -> None:
        """End the agent's process, and everybody below it."""
        await self._link.close()

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        with self._turns.one():
            try:
                recorder.check_budget()
                yield
            except BaseException:  # whatever it was: nothing of this turn goes on behind the runner's back
                await self.close()
                raise

    async def _round(self, prompt: str, recorder: Recorder) -> RoundReply:
        running = await self._opened(recorder)
        told = "\n\n".join([*self._unsaid, prompt])
        self._unsaid.clear()
        whole = told if self._remembers else with_history(self.messages, told)
        self._remembers = True
        self._add({"role": "user", "content": told}, recorder)
        agent = self.agent
        turn = Turn(
            agent.name,
            agent.workspace,
            self._link.session,
            running.peer,
            recorder,
            self._meter,
            guarded=self._guarded,
            waits=self._waits,
        )
        await self._catch_up(running)
        running.connection.mark()
        try:
            response = await self._prompt(running, whole, turn)
        except Refusal as refusal:
            refused = running.refused(refusal)
            if isinstance(refused, AgentNotSignedIn) and not turn.calls:
                recorder.usage("agent", Usage())  # no model answered
            raise refused from refusal
        except ConnectionError as error:
            raise await running.lost(error) from error
        finally:
            with suppress(RecordError):
                await turn.close()
            self.messages += [{"role": "assistant", "content": said} for said in turn.texts]
            self._unsaid += turn.denials
        return await self._settled(running, response, turn, recorder)

    async def _catch_up(self, running: Running) -> None:
        """What it said after the end of its turn belongs to none; only its costs count."""
        not_heard = deaf(running.peer)

        async def hear(message: dict[str, Any]) -> None:
            if at(message, "params", "update", "sessionUpdate") == "usage_update":
                self._meter.hear(at(message, "params"))
            await not_heard(message)

        with suppress(ConnectionError):  # the prompt will tell
            await running.peer.catch_up(hear)

    async def _prompt(self, running: Running, prompt: str, turn: Turn) -> Any:
        """The answer to one prompt. Where something else breaks it off, the agent is told to stop."""
        params = {"sessionId": self._link.session, "prompt": [{"type": "text", "text": prompt}]}
        try:
            return await running.peer.ask("session/prompt", params, turn.hear)
        except (Refusal, ConnectionError):
            raise
        except BaseException:
            with suppress(ConnectionError, Refusal, TimeoutError):
                async with asyncio.timeout(CANCELLING):
                    running.peer.tell("session/cancel", {"sessionId": self._link.session})
                    await running.peer.answered(deaf(running.peer))
            raise

    async def _settled(self, running: Running, response: Any, turn: Turn, recorder: Recorder) -> RoundReply:
        """What the turn amounts to."""
        recorder.usage("agent", self._meter.turn(response))
        if self._meter.total != self._told:
            self._tell_session(recorder)
        left = await running.connection.sweep(self.agent.preset.helpers)
        said = turn.text
        if not turn.calls and len(said) <= SHORT and denied(self.agent, said):
            raise not_signed_in(self.agent, said)
        why = failure_of(response, said=said, worked=bool(turn.calls), denied=bool(turn.denials))
        if why:
            raise running.failure(why)
        running.add_note(note_of(response))
        return RoundReply(said, ending_of(response), 1, left)

    async def _opened(self, recorder: Recorder) -> Running:
        """The process, with a session open in it. Raises AgentError."""
        running, opened = await self._link.open(recorder)
        if opened is not None:
            self._remembers = opened.known or not self.messages
            if not opened.known:
                self._meter = Meter(self.agent.preset.acp_reports)
            self._tell_session(recorder)
        return running

    def _tell_session(self, recorder: Recorder) -> None:
        self._told = self._meter.total
        recorder.session(AgentSession(agent=self.agent.name, id=text(self._link.session), total=self._told))

    def _forget(self) -> None:
        """The next round begins in a session of its own."""
        self._link.forget()
        self._unsaid.clear()

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)
