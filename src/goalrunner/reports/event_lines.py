"""Events as lines: what an event adds to the output of its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from goalrunner.core import events
from goalrunner.core.errors import one_line, quoted, some
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.layout import ASKED, Fact, ReportLine, StepLine
from goalrunner.reports.steps import call_step, failed_step, passed_step, warning_step
from goalrunner.reports.terminal_text import cut, join_nonempty, printable_line

# The name of a process may be a long command line.
_LONGEST_NAME = 40
# Paths and processes that are named.
_NAMED = 5
# Seconds from which the time of a file tool is shown; that of a command always is.
_WORTH_A_TIME = 0.5
_AUDIT_FAILURES = {
    "parse": "answer could not be read",
    "transport": "judge unavailable",
    "authentication": "the provider rejected the API key",
}


def event_lines(
    event: events.Event, state: RunState | None = None
) -> Iterator[ReportLine]:
    """Yield the lines of an event of a run in this state; most events have none."""
    workspace = state.working_folder if state else ""
    wants_red = state is not None and state.plan.wants_red
    # An event has its lines in one of these functions.
    yield from _work_lines(event, workspace)
    yield from _check_lines(event, wants_red=wants_red)
    yield from _judge_lines(event)
    yield from _person_lines(event)


def _work_lines(event: events.Event, workspace: str) -> Iterator[ReportLine]:
    match event:
        case events.ToolResultRecorded():
            yield _result_step(event, workspace)
        case events.RoundFinished():
            yield from _turn_warnings(event)
        case events.UsageRecorded(usage=usage) if usage.retries:
            times = figures.count(usage.retries, "time")
            remark = f"model calls were retried {times} (rate limit or network)"
            yield warning_step(event.account, remark)
        case events.AgentRan() if event.note:
            yield warning_step("agent", event.note)
        case events.AgentSwitched():
            remark = f"{event.agent} takes over ({event.before}: {event.reason})"
            yield warning_step("agent", remark)
        case events.BlockReported():
            yield warning_step("agent", f"reports that it is blocked: {event.reason}")
        case events.NoteAdded():
            yield Fact("note", event.note, tone="warn")
        case events.MemoryPromoted():
            remark = f"{event.kind} from {event.source_ref}"
            yield StepLine("memory", subject=event.memory_id, remark=remark)


def _result_step(event: events.ToolResultRecorded, workspace: str) -> StepLine:
    """Return the row of a tool call that has ended."""
    observation = event.observation
    is_own_command = observation.source == "shell" and not observation.reported_by
    # The summary of a test runner says more than an exit code.
    remarks = [event.summary or ", ".join(observation.facts)]
    if observation.reported_by:
        remarks.append("reported")
    time = ""
    if is_own_command or event.duration >= _WORTH_A_TIME:
        time = figures.elapsed(event.duration)
    step = call_step(observation.source, observation.command, workspace)
    return replace(step, time=time, remark=join_nonempty(", ", *remarks))


def _turn_warnings(event: events.RoundFinished) -> Iterator[ReportLine]:
    """Yield why the agent's turn was cut, and what it left running."""
    if event.reason == "max_steps":
        calls = figures.count(event.steps, "model call")
        remark = f"turn ended after {calls}; the limit is [agent] max_steps"
        yield warning_step("agent", remark)
    elif event.ending:
        yield warning_step("agent", f"turn ended: {event.ending}")
    if event.left:
        short_names = [cut(printable_line(name), _LONGEST_NAME) for name in event.left]
        names = some(short_names, _NAMED)
        yield warning_step(
            "agent", f"processes that it left running were ended: {names}"
        )


def _check_lines(event: events.Event, *, wants_red: bool) -> Iterator[ReportLine]:
    match event:
        case events.BaselineTaken():
            yield from _baseline_steps(event, wants_red=wants_red)
        case events.ValidatorsFinished():
            yield from map(_validator, event.results)
            yield from _remarks_on_checks(event)
        case events.WorkspaceChanged():
            paths = some(event.paths, _NAMED)
            remark = (
                f"the workspace changed after the check ({paths}); validators run again"
            )
            yield warning_step("checks", remark)


def _validator(result: ValidatorResult) -> StepLine:
    make_step = passed_step if result.passed else failed_step
    step = make_step(result.name, result.remark, result.command)
    return replace(step, time=figures.elapsed(result.duration))


def _baseline_steps(
    event: events.BaselineTaken, *, wants_red: bool
) -> Iterator[ReportLine]:
    yield from map(_validator, event.results)
    if event.age is not None:
        remark = f"baseline reused from {figures.ago(event.age)}"
        yield StepLine("checks", remark=remark)
    if event.reason:
        yield failed_step("checks", event.reason)
    elif event.standing == "green":
        # Validators that pass before any work show nothing of the work.
        make_step = failed_step if wants_red else passed_step
        yield make_step("checks", "every validator passes before round 1")
    for note in event.notes:
        yield warning_step("note", note)


