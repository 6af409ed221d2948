"""A judge that answers rightly: it accepts what was shown, and reviews changed checks by the words of the objective."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.llm import Reply
from tests.adversarial.judges import GullibleJudge, Prompt, plausible, verdict
from tests.support.labelled import CALL


def exit_code(prompt: Prompt) -> list[dict[str, str]]:
    """Return a citation of the exit code of the newest check."""
    checks = [
        item
        for item in prompt.observations
        if item.source.startswith("validator ") and item.facts
    ]
    return [
        {"observation": item.id, "fact": item.facts[0]} for item in checks[-1:]
    ] or plausible(prompt)


@dataclass
class RightJudge(GullibleJudge):
    """Audits are complete once the agent has worked, which `worked` says.

    For each change of the checks, it quotes `asked`; without such words it refuses it.
    """

    asked: str = ""
    worked: Callable[[], bool] = lambda: True
    cite: Callable[[Prompt], list[dict[str, str]]] | None = field(
        default_factory=lambda: exit_code
    )
    reviews: int = 0

    def answer(self, prompt: Prompt) -> str:
        """Return the verdict on a prompt."""
        return (
            super().answer(prompt)
            if self.worked()
            else verdict({name: [] for name in prompt.criteria})
        )

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        **more: Any,
    ) -> Reply:
        """Answer a review, or what each judge is asked."""
        if schema_name != "review":
            return await super().complete(
                messages, schema=schema, schema_name=schema_name, **more
            )
        self.reviews += 1
        self.usage = self.usage + CALL
        asked = next(
            str(message["content"]) for message in messages if message["role"] == "user"
        )
        items = list(
            dict.fromkeys(
                re.findall(r"^<(hunk-\d+) |^(?:\| )?(test-\d+) ", asked, re.MULTILINE)
            )
        )
        names = [hunk or test for hunk, test in items]
        accepted = [{"items": names, "quote": self.asked}] if self.asked else []
        refused = (
            []
            if self.asked
            else [{"items": names, "why": "the goal does not ask for it"}]
        )
        return Reply(
            json.dumps({"accepted": accepted, "refused": refused}), (), CALL, "stop"
        )
