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
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.observation import source_of
from goalrunner.core.outcome import AgentSession, Usage

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""
LONGEST_CALL_ID, LONGEST_COMMAND = 200, 4_000
"""Characters of a call's id and of its command that are recorded."""
_LONGEST_NOISE = 4_000
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Arrival:
    """What is known of the time at which a report was written."""

    before: int
    """When it had not been written yet, by the clock of file times."""
    batch: int = 0
    """The number of its batch: what was read without a pause."""
    whole: bool = True
    """Whether the batch is whole lines of a program that runs; it cannot be the content of a buffer."""


def reported_result(
    agent: str,
    call_id: str,
    tool: str,
    command: str,
    facts: tuple[str, ...],
    output: str = "",
    duration: float = 0.0,
    started: int | None = None,
    change: str = "",
) -> ToolResult:
    """Return the result of a call that an agent reports.

    `started` is a time before its tool started, if one is known; `change` is what an edit added and removed.
    """
    is_done = set(facts) <= {"completed"}
    return ToolResult(
        tool_call_id=call_id,
        tool=tool,
        command=shortened(command, LONGEST_COMMAND),
        facts=facts,
        output=output.encode("utf-8", "replace"),
        duration=duration,
        summary=change if change and is_done else ", ".join(facts),
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
    arrival: Arrival | None
    change: str = ""


class Turn:
    """Records the messages and tool calls of one turn, and adds its messages to `messages`."""

    def __init__(
        self, agent: str, recorder: Recorder, messages: list[dict[str, Any]]
    ) -> None:
        self.text = ""
        """The last message; empty if there is none."""
        self.calls = 0
        self.recorder = recorder
        self.arrival: Arrival | None = None
        """Of what is being recorded; None: not known."""
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
        if len(self._streamed) > 2 * LONGEST_MESSAGE:
            self._streamed = shortened(self._streamed, LONGEST_MESSAGE)

    def flush(self) -> None:
        """Add the pieces so far as a message."""
        text, self._streamed = self._streamed, ""
        self.add_message(text)

    def add_message(self, text: str) -> None:
        """Add a message, unless it is empty."""
        if text.strip():
            text = shortened(text, LONGEST_MESSAGE)
            message = {"role": "assistant", "content": text}
            self._messages.append(message)
            self.recorder.message(message)
            self.text = text

    async def start(self, name: str, tool: str, command: str, change: str = "") -> None:
        """Record the beginning of a call. `change` is what an edit adds and removes."""
        self.calls += 1
        shown = shortened(command, LONGEST_COMMAND)
        call = self._open[name] = _Open(
            source_of(tool), shown, time.monotonic(), self.arrival, change
        )
        self.recorder.tool_called(name, call.tool, one_line(call.command))

    async def finish(
        self,
        name: str,
        facts: tuple[str, ...],
        output: str = "",
        *,
        tool: str = "",
        command: str = "",
        change: str = "",
    ) -> None:
        """Record the end of a call. `tool`, `command` and `change` replace those of its beginning."""
        call = self._open.pop(name, None)
        if call is not None:
            duration = time.monotonic() - call.began
            tool, command = (
                source_of(tool) if tool else call.tool,
                command or call.command,
            )
            started = self._started(call)
            change = change or call.change
            result = reported_result(
                self._agent,
                name,
                tool,
                command,
                facts,
                output,
                duration,
                started,
                change,
            )
            await self.recorder.tool_result(result)

    def _started(self, call: _Open) -> int | None:
        """Return a time before the tool of a call started; None if its start may have been reported after its end."""
        began, now = call.arrival, self.arrival
        if began is None or (
            now is not None and now.batch == began.batch and not now.whole
        ):
            return None
        return began.before


_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:@/+=-]{0,199}", re.ASCII)
"""An id that cannot be read as an option of a command line."""


def usage_delta(report: UsageReported, total: Usage) -> tuple[Usage, Usage]:
    """Return the new usage in a report, and the session's total after it; `total` is the one before.

    A total that has decreased belongs to another session, and all of it is new.
    """
    given, made, cost, calls = (
        report.input,
        report.output,
        report.cost,
        int(report.tokens),
    )
    if not report.cumulative:
        # If tokens cost nothing, the agent does not know the price of its model.
        unpriced = report.tokens and report.dollars and not cost and given + made > 0
        return _usage(given, made, None if unpriced else cost, calls), total
    fewer = report.tokens and (
        given < (total.input_tokens or 0) or made < (total.output_tokens or 0)
    )
    if fewer or (
        report.dollars and cost is not None and cost < (total.cost_usd or 0.0)
    ):
        total = Usage()
    changes: dict[str, float | None] = {"calls": total.calls + 1}
    if report.tokens:
        changes |= {"input_tokens": given, "output_tokens": made}
    if report.dollars:
        changes |= {"cost_usd": cost, "known_cost_usd": cost or 0.0}
    after = total.model_copy(update=changes)
    new = after.since(total)
    return _usage(
        new.input_tokens or 0, new.output_tokens or 0, new.cost_usd, calls
    ), after


def _usage(given: int, made: int, cost: float | None, calls: int) -> Usage:
    return Usage(
        input_tokens=given,
        output_tokens=made,
        cost_usd=cost,
        calls=calls,
        uncounted_calls=0,
    )


