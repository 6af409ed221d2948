"""Limits of a run: budgets, actions that need the approval of a person, and how a run ends when a step is stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.errors import (
    LIMIT_OPTIONS,
    ApprovalDenied,
    ApprovalPending,
    BudgetExhausted,
    GoalError,
    ModelError,
    one_line,
    ways_on,
)
from goalrunner.core.events import CritiqueStarted, RiskClass, RunEnded
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.shell_programs import Program, started_programs
from goalrunner.core.tools import WITH_SUBCOMMANDS
from goalrunner.core.verdict import UnreadAnswer

_EXPANSION = re.compile(r"[$`]|\{[^{}\s]*(?:,|\.\.)")
"""What the shell replaces when a command runs."""


@dataclass(frozen=True)
class Shortfall:
    """A budget that is spent, or whose use is unknown."""

    budget: BudgetName
    words: str
    unknown: bool = False
    """Whether the budget cannot be checked, because the usage of a call is unknown."""


def shortfall(state: RunState) -> Shortfall | None:
    """Return the budget that stops the run, or None. Unknown usage stops it too, except for `unenforced` budgets."""
    return min(shortfalls(state), key=lambda found: found.unknown, default=None)


def lifting(state: RunState) -> str:
    """Return the options of `goal resume` for a run whose budgets can no longer be checked."""
    names = [found.budget for found in shortfalls(state) if found.unknown]
    allow, lift = ways_on(state.plan.limits, dict.fromkeys(LIMIT_OPTIONS, 0), "", names)
    return (
        f"goal resume {state.goal.run_id} {allow} continues and counts only what is known; {lift} lifts the limit"
        " (in a goal file: [budget] allow_unenforced)"
    )


def shortfalls(state: RunState) -> Iterator[Shortfall]:
    """Yield the budgets that are spent, and those whose use is unknown."""
    total, plan, agent = (
        state.total,
        state.plan,
        state.models.get("agent") or "the agent",
    )
    tokens = f"{total.tokens:,} of {plan.tokens or 0:,} tokens"
    dollars = f"${total.known_cost_usd:.4f} of ${plan.cost_usd or 0:.4f}"
    budgets: tuple[tuple[BudgetName, float, float | None, str, bool], ...] = (
        ("tokens", total.tokens, plan.tokens, tokens, total.uncounted_calls > 0),
        (
            "cost_usd",
            total.known_cost_usd,
            plan.cost_usd,
            dollars,
            total.cost_usd is None,
        ),
    )
    for name, spent, limit, words, unknown in budgets:
        if limit is None:
            continue
        if spent >= limit:
            yield Shortfall(name, f"{words} are spent")
        if unknown and name not in plan.unenforced:
            why = f"(a turn was cut, {agent} did not report it, or a model has no known price)"
            what = f"the usage of a call of {agent} or the judge is unknown {why}; known usage: {words}"
            yield Shortfall(name, what, unknown=True)


def rule_for(
    kind: Literal["shell", "write"], text: str, approvals: Approvals, risk: RiskClass
) -> str:
    """Return the setting of the goal that requires approval of a command line, or of writing a path; empty if none does.

    A pattern is compared with the commands that a line names. A line that is not understood needs approval.
    """
    if risk == "critical":
        return 'risk_class = "critical"'
    if kind in approvals.require:
        return f'[approvals] require = ["{kind}"]'
    if kind == "write":
        return ""
    if not approvals.commands:
        return ""
    programs, problem = started_programs(text)
    if pattern := _matching(text, programs, approvals.commands):
        return f'[approvals] commands = ["{pattern}"]'
    if problem:
        return f'[approvals] commands = ["{approvals.commands[0]}"] (the command cannot be parsed: {problem})'
    return ""


def completion_rule(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting of the goal that requires approval of the completion; empty if none does."""
    if risk in ("high", "critical"):
        return f'risk_class = "{risk}"'
    return (
        '[approvals] require = ["complete"]' if "complete" in approvals.require else ""
    )


