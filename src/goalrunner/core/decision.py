"""`decide(state) -> Step`: the steps, order and stop rules of the loop.

Pure: no clock, no input or output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from goalrunner.core.actions import in_words
from goalrunner.core.approval_rules import completion_rule
from goalrunner.core.budgets import shortfall
from goalrunner.core.endings import (
    awaiting_approval,
    end,
    end_by_denial,
    out_of_budget,
    unreadable,
)
from goalrunner.core.errors import some
from goalrunner.core.events import ChangedChecks, PromptKind, RunEnded
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import (
    BaselineOutcome,
    Failure,
    Interruption,
    Phase,
    RunState,
    Stall,
)
from goalrunner.core.verdict import agent_feedback, protected_message, verdict_of
from goalrunner.core.waiting import SwitchAgent as SwitchAgent
from goalrunner.core.waiting import Wait as Wait
from goalrunner.core.waiting import after_failure, wait_at_hand


@dataclass(frozen=True)
class TakeBaseline:
    """Run the validators once before the agent works."""


@dataclass(frozen=True)
class RunRound:
    """Let the agent work. The fields are the content of its prompt."""

    kind: PromptKind
    round: int
    feedback: str | None = None
    """Red output or the judge's `missing`, verbatim; None if there is none."""
    interruption: Interruption | None = None
    """What happened while the run was interrupted, if anything."""
    ended_processes: tuple[str, ...] = ()
    """Names of processes that the agent left running, and the runner ended."""
    ending: str = ""
    """Why the agent's last turn ended early; empty: it did not."""


@dataclass(frozen=True)
class ScoreRound:
    """Ask the critic for a score of the round."""

    round: int
    problem: str = ""
    """Why the critic cannot be asked: the round is checked without a score."""


@dataclass(frozen=True)
class Validate:
    """Run every validator once."""

    round: int


@dataclass(frozen=True)
class ReviewChecks:
    """Let the judge review the agent's changes of the checks."""

    round: int


@dataclass(frozen=True)
class AskJudge:
    """Ask the judge."""

    round: int


@dataclass(frozen=True)
class Confirm:
    """Ask for a second, independent opinion on a claim that the goal is blocked."""

    claim: str


@dataclass(frozen=True)
class AskApproval:
    """Let a person decide whether the run ends complete, or which checks count."""

    action: str
    rule: str
    kind: Literal["complete", "checks"] = "complete"


Step = (
    TakeBaseline
    | RunRound
    | ScoreRound
    | Validate
    | ReviewChecks
    | AskJudge
    | Confirm
    | AskApproval
    | Wait
    | SwitchAgent
    | RunEnded
)
"""The next thing to do."""

UNREAD_AUDITS = 3
"""Audits of one round in a row without a readable answer before the run fails."""

OBSTACLES = 2
"""How often validators may be unable to run in one round before the run fails."""

LEAKS = 2
"""How often the workspace may change while it is checked before the run stops."""

FIRST_BLOCKED_ROUND = 2
"""The first round in which a blocked verdict may be confirmed."""


def proven(state: RunState) -> bool:
    """Return whether the runner holds the proof that the goal is met.

    That needs all validators green in this round, and a complete verdict of the judge
    if there is one. Everything that a verdict must fulfil is checked again here.
    """
    plan, verdict = state.plan, state.verdict
    if verdict is None or not verdict.complete:
        return False
    if plan.validators and not state.validators_green:
        return False
    if not plan.has_judge:
        # Without validators and judge, nothing can show that the goal is met.
        return bool(plan.validators) and verdict.source == "validators"
    if state.phase is not Phase.JUDGED or verdict.source != "judge":
        return False
    # A verdict without criteria cites nothing that the runner could check.
    if verdict.score < plan.minimum_score or not verdict.criteria:
        return False
    return all(item.satisfied and item.evidence for item in verdict.criteria)


