"""An agent that is run as a command, one process per round, and the readers of its output."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.agents.external_agents import ExternalAgent, invocation, parser_class
from goalrunner.agents.external_chat import (
    NEW_SESSION,
    NOT_STARTED,
    SHORT_ANSWER,
    ExternalConversation,
    denied,
    failed,
    first_lines,
    last_lines,
    not_installed,
    with_history,
)
from goalrunner.agents.parser import LONGEST_NOISE, Failed, Lines, StreamEvent, TextDelta, clean, object_in
from goalrunner.agents.turn import Arrival, CommandTurn
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.agent_preset import TEXT
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn, RecordError, UsageError
from goalrunner.core.events import AgentRan
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Completion, Launcher
from goalrunner.system.change_clock import change_time
from goalrunner.system.child import describe_status
from goalrunner.system.launcher import tail_of

ENDED_EARLY = "ended, because retrying could not help"
"""The recorded end of a process that was stopped after it reported a permanent failure."""

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
            raise UsageError(f'no parser "{stream}" is installed for the output of the agent', hint) from None

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
                name = type(self._parser).__qualname__
                raise AgentError(f"the parser {name} failed: {error!r}", "report it to its author") from error


@dataclass(frozen=True)
class OutputPiece:
    """A piece of output, and what is known of the time at which it was written."""

    data: bytes
    arrival: Arrival


async def growing_file(path: Path, finished: asyncio.Future[Any]) -> AsyncGenerator[OutputPiece, None]:
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
                yield OutputPiece(data, Arrival(before, batch, whole=data.endswith(b"\n") and not last))
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
        before = tuple(self.messages)
        self._add({"role": "user", "content": prompt}, recorder)
        preset, session = self.agent.preset, self._session
        if preset.resume and session is not None:
            if reply := await self._run(preset.resume, prompt, recorder, session):
                return reply
            recorder.session(AgentSession(agent=self.agent.name, id=""))
            if cut and preset.totals:  # the next total of the lost session would have included the cut turn
                recorder.usage("agent", Usage.unknown())
            recorder.check_budget()
        reply = await self._run(preset.argv, with_history(before, prompt, by_another=self.follows_another), recorder)
        assert reply is not None  # only a resumed session can be lost
        return reply

    async def _run(
        self, template: Sequence[str], prompt: str, recorder: Recorder, session: AgentSession | None = None
    ) -> RoundReply | None:
        """Run one process to its end. Return None if the agent no longer knows the session. Raise AgentError."""
        agent = self.agent
        try:
            started = invocation(template, agent, recorder.scratch, prompt, session.id if session else "")
        except OSError as error:
            raise RecordError(f"cannot write the prompt: {error.strerror}", "free some space") from error
        output, errors = recorder.scratch(".agent.out"), recorder.scratch(".err")
        turn = CommandTurn(agent.name, recorder, self.messages, session)
        process = asyncio.ensure_future(
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
            completion = await self._follow(process, output, turn)
        except BaseException:
            await _stop(process)
            with contextlib.suppress(RecordError):
                await turn.end()
                await recorder.agent_ran(AgentRan(agent=agent.name, ending="cut"), output, errors)
            raise
        finally:
            self._session = turn.session
            if started.prompt_file is not None:
                started.prompt_file.unlink(missing_ok=True)
        await turn.end()
        stderr = tail_of(errors)
        how = ENDED_EARLY if completion is None else ending_of(completion)
        failure = failure_of(agent, turn, completion, how, stderr)
        is_setup = isinstance(failure, AgentNotInstalled | AgentNotSignedIn)
        lost = session and failure and not (turn.worked or is_setup) and _LOST.search(f"{failure.message}\n{stderr}")
        note = NEW_SESSION if lost else ""
        if completion is not None and failure is None and completion.exit_code != 0:
            note = f"its program ended with {how}; its last message counts as its answer"
        duration = completion.duration if completion else 0.0
        ran = AgentRan(agent=agent.name, ending=how, duration=duration, note=note)
        await recorder.agent_ran(ran, output, errors)
        if lost:
            self._session = None
            return None
        if failure is not None:
            if is_setup and not (turn.calls or turn.reports):
                recorder.usage("agent", Usage())  # nothing was used
            raise failure
        turn.settle()
        return RoundReply(turn.text, "answered", max(1, len(turn.reports)), completion.survivors if completion else ())

    async def _follow(self, process: asyncio.Task[Completion], output: Path, turn: CommandTurn) -> Completion | None:
        """Record the output of the process. Return None if it was ended early."""
        reader = Reader(self.agent.preset.stream)
        async with aclosing(growing_file(output, process)) as pieces:
            async for piece in pieces:
                turn.arrival = piece.arrival
                for event in reader.feed(piece.data):
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
    agent: ExternalAgent, turn: CommandTurn, completion: Completion | None, how: str, stderr: str
) -> AgentError | None:
    """Return the error of a turn without an answer, else None. `completion` is None if the process was ended early."""
    if completion and completion.exit_code in NOT_STARTED and not (turn.text or turn.calls):
        return not_installed(agent, completion.error or first_lines(stderr))
    if completion is None or turn.failure is not None:
        return failed(agent, turn.failure or "", how, stderr)
    if completion.exit_code is None and completion.error.startswith("output limit"):
        return failed(agent, f"it was cut: {completion.error}", how, stderr)
    unread = last_lines(stderr) or last_lines(turn.noise)
    if completion.exit_code != 0 and not turn.text:
        return failed(agent, unread, how, stderr)
    if agent.preset.stream != TEXT and not turn.worked:
        return failed(agent, unread or "its output could not be parsed", how, stderr)
    idle = not turn.calls and not turn.tokens
    if idle and len(turn.text) <= SHORT_ANSWER and denied(agent, turn.text + stderr):
        return failed(agent, turn.text, how, stderr)
    return None


async def _stop(process: asyncio.Task[Completion]) -> None:
    """Cancel the launch and wait until its processes have ended. A second cancellation shortens their grace period."""
    process.cancel()
    while not process.done():
        try:
            await asyncio.wait((process,))
        except asyncio.CancelledError:
            process.cancel()
