"""Events as lines: tool calls, checks, verdicts, decisions of people, and limits that are nearly reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from goalrunner.core import events
from goalrunner.core.actions import short_name, shown_command
from goalrunner.core.errors import one_line, quoted, some
from goalrunner.core.observation import REPLAY
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import Phase, RunState, Waiting
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    ASKED,
    INDENT,
    WARNED,
    Fact,
    Quoted,
    ReportLine,
    StepLine,
    Tone,
)
from goalrunner.reports.terminal_text import (
    cut,
    printable_line,
)

_LONGEST_NAME = 40
LONGEST_WORDS = 300
"""Columns of an agent's message that are shown."""
_NAMED = 5
"""Paths and processes that are named."""
_WORTH_A_TIME = 0.5
"""Seconds from which the time of a file tool is shown; that of a command always is."""
_AUDIT_FAILURES = {
    "parse": "answer could not be read",
    "transport": "judge unavailable",
    "authentication": "the provider rejected the API key",
}


def call_step(tool: str, command: str, workspace: str = "") -> StepLine:
    """Return the row of a tool call: the tool and its command, with paths relative to the workspace."""
    subject = shown_command(command, workspace)
    prefix, _, name = tool.partition("__")
    server, _, own_name = name.partition("__")
    if prefix == "mcp" and own_name:
        return StepLine(
            "mcp", subject=" ".join(filter(None, (server, own_name, subject)))
        )
    return StepLine(short_name(tool), subject=subject)


def message_step(message: str) -> Iterator[StepLine]:
    """Yield a step with the beginning of the agent's last message in its turn, unless it is empty."""
    if text := cut(printable_line(message), LONGEST_WORDS):
        yield StepLine("agent", subject="said", remark=text)


def said_lines(message: str, *, whole: bool) -> Iterator[ReportLine]:
    """Yield a row with the beginning of a message of the agent; with `whole`, all of it. None if it is empty."""
    first, *others = message.strip().splitlines() or [""]
    if whole and first:
        yield StepLine("agent", subject="said")
        yield from (Quoted(line, " " * INDENT, whole=True) for line in (first, *others))
    elif text := cut(printable_line(message), LONGEST_WORDS):
        yield StepLine("agent", subject=text)


def wait_step(wait: Waiting, now: datetime) -> StepLine:
    """Return why the run waits, and until when."""
    until = figures.time_ahead(wait.until, now)
    if wait.kind == "limit":
        return StepLine("waiting", WARNED, f"{wait.reason}, until {until}", tone="warn")
    pause = (datetime.fromisoformat(wait.until) - now).total_seconds()
    return _warning(
        wait.account,
        f"retry {wait.number} after {figures.span(max(round(pause), 1))} ({wait.reason})",
    )


def person_step(state: RunState) -> StepLine | None:
    """Return what a running run waits for a person with, and the command that decides; None if it does not wait."""
    if state.status is not GoalStatus.RUNNING or not (
        state.waiting or state.asks_person
    ):
        return None
    run = state.goal.run_id
    command = (
        f"goal approve {run} {state.waiting[-1].id}"
        if state.waiting
        else f'goal answer {run} "..."'
    )
    return StepLine("waiting", ASKED, f"for you: {command}", tone="warn")


CONTINUING = "continuing"
"""The first word of the step of an agent that goes on with a turn after a resume."""
WORKING, ASKING = "working", "waiting for the model"
"""What an agent does: an external one, and the built-in one."""
_AGENT = StepLine("agent", subject=WORKING)


def is_continuing(step: StepLine | None) -> bool:
    """Return whether nothing was heard of the agent since the run was resumed in its turn."""
    return step is not None and step.subject.startswith(CONTINUING)


