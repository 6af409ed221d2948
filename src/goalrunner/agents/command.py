"""An agent that is run as a command, one process per round, and the readers of its output."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.agents.external_agents import ExternalAgent, invocation, parser_class
from goalrunner.agents.external_chat import (
    LONGEST_ENDING,
    NEW_SESSION,
    NOT_STARTED,
    SHORT_ANSWER,
    ExternalConversation,
    denied,
    ends_run,
    failed,
    first_lines,
    last_lines,
    not_installed,
    with_history,
)
from goalrunner.agents.parser import (
    LONGEST_NOISE,
    CallStarted,
    Failed,
    Lines,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    clean,
    object_in,
)
from goalrunner.agents.silence import LifeSigns, watched, written_to
from goalrunner.agents.turn import Arrival, CommandTurn
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.agent_preset import TEXT, ExitMeaning
from goalrunner.core.errors import (
    AgentError,
    AgentNotInstalled,
    AgentNotSignedIn,
    Outage,
    RecordError,
    UsageError,
    one_line,
)
from goalrunner.core.events import AgentRan
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Completion, Launcher
from goalrunner.system.change_clock import change_time
from goalrunner.system.child import describe_status
from goalrunner.system.launcher import tail_of

ENDED_EARLY = "ended, because retrying could not help"
"""The recorded end of a process that was stopped after it reported a permanent failure."""

NO_END = "its output ended without a result"
"""The end of a turn of an agent that should have reported it."""

EXIT_OUTAGES: Mapping[ExitMeaning, Outage] = {
    "limit": Outage("limit", "usage limit"),
    "overload": Outage("overload", "provider overloaded"),
}
"""The outages that exit codes stand for."""

_LOST = re.compile(r"session|conversation|thread|rollout|chat", re.IGNORECASE)
"""Words of a failure that may mean a lost session. A resumed round that did nothing is repeated in a new one."""

_PIECE = 1 << 20
_INTERVAL = 0.05
"""Seconds between two reads of a growing file."""


class Reader:
    """Reads output in the format of a preset: plain text, all of which is the answer, or one JSON object per line.

    Raise UsageError if the parser of the format is not installed.
    """

    def __init__(self, stream: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines = Lines()
        try:
            self._parser = None if stream == TEXT else parser_class(stream)()
        except KeyError:
            hint = "install the package that registers it, or change stream in the agent's preset"
            raise UsageError(
                f'no parser "{stream}" is installed for the output of the agent', hint
            ) from None

    def feed(self, piece: bytes, *, final: bool = False) -> Iterator[StreamEvent]:
        """Yield the events of a piece of output. `final`: it is the last one. Raise AgentError if the parser fails."""
        if self._parser is None:
            if text := self._decoder.decode(piece, final):
                yield TextDelta(text)
            return
        for line in self._lines.feed(piece + b"\n" if final else piece):
            shown = line.strip("\ufeff\0 \t\r\n")
            value = object_in(shown)
            try:
                if value is not None:
                    yield from self._parser.events(value)
                elif shown:
                    yield self._parser.other(clean(shown[:LONGEST_NOISE]))
            except Exception as error:
                raise self._defect(error) from error

    @property
    def reports_end(self) -> bool:
        """Whether the output of a finished turn says that the turn is over."""
        return self._parser is not None and self._parser.reports_end

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> list[StreamEvent]:
        """Return what the agent's own files contain about a failed turn. Raise AgentError if the parser fails."""
        if self._parser is None:
            return []
        try:
            return list(self._parser.details(failure, session, env))
        except Exception as error:
            raise self._defect(error) from error

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        """Return what the agent's own files contain about a session. Raise AgentError if the parser fails."""
        if self._parser is None:
            return SessionStarted(session)
        try:
            return self._parser.model_and_version(session, env)
        except Exception as error:
            raise self._defect(error) from error

    def _defect(self, error: Exception) -> AgentError:
        name = type(self._parser).__qualname__
        return AgentError(
            f"the parser {name} failed: {error!r}", "report it to its author"
        )


@dataclass(frozen=True)
class OutputPiece:
    """A piece of output, and what is known of the time at which it was written."""

    data: bytes
    arrival: Arrival


async def growing_file(
    path: Path, finished: asyncio.Future[Any]
) -> AsyncGenerator[OutputPiece, None]:
    """Yield what is written to the file, piece by piece, until `finished` is done and all of it is read.

    Yield nothing if the file is never created.
    """
    with contextlib.ExitStack() as stack:
        file, before, batch = None, change_time(), 0
        while True:
            last = finished.done()
            if file is None and path.exists():
                file = stack.enter_context(path.open("rb"))
            now = change_time()
            while file is not None and (data := file.read(_PIECE)):
                yield OutputPiece(
                    data,
                    Arrival(before, batch, whole=data.endswith(b"\n") and not last),
                )
                await asyncio.sleep(0)  # let other tasks run
                now = change_time()
            if last:
                return
            before, batch = now, batch + 1
            await asyncio.wait((finished,), timeout=_INTERVAL)


