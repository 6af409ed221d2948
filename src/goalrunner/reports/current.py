"""The current activity of a run: its running steps with the end of their output, and its totals and limits."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import get_args

from goalrunner.core import events
from goalrunner.core.actions import short_name
from goalrunner.core.activity import (
    Activity,
    AgentSilent,
    CommandEnded,
    CommandStarted,
    RetryScheduled,
)
from goalrunner.core.events import Account, Record
from goalrunner.core.run_state import Phase, RunState, Waiting
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.layout import ReportLine, StepLine
from goalrunner.reports.narrative import BegunStep, Narrative
from goalrunner.reports.steps import (
    ASKING,
    WORKING,
    is_continuing,
    person_step,
    used_text,
    wait_step,
)

WORTH_AN_ESTIMATE = 2.0
"""Seconds of its last run from which the duration of a validator is estimated."""
STARTED_AFTER = 3.0
"""Seconds after which a step in a pipe gets a line that it has started."""
HEARTBEAT = 30.0
"""Seconds between two lines of a step that is still running."""

_TEXT_KEPT = 4_000
"""Characters of streamed text that are kept."""
_TAIL = 16_000
"""Bytes at the end of an output that are read."""
_OUTPUT = "?" * 16 + ".out"
"""Names of the files that commands of tools and validators write."""
_MODELS = get_args(Account)
_PERCENT = re.compile(r"\[ *(\d{1,3})%\]\s*$", re.MULTILINE)


def output_tail(output: Path) -> list[str]:
    """Return the last lines of an output file, each in the last state of a progress bar."""
    try:
        with output.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return []
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return [line for line in shown if line.strip()]


@dataclass
class Running:
    """One running step. `lines` are the last lines of its output, or of the agent's text."""

    step: StepLine
    seconds: float
    lines: list[str]


