"""The current activity of a run: its running steps, and what is used of its limits."""

from __future__ import annotations

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
from goalrunner.reports.limit_use import used_text
from goalrunner.reports.narrative import BegunStep, Narrative
from goalrunner.reports.steps import (
    ASKING,
    WORKING,
    is_continuing,
    person_step,
    wait_step,
)
from goalrunner.reports.terminal_text import join_nonempty

WORTH_AN_ESTIMATE = 2.0
"""Seconds of its last run from which the duration of a validator is estimated."""
STARTED_AFTER = 3.0
"""Seconds after which a step in a pipe gets a line that it has started."""
HEARTBEAT = 30.0
"""Seconds between two lines of a step that is still running."""

# Characters of streamed text that are kept.
_TEXT_KEPT = 4_000
# Bytes at the end of an output that are read.
_TAIL = 16_000
# Names of the files that commands of tools and validators write.
_OUTPUT = "?" * 16 + ".out"
_MODELS = get_args(Account)
# pytest and others print their progress like this: "[ 45%]".
_PERCENT = re.compile(r"\[ *(\d{1,3})%\]\s*$", re.MULTILINE)


def output_tail(output: Path) -> list[str]:
    """Return the last lines of an output file that are not empty."""
    try:
        with output.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL, 0))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return []
    # A progress bar writes over itself after each carriage return.
    last_states = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return [line for line in last_states if line.strip()]


def _newest_output(scratch: Path) -> Path | None:
    """Return the newest output in a folder. Raise OSError if one is removed now."""
    outputs = scratch.glob(_OUTPUT)
    return max(outputs, key=lambda path: path.stat().st_mtime, default=None)


@dataclass
class Running:
    """One running step.

    `lines` are the last lines of its output, or of the agent's text.
    """

    step: StepLine
    seconds: float
    lines: list[str]