def decide(state: RunState) -> Step:  # noqa: C901 - one arm per phase
    """Return the next step. It depends only on the state."""
    match state.phase:
        case Phase.ENDED:
            reason = state.stop_reason or StopReason.INTERNAL_ERROR
            return RunEnded(
                stop_reason=reason, message=state.message, signal=state.signal
            )
        case _ if state.wait is not None:
            return wait_at_hand(state.wait)
        # A limit has cut the turn. Its work may be enough, so it is checked once.
        case _ if state.limit is not None:
            return _last_check(state, state.limit)
        case _ if state.failure is not None:
            return _after_failure(state, state.failure)
        case Phase.READY | Phase.WORKED | Phase.VALIDATED if state.leaks >= LEAKS:
            return _end_by_leaks(state)
        case Phase.READY if state.plan.takes_baseline:
            return TakeBaseline()
        case Phase.READY:
            return _unless_spent(state, _round(state, "first", 1))
        case Phase.BASELINED if state.baseline is not None:
            return _after_baseline(state, state.baseline)
        case Phase.WORKING | Phase.BASELINED:
            return _unless_spent(state, _interrupted_round(state))
        # The critic comes before the checks: it may ask for more work.
        case Phase.WORKED if _is_open(state) and state.critique is None:
            return ScoreRound(state.round)
        case Phase.WORKED if _is_open(state) and (refinement := _refinement(state)):
            return refinement
        # Validators come before the judge: they cost no model call.
        case Phase.WORKED if state.plan.validators:
            return Validate(state.round)
        case Phase.WORKED:
            return _unless_spent(state, AskJudge(state.round))
        case Phase.VALIDATED if state.obstacles >= OBSTACLES:
            hint = f"correct that; then {state.way_on}"
            return end(StopReason.VALIDATOR_MISSING, state.obstacle, hint)
        case Phase.VALIDATED if state.leaked or state.obstacle:
            return Validate(state.round)
        case Phase.VALIDATED if state.changed_checks is not None:
            return _review(state, state.changed_checks)
        case Phase.VALIDATED if not state.decided_by_validators:
            return _unless_spent(state, AskJudge(state.round))
        case Phase.VALIDATED | Phase.JUDGED:
            return _after_decision(state)
        case Phase.CONFIRMED if state.confirmed:
            return end(StopReason.IMPOSSIBLE, state.confirmed)
        case Phase.CONFIRMED:
            return _go_on(state)


def _end_by_leaks(state: RunState) -> RunEnded:
    message = f"the workspace changed while it was checked: {some(state.leaked)}"
    hint = (
        f"stop what writes there (an editor, a watcher, a server); then {state.way_on}"
    )
    return end(StopReason.EVIDENCE_UNSTABLE, message, hint)


def _after_failure(state: RunState, failure: Failure) -> Step:
    """Return what follows a failure.

    Without its critic, a round is checked as it is.
    """
    following = after_failure(state, failure)
    if failure.account == "critic" and isinstance(following, RunEnded):
        return ScoreRound(state.round, failure.message.partition("\n")[0])
    return following


def _is_open(state: RunState) -> bool:
    """Return whether a critic may still act on the round.

    The round has not been decided, the agent does not report that it is blocked, and
    the budget is not spent. A round whose budget is spent is checked without a
    critique.
    """
    if not state.plan.is_scored or state.round in (0, state.counted):
        return False
    return not state.block_report and not shortfall(state)


def _refinement(state: RunState, *, again: bool = False) -> RunRound | None:
    """Return the prompt of a refinement, in the same round; None for no refinement.

    `again`: it was sent before, so it is not counted once more.
    """
    critic, critique = state.plan.critic, state.critique
    if critic is None or critique is None or critique.score is None:
        return None
    if again or critic.wants_refinement(critique, state.refinements):
        return _round(state, "refine", state.round, critic.prompt(critique))
    return None


