"""Judges: a function, an object, a configuration, and a judgement without a run."""

import json
from collections.abc import Sequence

from goalrunner import (
    JUDGE_OUTCOME_SCHEMA,
    JUDGE_SYSTEM_PROMPT,
    GoalVerdict,
    JudgeConfig,
    JudgeOutcome,
    build_judge_prompt,
    judge_goal,
    run_goal,
)
from goalrunner.core.agent_ports import Message
from goalrunner.testing import ScriptedConversation


def refuses(messages: Sequence[Message]) -> str:
    answer = {
        "criteria": [],
        "score": 0.1,
        "complete": False,
        "missing": "everything",
    }
    return json.dumps(answer)


class Service:
    """Asks a service of one's own."""

    async def complete(self, messages: Sequence[Message]) -> str:
        return refuses(messages)


def main() -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    verdict: GoalVerdict = judge_goal(refuses, "Say hi.", chat)
    assert not verdict.complete
    for judge in (
        Service(),
        JudgeConfig(refuses),
        JudgeConfig(Service(), "Be strict."),
    ):
        outcome = run_goal(
            ScriptedConversation("hi"), "Say hi.", judge, max_iterations=1
        )
        assert outcome.verdict is not None
        assert outcome.verdict.missing
    prompt: str = build_judge_prompt("Say hi.", chat)
    assert "Say hi." in prompt
    assert JUDGE_SYSTEM_PROMPT
    assert JudgeOutcome.__name__
    assert JUDGE_OUTCOME_SCHEMA["type"] == "object"
