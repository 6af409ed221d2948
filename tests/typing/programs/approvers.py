"""A program that decides instead of a person."""

from goalrunner import (
    ApprovalAnswer,
    ApprovalRequest,
    Approver,
    Goal,
    QuestionReply,
    run_goal,
)
from goalrunner.testing import ScriptedConversation


class Policy:
    """Accepts results without changed files; answers no question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        self.asked.append(request.approval.kind)
        if request.changed:
            return ApprovalAnswer("denied", "policy", reason="changed files")
        return ApprovalAnswer("approved", by="policy")

    async def answer(self, question: str) -> QuestionReply | None:
        return QuestionReply("I do not know.") if question else None


def main() -> None:
    policy = Policy()
    approver: Approver = policy
    goal = Goal(
        objective="Answer.",
        approvals={"require": ["complete"]},
        deliverable="response",
        validator=lambda: True,
    )
    outcome = run_goal(ScriptedConversation("42"), goal, approver=approver)
    assert outcome.status.value == "complete", outcome.message
    assert policy.asked == ["complete"]
