"""Every rule of the loop, pure: what is done next, what counts as proof, and how a run ends."""

from __future__ import annotations

from goalrunner.policy.approvals import (
    Action,
    completion_rule,
    expires_at,
    guarding_key,
    is_late,
    reaches_network,
    rule_for,
)
from goalrunner.policy.budget import Shortfall, budget_spent, lifting, shortfall
from goalrunner.policy.decision import decide
from goalrunner.policy.endings import (
    awaiting_approval,
    cancelled,
    crashed,
    denied,
    failed,
    in_short,
    interrupted,
    out_of_budget,
    timed_out,
)
from goalrunner.policy.plans import settle_plan
from goalrunner.policy.promotion import Promotion, Refusal, Sensitivity, promotion_refusal
from goalrunner.policy.proof import proven
from goalrunner.policy.steps import (
    AskApproval,
    Audit,
    Brief,
    Confirm,
    Finish,
    RunRound,
    Step,
    TakeBaseline,
    Validate,
)

__all__ = [
    "Action",
    "AskApproval",
    "Audit",
    "Brief",
    "Confirm",
    "Finish",
    "Promotion",
    "Refusal",
    "RunRound",
    "Sensitivity",
    "Shortfall",
    "Step",
    "TakeBaseline",
    "Validate",
    "awaiting_approval",
    "budget_spent",
    "cancelled",
    "completion_rule",
    "crashed",
    "decide",
    "denied",
    "expires_at",
    "failed",
    "guarding_key",
    "in_short",
    "interrupted",
    "is_late",
    "lifting",
    "out_of_budget",
    "promotion_refusal",
    "proven",
    "reaches_network",
    "rule_for",
    "settle_plan",
    "shortfall",
    "timed_out",
]
