"""One turn of an external agent, recorded while it happens."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Any

from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    Failed,
    Noise,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    TurnEnded,
    UsageReported,
)
from goalrunner.agents.reported_usage import missing_usage, usage_delta
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.observation import OF_SUBAGENT, source_of
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.tool_arguments import is_subagent

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""
LONGEST_CALL_ID, LONGEST_COMMAND = 200, 4_000
"""Characters of a call's id and of its command that are recorded."""
# Characters of output that was not understood; its end names the cause of a failure.
_LONGEST_NOISE = 4_000
# Characters of the name of a model or of a version.
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Arrival:
    """What is known of the time at which a report was written."""

    before: int
    """A time at which it had not been written yet, by the clock of file times."""
    batch: int = 0
    """The number of its batch: what was read without a pause."""
    whole: bool = True
    """Whether the batch is whole lines of a running program.

    Otherwise it may be a buffer, which the program writes out when it is full or when
    it ends.
    """


def reported_result(
    agent: str,
    call_id: str,
    tool: str,
    command: str,
    facts: tuple[str, ...],
    *,
    output: str = "",
    duration: float = 0.0,
    started: int | None = None,
    change: str = "",
) -> ToolResult:
    """Return the result of a call that an agent reports.

    `duration` is in seconds. `started` is a time before its tool started, if one is
    known; `change` is what an edit added and removed.
    """
    is_done = set(facts) <= {"completed"}
    summary = ", ".join(facts)
    if change and is_done:
        summary = change
    return ToolResult(
        tool_call_id=call_id,
        tool=tool,
        command=shortened(command, LONGEST_COMMAND),
        facts=facts,
        output=output.encode("utf-8", "replace"),
        duration=duration,
        summary=summary,
        writes=False,
        reported_by=agent,
        started=started,
    )


@dataclass
class _Open:
    """A call that has no result yet."""

    tool: str
    command: str
    began: float
    """By the clock of `time.monotonic`."""
    arrival: Arrival | None
    change: str = ""
    by_subagent: bool = False


class Turn:
    """Records the messages and tool calls of one turn.

    Its messages are added to the list `messages`.
    """

    def __init__(
        self, agent: str, recorder: Recorder, messages: list[dict[str, Any]]
    ) -> None:
        self.text = ""
        """The last message; empty if there is none."""
        self.calls = 0
        self.recorder = recorder
        self.arrival: Arrival | None = None
        """The arrival of the report that is being recorded; None: not known."""
        self._agent = agent
        self._messages = messages
        self._streamed = ""
        self._open: dict[str, _Open] = {}

    @property
    def has_open_call(self) -> bool:
        return bool(self._open)

    def say(self, piece: str) -> None:
        """Show a piece of a message."""
        self.recorder.text(piece)
        self._streamed += piece
        # Twice, so that a long message is not truncated for each of its pieces.
        if len(self._streamed) > 2 * LONGEST_MESSAGE:
            self._streamed = shortened(self._streamed, LONGEST_MESSAGE)

    def flush(self) -> None:
        """Add the pieces so far as a message."""
        text, self._streamed = self._streamed, ""
        self.add_message(text)

    def add_message(self, text: str) -> None:
        """Add a message, unless it is empty."""
        if not text.strip():
            return
        text = shortened(text, LONGEST_MESSAGE)
        message = {"role": "assistant", "content": text}
        self._messages.append(message)
        self.recorder.message(message)
        self.text = text

    async def start(
        self, call_id: str, tool: str, command: str, change: str = ""
    ) -> None:
        """Record the beginning of a call. `change` is what an edit adds and removes."""
        self.calls += 1
        call = _Open(
            source_of(tool),
            shortened(command, LONGEST_COMMAND),
            time.monotonic(),
            self.arrival,
            change,
        )
        self._open[call_id] = call
        self.recorder.tool_called(call_id, call.tool, one_line(call.command))

    async def finish(
        self,
        call_id: str,
        facts: tuple[str, ...],
        output: str = "",
        *,
        tool: str = "",
        command: str = "",
        change: str = "",
    ) -> None:
        """Record the end of a call; ignore an unknown one.

        `tool`, `command` and `change` replace those of its beginning.
        """
        call = self._open.pop(call_id, None)
        if call is None:
            return
        tool = source_of(tool) if tool else call.tool
        if call.by_subagent or is_subagent(tool):
            facts = (*facts, OF_SUBAGENT)
        result = reported_result(
            self._agent,
            call_id,
            tool,
            command or call.command,
            facts,
            output=output,
            duration=time.monotonic() - call.began,
            started=self._started(call),
            change=change or call.change,
        )
        await self.recorder.tool_result(result)

    def _started(self, call: _Open) -> int | None:
        """Return a time before the tool of a call started, or None.

        None if its start may have been reported after its end.
        """
        start, end = call.arrival, self.arrival
        if start is None:
            return None
        # Both reports may have waited in one buffer until the tool had ended.
        if end is not None and end.batch == start.batch and not end.whole:
            return None
        return start.before


# An id that cannot be read as an option of a command line.
_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:@/+=-]{0,199}", re.ASCII)