def step_after(
    event: events.Event, before: StepLine | None, state: RunState
) -> StepLine | None:
    """Return the step that runs after an event; `state` is the state after it, and `before` the step until then.

    A user message begins a turn of the agent, also after a resume.
    """
    is_working = state.phase is Phase.WORKING
    match event:
        case events.RunResumed() if is_working and state.prompted:
            return StepLine("agent", subject=f"{CONTINUING} round {state.round}")
        case events.RunStarted() | events.RunResumed():
            return StepLine("start", subject="checking the models")
        case events.WaitEnded():
            return replace(_AGENT) if is_working else None
        case events.ToolCalled():
            return call_step(event.tool, event.summary, state.workspace)
        case events.ToolResultRecorded():
            return _step_after_result(event, before)
        case events.RoundStarted() | events.RefinementStarted():
            return _AGENT
        case events.MessageRecorded() if event.role == "user" or is_continuing(before):
            return _AGENT
        case events.StepStarted():
            return StepLine("checks", subject=event.description)
        case events.CritiqueStarted():
            return StepLine(event.account, subject="scoring the round")
        case events.AuditStarted() | events.ChecksReviewStarted():
            return StepLine("judge", subject="reviewing evidence")
        case (
            events.RoundFinished()
            | events.CritiqueFinished()
            | events.ValidatorsFinished()
            | events.BaselineTaken()
            | events.ConfirmationRecorded()
            | events.VerdictRecorded()
            | events.ChecksReviewed()
            | events.RunEnded()
        ):
            return None
        case _:
            return before


def _step_after_result(
    event: events.ToolResultRecorded, before: StepLine | None
) -> StepLine | None:
    """Return the step that runs after a tool call."""
    seen = event.observation
    if seen.source == REPLAY:
        return before  # a part of the audit
    # The calls of an external agent that are open when its turn is cut have this fact.
    is_cut = bool(seen.reported_by) and "interrupted" in seen.facts
    return None if is_cut else _AGENT


def event_lines(
    event: events.Event, state: RunState | None = None
) -> Iterator[ReportLine]:
    """Yield the lines of an event; most events have none. `state` is that of its run."""
    yield from _work_lines(event, state.workspace if state else "")
    yield from _check_lines(event, wants_red=state is not None and state.plan.wants_red)
    yield from _judge_lines(event)
    yield from _person_lines(event)


def _warning(name: str, remark: str) -> StepLine:
    return StepLine(name, WARNED, remark=remark, tone="warn")


def _failed(name: str, remark: str, subject: str = "") -> StepLine:
    return StepLine(name, "✗", subject, remark=remark, tone="bad")


def _passed(name: str, remark: str, subject: str = "") -> StepLine:
    return StepLine(name, "✓", subject, remark=remark, tone="good")


def _work_lines(event: events.Event, workspace: str) -> Iterator[ReportLine]:
    match event:
        case events.ToolResultRecorded(observation=seen):
            timed = (
                seen.source == "shell" and not seen.reported_by
            ) or event.duration >= _WORTH_A_TIME
            remarks = (
                event.summary or ", ".join(seen.facts),
                "reported" if seen.reported_by else "",
            )
            time = figures.elapsed(event.duration) if timed else ""
            step = call_step(seen.source, seen.command, workspace)
            yield replace(step, time=time, remark=", ".join(filter(None, remarks)))
        case events.RoundFinished():
            if event.reason == "max_steps":
                calls = figures.count(event.steps, "model call")
                yield _warning(
                    "agent", f"turn ended after {calls}; the limit is [agent] max_steps"
                )
            elif event.ending:
                yield _warning("agent", f"turn ended: {event.ending}")
            if event.left:
                names = some(
                    [cut(printable_line(name), _LONGEST_NAME) for name in event.left],
                    _NAMED,
                )
                yield _warning(
                    "agent", f"processes that it left running were ended: {names}"
                )
        case events.UsageRecorded(usage=usage) if usage.retries:
            times = figures.count(usage.retries, "time")
            yield _warning(
                event.account,
                f"model calls were retried {times} (rate limit or network)",
            )
        case events.AgentRan() if event.note:
            yield _warning("agent", event.note)
        case events.AgentSwitched():
            yield _warning(
                "agent", f"{event.agent} takes over ({event.before}: {event.reason})"
            )
        case events.BlockReported():
            yield _warning("agent", f"reports that it is blocked: {event.reason}")
        case events.NoteAdded():
            yield Fact("note", event.note, tone="warn")
        case events.MemoryPromoted():
            yield StepLine(
                "memory",
                subject=event.memory_id,
                remark=f"{event.kind} from {event.source_ref}",
            )


def _validator(result: ValidatorResult) -> StepLine:
    make = _passed if result.passed else _failed
    step = make(result.name, result.remark, result.command)
    return replace(step, time=figures.elapsed(result.duration))