class Current:
    """The current activity of a run, from its records and activities. Drawing may happen in another thread."""

    def __init__(
        self, narrative: Narrative, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`narrative` gets each record before `follow` does."""
        self._narrative, self._monotonic = narrative, monotonic
        self._lock = threading.Lock()
        self._step: BegunStep | None = None
        self._since = self._at = 0.0
        self._text = ""
        self._calls = 0
        self._commands: dict[CommandStarted, float] = {}
        self._retry: tuple[RetryScheduled, float] | None = None
        self._silence: AgentSilent | None = None
        self._durations: dict[str, float] = {}
        self._has_caught_up = False
        self._due: dict[tuple[str, str], float] = {}
        """By name and subject of a running step: seconds after its start at which its next line is due."""

    def restore(self, state: RunState) -> None:
        """Start with the state that an earlier process left."""
        self._at = self._monotonic()
        self._remember(state.validators)

    def follow(self, record: Record) -> None:
        """Process a record."""
        now, event = self._monotonic(), record.event
        with self._lock:
            step = self._narrative.step
            if step is not self._step:
                self._step, self._since, self._retry = step, now, None
            self._at, self._silence = now, None
            match event:
                case events.RoundStarted():
                    self._calls = 0
                case events.MessageRecorded():
                    self._text, self._retry = "", None
                    self._calls += event.role == "assistant"
                case events.UsageRecorded() | events.AuditFailed():
                    self._retry = None
                case events.BaselineTaken() | events.ValidatorsFinished():
                    self._remember(event.results)

    def _remember(self, results: tuple[ValidatorResult, ...]) -> None:
        self._durations.update({result.name: result.duration for result in results})

    def on_activity(self, activity: Activity) -> None:
        """Process an activity."""
        now = self._monotonic()
        with self._lock:
            match activity:
                case CommandStarted():
                    self._commands[activity] = now
                case CommandEnded():
                    self._commands.pop(activity.started, None)
                    self._since = now
                case AgentSilent():
                    self._silence = activity if activity.seconds else None
                case RetryScheduled():
                    self._retry, self._text = (activity, now + activity.seconds), ""

    def catch_up(self) -> None:
        """Date the running step back: the records so far were written by another process, some time ago."""
        state = self._narrative.state
        with self._lock:
            if self._has_caught_up or state is None:
                return
            self._has_caught_up = True
            last = datetime.fromisoformat(state.goal.updated_at).timestamp()
            self._at = self._monotonic() - max(time.time() - last, 0.0)
            began = self._step.elapsed if self._step else state.elapsed
            self._since = self._at - max(state.elapsed - began, 0.0)

    def follow_files(self, scratch: Path) -> None:
        """Follow a run of another process: the output of its command in the folder `scratch`."""
        self.catch_up()
        with (
            contextlib.suppress(OSError),
            self._lock,
        ):  # a file may be removed meanwhile
            newest = max(
                scratch.glob(_OUTPUT),
                key=lambda path: path.stat().st_mtime,
                default=None,
            )
            if newest not in [started.output for started in self._commands]:
                self._commands.clear()
                if newest and self._step:
                    line = self._step.line
                    started = CommandStarted(line.name, line.subject, newest)
                    self._commands[started] = self._since

    def on_text(self, delta: str) -> None:
        """Add a piece of the agent's text."""
        with self._lock:
            self._text, self._retry = (self._text + delta)[-_TEXT_KEPT:], None

    def shift(self, seconds: float) -> None:
        """Do not count these seconds, in which a person was asked."""
        with self._lock:
            self._since += seconds
            self._at += seconds
            self._text = ""

    def clear(self) -> None:
        """Forget the running steps, because the run has ended."""
        with self._lock:
            self._step, self._text = None, ""
            self._commands.clear()

    def running(self) -> list[Running]:
        """Return the running steps: the commands of validators and tools, else the step of the run."""
        with self._lock:
            now = self._monotonic()
            if (wait := self._wait()) is not None:
                return [Running(wait_step(wait, datetime.now(UTC)), 0.0, [])]
            if (step := self._person()) is not None:
                return [
                    Running(
                        replace(step, time=figures.elapsed(now - self._at)), 0.0, []
                    )
                ]
            if self._commands:
                return [
                    self._command(started, now - since)
                    for started, since in self._commands.items()
                ]
            if self._step is None:
                return []
            subject, remark = self._model_state(self._step.line, now)
            seconds = now - self._since
            step = replace(
                self._step.line,
                subject=subject,
                remark=remark,
                time=figures.elapsed(seconds),
            )
            return [Running(step, seconds, self._text.splitlines())]

    def _wait(self) -> Waiting | None:
        """Return the wait at hand; None if the run does not wait."""
        state = self._narrative.state
        return (
            state.wait if state is not None and state.phase is not Phase.ENDED else None
        )

    def _person(self) -> StepLine | None:
        """Return what the run waits for a person with; None if it does not wait."""
        state = self._narrative.state
        return person_step(state) if state is not None else None

    def _command(self, started: CommandStarted, seconds: float) -> Running:
        lines = output_tail(started.output)
        remarks = [f"{number} %" for number in _PERCENT.findall("\n".join(lines))[-1:]]
        last = self._durations.get(started.name, 0.0)
        if last >= WORTH_AN_ESTIMATE:
            remarks.append(f"last run {figures.elapsed(last)}")
        step = StepLine(
            short_name(started.name),
            "·",
            started.command,
            figures.elapsed(seconds),
            ", ".join(remarks),
        )
        return Running(step, seconds, lines)

    def _model_state(self, step: StepLine, now: float) -> tuple[str, str]:
        """Return subject and remark of a step, of a model with what it does or why it waits."""
        if self._retry is not None and step.name in _MODELS:
            retry, until = self._retry
            left = ceil(until - now)
            again = f"next try in {left} s" if left > 0 else "trying again"
            return retry.reason, f"{again} ({retry.retry}/{retry.retries})"
        if step.name != "agent":
            return step.subject, step.remark
        state = self._narrative.state
        tokens = state.total.since(self._narrative.usage_before).tokens if state else 0
        remarks = [figures.count(tokens, "token")] if tokens else []
        is_external = state is not None and state.external
        if is_continuing(step) and not self._text:
            return step.subject, "" if is_external else ASKING
        if self._silence is not None:
            limit = figures.span(self._silence.limit)
            return (
                f"no output for {figures.elapsed(self._silence.seconds)}",
                f"the turn ends after {limit}",
            )
        if is_external:
            messages = [figures.count(self._calls, "message")] if self._calls else []
            return WORKING, ", ".join(messages + remarks)
        subject = "answering" if self._text else ASKING
        return subject, ", ".join([f"step {self._calls + 1}", *remarks])

    def totals(self) -> str:
        """Return what is used of each limit, up to this moment."""
        state = self._narrative.state
        if state is None:
            return ""
        wait = self._wait()
        is_limit = wait is not None and wait.kind == "limit"
        # Waiting is no active time, and neither is that after the end of a run that is about to be resumed.
        if is_limit or self._person() is not None or state.phase is Phase.ENDED:
            return used_text(state, state.elapsed)
        return used_text(state, state.elapsed + max(self._monotonic() - self._at, 0.0))

    def beats(self) -> Iterator[ReportLine]:
        """Yield a line for each running step soon after its start, and every 30 seconds."""
        if (
            self._wait() is not None or self._person() is not None
        ):  # its beginning and its end have lines of their own
            return
        running = {
            (one.step.name, "" if one.step.name in _MODELS else one.step.subject): one
            for one in self.running()
        }
        self._due = {key: at for key, at in self._due.items() if key in running}
        for key, one in running.items():
            if one.seconds >= self._due.get(key, STARTED_AFTER):
                said = "still running" if key in self._due else "running"
                self._due[key] = HEARTBEAT * (one.seconds // HEARTBEAT + 1)
                yield replace(
                    one.step, remark=", ".join(filter(None, (said, one.step.remark)))
                )


def activity_text(records: Iterable[Record], scratch: Path) -> str:
    """Return what a run of another process does: "round-1 · agent waiting for the model · step 2 · 28.9 s"."""
    narrative = Narrative()
    current = Current(narrative)
    for record in records:
        narrative.lines_of(record)
        current.follow(record)
    current.follow_files(scratch)
    state = narrative.state
    parts = [state.memory.current_step or ""] if state is not None else []
    for one in current.running():
        step = one.step
        parts += [f"{step.name} {step.subject}", step.remark, step.time]
    return " · ".join(filter(None, parts))
