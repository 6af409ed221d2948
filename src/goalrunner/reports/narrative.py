"""The events of a run as lines, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from goalrunner.core import events
from goalrunner.core.fold import apply
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.waiting import seconds_between
from goalrunner.reports import figures
from goalrunner.reports.event_lines import event_lines
from goalrunner.reports.layout import WARNED, Fact, ReportLine, StepLine
from goalrunner.reports.limit_use import near_limits, used_text
from goalrunner.reports.result_notes import gone_text, restoring_command
from goalrunner.reports.run_header import start_lines
from goalrunner.reports.steps import (
    ASKING,
    WORKING,
    agent_message_lines,
    message_step,
    person_step,
    step_after,
    wait_step,
)
from goalrunner.reports.terminal_text import join_nonempty

MessageReader = Callable[[str, TranscriptRef], str]
"""Returns the text of a message of the run with that id."""
# The run waited before these events, so the time of the step begins anew.
_AFTER_A_WAIT = (events.WaitEnded, events.ApprovalRecorded, events.QuestionAnswered)


@dataclass(frozen=True)
class BegunStep:
    """A step that runs."""

    line: StepLine
    elapsed: float
    """Active seconds of the run at its beginning, or when it went on after a wait."""


class Narrative:
    """Returns the lines of the records of one run, in their order.

    `state` is the state after the last record; `step` the step that runs after it, if
    any; `label` the label of the next line; `missing` what the last verdict of the
    judge misses; `message` the agent's last message of the round; `usage_before` the
    usage at the start of the round, or when the run was resumed in it.
    """

    def __init__(
        self,
        place: Callable[[str], str] | None = None,
        words: Callable[[TranscriptRef], str] | None = None,
        *,
        read_message: MessageReader | None = None,
        verbose: bool = False,
    ) -> None:
        """Start before the first record.

        `place` returns more about a workspace, by its path: "git, clean". `words` reads
        the last message of a round. `read_message` reads each message of an external
        agent when it is recorded; the beginning is shown, all of it if `verbose`.
        """
        self.state: RunState | None = None
        self.step: BegunStep | None = None
        self.missing = self.label = ""
        self.message: TranscriptRef | None = None
        self.usage_before = Usage()
        self._elapsed_before = 0.0
        self._place = place or (lambda _: "")
        self._words = words
        self._read_message = read_message
        self._verbose = verbose
        self._finished: events.RoundFinished | None = None
        self._is_resumed = False
        self._session = ("", "")
        # Name and value of limits that were warned of.
        self._warned: set[tuple[str, float]] = set()

    def restore(self, state: RunState) -> list[ReportLine]:
        """Return the first lines of a resumed run, with what is used of its limits."""
        self.state = state
        self._begin_round(state, is_resumed=True)
        # The first line of this process in a round repeats the label of the round.
        is_in_round = state.round > 0 and state.round != state.counted
        if is_in_round:
            self.label = f"round {state.round}"
        return [
            Fact("goal", state.goal.description),
            *start_lines(state, self._place(state.workspace)),
            Fact("so far", used_text(state, state.elapsed)),
        ]

    def lines_of(self, record: events.Record) -> list[ReportLine]:
        """Return the lines of a record; most have none."""
        event = record.event
        before = self.state
        self.state = state = apply(self.state, record)
        # Before the step changes: at the end of a run, it is the interrupted one.
        lines = self._round_lines(event, before, state)
        self._follow_step(record, state)
        lines += map(self.labelled, self._session_lines(event))
        lines += map(self.labelled, event_lines(event, state))
        lines += map(self.labelled, _wait_lines(record, before, state))
        # The last lines show what was spent.
        if not isinstance(event, events.RunEnded):
            lines += self._warnings(state)
        return lines

    def _round_lines(
        self, event: events.Event, before: RunState | None, state: RunState
    ) -> list[ReportLine]:
        """Return the lines around the steps: start, ends of rounds, end."""
        match event:
            case events.GoalCreated():
                return [Fact("goal", event.goal.description)]
            case events.RunStarted():
                return list(start_lines(state, self._place(event.workspace), event))
            case events.BaselineTaken():
                self.label = "baseline"
            case events.RoundStarted():
                end_of_last_round = list(self._round_end(state))
                self.label = f"round {event.round}"
                self.message = None
                self._begin_round(state)
                return end_of_last_round
            case events.MessageRecorded(role="assistant", has_text=True):
                self.message = event.text
                return list(self._message_lines(state, event.text))
            case events.RoundFinished():
                self._finished = event
                return list(self._turn_end(event, state))
            case events.VerdictRecorded():
                self.missing = event.verdict.missing
            case events.RunEnded():
                return list(self._last_lines(before, state))
        return []

    def _turn_end(
        self, event: events.RoundFinished, state: RunState
    ) -> Iterator[ReportLine]:
        """Yield the agent's last message, and which files it deleted or reverted."""
        if self._words and self.message:
            yield from map(self.labelled, message_step(self._words(self.message)))
        # Work of the user that is in no commit exists only in the snapshots of the run.
        paths = event.gone_or_reverted
        if paths:
            remark = gone_text(paths)
            step = StepLine("files", WARNED, remark=remark, tone="warn")
            yield self.labelled(step)
            command = restoring_command(state.goal.run_id, paths)
            yield Fact("", command, whole=True)

    def _follow_step(self, record: events.Record, state: RunState) -> None:
        """Keep the step that runs after a record, and when it began."""
        before = self.step.line if self.step is not None else None
        line = step_after(record.event, before, state)
        if line is None:
            self.step = None
        elif line is not before or isinstance(record.event, _AFTER_A_WAIT):
            self.step = BegunStep(line, record.elapsed)

    def _last_lines(
        self, before: RunState | None, state: RunState
    ) -> Iterator[ReportLine]:
        """Yield the step that was interrupted, and the end of the last round."""
        yield from map(self.labelled, self._interrupted(before, state))
        # Of an only round, the run's last line shows the same figures.
        if state.round > 1:
            yield from self._round_end(state)

    def _interrupted(
        self, before: RunState | None, state: RunState
    ) -> Iterator[StepLine]:
        """Yield the step that was running when the run was cancelled."""
        is_cancelled = state.status is GoalStatus.CANCELLED
        if before is None or self.step is None or not is_cancelled:
            return
        # A wait has a line of its own.
        if before.wait is not None or person_step(before) is not None:
            return
        step = self.step.line
        # While no tool runs, the built-in agent waits for its model.
        if step.subject == WORKING and not state.external:
            step = replace(step, subject=ASKING)
        yield replace(
            step,
            mark=WARNED,
            time=figures.elapsed(state.elapsed - self.step.elapsed),
            remark="interrupted",
            tone="warn",
        )

    def _message_lines(
        self, state: RunState, message: TranscriptRef
    ) -> Iterator[ReportLine]:
        """Yield what an external agent says, if its messages can be read."""
        if self._read_message is not None and state.external:
            text = self._read_message(state.goal.run_id, message)
            yield from map(
                self.labelled, agent_message_lines(text, whole=self._verbose)
            )

    def _session_lines(self, event: events.Event) -> Iterator[StepLine]:
        """Yield the model and the version of an external agent, once per session."""
        if not isinstance(event, events.SessionOpened):
            return
        session = event.session
        about = join_nonempty(" · ", session.model, session.version)
        # A program may report its model only after it has reported its session.
        if about and session.id and (session.id, about) != self._session:
            self._session = (session.id, about)
            yield StepLine("agent", subject=about)

    def _begin_round(self, state: RunState, *, is_resumed: bool = False) -> None:
        self._elapsed_before = state.elapsed
        self.usage_before = state.total
        self._is_resumed = is_resumed

    def _round_end(self, state: RunState) -> Iterator[ReportLine]:
        """Yield duration, changes and spend of a round that is over, once."""
        finished, self._finished = self._finished, None
        if finished is None:
            return
        used = state.total.since(self.usage_before)
        duration = figures.elapsed(state.elapsed - self._elapsed_before)
        if self._is_resumed:
            duration += " since it was resumed"
        parts = [duration, *figures.diff_stat(finished.changes)]
        if used.tokens or used.known_cost_usd:
            parts += figures.spent(used)
        yield Fact("", f"round {finished.round} took {' · '.join(parts)}")
        if finished.changes is not None and finished.changes.files:
            command = f"goal diff {state.goal.run_id} {finished.round}"
            yield Fact("", command, whole=True)

    def _warnings(self, state: RunState) -> Iterator[ReportLine]:
        """Yield a warning for each limit that is nearly used up, once."""
        for near in near_limits(state):
            # A resumed run may have a higher limit, which is warned of again.
            limit = (near.name, near.value)
            if limit not in self._warned:
                self._warned.add(limit)
                yield near.warning

    def labelled(self, line: ReportLine) -> ReportLine:
        """Return a line with the label of its round, if it is the first step of it."""
        if not isinstance(line, StepLine):
            return line
        label, self.label = self.label, ""
        return replace(line, label=label)


def _wait_lines(
    record: events.Record, before: RunState | None, state: RunState
) -> Iterator[StepLine]:
    """Yield a line at the beginning and at the end of a wait.

    A run that is resumed while it waits shows the wait again.
    """
    is_begin = isinstance(record.event, events.WaitStarted | events.RunResumed)
    if is_begin and state.wait is not None:
        yield wait_step(state.wait, datetime.fromisoformat(record.at))
    last_wait = before.wait if before is not None else None
    if last_wait is None or not isinstance(record.event, events.WaitEnded):
        return
    # A short pause before a retry needs no line about its end.
    if last_wait.kind == "limit":
        waited = figures.elapsed(seconds_between(last_wait.began, record.at))
        yield StepLine("waiting", subject=f"over after {waited}; the work goes on")
