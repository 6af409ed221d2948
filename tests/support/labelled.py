"""Labelled transcripts, and a judge that is wrong as often as a test wants."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import ModelError
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM
from tests.support.judge_model import ScriptedAnswer

CALL = Usage(
    input_tokens=100, output_tokens=20, cost_usd=0.01, known_cost_usd=0.01, calls=1
)


def write_chat(path: Path, output: str, *, said: str = "All tests pass.") -> Path:
    """A transcript with one command and its output."""
    function = {"name": "shell", "arguments": json.dumps({"command": "pytest -q"})}
    chat = [
        {"role": "user", "content": "Make the tests pass."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": output},
        {"role": "assistant", "content": said},
    ]
    path.write_text("".join(f"{json.dumps(message)}\n" for message in chat))
    return path


def write_dataset(folder: Path, number: int, *, begin: int = 0) -> Path:
    """Transcripts of the cases 0, 1, ...; the even ones are complete."""
    rows = []
    for case in range(begin, begin + number):
        write_chat(folder / f"case-{case}.jsonl", f"case {case} was tested\n1 passed")
        rows.append(
            {
                "path": f"case-{case}.jsonl",
                "objective": "The tests pass.",
                "label": case % 2 == 0,
            }
        )
    path = folder / "dataset.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def answer(*, complete: bool, score: float, quote: str = "1 passed") -> str:
    """A verdict in the form that a judge's model writes; unless complete, it cites nothing."""
    criterion = {
        "criterion": "the tests pass",
        "satisfied": complete,
        "evidence": [{"observation": "o1", "quote": quote}] if complete else [],
        "missing": "" if complete else "a green run",
    }
    values: dict[str, Any] = {
        "criteria": [criterion],
        "score": score,
        "complete": complete,
    }
    return json.dumps({**values, "missing": "" if complete else "a green run"})


def opinions(
    number: int, *, false_accept: float, false_reject: float, seed: int
) -> list[tuple[bool, float]]:
    """What a judge with these error rates says to each case: complete or not, and the score."""
    chance = random.Random(seed)
    found = []
    for case in range(number):
        label = case % 2 == 0
        wrong = chance.random() < (false_reject if label else false_accept)
        complete = label != wrong
        found.append(
            (
                complete,
                round(
                    chance.uniform(0.5, 1.0) if complete else chance.uniform(0.0, 0.5),
                    3,
                ),
            )
        )
    return found


class CaseJudge(LLM):
    """A judge's model that answers by the number of the case in its prompt, and counts what it is asked."""

    def __init__(
        self,
        answers: Sequence[str | ModelError] | Callable[[int], str | ModelError],
        cost: Usage = CALL,
    ) -> None:
        super().__init__("test/judge")
        self.answers, self.cost = answers, cost
        self.asked: list[int] = []
        self.prompts: list[str] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
        **_: Any,
    ) -> ScriptedAnswer:
        """The answer of the case."""
        prompt = str(messages[1]["content"])
        found = re.search(r"case (\d+) was tested", prompt)
        assert found is not None, prompt
        case = int(found[1])
        self.asked.append(case)
        self.prompts.append(prompt)
        text = self.answers(case) if callable(self.answers) else self.answers[case]
        if isinstance(text, ModelError):
            raise text
        self.usage += self.cost
        return ScriptedAnswer(text, usage=self.cost)


def judge_of(found: Sequence[tuple[bool, float]]) -> CaseJudge:
    """A judge with these opinions."""
    return CaseJudge(
        [answer(complete=complete, score=score) for complete, score in found]
    )
