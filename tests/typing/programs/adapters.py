"""Agents of Strands and OpenHands; type-checked with and without these packages."""

from typing import Any

from goalrunner import GoalOutcome
from goalrunner.adapters import openhands, strands


def brief(response: Any, agent: Any) -> bool:
    return len(str(response)) < 400


def with_strands(agent: Any) -> GoalOutcome:
    return strands.run_goal(agent, "Explain.", validators=[brief], max_iterations=3)


async def with_openhands(conversation: Any, llm: Any) -> GoalOutcome:
    return await openhands.arun_goal(conversation, "Make the tests pass.", llm)


def plugin() -> strands.GoalLoop:
    return strands.GoalLoop("Explain.", max_attempts=3, timeout=60.0)


def main() -> None:
    assert callable(with_strands)