class Current:
    """The current activity of a run, from its records and activities.

    It may be drawn by another thread than the one that processes them.
    """

    def __init__(
        self, narrative: Narrative, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`narrative` gets each record before `follow` does."""
        self._narrative = narrative
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._step: BegunStep | None = None
        self._step_began = self._last_record_at = 0.0
        self._text = ""
        self._messages = 0
        self._commands: dict[CommandStarted, float] = {}
        self._retry: RetryScheduled | None = None
        self._retry_at = 0.0
        self._silence: AgentSilent | None = None
        self._durations: dict[str, float] = {}
        self._has_caught_up = False
        # By name and subject of a running step: the seconds after its beginning at
        # which its next line is due.
        self._due: dict[tuple[str, str], float] = {}

    def restore(self, state: RunState) -> None:
        """Start with the state of a run that is resumed."""
        self._last_record_at = self._monotonic()
        self._remember(state.validators)

    def follow(self, record: Record) -> None:
        """Process a record."""
        now = self._monotonic()
        event = record.event
        with self._lock:
            step = self._narrative.step
            if step is not self._step:
                self._step = step
                self._step_began = now
                self._retry = None
            self._last_record_at = now
            self._silence = None
            match event:
                case events.RoundStarted():
                    self._messages = 0
                case events.MessageRecorded():
                    self._text = ""
                    self._retry = None
                    self._messages += event.role == "assistant"
                case events.UsageRecorded() | events.AuditFailed():
                    self._retry = None
                case events.BaselineTaken() | events.ValidatorsFinished():
                    self._remember(event.results)

    def _remember(self, results: tuple[ValidatorResult, ...]) -> None:
        for result in results:
            self._durations[result.name] = result.duration

    def on_activity(self, activity: Activity) -> None:
        """Process an activity."""
        now = self._monotonic()
        with self._lock:
            match activity:
                case CommandStarted():
                    self._commands[activity] = now
                case CommandEnded():
                    self._commands.pop(activity.started, None)
                    self._step_began = now
                case AgentSilent():
                    self._silence = activity if activity.seconds else None
                case RetryScheduled():
                    self._retry = activity
                    self._retry_at = now + activity.seconds
                    self._text = ""

    def catch_up(self) -> None:
        """Date the running step back: another process recorded it some time ago."""
        state = self._narrative.state
        with self._lock:
            if self._has_caught_up or state is None:
                return
            self._has_caught_up = True
            last_record = datetime.fromisoformat(state.goal.updated_at).timestamp()
            age = max(time.time() - last_record, 0.0)
            self._last_record_at = self._monotonic() - age
            began = self._step.elapsed if self._step else state.elapsed
            seconds_until_record = max(state.elapsed - began, 0.0)
            self._step_began = self._last_record_at - seconds_until_record

    def follow_files(self, scratch: Path) -> None:
        """Follow the command of a run of another process by its output.

        `scratch` is the folder of outputs.
        """
        self.catch_up()
        try:
            output = _newest_output(scratch)
        # The next look finds the state after the removal.
        except OSError:
            return
        with self._lock:
            if output in [started.output for started in self._commands]:
                return
            # A command of another process is known only by its output.
            self._commands.clear()
            if output and self._step:
                line = self._step.line
                started = CommandStarted(line.name, line.subject, output)
                self._commands[started] = self._step_began

    def on_text(self, delta: str) -> None:
        """Add a piece of the agent's text."""
        with self._lock:
            self._text = (self._text + delta)[-_TEXT_KEPT:]
            self._retry = None

    def shift(self, seconds: float) -> None:
        """Do not count these seconds, in which a person was asked."""
        with self._lock:
            self._step_began += seconds
            self._last_record_at += seconds
            self._text = ""

    def clear(self) -> None:
        """Forget the running steps, because the run has ended."""
        with self._lock:
            self._step = None
            self._text = ""
            self._commands.clear()

    def running(self) -> list[Running]:
        """Return the running steps.

        They are the commands of validators and tools, else the step of the run.
        """
        with self._lock:
            now = self._monotonic()
            wait = self._wait()
            if wait is not None:
                return [Running(wait_step(wait, datetime.now(UTC)), 0.0, [])]
            person = self._person()
            if person is not None:
                waited = figures.elapsed(now - self._last_record_at)
                return [Running(replace(person, time=waited), 0.0, [])]
            if self._commands:
                return [
                    self._command(started, now - began)
                    for started, began in self._commands.items()
                ]
            if self._step is None:
                return []
            seconds = now - self._step_began
            step = self._model_step(self._step.line, now)
            step = replace(step, time=figures.elapsed(seconds))
            return [Running(step, seconds, self._text.splitlines())]

    def _wait(self) -> Waiting | None:
        """Return the wait of the run; None if it does not wait."""
        state = self._narrative.state
        if state is None or state.phase is Phase.ENDED:
            return None
        return state.wait

    def _person(self) -> StepLine | None:
        """Return what the run asks a person; None if it does not wait for one."""
        state = self._narrative.state
        return person_step(state) if state is not None else None

    def _command(self, started: CommandStarted, seconds: float) -> Running:
        lines = output_tail(started.output)
        remarks = []
        percents = _PERCENT.findall("\n".join(lines))
        if percents:
            remarks.append(f"{percents[-1]} %")
        last_duration = self._durations.get(started.name, 0.0)
        if last_duration >= WORTH_AN_ESTIMATE:
            remarks.append(f"last run {figures.elapsed(last_duration)}")
        step = StepLine(
            short_name(started.name),
            subject=started.command,
            time=figures.elapsed(seconds),
            remark=", ".join(remarks),
        )
        return Running(step, seconds, lines)

    def _model_step(self, step: StepLine, now: float) -> StepLine:
        """Return a step; that of a model with what it does, or why it waits."""
        if self._retry is not None and step.name in _MODELS:
            seconds_left = ceil(self._retry_at - now)
            next_try = "trying again"
            if seconds_left > 0:
                next_try = f"next try in {seconds_left} s"
            count = f"{self._retry.retry}/{self._retry.retries}"
            reason = self._retry.reason
            return replace(step, subject=reason, remark=f"{next_try} ({count})")
        return self._agent_step(step) if step.name == "agent" else step

    def _agent_step(self, step: StepLine) -> StepLine:
        state = self._narrative.state
        is_external = state is not None and state.external
        if is_continuing(step) and not self._text:
            return replace(step, remark="" if is_external else ASKING)
        if self._silence is not None:
            subject = f"no output for {figures.elapsed(self._silence.seconds)}"
            remark = f"the turn ends after {figures.span(self._silence.limit)}"
            return replace(step, subject=subject, remark=remark)
        remarks = []
        # The model calls of an external agent are not seen, only its messages.
        if not is_external:
            subject = "answering" if self._text else ASKING
            remarks.append(f"step {self._messages + 1}")
        else:
            subject = WORKING
            if self._messages:
                remarks.append(figures.count(self._messages, "message"))
        if state is not None:
            # Those of this round; the totals below show those of the run.
            tokens = state.total.since(self._narrative.usage_before).tokens
            if tokens:
                remarks.append(figures.count(tokens, "token"))
        return replace(step, subject=subject, remark=", ".join(remarks))

    def totals(self) -> str:
        """Return what is used of each limit, up to this moment."""
        state = self._narrative.state
        if state is None:
            return ""
        wait = self._wait()
        is_limit = wait is not None and wait.kind == "limit"
        # Waiting is no active time, and neither is the time after the end of a run that
        # is about to be resumed.
        if is_limit or self._person() is not None or state.phase is Phase.ENDED:
            return used_text(state, state.elapsed)
        since_last_record = max(self._monotonic() - self._last_record_at, 0.0)
        return used_text(state, state.elapsed + since_last_record)

    def beats(self) -> Iterator[ReportLine]:
        """Yield the running steps soon after their start, and every 30 seconds."""
        # The beginning and the end of a wait have lines of their own.
        if self._wait() is not None or self._person() is not None:
            return
        running: dict[tuple[str, str], Running] = {}
        for item in self.running():
            # The subject of a model's step changes while it runs.
            subject = "" if item.step.name in _MODELS else item.step.subject
            running[item.step.name, subject] = item
        self._due = {key: due for key, due in self._due.items() if key in running}
        for key, item in running.items():
            if item.seconds < self._due.get(key, STARTED_AFTER):
                continue
            words = "still running" if key in self._due else "running"
            self._due[key] = HEARTBEAT * (item.seconds // HEARTBEAT + 1)
            remark = join_nonempty(", ", words, item.step.remark)
            yield replace(item.step, remark=remark)


def activity_text(records: Iterable[Record], scratch: Path) -> str:
    """Return what a run of another process does.

    For example "round-1 · agent waiting for the model · step 2 · 28.9 s".
    """
    narrative = Narrative()
    current = Current(narrative)
    for record in records:
        narrative.lines_of(record)
        current.follow(record)
    current.follow_files(scratch)
    parts = []
    if narrative.state is not None:
        parts.append(narrative.state.memory.current_step or "")
    for item in current.running():
        step = item.step
        parts += [f"{step.name} {step.subject}", step.remark, step.time]
    return join_nonempty(" · ", *parts)
