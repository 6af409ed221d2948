"""The events of a run as lines, as they happen; and a resolved goal as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from goalrunner.core import events
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.fold import apply
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AGENT_MODEL,
    BUILTIN,
    DEFAULT_EXTERNAL_TIMEOUT,
    Approvals,
    ValidatorSpec,
)
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.waiting import seconds_between
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    WARNED,
    Fact,
    ReportLine,
    StepLine,
    facts,
    nonempty_facts,
)
from goalrunner.reports.short_forms import (
    home_path,
    model_name,
)
from goalrunner.reports.status import gone_text, restoring_command
from goalrunner.reports.steps import (
    ASKING,
    WORKING,
    event_lines,
    message_step,
    near_limits,
    person_step,
    said_lines,
    step_after,
    used_text,
    wait_step,
)

MessageReader = Callable[[str, TranscriptRef], str]
"""Returns the text of a message of the run with that id."""
UNLIMITED = Fact(
    "warning",
    "no limit stops this run: no round limit, no timeout, no budget",
    tone="warn",
)
"""The warning at the start of a run without any limit."""
_NO_JUDGE = "none; the validators decide"


def start_lines(
    state: RunState, place: str, started: events.RunStarted | None = None
) -> Iterator[ReportLine]:
    """Yield workspace, run and models, and at the start of a run its limits and warnings; `place` is "git, clean"."""
    agent = (
        state.agent_command
        or model_name(state.models.get("agent", ""))
        or "a conversation that was passed in"
    )
    judge = model_name(state.models.get("judge", "")) or _NO_JUDGE
    copy = "in a copy" if state.isolated else ""
    yield from nonempty_facts(
        {
            "run": state.goal.run_id,
            "workspace": _workspace(state.workspace, place, copy),
        }
    )
    yield from nonempty_facts({"agent": agent, "judge": judge})
    if started is not None:
        plan = state.plan
        yield from nonempty_facts(
            {
                "critic": _with_minimum(plan.critic.name, plan.critic.threshold)
                if plan.critic
                else "",
                "limits": _limits(vars(plan), is_external=state.external),
                "checks": started.checks,
                "approvals": waits_for(plan.approvals, state.goal.risk_class),
                "continues": started.continues
                and f"the conversation of {started.continues}",
            }
        )
        if not any((plan.max_iterations, plan.timeout, plan.tokens, plan.cost_usd)):
            yield UNLIMITED
        yield from (Fact("note", note, tone="warn") for note in started.notes)
    yield from _recorded_lines(state.models)


def _limits(values: Mapping[str, Any], *, is_external: bool) -> str:
    """Return the limits, and how to lift a timeout that is the default of external agents."""
    has_budget = any(values[name] is not None for name in ("tokens", "cost_usd"))
    is_default = (
        is_external and not has_budget and values["timeout"] == DEFAULT_EXTERNAL_TIMEOUT
    )
    return figures.limits(
        values, "default; --timeout inf lifts it" if is_default else ""
    )


def _workspace(path: str, *facts: str) -> str:
    return " · ".join(filter(None, (home_path(path), *facts)))


def _with_minimum(name: str, minimum: float) -> str:
    """Return who gives a score, and the least one that is enough."""
    return f"{name} · at least {figures.score(minimum)}" if minimum else name


def waits_for(approvals: Approvals, risk: events.RiskClass) -> str:
    """Return which decisions a run leaves to a person; empty if there are none."""
    kinds = list(approvals.require) + [f'"{pattern}"' for pattern in approvals.commands]
    if risk == "critical":
        kinds = ["complete", "every command and write"]
    elif risk == "high" and "complete" not in kinds:
        kinds = ["complete", *kinds]
    within = (
        f" · within {figures.elapsed(approvals.expires)}"
        if approvals.expires is not None
        else ""
    )
    return f"a person decides on {', '.join(kinds)}{within}" if kinds else ""


def _recorded_lines(models: Mapping[str, str]) -> Iterator[ReportLine]:
    """Yield a line if replies are played from a recording."""
    recorded = " and ".join(
        role for role, model in models.items() if model.startswith(SCRIPTED)
    )
    if recorded:
        yield Fact(
            "recorded",
            f"replies of {recorded} are played from a recording; tools and checks run for real",
        )


def resolved_lines(
    goal: Goal,
    agent: str = "",
    place: str = "",
    checked: Sequence[tuple[str, str]] = (),
) -> Iterator[ReportLine]:
    """Yield objective, workspace, models, limits and checks.

    `agent` is an external one with its command, `place` more about the workspace: "git, clean". `checked` are labels and
    texts about the check environment.
    """
    config = (
        goal.agent
        if (goal.judge.use, goal.judge.model) == ("", AGENT_MODEL)
        else goal.judge
    )
    judge = (
        config.model
        if config.use in ("", BUILTIN)
        else f"{config.use} {config.model}".strip()
    )
    yield Fact("goal", goal.objective)
    yield from facts("criteria", goal.success_criteria, whole=True)
    yield from facts("keeps", goal.constraints, whole=True)
    critic = goal.critic
    rows = {
        "workspace": _workspace(goal.workspace.path, place),
        "agent": agent or goal.agent.model,
        "judge": _with_minimum(judge, goal.judge.minimum_score)
        if goal.has_judge
        else _NO_JUDGE,
        "critic": _with_minimum(critic.command, critic.threshold)
        if critic.command
        else "",
        "limits": _limits(
            {**vars(goal), **vars(goal.budget)}, is_external=goal.agent.external
        ),
    }
    yield from nonempty_facts(rows, whole=True)
    yield from facts("checks", map(_validator, goal.validators), whole=True)
    yield from (Fact(label, text) for label, text in checked)
    if goal.unlimited:
        yield UNLIMITED
    yield from _recorded_lines({"agent": goal.agent.model, "judge": judge})
    yield Fact("dry run", "Nothing was run or written.")


def _validator(spec: ValidatorSpec) -> str:
    limit = figures.span(spec.timeout) if spec.timeout is not None else "no timeout"
    command = spec.run or f"python {spec.python}"
    return (
        f"{command} · {limit}"
        if spec.name in ("", command)
        else f"{spec.name}: {command} · {limit}"
    )


def _wait_lines(
    record: events.Record, before: RunState | None, state: RunState
) -> Iterator[StepLine]:
    """Yield a line at the beginning and at the end of a wait, and when a run that waits is resumed."""
    is_begin = isinstance(record.event, events.WaitStarted | events.RunResumed)
    if is_begin and state.wait is not None:
        yield wait_step(state.wait, datetime.fromisoformat(record.at))
    wait = before.wait if before is not None else None
    if (
        isinstance(record.event, events.WaitEnded)
        and wait is not None
        and wait.kind == "limit"
    ):
        waited = figures.elapsed(seconds_between(wait.began, record.at))
        yield StepLine("waiting", subject=f"over after {waited}; the work goes on")


_AFTER_A_WAIT = (events.WaitEnded, events.ApprovalRecorded, events.QuestionAnswered)
"""Events after which the time of the step begins anew: the run waited before."""


@dataclass(frozen=True)
class BegunStep:
    """A step that runs."""

    line: StepLine
    elapsed: float
    """Seconds of active time of the run when it began, or when it went on after a wait."""


class Narrative:
    """Returns the lines of the records of one run, in their order.

    `state` is the state after the last record; `step` the step that runs after it, if any; `label` the label of the next
    line; `missing` what the last verdict of the judge misses; `message` the agent's last message of the round;
    `usage_before` the usage at the start of the round, or when the run was resumed in it.
    """

    def __init__(
        self,
        place: Callable[[str], str] | None = None,
        words: Callable[[TranscriptRef], str] | None = None,
        *,
        said: MessageReader | None = None,
        verbose: bool = False,
    ) -> None:
        """`place` returns more about a workspace, given its path: "git, clean"; `words` reads the last message of a round.

        `said` reads each message of an external agent, whose beginning has a row when it is recorded; `verbose`: all of it.
        """
        self.state: RunState | None = None
        self.step: BegunStep | None = None
        self.missing = self.label = ""
        self.message: TranscriptRef | None = None
        self.usage_before = Usage()
        self._elapsed_before = 0.0
        self._place = place or (lambda _: "")
        self._words = words
        self._said, self._verbose = said, verbose
        self._finished: events.RoundFinished | None = None
        self._is_resumed = False
        self._session = ("", "")
        self._warned: set[tuple[str, float]] = set()

    def restore(self, state: RunState) -> list[ReportLine]:
        """Return the first lines of a resumed run: goal, workspace, agent, and what is used of the limits."""
        self.state = state
        self._begin_round(state, is_resumed=True)
        if 0 < state.round != state.counted:
            self.label = f"round {state.round}"
        goal, so_far = (
            Fact("goal", state.goal.description),
            Fact("so far", used_text(state, state.elapsed)),
        )
        return [goal, *start_lines(state, self._place(state.workspace)), so_far]

    def lines_of(self, record: events.Record) -> list[ReportLine]:
        """Return the lines of a record; most have none."""
        event, before = record.event, self.state
        self.state = state = apply(self.state, record)
        lines: list[ReportLine] = []
        match event:
            case events.GoalCreated():
                lines.append(Fact("goal", event.goal.description))
            case events.RunStarted():
                lines += start_lines(state, self._place(event.workspace), event)
            case events.BaselineTaken():
                self.label = "baseline"
            case events.RoundStarted():
                lines += self._round_end(state)
                self.label, self.message, self._finished = (
                    f"round {event.round}",
                    None,
                    None,
                )
                self._begin_round(state)
            case events.MessageRecorded(role="assistant", has_text=True):
                self.message = event.text
                lines += self._message_lines(state, event.text)
            case events.RoundFinished():
                self._finished = event
                if self._words and self.message:
                    lines += map(self.labelled, message_step(self._words(self.message)))
                if paths := event.gone_or_reverted:
                    step = StepLine(
                        "files", WARNED, remark=gone_text(paths), tone="warn"
                    )
                    lines.append(self.labelled(step))
                    lines.append(
                        Fact(
                            "", restoring_command(state.goal.run_id, paths), whole=True
                        )
                    )
            case events.VerdictRecorded():
                self.missing = event.verdict.missing
            case events.RunEnded():
                lines += self._last_lines(before, state)
        self._follow_step(record, state)
        lines += map(self.labelled, self._session_lines(event))
        lines += map(self.labelled, event_lines(event, state))
        lines += map(self.labelled, _wait_lines(record, before, state))
        if not isinstance(event, events.RunEnded):
            lines += self._warnings(state)
        return lines

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
        """Yield the step that was cut, and the end of the last round."""
        yield from map(self.labelled, self._interrupted(before, state))
        if state.round > 1:  # of an only round, the run's last line shows the same
            yield from self._round_end(state)

    def _interrupted(
        self, before: RunState | None, state: RunState
    ) -> Iterator[StepLine]:
        """Yield the step that was running when the run was cancelled. A wait has a line of its own."""
        is_cancelled = state.status is GoalStatus.CANCELLED
        if before is None or self.step is None or not is_cancelled:
            return
        if before.wait is not None or person_step(before) is not None:
            return
        step = self.step.line
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
        if self._said is not None and state.external:
            text = self._said(state.goal.run_id, message)
            yield from map(self.labelled, said_lines(text, whole=self._verbose))

    def _session_lines(self, event: events.Event) -> Iterator[StepLine]:
        """Yield a line with the model and the version of an external agent, once they are known of a session."""
        if not isinstance(event, events.SessionOpened):
            return
        session = event.session
        about = " · ".join(filter(None, (session.model, session.version)))
        if about and session.id and (session.id, about) != self._session:
            self._session = (session.id, about)
            yield StepLine("agent", subject=about)

    def _begin_round(self, state: RunState, *, is_resumed: bool = False) -> None:
        self._elapsed_before, self.usage_before = state.elapsed, state.total
        self._is_resumed = is_resumed

    def _round_end(self, state: RunState) -> Iterator[ReportLine]:
        """Yield duration, changes and spend of a round that is over, once."""
        finished, self._finished = self._finished, None
        if finished is None:
            return
        used = state.total.since(self.usage_before)
        duration = figures.elapsed(state.elapsed - self._elapsed_before)
        parts = [
            duration + " since it was resumed" * self._is_resumed,
            *figures.diff_stat(finished.changes),
        ]
        if used.tokens or used.known_cost_usd:
            parts += figures.spent(used)
        yield Fact("", f"round {finished.round} took {' · '.join(parts)}")
        if finished.changes is not None and finished.changes.files:
            yield Fact(
                "", f"goal diff {state.goal.run_id} {finished.round}", whole=True
            )

    def _warnings(self, state: RunState) -> Iterator[ReportLine]:
        """Yield a warning for each limit that is nearly used up, once."""
        for limit, line in near_limits(state):
            if limit not in self._warned:
                self._warned.add(limit)
                yield line

    def labelled(self, line: ReportLine) -> ReportLine:
        """Return the line with the label of its round, if it is the first step of the round."""
        if not isinstance(line, StepLine):
            return line
        label, self.label = self.label, ""
        return replace(line, label=label)
