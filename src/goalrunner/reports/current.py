"""What a run is doing now: the running steps with the end of their output, and the totals beside the limits."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from goalrunner.core import events
from goalrunner.core.activity import Activity, CommandEnded, CommandStarted, RetryScheduled
from goalrunner.core.events import Record
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.layout import Line, Step
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.steps import short_name

WORTH_AN_ESTIMATE = 2.0
"""Seconds of its last run from which the duration of a validator is estimated."""
STARTED_AFTER = 3.0
"""Seconds after which a step in a pipe gets a line that it has started."""
HEARTBEAT = 30.0
"""Seconds between two lines of a step that is still running."""

_TEXT_KEPT = 4_000
"""Characters of streamed text, and of a line of output, that are kept."""
_BLOCK = 4_000_000
"""Bytes of an output that are read at once."""
_LINES = 40
_OUTPUT = "?" * 16 + ".out"
"""Names of the files that commands of tools and validators write."""
_MODELS = ("agent", "judge", "critic")
_PERCENT = re.compile(rb"\[ *(\d{1,3})%\]\s*$")
_TEST = re.compile(
    rb"test \S.* \.\.\. (ok|FAILED)$"  # cargo
    rb"|\s*--- (PASS|FAIL): "  # go test -v
    rb"|(ok|not ok) \d+\b"  # TAP
    rb"|\S+::\S+.* (PASSED|FAILED|ERROR)\b"  # pytest -v
    rb"|.* \.\.\. (ok|FAIL|ERROR)$"  # unittest -v
)


class GrowingOutput:
    """An output file that is read while it grows: its last lines, and the tests so far where the runner names them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._percent = ""
        self._tests = {"passed": 0, "failed": 0}

    def read(self) -> None:
        """Read what is new, a part of it if there is much."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                data = file.read(_BLOCK)
        except OSError:
            return
        self._place += len(data)
        *lines, self._rest = (self._rest[-_BLOCK:] + data).split(b"\n")
        for line in (whole[-_TEXT_KEPT:] for whole in lines):
            self._lines.append(line)
            if found := _PERCENT.search(line):
                self._percent = f"{int(found[1])} %"
            elif found := _TEST.match(line):
                word = next(group for group in found.groups() if group)
                self._tests["passed" if word.lower() in (b"ok", b"pass", b"passed") else "failed"] += 1

    @property
    def lines(self) -> list[str]:
        """The last lines, each in the last state of a progress bar; the last of them may go on."""
        shown = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in (*self._lines, self._rest[-_TEXT_KEPT:])]
        return [line.decode(errors="replace") for line in shown if line.strip()]

    @property
    def progress(self) -> str:
        """How far the tests are: "42 %", "12 passed, 1 failed so far"; empty if the runner does not say."""
        counts = ", ".join(f"{number:,} {name}" for name, number in self._tests.items() if number)
        return self._percent or (f"{counts} so far" if counts else "")


@dataclass
class Running:
    """One running step. `lines` are the last lines of its output, or of the agent's text."""

    step: Step
    seconds: float
    lines: list[str] = field(default_factory=list)