class CommandConversation(ExternalConversation):
    """An external agent that is started for each round.

    A later round resumes the agent's own session if the preset supports that and the agent reported a session id.
    Otherwise the prompt contains the history. Raise UsageError if the parser of the agent's output is not installed.
    """

    def __init__(self, agent: ExternalAgent, launcher: Launcher) -> None:
        super().__init__(agent)
        self._launcher = launcher
        self._session: AgentSession | None = None
        Reader(agent.preset.stream)  # a missing parser is an error before round 1

    def _continue(self, session: AgentSession) -> None:
        self._session = session

    def _forget_session(self) -> None:
        self._session = None

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        before = self._add_prompt(prompt, recorder)
        preset, session = self.agent.preset, self._session
        if preset.resume and session is not None:
            if reply := await self._run(preset.resume, prompt, recorder, session):
                return reply
            recorder.session(AgentSession(agent=self.agent.name, id=""))
            if (
                cut and preset.totals
            ):  # the next total of the lost session would have included the cut turn
                recorder.usage("agent", Usage.unknown())
            recorder.check_budget()
        reply = await self._run(
            preset.argv,
            with_history(before, prompt, by_another=self.follows_another),
            recorder,
        )
        assert reply is not None  # only a resumed session can be lost
        return reply

    async def _run(
        self,
        template: Sequence[str],
        prompt: str,
        recorder: Recorder,
        session: AgentSession | None = None,
    ) -> RoundReply | None:
        """Run one process to its end. Return None if the agent no longer knows the session. Raise AgentError."""
        agent = self.agent
        try:
            started = invocation(
                template, agent, recorder.scratch, prompt, session.id if session else ""
            )
        except OSError as error:
            raise RecordError(
                f"cannot write the prompt: {error.strerror}", "free some space"
            ) from error
        output, errors = recorder.scratch(".agent.out"), recorder.scratch(".err")
        turn = CommandTurn(agent.name, recorder, self.messages, session)
        reader = Reader(agent.preset.stream)
        clocks: list[
            Callable[[], float]
        ] = []  # of the processor time, once the process has started
        signs = LifeSigns(
            written=lambda: written_to(output, errors),
            processor_time=lambda: clocks[-1]() if clocks else 0.0,
            is_waiting=lambda: turn.has_open_call and not turn.has_ended,
        )
        process = asyncio.ensure_future(
            self._launcher.launch(
                started.argv,
                cwd=agent.workspace,
                env=agent.env,
                output=output,
                stdin=started.stdin,
                errors=errors,
                shared=[started.prompt_file] if started.prompt_file else [],
                on_start=clocks.append,
            )
        )
        try:
            async with watched(agent.idle_timeout, signs):
                completion = await self._follow(process, output, reader, turn)
        except BaseException:
            await _stop(process)
            with contextlib.suppress(RecordError):
                await turn.end()
                await recorder.agent_ran(
                    AgentRan(agent=agent.name, ending="cut"), output, errors
                )
            raise
        finally:
            self._session = turn.session
            if started.prompt_file is not None:
                started.prompt_file.unlink(missing_ok=True)
        if turn.failure is not None:
            name = turn.session.id if turn.session is not None else ""
            for event in await asyncio.to_thread(
                reader.details, turn.failure, name, agent.env
            ):
                await turn.add(event)
        await turn.end()
        stderr = tail_of(errors)
        how = ENDED_EARLY if completion is None else ending_of(completion)
        meaning = (
            agent.preset.exit_codes.get(completion.exit_code or 0)
            if completion is not None
            else None
        )
        failure = failure_of(agent, turn, completion, how, stderr, meaning)
        is_setup = isinstance(failure, AgentNotInstalled | AgentNotSignedIn)
        is_lost = session and failure and not (turn.worked or ends_run(failure))
        lost = is_lost and failure and _LOST.search(f"{failure.message}\n{stderr}")
        duration = completion.duration if completion else 0.0
        ran = AgentRan(
            agent=agent.name,
            ending=how,
            duration=duration,
            note=NEW_SESSION if lost else "",
        )
        await recorder.agent_ran(ran, output, errors)
        if lost:
            self._session = None
            return None
        if failure is None or turn.worked:
            self._unanswered = ""
        else:
            self._session = session
        if turn.worked or turn.reports:
            turn.settle()
        elif is_setup or (failure is not None and failure.outage is not None):
            recorder.usage("agent", Usage())  # nothing was used
        if failure is not None and ends_run(failure):
            raise failure
        steps, left = (
            max(1, len(turn.reports)),
            completion.survivors if completion else (),
        )
        ending = interruption_of(
            turn,
            completion,
            how,
            meaning,
            reports_end=reader.reports_end,
            failure=failure,
        )
        if not ending:
            return RoundReply(turn.text, "answered", steps, left)
        return RoundReply(turn.answer, "interrupted", steps, left, failure, ending)

    async def _describe(self, reader: Reader, turn: CommandTurn) -> None:
        """Record the model and the version of a session from the agent's own files, unless its output names them."""
        if turn.is_undescribed and turn.session is not None:
            known = await asyncio.to_thread(
                reader.model_and_version, turn.session.id, self.agent.env
            )
            turn.describe(known.model, known.version)

    async def _follow(
        self,
        process: asyncio.Task[Completion],
        output: Path,
        reader: Reader,
        turn: CommandTurn,
    ) -> Completion | None:
        """Record the output of the process. Return None if it was ended early."""
        is_described = False
        async with aclosing(growing_file(output, process)) as pieces:
            async for piece in pieces:
                turn.arrival = piece.arrival
                for event in reader.feed(piece.data):
                    # By its first words or call, the agent has written the file of its session.
                    if isinstance(event, Text | CallStarted) and not is_described:
                        is_described = True
                        await self._describe(reader, turn)
                    await turn.add(event)
                    if isinstance(event, Failed) and event.ends:
                        await _stop(process)
                        return None
        for event in reader.feed(b"", final=True):
            await turn.add(event)
        return await process


