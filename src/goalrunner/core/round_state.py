"""How results of validators change the state of a run, how rounds are counted, and when a run has stalled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from goalrunner.core import events, progress
from goalrunner.core.approval_state import accepted, with_budget, with_evidence, with_fields
from goalrunner.core.outcome import GoalAttempt
from goalrunner.core.run_state import KEPT, Approval, Baseline, Phase, RunState, Stall
from goalrunner.core.verdict import GoalVerdict, ValidatorResult, verdict_of

_NUMBER = r"\d+(?:[.,]\d+)?"
_VARYING = (
    (re.compile(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"), "<time>"),
    # In names of files, as npm writes its logs: 2026-11-22T20_14_47_323Z
    (re.compile(r"(?<!\d)\d{4}-?\d{2}-?\d{2}[T_-]\d{2}[_.-]?\d{2}[_.-]?\d{2}(?:[_.-]\d{1,9}(?!\d))?Z?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(rf"\b{_NUMBER}\s?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|m|h)\b"), "<duration>"),
    (re.compile(r"(?:/private)?(?:/var/folders|/var/tmp|/tmp|/dev/shm)(?:/[^\s:'\"()\[\]]*)?"), "<temporary>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"\b(pid|process|port|seed|thread)([ =:#]+)\d+", re.IGNORECASE), r"\1\2<number>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+|(?<=\[::1\]:)\d+"), "<number>"),
)
"""What varies by itself between two runs of the same check."""


def normalised(text: str) -> str:
    """Return a text without durations, times, temporary paths, addresses and ids, its lines in a fixed order."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(sorted(" ".join(line.split()) for line in text.splitlines() if line.strip()))


def stalled(state: RunState) -> RunState:
    """Compare the round with the two kinds of rounds before it: same content, same results, same things missing.

    The response belongs to the content if it is the deliverable or a callable checks it, because no snapshot shows it.
    Rounds that alternate between two states count like rounds that stay the same.
    """
    content = (state.content or (state.snapshot.id if state.snapshot else ""), state.response or state.said)
    if state.verdict is None or state.verdict.complete or not any(content):
        return with_fields(state, stall=Stall())
    checks = tuple((item.name, item.passed, item.reason, item.exit_code) for item in state.validators)
    key = repr((content, checks, _missing(state.verdict)))
    last = state.stall
    rounds = last.rounds + 1 if key in (last.key, last.before) else 1
    before = last.before if key == last.key else last.key
    return with_fields(state, stall=Stall(key=key, before=before, rounds=rounds))


def _missing(verdict: GoalVerdict) -> object:
    """Return what is missing, without what varies by itself: the words of a judge do, the criteria do not."""
    if verdict.source == "judge" and verdict.criteria:
        return tuple((item.criterion, item.satisfied) for item in verdict.criteria)
    return normalised(verdict.missing)


def baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    """Return the state after the baseline."""
    seen = progress.ended(with_evidence(state, [item.id for item in (*event.observations, *event.concealed)]))
    baseline = Baseline(standing=event.standing, reason=event.reason, results=event.results)
    green = event.standing == "green"
    ran_on = event.snapshot or state.base
    taken = with_fields(seen, phase=Phase.BASELINED, baseline=baseline, validators=event.results, snapshot=ran_on)
    taken = with_fields(taken, content=ran_on.id if ran_on else "", leaked=(), refusal="", changed_checks=None)
    # A baseline that decides is iteration 1.
    decides = green and not state.plan.has_judge and not state.plan.needs_round
    return decided(taken, verdict_of(event.results)) if decides else taken


def validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    """Return the state after the validators ran."""
    seen = [observation.id for observation in (*event.observations, *event.concealed)]
    ran = progress.ended(with_evidence(state, seen))
    ran = with_fields(
        ran,
        phase=Phase.VALIDATED,
        validators=event.results,
        refusal=event.refusal,
        leaked=event.leaked,
        leaks=ran.leaks + bool(event.leaked),
        snapshot=event.snapshot or ran.snapshot,
        protected_changes=event.protected_changes,
        differing=event.differing,
        check_labels=event.labels,
        changed_checks=event.changed_checks,
    )
    if obstacle := obstacle_of(event.results):
        # The round is not decided, and the agent reads nothing of it: it cannot change that.
        return with_fields(ran, obstacle=obstacle, obstacles=ran.obstacles + 1, changed_checks=None)
    ran = with_fields(ran, obstacle="", obstacles=0)
    denied = _denied(state, event.changed_checks)
    if denied is not None:
        # These very versions were denied before: there is no second question.
        ran = with_fields(ran, changed_checks=None)
    if event.leaked or not ran.decided_by_validators:
        return ran
    if event.changed_checks is not None and denied is not None:
        return _not_accepted(ran, event.changed_checks, denied)
    verdict = verdict_of(event.results, event.refusal, event.protected_changes)
    # A person may still accept the agent's versions of the checks: the round is then counted as passed.
    return decided(ran, verdict)


def obstacle_of(results: Sequence[ValidatorResult]) -> str:
    """Return why validators cannot run here, one line each; empty if all can."""
    return "\n".join(f"validator {item.name} cannot run here: {item.summary}" for item in results if item.cannot_run)


def checks_decided(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """Return the state after a decision on changed checks."""
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    changed = state.changed_checks
    if changed is None or about is None or about.kind != "checks" or about.snapshot != changed.key:
        return state
    if about.decision == "approved" and state.plan.has_judge:
        # The judge needs the accepted results as observations: the validators run with these versions.
        place = "left" if state.phase is Phase.ENDED else "phase"
        return with_fields(state, changed_checks=None, **{place: Phase.WORKED})
    if about.decision == "approved":
        label = f"checks changed: {', '.join(changed.paths)}"
        state = with_fields(
            state, validators=changed.results, changed_checks=None, check_labels=(*state.check_labels, label)
        )
        return decided(state, verdict_of(state.validators)) if state.decided_by_validators else state
    return _not_accepted(state, changed, about)


def _denied(state: RunState, changed: events.ChangedChecks | None) -> Approval | None:
    """Return the approval in which a person denied these very versions of the checks."""
    key = changed.key if changed is not None else ""
    about = (item for item in reversed(state.approvals) if item.kind == "checks" and item.snapshot == key)
    return next((item for item in about if item.decision == "denied"), None)


def _not_accepted(state: RunState, changed: events.ChangedChecks, approval: Approval) -> RunState:
    """Return the state in which the agent's versions of the checks were refused: the round is red."""
    said = f" ({approval.reason})" if approval.reason else ""
    verdict = verdict_of(state.validators, f"Your changes to {', '.join(changed.paths)} were not accepted{said}.")
    return decided(with_fields(state, changed_checks=None), verdict)


def outdated(state: RunState, event: events.WorkspaceChanged) -> RunState:
    """Return the state after the workspace changed since the check: it is checked again."""
    again = Phase.WORKED if state.round else Phase.READY
    return with_fields(state, phase=again, snapshot=event.snapshot, leaked=event.paths, leaks=state.leaks + 1)


def decided(state: RunState, verdict: GoalVerdict) -> RunState:
    """Count the round, with this verdict."""
    verdict = accepted(state, verdict)
    now = count_round(state, passed=verdict.complete, feedback=verdict.missing or None, score=verdict.score)
    return stalled(with_fields(now, verdict=verdict))


def count_round(state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0) -> RunState:
    """Count the round once, however often it is checked: an iteration is a turn of the agent that was checked.

    A baseline counts only if it decides the run.
    """
    if state.round == 0 and not passed:
        return state
    again = state.counted == state.round
    number = state.iterations if again else state.iterations + 1
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    before = state.attempts[:-1] if again else state.attempts[-KEPT + 1 :]
    state = with_fields(state, iterations=number, counted=state.round, attempts=(*before, attempt))
    return with_budget(state, iteration_count=number)