def guarding_key(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting under which a person may have to decide on single actions; empty if there is none."""
    if risk == "critical":
        return 'risk_class = "critical"'
    kinds = [
        f'require = ["{kind}"]' for kind in approvals.require if kind != "complete"
    ]
    return [*kinds, *(["commands"] if approvals.commands else []), ""][0]


def expires_at(approvals: Approvals, now: datetime) -> str | None:
    return (
        None
        if approvals.expires is None
        else (now + timedelta(seconds=approvals.expires)).isoformat()
    )


def is_late(expires: str | None, now: datetime) -> bool:
    return expires is not None and now > datetime.fromisoformat(expires)


def _matching(
    line: str, programs: tuple[Program, ...], patterns: tuple[str, ...]
) -> str:
    """Return the first pattern that matches the whole line, or may match a command in it; blanks count as one space."""
    whole = " ".join(line.split())
    forms = {form for program in programs for form in _forms(program)}
    for pattern in patterns:
        if fnmatchcase(whole, pattern) or any(
            _may_match(form, pattern) for form in forms
        ):
            return pattern
    return ""


def _may_match(form: str, pattern: str) -> bool:
    """Return whether a pattern matches a command, or could if its variables had other values."""
    known = _EXPANSION.split(form, maxsplit=1)[0]
    fixed_beginning = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    if fnmatchcase(form, pattern) or _may_expand_to(
        fixed_beginning.split(), form.split(" ")
    ):
        return True
    return known != form and fixed_beginning.startswith(known)


def _may_expand_to(beginning: list[str], words: list[str]) -> bool:
    """Return whether words can become the beginning of a pattern: `git pus?` becomes `git push` if a file is named push."""
    if not beginning or len(words) < len(beginning):
        return False
    return all(
        fnmatchcase(wanted, word)
        for wanted, word in zip(beginning, words, strict=False)
    )


def _forms(program: Program) -> Iterator[str]:
    """Yield the ways to write a command: with and without the folder of the program, and options before its subcommand."""
    words = program.words
    if not words or not program.has_known_name:
        return
    if _EXPANSION.search(words[0]) is None:
        yield " ".join(words)
    yield " ".join((program.name, *words[1:]))
    if program.name in WITH_SUBCOMMANDS:
        yield from (" ".join((program.name, *rest)) for rest in _from_subcommand(words))


def _from_subcommand(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words from the subcommand on: `git -C x push` gives `push`, and `x push`, because -C might take no value."""
    for at in range(1, len(words)):
        if not words[at].startswith("-"):
            yield words[at:]
            if not words[at - 1].startswith("-"):
                return


def end(reason: StopReason, message: str, hint: str = "") -> RunEnded:
    """Return the end of a run, with what to do next."""
    return RunEnded(
        stop_reason=reason, message=f"{message}\n{hint}" if hint else message
    )


def timed_out(state: RunState) -> RunEnded:
    """Return how a run ends at its time limit."""
    seconds = (
        f"{state.plan.timeout:g} s"
        if state.plan.timeout is not None
        else "the time limit"
    )
    meanwhile = f" while {at_work(state)} ran" if state.memory.current_step else ""
    return end(
        StopReason.TIMEOUT, f"the time limit of {seconds} was reached{meanwhile}"
    )


_AT_WORK = {
    "critique": CritiqueStarted.account,
    **dict.fromkeys(("review_checks", "audit", "confirm"), "judge"),
}
_AT_WORK |= dict.fromkeys(("baseline", "validate"), "validators")
"""Who works in a step of the runner. In other steps it is the agent."""


def at_work(state: RunState) -> str:
    """Return who works in the current step: "the validators of round 2"."""
    who = _AT_WORK.get((state.memory.current_step or "").partition("-")[0], "agent")
    return (
        f"the {who} of round {state.round}"
        if state.round
        else f"the {who} before round 1"
    )


def out_of_budget(state: RunState) -> RunEnded:
    """Return how a run ends without budget for the next model call."""
    found = shortfall(state)
    hint = lifting(state) if found and found.unknown else ""
    return end(
        StopReason.BUDGET_EXHAUSTED,
        found.words if found else "the budget is spent",
        hint,
    )


def unreadable(state: RunState) -> RunEnded:
    """Return how a run ends if the judge's answers cannot be parsed."""
    judge = state.models.get("judge") or "its model"
    last = UnreadAnswer(
        reason=state.audit_problem.partition("\n")[0], text=state.audit_answer
    )
    audited = f"round {state.round}" if state.round else "the baseline"
    message = f"{state.unread} audits of {audited} by {judge} ended without a readable answer\n{last}"
    hint = "name a judge that answers in JSON: --judge PROVIDER/MODEL, or [judge] model"
    return end(StopReason.JUDGE_FAILED, message, hint)


def interrupted(signal: int | None) -> RunEnded:
    """Return how a run ends by Ctrl-C, SIGTERM, or the caller's cancellation."""
    message = "interrupted; everything so far is saved"
    return RunEnded(stop_reason=StopReason.INTERRUPTED, message=message, signal=signal)


def awaiting_approval(state: RunState) -> RunEnded:
    """Return how a run ends while an approval waits for a person."""
    waits = "; ".join(f"{item.id} {one_line(item.titled)}" for item in state.waiting)
    run, which = state.goal.run_id, "" if len(state.waiting) == 1 else " ID"
    hint = f"goal approve {run}{which}, or goal deny {run}{which} --reason TEXT; then goal resume {run}"
    if state.settling and any(item.kind == "checks" for item in state.waiting):
        hint += f"\n{state.settling}"
    return end(StopReason.APPROVAL_REQUIRED, f"this waits for a person: {waits}", hint)


def end_by_denial(approval: Approval) -> RunEnded:
    """Return how a run ends after a denied or expired approval."""
    what = "no decision in time on" if approval.decision == "expired" else "denied:"
    reason = f" ({approval.reason})" if approval.reason else ""
    return end(StopReason.DENIED, f"{what} {one_line(approval.action)}{reason}")


def end_by_error(state: RunState, error: GoalError) -> RunEnded:
    """Return how a run ends after an expected error."""
    match error:
        case BudgetExhausted():
            return out_of_budget(state)
        case ApprovalPending():
            return awaiting_approval(state)
        case ApprovalDenied():
            return end_by_denial(
                next(item for item in state.approvals if item.id == error.approval_id)
            )
    reason = StopReason(error.stop_reason)
    if isinstance(error, ModelError) and (state.memory.current_step or "").startswith(
        ("audit-", "review_checks-")
    ):
        reason = (
            StopReason.JUDGE_FAILED if reason is StopReason.AGENT_FAILED else reason
        )
    return end(reason, str(error))