class CommandTurn(Turn):
    """Records the events of one turn of a command agent, with its usage and the ids of its session."""

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
        self._pending: Usage | None = None
        """Usage that is not yet recorded."""

    @property
    def answer(self) -> str:
        """The last message; empty if it is the failure, which some agents print as a message too."""
        is_failure = (
            self.failure is not None
            and self.failure.message.strip() == self.text.strip()
        )
        return "" if is_failure else self.text

    @property
    def worked(self) -> bool:
        """Whether the agent has written a message, called a tool or used tokens."""
        return bool(self.text or self.calls or self.tokens)

    @property
    def is_undescribed(self) -> bool:
        """Whether the agent has reported a session, but neither its model nor its version."""
        about = self.session
        return about is not None and not (about.model or about.version)

    def describe(self, model: str, version: str) -> None:
        """Record the model and the version of the session, if one of them is known."""
        if self.session is not None and (model or version):
            update = {
                "model": one_line(model, _LONGEST_NAME),
                "version": one_line(version, _LONGEST_NAME),
            }
            self.session = self.session.model_copy(update=update)
            self._write_usage()

    async def add(self, event: StreamEvent) -> None:  # noqa: C901  one arm per event
        """Record one event."""
        if isinstance(event, CallStarted | CallFinished | Failed):
            self.flush()
        match event:
            case SessionStarted(id=name, model=model, version=version):
                # Recorded at once, so that a killed run can resume the session.
                if _SESSION_ID.fullmatch(name) and not (
                    self.session and name == self.session.id
                ):
                    self.session = AgentSession(
                        agent=self._agent,
                        id=name,
                        total=self._total,
                        model=one_line(model, _LONGEST_NAME),
                        version=one_line(version, _LONGEST_NAME),
                    )
                    self._write_usage()
            case TextDelta(text=text):
                self.say(text)
            case Text(text=text):
                if not self._streamed:
                    self.recorder.text(text)
                self._streamed = ""  # the pieces belong to this message
                self.add_message(text)
            case CallStarted():
                await self._start(event)
            case CallFinished():
                await self._finish(event)
            case UsageReported():
                self._count(event)
            case Failed(message=message):
                self.failure = replace(
                    event, message=shortened(message, _LONGEST_NOISE)
                )
            case TurnEnded():
                self.has_ended = True
            case Noise(text=text):
                self.noise = f"{self.noise}{text}\n"[-_LONGEST_NOISE:]

    async def end(self) -> None:
        """Record the last message and the usage; record open calls as interrupted."""
        self.flush()
        self._write_usage()
        for name in tuple(self._open):
            await self.finish(name, ("interrupted",))

    def settle(self) -> None:
        """Record the usage of a turn that ended. Usage that was not reported is unknown.

        The usage of a turn that the runner interrupted is estimated when the run is resumed.
        """
        has_price = any(
            report.dollars and report.cost is not None for report in self.reports
        )
        missing = Usage()
        counts_tokens = any(report.tokens for report in self.reports)
        if (
            counts_tokens and self.calls and not self.tokens
        ):  # a model asked for the calls, so the report is not true
            is_paid = any(report.dollars and report.cost for report in self.reports)
            missing = Usage(cost_usd=0.0 if is_paid else None, uncounted_calls=1)
        elif counts_tokens:
            awaits_price = any(not report.dollars for report in self.reports)
            missing = (
                Usage(cost_usd=None) if awaits_price and not has_price else missing
            )
        elif self.text or self.calls or self.reports:
            missing = Usage(
                cost_usd=0.0 if has_price else None, calls=1, uncounted_calls=1
            )
        if self._pending or missing != Usage():
            self._pending = (self._pending or Usage()) + missing
        self._write_usage()

    def _count(self, report: UsageReported) -> None:
        new, self._total = usage_delta(report, self._total)
        if self.session:
            self.session = self.session.model_copy(update={"total": self._total})
        self.reports.append(report)
        self.tokens += new.tokens
        self._pending = (self._pending or Usage()) + new

    def _write_usage(self) -> None:
        if self._pending is not None:
            self.recorder.usage("agent", self._pending)
            self._pending = None
        if self.session is not None and self.session != self._recorded_session:
            self.recorder.session(self.session)
            self._recorded_session = self.session

    def add_message(self, text: str) -> None:
        if text.strip():
            self.failure = None
        super().add_message(text)

    async def _start(self, event: CallStarted) -> None:
        name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
        known = self._open.get(name)
        if known is None:
            self._write_usage()
            await self.start(name, event.tool, event.command, event.change)
        else:
            known.command = known.command or shortened(event.command, LONGEST_COMMAND)
            known.change = known.change or event.change

    async def _finish(self, event: CallFinished) -> None:
        # Without an id, it is the result of the newest call.
        name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls}"
        self._write_usage()
        if name not in self._open:
            if not (event.tool or event.command):
                return  # a second result, or one of a call that was not reported
            name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
            await self.start(name, event.tool, event.command, event.change)
            self._open[name].arrival = None
        facts: tuple[str, ...] = (
            () if event.exit_code is None else (f"exit {event.exit_code}",)
        )
        if event.failed and not event.exit_code:
            facts = ("error",)
        await self.finish(
            name,
            facts,
            event.output,
            tool=event.tool,
            command=event.command,
            change=event.change,
        )
        self.failure = None