def _check_lines(event: events.Event, *, wants_red: bool) -> Iterator[ReportLine]:
    match event:
        case events.BaselineTaken():
            yield from map(_validator, event.results)
            if event.age is not None:
                ago = figures.ago(event.age)
                yield StepLine("checks", remark=f"baseline reused from {ago}")
            if event.reason:
                yield _failed("checks", event.reason)
            elif event.standing == "green":
                make = _failed if wants_red else _passed
                yield make("checks", "every validator passes before round 1")
            yield from (_warning("note", note) for note in event.notes)
        case events.ValidatorsFinished():
            yield from map(_validator, event.results)
            if event.protected_changes:
                changes = some(event.protected_changes, _NAMED)
                yield _warning(
                    "files", f"checked without the agent's changes to: {changes}"
                )
            if event.refusal:
                yield _failed(
                    "checks", "; ".join(filter(None, (event.refusal, event.hint)))
                )
            if event.leaked:
                yield _failed(
                    "checks",
                    f"the workspace changed while it was checked: {some(event.leaked, _NAMED)}",
                )
            if event.left:
                yield _warning(
                    "files",
                    f"validators made {some(event.left, _NAMED)} in the workspace",
                )
            if event.changed_checks:
                yield _warning("checks", _changed_text(event.changed_checks))
            yield from (_warning("note", label) for label in event.labels)
        case events.WorkspaceChanged():
            paths = some(event.paths, _NAMED)
            yield _warning(
                "checks",
                f"the workspace changed after the check ({paths}); validators run again",
            )


def _changed_text(changed: events.ChangedChecks) -> str:
    """Return what has to be reviewed, and why."""
    if changed.labels:
        return f"the result has to be reviewed: {changed.action}"
    names = changed.paths or tuple(test.test for test in changed.tests)
    if not changed.why:
        return f"pass only with the agent's version of {some(names, _NAMED)}"
    return f"{changed.why}: {some(names, _NAMED)}"


def _judge_lines(event: events.Event) -> Iterator[ReportLine]:
    match event:
        case events.VerdictRecorded():
            yield from _verdict_lines(event.verdict, event)
        case events.CritiqueFinished(score=None):
            yield _warning(
                event.account,
                f"gave no usable score, and the round is checked as it is: {event.problem}",
            )
        case events.CritiqueFinished(score=float() as score):
            yield StepLine(
                event.account, subject=figures.score(score), remark=event.feedback
            )
        case events.AuditFailed():
            said = f" It said: {quoted(one_line(event.answer))}" if event.answer else ""
            yield _warning(
                "judge",
                ": ".join(filter(None, (_AUDIT_FAILURES[event.kind], event.detail)))
                + said,
            )
        case events.ChecksReviewed():
            yield from _review_lines(event)
        case events.ConfirmationRecorded(confirmed=True):
            reason = event.reason or event.claim
            yield _failed(
                "judge", f"a second opinion confirms that the goal is blocked: {reason}"
            )
        case events.ConfirmationRecorded():
            yield StepLine(
                "judge",
                remark=f"a second opinion: not blocked: {event.reason or event.claim}",
            )


def _review_lines(event: events.ChecksReviewed) -> Iterator[ReportLine]:
    match event.decision:
        case "accepted":
            quotes = list(
                dict.fromkeys(item.quote for item in event.changes if item.quote)
            )
            asked_for = (
                f"; the goal says: {some([quoted(quote) for quote in quotes], _NAMED)}"
                if quotes
                else ""
            )
            changes = figures.count(len(event.changes), "change")
            yield _passed("review", f"{changes} of the checks accepted{asked_for}")
        case "refused":
            refused = [item for item in event.changes if item.problem]
            paths = some(list(dict.fromkeys(item.path for item in refused)), _NAMED)
            yield _failed(
                "review", f"nothing in the goal asks for the changes in {paths}"
            )
        case "undecided":
            yield _warning("review", f"a person has to decide: {event.reason}")


