"""A function that passes keywords on, and a controller for an agent of one's own."""

from typing import Any, Unpack

from goalrunner import (
    Conversation,
    GoalContinue,
    GoalController,
    GoalDone,
    GoalOutcome,
    GoalStatus,
    RunKeywords,
    Usage,
    run_goal,
)
from goalrunner.testing import ScriptedConversation


def careful(agent: Conversation, **options: Unpack[RunKeywords]) -> GoalOutcome:
    defaults: RunKeywords = {"max_iterations": 3, "timeout": "10m"}
    keywords: RunKeywords = {**defaults, **options}
    return run_goal(agent, "Answer.", **keywords)


def controlled() -> GoalOutcome:
    controller = GoalController("Answer.", validators=[lambda: True], max_iterations=2)
    message: str = controller.start()
    chat: list[dict[str, Any]] = []
    while True:
        chat.append({"role": "user", "content": message})
        chat.append({"role": "assistant", "content": "42"})
        step: GoalContinue | GoalDone = controller.on_run_finished(
            chat, usage=Usage(input_tokens=1, output_tokens=1)
        )
        if isinstance(step, GoalDone):
            return step.outcome
        message = step.followup


def main() -> None:
    outcome = careful(ScriptedConversation("42"), validators=lambda: True)
    assert outcome.status is GoalStatus.COMPLETE
    assert controlled().status is GoalStatus.COMPLETE
