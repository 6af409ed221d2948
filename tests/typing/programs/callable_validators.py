"""A goal whose validators are functions of this program."""

from collections.abc import Mapping
from typing import Any

from goalrunner import Conversation, Goal, GoalOutcome, ValidationOutcome, run_goal
from goalrunner.testing import ScriptedConversation


def short(response: Mapping[str, Any], agent: Conversation) -> dict[str, object]:
    words = len(str(response["content"]).split())
    return {"passed": words <= 50, "feedback": f"{words} words; at most 50"}


async def polite(response: Mapping[str, Any]) -> ValidationOutcome:
    is_polite = "please" in str(response["content"])
    return ValidationOutcome(is_polite, "say please", evidence=["tone:polite"])


def anything() -> bool:
    return True


def main() -> None:
    outcome: GoalOutcome = run_goal(
        ScriptedConversation("do it", "please do it"),
        Goal(
            objective="Ask politely.", validator=[polite, short], deliverable="response"
        ),
        validators=[anything],
        max_iterations=3,
        timeout="5m",
    )
    assert outcome.status.value == "complete", outcome.message
    feedback: list[str | None] = [attempt.feedback for attempt in outcome.attempts]
    assert feedback[0] is not None
    assert "say please" in feedback[0]
