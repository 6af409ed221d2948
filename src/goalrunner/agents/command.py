"""An agent that is run as a command, one process per round."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from goalrunner.agents.agent_errors import ends_run
from goalrunner.agents.chat_history import with_history
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.external_chat import NEW_SESSION, ExternalConversation
from goalrunner.agents.invocation import Invocation, invocation
from goalrunner.agents.output_reader import Reader, growing_file
from goalrunner.agents.parser import CallStarted, Failed, StreamEvent, Text
from goalrunner.agents.process_end import ProcessEnd, failure_of, interruption_of
from goalrunner.agents.silence import LifeSigns, watched, written_to
from goalrunner.agents.turn import CommandTurn
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.errors import (
    AgentError,
    AgentNotInstalled,
    AgentNotSignedIn,
    RecordError,
)
from goalrunner.core.events import AgentRan
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Completion, Launcher
from goalrunner.system.launcher import tail_of

# Words of a failure that may mean a lost session. A false match costs one process: only
# a resumed round that did nothing is repeated, in a new session.
_LOST = re.compile(r"session|conversation|thread|rollout|chat", re.IGNORECASE)


@dataclass(frozen=True)
class _Attempt:
    """One process of the agent, from its command line to the record of its turn.

    A turn has two if the session that the first one resumes is lost.
    """

    invocation: Invocation
    resumed: AgentSession | None
    """The session that the process resumes; None: it begins a new one."""
    turn: CommandTurn
    reader: Reader
    output: Path
    errors: Path


class CommandConversation(ExternalConversation):
    """An external agent that is started for each round.

    A later round resumes the agent's own session if the preset supports that and the
    agent reported a session id. Otherwise the prompt contains the history. Raise
    UsageError if the parser of the agent's output is not installed.
    """

    def __init__(self, agent: ExternalAgent, launcher: Launcher) -> None:
        super().__init__(agent)
        self._launcher = launcher
        self._session: AgentSession | None = None
        # Created here so that a missing parser is an error before round 1.
        Reader(agent.preset.stream)

    def _use_session(self, session: AgentSession) -> None:
        self._session = session

    def _forget_session(self) -> None:
        self._session = None

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        earlier_chat = self._add_prompt(prompt, recorder)
        preset, session = self.agent.preset, self._session
        if preset.resume and session is not None:
            attempt = self._prepared(preset.resume, prompt, recorder, session)
            reply = await self._perform(attempt)
            if reply is not None:
                return reply
            # Recorded without an id, so that no later process tries the lost session.
            recorder.session(AgentSession(agent=self.agent.name, id=""))
            if cut and preset.totals:
                # The agent reports totals of a session. The usage of the interrupted
                # turn would have been in the next one, which never comes.
                recorder.usage("agent", Usage.unknown())
            recorder.check_budget()
        message = with_history(earlier_chat, prompt, by_another=self.follows_another)
        attempt = self._prepared(preset.argv, message, recorder, None)
        reply = await self._perform(attempt)
        assert reply is not None  # only a resumed session can be lost
        return reply

    async def _perform(self, attempt: _Attempt) -> RoundReply | None:
        """Run one process. Return its reply, or None if its session is lost."""
        end = await self._follow(attempt)
        return await self._reply(attempt, end)

    def _prepared(
        self,
        template: Sequence[str],
        prompt: str,
        recorder: Recorder,
        resumed: AgentSession | None,
    ) -> _Attempt:
        """Return a process to start.

        Raise RecordError if the file of a long prompt cannot be written.
        """
        agent = self.agent
        session_id = resumed.id if resumed else ""
        try:
            command = invocation(template, agent, recorder.scratch, prompt, session_id)
        except OSError as error:
            raise RecordError(
                f"cannot write the prompt: {error.strerror}", "free some space"
            ) from error
        return _Attempt(
            command,
            resumed,
            CommandTurn(agent.name, recorder, self.messages, resumed),
            Reader(agent.preset.stream),
            recorder.scratch(".agent.out"),
            recorder.scratch(".err"),
        )

    async def _follow(self, attempt: _Attempt) -> ProcessEnd:
        """Run a process to its end, and record what it prints.

        However this ends, the process has ended too, and its turn is recorded.
        """
        agent, turn = self.agent, attempt.turn
        # Empty until the process has started; then it has the function that returns the
        # processor time.
        clocks: list[Callable[[], float]] = []
        process = self._launched(attempt, clocks)
        signs = LifeSigns(
            written=lambda: written_to(attempt.output, attempt.errors),
            processor_time=lambda: clocks[-1]() if clocks else 0.0,
            is_waiting=lambda: turn.has_open_call and not turn.has_ended,
        )
        try:
            async with watched(agent.idle_timeout, signs):
                completion = await self._record_output(process, attempt)
        except BaseException:
            await _stop(process)
            # A full disk must not hide the error that is raised.
            with contextlib.suppress(RecordError):
                await turn.end()
                ran = AgentRan(agent=agent.name, ending="cut")
                await turn.recorder.agent_ran(ran, attempt.output, attempt.errors)
            raise
        finally:
            # Also of a turn that was interrupted: its session can be resumed.
            self._session = turn.session
            if attempt.invocation.prompt_file is not None:
                attempt.invocation.prompt_file.unlink(missing_ok=True)
        if turn.failure is not None:
            await self._add_details(attempt, turn.failure)
        await turn.end()
        meaning = None
        # A process that was ended has no exit code.
        if completion is not None and completion.exit_code is not None:
            meaning = agent.preset.exit_codes.get(completion.exit_code)
        return ProcessEnd(completion, tail_of(attempt.errors), meaning)

    def _launched(
        self, attempt: _Attempt, clocks: list[Callable[[], float]]
    ) -> asyncio.Task[Completion]:
        """Start the process. The clock of its processor time is added to `clocks`."""
        prompt_file = attempt.invocation.prompt_file
        return asyncio.ensure_future(
            self._launcher.launch(
                attempt.invocation.argv,
                cwd=self.agent.workspace,
                env=self.agent.env,
                output=attempt.output,
                stdin=attempt.invocation.stdin,
                errors=attempt.errors,
                shared=[prompt_file] if prompt_file else [],
                on_start=clocks.append,
            )
        )

    async def _record_output(
        self, process: asyncio.Task[Completion], attempt: _Attempt
    ) -> Completion | None:
        """Record the output of the process. Return None if it was ended early."""
        turn = attempt.turn
        is_described = False
        async with aclosing(growing_file(attempt.output, process)) as pieces:
            async for piece in pieces:
                turn.arrival = piece.arrival
                for event in attempt.reader.feed(piece.data):
                    # By its first words or call, the agent has written the file of its
                    # session.
                    if isinstance(event, Text | CallStarted) and not is_described:
                        is_described = True
                        await self._describe(attempt)
                    await turn.add(event)
                    if isinstance(event, Failed) and event.ends:
                        await _stop(process)
                        return None
        for event in attempt.reader.feed(b"", final=True):
            await turn.add(event)
        return await process

    async def _describe(self, attempt: _Attempt) -> None:
        """Record the model and the version of a session from the agent's own files.

        Do nothing if the agent's output names them.
        """
        turn = attempt.turn
        if turn.is_undescribed and turn.session is not None:
            started = await asyncio.to_thread(
                attempt.reader.model_and_version, turn.session.id, self.agent.env
            )
            turn.describe(started.model, started.version)

    async def _add_details(self, attempt: _Attempt, failure: Failed) -> None:
        """Add what the agent's own files contain about a failed turn."""
        session_id = attempt.turn.session.id if attempt.turn.session is not None else ""
        events: list[StreamEvent] = await asyncio.to_thread(
            attempt.reader.details, failure, session_id, self.agent.env
        )
        for event in events:
            await attempt.turn.add(event)

    async def _reply(self, attempt: _Attempt, end: ProcessEnd) -> RoundReply | None:
        """Return what the end of a process means for the round.

        Return None if the agent no longer has the session that was to be resumed. Raise
        AgentError if the work cannot continue.
        """
        turn, recorder = attempt.turn, attempt.turn.recorder
        failure = failure_of(self.agent, turn, end)
        is_lost = _is_lost(attempt, end, failure)
        ran = AgentRan(
            agent=self.agent.name,
            ending=end.words,
            duration=end.duration,
            note=NEW_SESSION if is_lost else "",
        )
        await recorder.agent_ran(ran, attempt.output, attempt.errors)
        if is_lost:
            self._session = None
            return None
        if failure is None or turn.worked:
            self._unanswered = ""
        else:
            # The prompt is sent again in the session that had not answered it.
            self._session = attempt.resumed
        if turn.worked or turn.reports:
            turn.count_missing_usage()
        elif failure is not None and _used_nothing(failure):
            recorder.usage("agent", Usage())
        if failure is not None and ends_run(failure):
            raise failure
        steps = max(1, len(turn.reports))
        ending = interruption_of(turn, end, failure, attempt.reader.reports_end)
        if not ending:
            return RoundReply(turn.text, "answered", steps, left=end.survivors)
        return RoundReply(
            turn.answer,
            "interrupted",
            steps,
            left=end.survivors,
            failure=failure,
            ending=ending,
        )


def _is_lost(attempt: _Attempt, end: ProcessEnd, failure: AgentError | None) -> bool:
    """Return whether the agent no longer has the session that was to be resumed."""
    if attempt.resumed is None or failure is None:
        return False
    if attempt.turn.worked or ends_run(failure):
        return False
    return _LOST.search(f"{failure.message}\n{end.stderr}") is not None


def _used_nothing(failure: AgentError) -> bool:
    """Return whether the failure shows that no model worked."""
    is_setup = isinstance(failure, AgentNotInstalled | AgentNotSignedIn)
    return is_setup or failure.outage is not None


async def _stop(process: asyncio.Task[Completion]) -> None:
    """Cancel the launch and wait until its processes have ended.

    A second cancellation shortens their grace period.
    """
    process.cancel()
    while not process.done():
        try:
            await asyncio.wait((process,))
        except asyncio.CancelledError:
            process.cancel()
