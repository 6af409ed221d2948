"""One table from how a run ended to the words of Goals and State. Owns that mapping, nothing else."""

from __future__ import annotations

from typing import Literal

from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state.run_state import MemoryStop

RecordStatus = Literal["active", "blocked", "waiting_for_approval", "completed", "cancelled", "failed"]

STOPS: dict[tuple[GoalStatus, StopReason], tuple[RecordStatus, MemoryStop]] = {
    (GoalStatus.COMPLETE, StopReason.SATISFIED): ("completed", "success"),
    # A limit is lifted by a person: the goal is blocked until then, not failed.
    (GoalStatus.CAPPED, StopReason.MAX_ITERATIONS): ("blocked", "budget_exhausted"),
    (GoalStatus.CAPPED, StopReason.TIMEOUT): ("blocked", "budget_exhausted"),
    (GoalStatus.CAPPED, StopReason.BUDGET_EXHAUSTED): ("blocked", "budget_exhausted"),
    (GoalStatus.BLOCKED, StopReason.APPROVAL_REQUIRED): ("waiting_for_approval", "approval_required"),
    (GoalStatus.BLOCKED, StopReason.DENIED): ("blocked", "blocked"),
    (GoalStatus.BLOCKED, StopReason.QUESTION_OPEN): ("blocked", "blocked"),
    (GoalStatus.BLOCKED, StopReason.IMPOSSIBLE): ("blocked", "blocked"),
    (GoalStatus.BLOCKED, StopReason.STALLED): ("blocked", "blocked"),
    (GoalStatus.BLOCKED, StopReason.EVIDENCE_UNSTABLE): ("blocked", "blocked"),
    (GoalStatus.CANCELLED, StopReason.CANCELLED): ("cancelled", "cancelled"),
    (GoalStatus.CANCELLED, StopReason.INTERRUPTED): ("cancelled", "cancelled"),
    (GoalStatus.FAILED, StopReason.AUTHENTICATION): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.MODEL_NOT_FOUND): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.AGENT_FAILED): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.JUDGE_FAILED): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.VALIDATOR_MISSING): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.ENVIRONMENT_FAILED): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.BASELINE_GREEN): ("failed", "failed"),
    (GoalStatus.FAILED, StopReason.INTERNAL_ERROR): ("failed", "failed"),
}
"""Outcome status and stop reason -> status of the goal record and stop reason of the working memory."""


def record_status(status: GoalStatus, reason: StopReason) -> RecordStatus:
    """The goal record's status; an ending that the table does not know is a failure."""
    return STOPS.get((status, reason), ("failed", "failed"))[0]


def memory_stop(status: GoalStatus, reason: StopReason) -> MemoryStop:
    """The working memory's stop reason; an ending that the table does not know is a failure."""
    return STOPS.get((status, reason), ("failed", "failed"))[1]