class CommandTurn(Turn):
    """Records the events of one turn of a command agent, with its usage and session."""

    def __init__(
        self,
        agent: str,
        recorder: Recorder,
        messages: list[dict[str, Any]],
        session: AgentSession | None = None,
    ) -> None:
        super().__init__(agent, recorder, messages)
        self.failure: Failed | None = None
        """A failure that the agent has reported, if no work followed."""
        self.has_ended = False
        """Whether the agent has reported the end of its turn."""
        self.noise = ""
        """The last output that was not understood."""
        self.session = session
        """The agent's session; None if the agent has not reported it."""
        self.reports: list[UsageReported] = []
        self.tokens = 0
        """Tokens of this turn."""
        self._total = session.total if session is not None else Usage()
        self._recorded_session = session
        # Usage that is not yet recorded.
        self._pending: Usage | None = None

    @property
    def answer(self) -> str:
        """The last message; empty if it is the text of the failure."""
        # Some agents print their failure as a message too.
        if self.failure is None or self.failure.message.strip() != self.text.strip():
            return self.text
        return ""

    @property
    def worked(self) -> bool:
        """Whether the agent has written a message, called a tool or used tokens."""
        return bool(self.text or self.calls or self.tokens)

    @property
    def is_undescribed(self) -> bool:
        """Whether a session is reported, but neither its model nor its version."""
        session = self.session
        return session is not None and not (session.model or session.version)

    def describe(self, model: str, version: str) -> None:
        """Record the model and the version of the session, if one of them is known."""
        if self.session is None or not (model or version):
            return
        update = {
            "model": one_line(model, _LONGEST_NAME),
            "version": one_line(version, _LONGEST_NAME),
        }
        self.session = self.session.model_copy(update=update)
        self._record_usage_and_session()

    async def add(self, event: StreamEvent) -> None:
        """Record one event."""
        if isinstance(event, CallStarted | CallFinished | Failed):
            self.flush()
        match event:
            case SessionStarted():
                self._open_session(event)
            case TextDelta(text=text):
                self.say(text)
            # A sub-agent's words are neither the answer nor evidence.
            case Text(text=text, by_subagent=False):
                self._add_text(text)
            case CallStarted():
                await self._start(event)
            case CallFinished():
                await self._finish(event)
            case UsageReported():
                self._count(event)
            case Failed():
                message = shortened(event.message, _LONGEST_NOISE)
                self.failure = replace(event, message=message)
            case TurnEnded():
                self.has_ended = True
            case Noise(text=text):
                self.noise = f"{self.noise}{text}\n"[-_LONGEST_NOISE:]

    def _add_text(self, text: str) -> None:
        # Its pieces have been shown already.
        if not self._streamed:
            self.recorder.text(text)
        # The pieces belong to this message.
        self._streamed = ""
        self.add_message(text)

    def _open_session(self, event: SessionStarted) -> None:
        if not _SESSION_ID.fullmatch(event.id):
            return
        if self.session and event.id == self.session.id:
            return
        self.session = AgentSession(
            agent=self._agent,
            id=event.id,
            total=self._total,
            model=one_line(event.model, _LONGEST_NAME),
            version=one_line(event.version, _LONGEST_NAME),
        )
        # Recorded at once, so that a killed run can resume the session.
        self._record_usage_and_session()

    async def end(self) -> None:
        """Record the last message and the usage; record open calls as interrupted."""
        self.flush()
        self._record_usage_and_session()
        # A copy, because finishing a call removes it.
        for call_id in tuple(self._open):
            await self.finish(call_id, ("interrupted",))

    def count_missing_usage(self) -> None:
        """Record the usage of a turn that ended; what was not reported is unknown.

        Not called for a turn that the runner interrupted: its usage is estimated when
        the run is resumed.
        """
        missing = missing_usage(
            self.reports,
            tokens=self.tokens,
            calls=self.calls,
            has_text=bool(self.text),
        )
        if self._pending or missing != Usage():
            self._pending = (self._pending or Usage()) + missing
        self._record_usage_and_session()

    def _count(self, report: UsageReported) -> None:
        new, self._total = usage_delta(report, self._total)
        if self.session:
            self.session = self.session.model_copy(update={"total": self._total})
        self.reports.append(report)
        self.tokens += new.tokens
        self._pending = (self._pending or Usage()) + new

    def _record_usage_and_session(self) -> None:
        if self._pending is not None:
            self.recorder.usage("agent", self._pending)
            self._pending = None
        if self.session is not None and self.session != self._recorded_session:
            self.recorder.session(self.session)
            self._recorded_session = self.session

    def add_message(self, text: str) -> None:
        if text.strip():
            # Work that follows shows that the agent recovered from the failure.
            self.failure = None
        super().add_message(text)

    async def _start(self, event: CallStarted) -> None:
        call_id = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
        call = self._open.get(call_id)
        if call is None:
            self._record_usage_and_session()
            await self.start(call_id, event.tool, event.command, event.change)
            self._open[call_id].by_subagent = event.by_subagent
            return
        # Some agents report the command of a call later than its beginning.
        call.command = call.command or shortened(event.command, LONGEST_COMMAND)
        call.change = call.change or event.change

    async def _finish(self, event: CallFinished) -> None:
        # Without an id, it is the result of the newest call.
        call_id = event.id[:LONGEST_CALL_ID] or f"call-{self.calls}"
        self._record_usage_and_session()
        if call_id not in self._open:
            if not (event.tool or event.command):
                # A second result, or one of a call that was not reported.
                return
            call_id = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
            await self.start(call_id, event.tool, event.command, event.change)
            # It had ended when its beginning became known.
            self._open[call_id].arrival = None
            self._open[call_id].by_subagent = event.by_subagent
        await self.finish(
            call_id,
            event.facts,
            event.output,
            tool=event.tool,
            command=event.command,
            change=event.change,
        )
        self.failure = None