def _after_baseline(state: RunState, baseline: BaselineOutcome) -> Step:
    match baseline.standing:
        case "cannot_run":
            return end(StopReason.VALIDATOR_MISSING, baseline.reason)
        case "differs":
            return end(StopReason.ENVIRONMENT_FAILED, baseline.reason)
        case "green" if state.plan.wants_red:
            message = (
                "not started: the validators already pass, and the goal has "
                'baseline = "red"'
            )
            hint = 'add a validator that fails, or set baseline = "any"'
            return end(StopReason.BASELINE_GREEN, message, hint)
        case "green" if not state.plan.needs_round:
            if state.plan.has_judge:
                return _unless_spent(state, AskJudge(0))
            return _completion(state)
        case "green" | "red":
            return _unless_spent(state, _round(state, "first", 1))


def _review(state: RunState, changed: ChangedChecks) -> Step:
    """Let the judge review changed checks, or a person decide."""
    undecided = state.undecided_review
    may_judge = state.plan.has_judge and state.plan.approvals.checks == "judge"
    if may_judge and undecided is None:
        return _unless_spent(state, ReviewChecks(state.round))
    why = (
        changed.why
        or "the validators pass only with the agent's versions of these files"
    )
    if undecided is not None:
        why += f"; the judge did not decide: {undecided.reason}"
    return AskApproval(changed.action, why, "checks")


def _after_decision(state: RunState) -> Step:
    """Return what follows a round that validators or the judge decided."""
    if proven(state):
        return _completion(state)
    if state.unread >= UNREAD_AUDITS:
        return unreadable(state)
    if state.is_unread:
        # The judge is asked again alone: the workspace is the same.
        return _unless_spent(state, AskJudge(state.round))
    verdict = state.verdict
    # The agent's own claim that it is blocked only reaches the judge.
    claim = verdict.blocked if verdict is not None and verdict.source == "judge" else ""
    if claim and claim != state.refuted and state.round >= FIRST_BLOCKED_ROUND:
        return _unless_spent(state, Confirm(claim))
    return _go_on(state)


def _completion(state: RunState) -> Step:
    """Return the end of a proven run, or the request for the approval that it needs.

    After a refused approval, it is the next round.
    """
    rule = completion_rule(state.plan.approvals, state.goal.risk_class)
    approval = state.completion
    if rule and (approval is None or approval.decision is None):
        return AskApproval(f"complete: {state.goal.description}", rule)
    if rule and approval is not None and approval.refused:
        return _go_on(state)
    if state.waiting:
        return awaiting_approval(state)
    proof = "verdict" if state.plan.has_judge else "validators"
    place = f"round {state.round}" if state.round else "the baseline"
    return end(StopReason.SATISFIED, f"{proof} of {place}")


def _go_on(state: RunState) -> Step:
    """Return the next round, unless a limit or a stall stops the run."""
    denial = state.completion
    stops_by_denial = state.plan.approvals.on_deny == "stop"
    if denial is not None and denial.refused and stops_by_denial and not denial.told:
        # After a resume, `told` is set: the run does not end with this denial again.
        return end_by_denial(denial)
    limit, most_equal_rounds = state.plan.max_iterations, state.plan.stall_rounds
    if limit is not None and state.iterations >= limit:
        rounds = "round" if limit == 1 else "rounds"
        message = f"not complete after {limit} {rounds}"
        return end(StopReason.MAX_ITERATIONS, message, state.settling)
    if most_equal_rounds is not None and state.stall.rounds > most_equal_rounds:
        return end(StopReason.STALLED, _stall_text(state.stall), state.settling)
    if state.memory.open_questions:
        return _end_by_questions(state)
    return _unless_spent(state, _retry(state))


def _stall_text(stall: Stall) -> str:
    """Return how many rounds ended the same way, and what the agent did in them.

    The actions are those that were recorded; there may be none.
    """
    text = (
        f"{stall.rounds} rounds in a row ended the same way: what is checked did not "
        "change"
    )
    actions = [in_words(stall.actions)] if stall.actions else []
    if stall.idle:
        among = "" if stall.idle == stall.rounds else f" in {stall.idle} of them"
        actions.append(f"changed no file{among}")
    if not actions:
        return text
    return f"{text}; in these rounds, the agent {' and '.join(actions)}"


