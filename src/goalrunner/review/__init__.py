"""A run looked at again: whether its records still hold, what its rounds changed, and the way back. Calls no model."""

from __future__ import annotations

from goalrunner.review.restoring import Restoration, Restored
from goalrunner.review.rounds import RoundPatch, RunSnapshots, round_patch, snapshots_of
from goalrunner.review.verification import Broken, Verification, verify

__all__ = [
    "Broken",
    "Restoration",
    "Restored",
    "RoundPatch",
    "RunSnapshots",
    "Verification",
    "round_patch",
    "snapshots_of",
    "verify",
]