def ending_of(completion: Completion) -> str:
    """Return the exit code as text, or why the process was ended."""
    if completion.exit_code is None:
        return completion.error or "ended by a signal"
    return describe_status(completion.exit_code)


def failure_of(
    agent: ExternalAgent,
    turn: CommandTurn,
    completion: Completion | None,
    how: str,
    stderr: str,
    meaning: ExitMeaning | None,
) -> AgentError | None:
    """Return the error of a turn that failed, else None.

    `completion` is None if the process was ended early; `meaning` is what the preset says about its exit code.
    """
    if (
        completion
        and completion.exit_code in NOT_STARTED
        and not (turn.text or turn.calls)
    ):
        return not_installed(agent, completion.error or first_lines(stderr))
    reported = turn.failure or Failed("")
    outage, obstacle = reported.outage, reported.obstacle
    if outage is None and obstacle is None and meaning is not None:
        outage = EXIT_OUTAGES.get(meaning)
        obstacle = "sign_in" if meaning == "sign_in" else None
    unread = last_lines(stderr) or last_lines(turn.noise)
    if (
        completion is None
        or turn.failure is not None
        or outage is not None
        or obstacle is not None
    ):
        return failed(
            agent,
            reported.message or unread,
            how,
            stderr,
            outage=outage,
            obstacle=obstacle,
        )
    if completion.exit_code is None and completion.error.startswith("output limit"):
        return failed(agent, f"it was cut: {completion.error}", how, stderr)
    if completion.exit_code != 0 and not turn.text:
        return failed(agent, unread, how, stderr)
    if agent.preset.stream != TEXT and not turn.worked:
        return failed(agent, unread or "its output could not be parsed", how, stderr)
    idle = not turn.calls and not turn.tokens
    if idle and len(turn.text) <= SHORT_ANSWER and denied(agent, turn.text + stderr):
        return failed(agent, turn.text, how, stderr)
    return None


def interruption_of(
    turn: CommandTurn,
    completion: Completion | None,
    how: str,
    meaning: ExitMeaning | None,
    *,
    reports_end: bool,
    failure: AgentError | None,
) -> str:
    """Return why a turn ended without success, in a few words; empty if it is finished."""
    if meaning == "turns":
        return f"the agent reached its limit of turns ({how})"
    if turn.failure is not None:
        return turn.failure.ending or one_line(turn.failure.message, LONGEST_ENDING)
    if completion is not None and completion.exit_code is None:
        return completion.error or how
    if completion is not None and completion.exit_code != 0:
        return how
    if failure is not None:
        return one_line(failure.message, LONGEST_ENDING)
    return NO_END if reports_end and not turn.has_ended else ""


async def _stop(process: asyncio.Task[Completion]) -> None:
    """Cancel the launch and wait until its processes have ended. A second cancellation shortens their grace period."""
    process.cancel()
    while not process.done():
        try:
            await asyncio.wait((process,))
        except asyncio.CancelledError:
            process.cancel()
