"""A critic that lets the agent refine its answer before it is checked."""

from collections.abc import Mapping
from typing import Any

from goalrunner import Critic, CriticConfig, run_goal
from goalrunner.testing import ScriptedConversation


def length(response: Mapping[str, Any], agent: Any) -> Mapping[str, Any]:
    text = str(response["content"])
    return {"score": 1.0 if len(text) < 400 else 0.2, "feedback": "be brief"}


async def content(response: Mapping[str, Any], agent: object) -> float:
    return 1.0 if response["content"] else 0.0


CRITICS: list[Critic] = [length, content]


def main() -> None:
    for critic in CRITICS:
        outcome = run_goal(
            ScriptedConversation("brief"),
            "Explain.",
            validators=lambda: True,
            critic=critic,
        )
        assert outcome.status.value == "complete", outcome.message
    assert CriticConfig(model="a/b").threshold == 0.7