def _verdict_lines(
    verdict: GoalVerdict, event: events.VerdictRecorded
) -> Iterator[ReportLine]:
    score = figures.score(verdict.score)
    if verdict.source == "fallback":
        yield _failed(
            "judge",
            "not complete: the judge's answers could not be read",
            figures.score(0),
        )
    elif verdict.source == "judge" and verdict.complete:
        satisfied = sum(criterion.satisfied for criterion in verdict.criteria)
        criteria = f"{satisfied} of {figures.count(len(verdict.criteria), 'criterion', 'criteria')}"
        checked = f"{figures.count(event.citations_checked, 'citation')} checked"
        yield _passed("judge", f"{criteria}, {checked}", score)
    elif verdict.source == "judge":
        # The judge may give a high score while its citations fail the check.
        subject = f"{score}, citation invalid" if event.refusals else score
        yield _failed(
            "judge", f"missing: {verdict.missing or 'not named by the judge'}", subject
        )


def _person_lines(event: events.Event) -> Iterator[ReportLine]:
    match event:
        case events.ApprovalRequested():
            remark = f"{event.approval_id} waits for a person: {event.rule}"
            yield StepLine("approval", ASKED, event.action, remark=remark, tone="warn")
        case events.ApprovalRecorded():
            make = _passed if event.decision == "approved" else _failed
            said = figures.decision_text(
                event.decision,
                event.by,
                guarded=event.guarded or event.decision != "approved",
            )
            yield make(
                "approval",
                ": ".join(filter(None, (said, event.reason))),
                event.approval_id,
            )
        case events.QuestionOpened():
            yield StepLine("question", ASKED, remark=event.question, tone="warn")
        case events.QuestionAnswered():
            yield StepLine("answer", subject=event.question, remark=event.answer)
        case events.NoteGiven():
            yield StepLine("note", subject=event.by, remark=event.text)
        case events.RunResumed():
            yield Fact("resumed", figures.limits(vars(event.plan)))
            yield from (Fact("", text, tone) for text, tone in _resumed(event))


def _resumed(event: events.RunResumed) -> Iterator[tuple[str, Tone]]:
    for note in event.notes:
        yield note, "warn"
    if event.note:
        yield f"note: {event.note}", "plain"
    if event.changed:
        yield f"changed between sessions: {some(event.changed, _NAMED)}", "warn"
    for account, usage in event.in_flight.items():
        if usage.uncounted_calls:
            yield f"{account}: the usage of the interrupted turn is unknown", "warn"
        elif usage.tokens:
            cost = f" and {figures.dollars(usage.cost_usd)}" if usage.cost_usd else ""
            yield (
                f"{account}: the interrupted call is estimated at {usage.tokens:,} tokens{cost}",
                "warn",
            )


NEARLY = 0.8
"""Part of a limit at which one warning is printed."""


def spent_parts(state: RunState, seconds: float) -> list[str]:
    """Return time, tokens and dollars, each with its limit."""
    plan, (tokens, cost) = state.plan, figures.spent(state.spent(over=True))
    time = figures.elapsed(seconds)
    if plan.timeout:
        time += f" of {figures.span(plan.timeout)}"
    if plan.tokens and tokens != figures.UNKNOWN_TOKENS:
        tokens += f" of {plan.tokens:,}"
    if plan.cost_usd and cost != figures.UNKNOWN_COST:
        cost += f" of {figures.dollars(plan.cost_usd)}"
    return [time, tokens, cost]


def used_text(state: RunState, seconds: float) -> str:
    """Return what is used of each limit: "round 2 of 10 · 2 min 5 s of 30 min · 8,120 tokens · $0.12"."""
    rounds = f"round {state.round}" if state.round else "before round 1"
    if state.plan.max_iterations:
        rounds += f" of {state.plan.max_iterations}"
    return " · ".join([rounds, *spent_parts(state, seconds)])


def near_limits(state: RunState) -> Iterator[tuple[tuple[str, float], Fact]]:
    """Yield a warning for each limit that is nearly used up, with its name and value; rounds are numbered anyway."""
    plan = state.plan
    used = (
        ("timeout", plan.timeout, state.elapsed),
        ("tokens", plan.tokens, state.total.tokens),
        ("cost_usd", plan.cost_usd, state.total.known_cost_usd),
    )
    for (name, limit, number), text in zip(
        used, spent_parts(state, state.elapsed), strict=True
    ):
        if limit and number >= NEARLY * limit:
            share = figures.share(number, limit)
            yield (
                (name, limit),
                Fact(
                    "warning", f"{text} are spent ({share} of the limit)", tone="warn"
                ),
            )
