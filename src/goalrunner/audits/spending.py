"""The budget of one command that makes many audits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from goalrunner.core.errors import BudgetExhausted
from goalrunner.core.events import Account
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage


@dataclass
class Spending:
    """The usage of all audits of one command, and their budget.

    An audit that has begun may exceed the budget by one question.
    """

    budget: Budget = field(default_factory=Budget)
    total: Usage = field(default_factory=Usage)

    @property
    def stop_reason(self) -> str:
        """Why the judge may not be asked any more; empty if it may.

        Unknown usage is a reason, unless `unenforced` names it.
        """
        budget, total = self.budget, self.total
        if budget.tokens is not None and total.tokens >= budget.tokens:
            return f"{total.tokens:,} of {budget.tokens:,} tokens are spent"
        if budget.cost_usd is not None and total.known_cost_usd >= budget.cost_usd:
            return f"${total.known_cost_usd:.4f} of ${budget.cost_usd:.4f} are spent"
        # Calls without a report or a price are not in the totals.
        is_unknown = {
            "tokens": total.uncounted_calls > 0,
            "cost_usd": total.cost_usd is None,
        }
        for name in budget.limited:
            if is_unknown[name] and name not in budget.unenforced:
                what = "cost" if name == "cost_usd" else "usage"
                return f"the {what} of a call is unknown, so the budget cannot be kept"
        return ""


@dataclass
class SpendingRecorder:
    """The recorder of one audit, which stops it when the budget of all is spent."""

    spending: Spending
    used: Usage = field(default_factory=Usage)
    is_cut: bool = False
    """Whether the budget ended the audit, perhaps before its last question."""
    problem: str = ""
    """Why the last answer of the judge could not be used."""

    def usage(self, account: Account, usage: Usage) -> None:
        self.used += usage
        self.spending.total += usage

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        """Keep the reason for the audit."""
        self.problem = detail

    def check_budget(self, account: Account = "agent") -> None:
        """Raise BudgetExhausted if the judge may not be asked any more."""
        stop_reason = self.spending.stop_reason
        if stop_reason:
            self.is_cut = True
            raise BudgetExhausted(stop_reason)
