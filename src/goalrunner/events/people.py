"""What waits for a person, and what the person said."""

from __future__ import annotations

from typing import Literal

from goalrunner.model.base import Frozen


class QuestionOpened(Frozen):
    """A fact is missing that only a person can give."""

    type: Literal["question_opened"] = "question_opened"
    question: str


class QuestionAnswered(Frozen):
    """A person gave it."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    evidence_ref: str


class ApprovalRecorded(Frozen):
    """A person decided on something that waited."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Literal["approved", "denied", "expired"]
