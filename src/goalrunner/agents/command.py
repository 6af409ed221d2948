"""An agent driven by its command line: one process a round."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from goalrunner.agents.chat_model import Turns
from goalrunner.agents.command_turn import UNNAMED, Checkpoint, Turn, cut_call, said_at, said_in
from goalrunner.agents.failure import Ended, failed, failure_of, lost_session, tail_of, with_history
from goalrunner.agents.invocation import ExternalAgent, Round, invocation
from goalrunner.agents.stream import stream_of
from goalrunner.agents.stream_events import Broke, grown
from goalrunner.core.agent_ports import AgentRun, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn, RecordError
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Message
from goalrunner.core.process_ports import Completion, Launcher

GO_ON = "The run was interrupted in the middle of your turn. Look at what is done already, and go on with the task."
"""What an agent is told whose turn was cut, where there is nothing else to tell."""

AFRESH = "it does not know its session any more; a new one began, with what was said before in its prompt"


GIVEN_UP = "ended, for it went on trying"
"""How an agent's process ended that told of a failure which no other try can mend."""


class _SessionLost(Exception):
    """The agent does not know the session that it was to go on with."""


class _GivenUpError(Exception):
    """The agent would try on and on what cannot succeed."""


class CommandConversation:
    """An external agent over rounds. Implements the ports `Conversation` and `Resumable`.

    A later round goes on in the agent's own session where its preset can resume and it has named one; else what was said
    so far stands in the prompt.
    """

    def __init__(self, agent: ExternalAgent, launcher: Launcher) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self._launcher = launcher
        self._session: AgentSession | None = None
        self._turns = Turns()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """One round. Raises AgentError, BudgetExhausted, and ConversationBusy when a turn is already under way."""
        with self._turns.one():
            recorder.check_budget()
            before = tuple(self.messages)
            self._add({"role": "user", "content": prompt}, recorder)
            return await self._round(before, prompt, recorder)

    def load(self, messages: Sequence[Message], left: Unfinished, recorder: Recorder) -> None:
        """Take up what an earlier process recorded: the chat, and the agent's own session."""
        self.messages[:] = said_in(messages)
        session = left.session
        self._session = session if session is not None and session.agent == self.agent.name and session.id else None

    def take_over(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run, which the agent is told in its prompt."""
        self._session = None
        self.messages.clear()
        for message in said_in(messages):
            self._add(message, recorder)

    async def proceed(self, notice: str, left: Unfinished, recorder: Recorder) -> RoundReply:
        """Go on in the middle of a turn: the agent is told, in its own session where it has one."""
        with self._turns.one():
            for name in left.cut:
                await recorder.tool_result(cut_call(name, left, self.agent.name, UNNAMED))
            recorder.check_budget()
            before, prompt = tuple(self.messages), notice or GO_ON
            self._add({"role": "user", "content": prompt}, recorder)
            return await self._round(before, prompt, recorder, cut=True)

    def checkpoint(self) -> Checkpoint:
        """What was said so far."""
        return Checkpoint.of(self.messages)

    def restore(self, checkpoint: object) -> None:
        """Make it what it was: the agent gets a fresh session. Raises TypeError for what is no checkpoint of its own."""
        self.messages[:] = said_at(checkpoint)
        self._session = None

    async def _round(
        self, before: Sequence[Message], prompt: str, recorder: Recorder, *, cut: bool = False
    ) -> RoundReply:
        preset, session = self.agent.preset, self._session
        if not (preset.resume and session is not None):
            self._session = None
            return await self._run(preset.argv, with_history(before, prompt), recorder)
        try:
            return await self._run(preset.resume, prompt, recorder, session)
        except _SessionLost:
            self._session = None
            recorder.session(AgentSession(agent=self.agent.name, id=""))
            if cut and preset.totals:  # what was cut would have been in its next total
                recorder.usage("agent", Usage.unknown())
            recorder.check_budget()
            return await self._run(preset.argv, with_history(before, prompt), recorder)

    async def _run(
        self, template: Sequence[str], prompt: str, recorder: Recorder, session: AgentSession | None = None
    ) -> RoundReply:
        """One process, from its start to its end. Raises AgentError, and _SessionLost where that is why."""
        agent = self.agent
        said = Round(prompt, agent.workspace, session.id if session else "", agent.model, agent.args)
        try:
            started = invocation(template, said, recorder.scratch)
        except OSError as error:
            raise RecordError(f"cannot write the prompt: {error.strerror}", "free some space") from error
        output, errors = recorder.scratch(".out"), recorder.scratch(".err")
        turn = Turn(agent.name, recorder, self.messages, session)
        launched = asyncio.ensure_future(
            self._launcher.launch(
                started.argv,
                cwd=agent.workspace,
                env=agent.env,
                output=output,
                stdin=started.stdin,
                errors=errors,
                shared=[started.prompt_file] if started.prompt_file else [],
            )
        )
        try:
            completion = await self._follow(launched, output, turn)
        except _GivenUpError:
            await _stopped(launched)
            await turn.end()
            await recorder.agent_ran(AgentRun(agent.name, GIVEN_UP, 0.0, output, errors))
            given_up = failed(agent, turn.broke or "", GIVEN_UP, tail_of(errors))
            _tell_refusal(given_up, turn, recorder)
            raise given_up from None
        except BaseException:
            await _stopped(launched)
            with contextlib.suppress(RecordError):
                await turn.end()
                await recorder.agent_ran(AgentRun(agent.name, "cut", 0.0, output, errors))
            raise
        finally:
            self._session = turn.ledger.session
            if started.prompt_file is not None:
                started.prompt_file.unlink(missing_ok=True)
        return await self._settled(completion, turn, recorder, errors, resumed=session is not None)

    async def _follow(self, launched: asyncio.Task[Completion], output: Path, turn: Turn) -> Completion:
        """Record what the process writes, as it comes."""
        stream = stream_of(self.agent.preset)
        async with aclosing(grown(output, launched)) as pieces:
            async for piece in pieces:
                for happening in stream.feed(piece):
                    await turn.add(happening)
                    if isinstance(happening, Broke) and happening.ends:
                        raise _GivenUpError
                    del happening  # it may hold 64 MB, and the next one as much
        for happening in stream.end():
            await turn.add(happening)
        return await launched

    async def _settled(
        self, completion: Completion, turn: Turn, recorder: Recorder, errors: Path, *, resumed: bool
    ) -> RoundReply:
        """What the turn amounts to."""
        await turn.end()
        ended = Ended(completion, tail_of(errors))
        error = failure_of(self.agent, turn, ended)
        lost = error is not None and resumed and lost_session(error, turn, ended)
        note = AFRESH if lost else ""
        if error is None and completion.exit_code != 0:
            note = f"its program ended with {ended.words}; what it said counts as its answer"
        await recorder.agent_ran(
            AgentRun(self.agent.name, ended.words, completion.duration, completion.output, errors, note)
        )
        if lost:
            raise _SessionLost
        if error is not None:
            _tell_refusal(error, turn, recorder)
            raise error
        turn.settle()
        return RoundReply(turn.text, "answered", max(1, turn.ledger.reports), completion.survivors)

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


def _tell_refusal(error: AgentError, turn: Turn, recorder: Recorder) -> None:
    """An agent that cannot be started, or has no login, used nothing: no model answered it."""
    if isinstance(error, AgentNotInstalled | AgentNotSignedIn) and not (turn.calls or turn.ledger.reports):
        recorder.usage("agent", Usage())


async def _stopped(launched: asyncio.Task[Completion]) -> None:
    """Cancel the launch and wait until everybody is gone; a second cancellation leaves them no time of grace."""
    launched.cancel()
    while not launched.done():
        try:
            await asyncio.wait((launched,))
        except asyncio.CancelledError:
            launched.cancel()
