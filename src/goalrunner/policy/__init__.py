"""Every rule of the loop, pure: what is done next, what counts as proof, and how a run ends."""

from __future__ import annotations

from goalrunner.policy.decision import decide
from goalrunner.policy.endings import crashed, failed, interrupted, out_of_budget, timed_out
from goalrunner.policy.proof import budget_spent, proven
from goalrunner.policy.steps import Audit, Brief, Confirm, Finish, Prove, RunRound, Step, TakeBaseline, Validate

__all__ = [
    "Audit",
    "Brief",
    "Confirm",
    "Finish",
    "Prove",
    "RunRound",
    "Step",
    "TakeBaseline",
    "Validate",
    "budget_spent",
    "crashed",
    "decide",
    "failed",
    "interrupted",
    "out_of_budget",
    "proven",
    "timed_out",
]