class Current:
    """What a run is doing now, from its records and activities. Activities may come from another thread than drawing."""

    def __init__(self, narrative: Narrative, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`narrative` gets each record before `follow` does."""
        self._narrative, self._monotonic = narrative, monotonic
        self._lock = threading.Lock()
        self._step: Step | None = None
        self._since = self._at = 0.0
        self._text = ""
        self._calls = self._used_before = 0
        self._commands: dict[CommandStarted, tuple[float, GrowingOutput]] = {}
        self._retry: tuple[RetryScheduled, float] | None = None
        self._durations: dict[str, float] = {}
        self._has_caught_up = False
        self._told: dict[tuple[str, str], float] = {}
        """By name and subject of a running step: seconds after its start at which its next line is due."""

    def take_up(self, state: RunState) -> None:
        """Start with the state that an earlier process left."""
        self._at = self._monotonic()
        self._remember(state.validators)

    def follow(self, record: Record) -> None:
        """Take over a record."""
        now, event, step = self._monotonic(), record.event, self._narrative.running
        with self._lock:
            if step is not self._step:
                self._step, self._since, self._retry = step, now, None
            self._at = now
            match event:
                case events.RoundStarted():
                    self._calls, self._used_before = 0, self._narrative.spending.usage.tokens
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
        """Take over an activity."""
        now = self._monotonic()
        with self._lock:
            match activity:
                case CommandStarted():
                    self._commands[activity] = (now, GrowingOutput(activity.output))
                case CommandEnded():
                    self._commands.pop(activity.started, None)
                    self._since = now
                case RetryScheduled():
                    self._retry, self._text = (activity, now + activity.seconds), ""

    def look(self, scratch: Path, records: Path) -> None:
        """Follow a run of another process: its log `records`, and the output of its command in the folder `scratch`."""
        with contextlib.suppress(OSError), self._lock:  # a file may be removed meanwhile
            if not self._has_caught_up:
                self._since = self._at = self._monotonic() - max(time.time() - records.stat().st_mtime, 0.0)
                self._has_caught_up = True
            newest = max(scratch.glob(_OUTPUT), key=lambda path: path.stat().st_mtime, default=None)
            if newest not in [started.output for started in self._commands]:
                self._commands.clear()
                if newest and self._step:
                    started = CommandStarted(self._step.name, self._step.subject, newest)
                    self._commands[started] = (self._since, GrowingOutput(newest))

    def on_text(self, delta: str) -> None:
        """Take over a piece of the agent's text."""
        with self._lock:
            self._text, self._retry = (self._text + delta)[-_TEXT_KEPT:], None

    def shift(self, seconds: float) -> None:
        """Leave out so many seconds, in which a person was asked."""
        with self._lock:
            self._since += seconds
            self._at += seconds
            self._text = ""

    def clear(self) -> None:
        """Forget what runs: the run has ended."""
        with self._lock:
            self._step, self._text = None, ""
            self._commands.clear()

    def running(self) -> list[Running]:
        """Return the running steps: the commands of validators and tools, else the step of the run."""
        with self._lock:
            now = self._monotonic()
            if self._commands:
                return [self._command(started, now - since, out) for started, (since, out) in self._commands.items()]
            if self._step is None:
                return []
            step = self._waiting(self._step, now) if self._step.name in _MODELS else self._step
            seconds = now - self._since
            return [Running(replace(step, time=figures.elapsed(seconds)), seconds, self._text.splitlines())]

    def _command(self, started: CommandStarted, seconds: float, output: GrowingOutput) -> Running:
        output.read()
        last = self._durations.get(started.name, 0.0)
        estimate = f"last run {figures.elapsed(last)}" if last >= WORTH_AN_ESTIMATE else ""
        remark = ", ".join(filter(None, (output.progress, estimate)))
        step = Step(short_name(started.name), subject=started.command, time=figures.elapsed(seconds), remark=remark)
        return Running(step, seconds, output.lines)

    def _waiting(self, step: Step, now: float) -> Step:
        """Return the step of a model with what it waits for."""
        if self._retry is not None:
            retry, until = self._retry
            left = ceil(until - now)
            again = f"next try in {left} s" if left > 0 else "trying again"
            return replace(step, subject=retry.reason, remark=f"{again} ({retry.retry}/{retry.retries})")
        if step.name != "agent":
            return step
        tokens = self._narrative.spending.usage.tokens - self._used_before
        used = figures.count(tokens, "token") if tokens else ""
        if self._narrative.spending.external:
            calls = figures.count(self._calls, "message") if self._calls else ""
            return replace(step, subject="working", remark=", ".join(filter(None, (calls, used))))
        subject = "answering" if self._text else "waiting for the model"
        return replace(step, subject=subject, remark=", ".join(filter(None, (f"step {self._calls + 1}", used))))

    def totals(self) -> str:
        """Return what is used of each limit: "round 2 of 10 · 2 min 5 s of 30 min · 8,120 tokens · $0.12"."""
        spending, number = self._narrative.spending, self._narrative.round
        most = f" of {spending.plan.max_iterations}" if spending.plan and spending.plan.max_iterations else ""
        seconds = spending.elapsed + max(self._monotonic() - self._at, 0.0)
        parts = spending.parts(seconds, began=number > 0)
        return " · ".join([f"{f'round {number}' if number else 'before round 1'}{most}", *parts])

    def beats(self) -> Iterator[Line]:
        """Yield a line for each running step soon after its start, and every 30 seconds."""
        running = {(one.step.name, "" if one.step.name in _MODELS else one.step.subject): one for one in self.running()}
        self._told = {key: at for key, at in self._told.items() if key in running}
        for key, one in running.items():
            at = self._told.get(key, STARTED_AFTER)
            if one.seconds < min(at, STARTED_AFTER):  # it has started again
                self._told.pop(key, None)
            elif one.seconds >= at:
                self._told[key] = HEARTBEAT * (one.seconds // HEARTBEAT + 1)
                said = "running" if at == STARTED_AFTER else "still running"
                yield replace(one.step, remark=", ".join(filter(None, (said, one.step.remark))))