def _remarks_on_checks(event: events.ValidatorsFinished) -> Iterator[ReportLine]:
    """Yield what weakens the results of a round's validators."""
    if event.protected_changes:
        changes = some(event.protected_changes, _NAMED)
        yield warning_step(
            "files", f"checked without the agent's changes to: {changes}"
        )
    if event.refusal:
        yield failed_step("checks", join_nonempty("; ", event.refusal, event.hint))
    # A process that writes during a check can change its result.
    if event.leaked:
        paths = some(event.leaked, _NAMED)
        yield failed_step(
            "checks", f"the workspace changed while it was checked: {paths}"
        )
    # In place, files that validators make are not removed.
    if event.left:
        paths = some(event.left, _NAMED)
        yield warning_step("files", f"validators made {paths} in the workspace")
    if event.changed_checks:
        yield warning_step("checks", _changed_text(event.changed_checks))
    for label in event.labels:
        yield warning_step("note", label)


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
            remark = (
                "gave no usable score, and the round is checked as it is: "
                f"{event.problem}"
            )
            yield warning_step(event.account, remark)
        case events.CritiqueFinished(score=float() as score):
            subject = figures.score(score)
            yield StepLine(event.account, subject=subject, remark=event.feedback)
        case events.AuditFailed():
            remark = join_nonempty(": ", _AUDIT_FAILURES[event.kind], event.detail)
            # The answer shows whether the model or its format is to blame.
            if event.answer:
                remark += f" It said: {quoted(one_line(event.answer))}"
            yield warning_step("judge", remark)
        case events.ChecksReviewed():
            yield from _review_lines(event)
        case events.ConfirmationRecorded(confirmed=True):
            reason = event.reason or event.claim
            remark = f"a second opinion confirms that the goal is blocked: {reason}"
            yield failed_step("judge", remark)
        case events.ConfirmationRecorded():
            reason = event.reason or event.claim
            remark = f"a second opinion: not blocked: {reason}"
            yield StepLine("judge", remark=remark)


def _review_lines(event: events.ChecksReviewed) -> Iterator[ReportLine]:
    match event.decision:
        case "accepted":
            changes = figures.count(len(event.changes), "change")
            remark = f"{changes} of the checks accepted"
            # Several changes may rest on the same words of the goal.
            quotes = dict.fromkeys(item.quote for item in event.changes if item.quote)
            if quotes:
                quoted_words = some([quoted(quote) for quote in quotes], _NAMED)
                remark += f"; the goal says: {quoted_words}"
            yield passed_step("review", remark)
        case "refused":
            refused = dict.fromkeys(item.path for item in event.changes if item.problem)
            paths = some(list(refused), _NAMED)
            remark = f"nothing in the goal asks for the changes in {paths}"
            yield failed_step("review", remark)
        case "undecided":
            yield warning_step("review", f"a person has to decide: {event.reason}")


def _verdict_lines(
    verdict: GoalVerdict, event: events.VerdictRecorded
) -> Iterator[ReportLine]:
    score = figures.score(verdict.score)
    if verdict.source == "fallback":
        remark = "not complete: the judge's answers could not be read"
        yield failed_step("judge", remark, figures.score(0))
    elif verdict.source == "judge" and verdict.complete:
        satisfied = sum(criterion.satisfied for criterion in verdict.criteria)
        criteria = figures.count(len(verdict.criteria), "criterion", "criteria")
        citations = figures.count(event.citations_checked, "citation")
        remark = f"{satisfied} of {criteria}, {citations} checked"
        yield passed_step("judge", remark, score)
    elif verdict.source == "judge":
        # The judge may give a high score while its citations fail the check.
        subject = f"{score}, citation invalid" if event.refusals else score
        missing = verdict.missing or "not named by the judge"
        yield failed_step("judge", f"missing: {missing}", subject)


def _person_lines(event: events.Event) -> Iterator[ReportLine]:
    match event:
        case events.ApprovalRequested():
            remark = f"{event.approval_id} waits for a person: {event.rule}"
            yield StepLine("approval", ASKED, event.action, remark=remark, tone="warn")
        case events.ApprovalRecorded():
            yield _decision_step(event)
        case events.QuestionOpened():
            yield StepLine("question", ASKED, remark=event.question, tone="warn")
        case events.QuestionAnswered():
            yield StepLine("answer", subject=event.question, remark=event.answer)
        case events.NoteGiven():
            yield StepLine("note", subject=event.by, remark=event.text)
        case events.RunResumed():
            yield Fact("resumed", figures.limits(vars(event.plan)))
            yield from _interruption_lines(event)


def _decision_step(event: events.ApprovalRecorded) -> StepLine:
    is_approved = event.decision == "approved"
    # Only a yes could serve an agent that types it.
    guarded = event.guarded or not is_approved
    decision = figures.decision_text(event.decision, event.by, guarded=guarded)
    remark = join_nonempty(": ", decision, event.reason)
    make_step = passed_step if is_approved else failed_step
    return make_step("approval", remark, event.approval_id)


def _interruption_lines(event: events.RunResumed) -> Iterator[Fact]:
    """Yield what happened between two processes of the run."""
    for note in event.notes:
        yield Fact("", note, "warn")
    if event.note:
        yield Fact("", f"note: {event.note}")
    if event.abandoned:
        text = "a round was lost with its machine; unknown effects elsewhere:"
        yield Fact("abandoned", text, "warn")
        for call in event.abandoned:
            yield Fact("", call, "warn")
    if event.changed:
        paths = some(event.changed, _NAMED)
        yield Fact("", f"changed between sessions: {paths}", "warn")
    # A provider may charge for a call whose answer was never recorded.
    for account, usage in event.in_flight.items():
        if usage.uncounted_calls:
            text = f"{account}: the usage of the interrupted turn is unknown"
            yield Fact("", text, "warn")
        elif usage.tokens:
            tokens = f"{usage.tokens:,} tokens"
            text = f"{account}: the interrupted call is estimated at {tokens}"
            if usage.cost_usd:
                text += f" and {figures.dollars(usage.cost_usd)}"
            yield Fact("", text, "warn")
