"""Settings that a program's own agent cannot follow are refused before the run."""

from __future__ import annotations

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.approval_rules import guarding_key
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Budget, Goal
from goalrunner.core.outcome import Usage

_TOKENS = frozenset({"input_tokens", "output_tokens"})
_FIELDS: dict[BudgetName, frozenset[str]] = {"tokens": _TOKENS, "cost_usd": frozenset({"cost_usd"})}
"""The fields of a usage that a budget needs."""


def refuse_unconfined(goal: Goal) -> None:
    """Raise UsageError if the goal insists on a sandbox: the commands of a conversation that exists are in none."""
    if goal.workspace.sandbox == "bwrap":
        raise UsageError(
            'sandbox = "bwrap" cannot be kept: the calling program made the conversation, and its commands are in no sandbox',
            'write sandbox = "auto" to confine the validators alone, or run the goal file with: goal run',
        )


def refuse_unseen_actions(goal: Goal, *, has_validators: bool) -> None:
    """Raise UsageError for settings that GoalController cannot enforce, because it sees actions only after the fact."""
    key = guarding_key(goal.approvals, goal.risk_class)
    if key:
        raise UsageError(
            f"GoalController sees what the agent did only afterwards, so {key} cannot be kept",
            "leave it out, or use run_goal with a conversation that asks, such as chat_conversation",
        )
    if goal.judge.require == "runner" and not has_validators and goal.deliverable == "workspace":
        raise UsageError(
            '[judge] require = "runner" and no validator: of what the agent does the runner sees nothing itself',
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def refuse_unasked_actions(goal: Goal, conversation: object) -> None:
    """Raise UsageError if a person must decide on actions, and the conversation does not ask before it acts."""
    key = guarding_key(goal.approvals, goal.risk_class)
    if key and not getattr(conversation, "supports_approvals", False):
        raise UsageError(
            f"{type(conversation).__name__} does not say that it asks before it acts, so {key} cannot be kept",
            "call `await recorder.permit(...)` before each action and set supports_approvals = True on the class,\n"
            "or use chat_conversation, or leave the setting out",
        )


def refuse_untold_usage(budget: Budget, usage: Usage | None) -> None:
    """Raise UsageError if a budget is set and the usage does not say what it needs; `Usage.unknown()` says that it is unknown."""
    if not isinstance(usage, Usage | None):
        raise UsageError(f"usage must be a Usage, not a {type(usage).__name__}", "pass usage=Usage(input_tokens=...)")
    given = usage.model_fields_set if usage is not None else frozenset()
    for name in budget.limited:
        if name not in budget.unenforced and not given & _FIELDS[name]:
            example = "cost_usd=0.05" if name == "cost_usd" else "input_tokens=1200, output_tokens=300"
            raise UsageError(
                f"the goal has a budget of {name}, and on_run_finished was not told what the agent used",
                f"pass usage=Usage({example}), or set allow_unenforced to count what is known alone",
            )


def told_usage(usage: Usage | None) -> Usage:
    """Return the usage of one run of the agent; what it leaves out is unknown, not 0."""
    if usage is None:
        return Usage.unknown()
    values = {**usage.model_dump(), "calls": usage.calls or 1}
    if not usage.model_fields_set & _TOKENS:
        values |= {"input_tokens": None, "output_tokens": None, "uncounted_calls": values["calls"]}
    if "cost_usd" not in usage.model_fields_set:
        values["cost_usd"] = None
    return Usage.model_validate(values)