def _end_by_questions(state: RunState) -> RunEnded:
    message = "only a person can answer: " + "\n".join(state.memory.open_questions)
    hint = f'goal answer {state.goal.run_id} "..."; then {state.way_on}'
    if not state.is_kept:
        hint = "pass approver=..., which answers in the program"
    return end(StopReason.QUESTION_OPEN, message, hint)


def _interrupted_round(state: RunState) -> RunRound:
    """Return the prompt of an interrupted round.

    The agent may already have received it.
    """
    if state.prompted:
        return _round(state, "resumed", state.round)
    if state.refinements:
        refinement = _refinement(state, again=True)
        return refinement or _round(state, "neutral", state.round)
    if state.round <= 1:
        return _round(state, "first", 1, _feedback(state))
    return replace(_retry(state), round=state.round)


def _retry(state: RunState) -> RunRound:
    """Return the prompt of the next round."""
    number, most_equal_rounds = state.round + 1, state.plan.stall_rounds
    if state.round == 0:
        return _round(state, "first", 1, _feedback(state))
    if most_equal_rounds is not None and state.stall.rounds == most_equal_rounds:
        # One more round, which asks for another way, before the run ends as stalled.
        return _round(state, "stalled", number, _feedback(state))
    if state.verdict is not None and state.verdict.source == "fallback":
        # An answer of the judge that could not be read says nothing to the agent.
        return _round(state, "neutral", number)
    return _round(state, "retry", number, _feedback(state))


def _round(
    state: RunState, kind: PromptKind, number: int, feedback: str | None = None
) -> RunRound:
    return RunRound(
        kind, number, feedback, state.interruption, state.lingering, state.ending
    )


def _feedback(state: RunState) -> str | None:
    """Return what is missing according to validators or judge; None for nothing.

    It names the protected files that the agent changed.
    """
    verdict = state.verdict
    if verdict is not None and verdict.source == "validators" and verdict.missing:
        return agent_feedback(verdict, state.validators)
    # The last verdict may be that of an earlier round, or of the judge. Red validators
    # of this round say what is missing now.
    if state.validators and not state.validators_green:
        validators_verdict = verdict_of(
            state.validators, state.refusal, state.protected_changes
        )
        return validators_verdict.missing.strip() or None
    parts = [protected_message(state.protected_changes)]
    if verdict is not None and verdict.source == "judge":
        parts.insert(0, verdict.missing.strip())
    return "\n\n".join(filter(None, parts)) or None


def _last_check(state: RunState, limit_end: RunEnded) -> Step:
    """Return the next step of the check after a limit cut the agent's turn.

    It is the end by that limit if the check proves nothing.
    """
    if state.failure is not None or state.leaked or state.obstacle:
        return limit_end
    may_ask = state.plan.has_judge and not shortfall(state)
    match state.phase:
        case Phase.WORKED if state.plan.validators:
            return Validate(state.round)
        case Phase.WORKED if may_ask:
            return AskJudge(state.round)
        case Phase.VALIDATED if state.changed_checks is not None:
            return _last_review(state, state.changed_checks, limit_end)
        case Phase.VALIDATED if state.validators_green and may_ask:
            return AskJudge(state.round)
        case Phase.VALIDATED | Phase.JUDGED if proven(state):
            return _completion(state)
        case _:
            return limit_end


def _last_review(state: RunState, changed: ChangedChecks, limit_end: RunEnded) -> Step:
    """Return the judge's review of changed checks, or the end by a limit.

    No person is asked after a limit; the end says what could be decided.
    """
    review = _review(state, changed)
    if isinstance(review, ReviewChecks):
        return review
    needed = (
        f"the validators pass, but this has to be reviewed: {changed.action}\n"
        f"{state.settling}"
    ).strip()
    return end(limit_end.stop_reason, f"{limit_end.message}\n{needed}")


def _unless_spent(state: RunState, step: Step) -> Step:
    return out_of_budget(state) if shortfall(state) else step
