"""A model for Strands that plays answers, also those of a judge of GoalLoop."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands.models import Model

_JUDGED = re.compile(r"the agent's response, observation (o\d+)")
_JUDGE_TOOL = "JudgeOutcome"


@dataclass(frozen=True)
class Verdict:
    """What a judge answers, whichever form the answer must have."""

    passed: bool
    feedback: str | None = None


@dataclass(frozen=True)
class Cut:
    """An answer that ends at the limit of tokens."""

    text: str


def call(
    name: str, call_id: str = "call-1", /, **arguments: Any
) -> list[dict[str, Any]]:
    """Return an answer that calls a tool."""
    return [{"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}]


@dataclass
class ScriptedModel(Model):  # type: ignore[misc]
    """Plays `answers` to the agent and `verdicts` to its judge, texts as they are.

    An answer is a text, a list of blocks, a `Cut`, or an exception to raise. Further answers
    repeat the last one.
    """

    answers: Sequence[Any]
    verdicts: Sequence[Verdict | Cut | str | Exception] = ()
    requests: list[str] = field(default_factory=list)
    """The messages of each request of the agent, as JSON."""
    judged: list[str] = field(default_factory=list)
    """The messages of each request of the judge, as JSON."""

    def update_config(self, **model_config: Any) -> None:
        """Do nothing."""

    def get_config(self) -> Any:
        """Return the name of the model."""
        return {"model_id": "scripted"}

    async def structured_output(
        self, output_model: Any, prompt: Any, system_prompt: Any = None, **kwargs: Any
    ) -> Any:
        """Return the next answer as an object."""
        yield {"output": output_model.model_validate_json(self._next(prompt))}

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Play the next answer."""
        tools = [spec["name"] for spec in tool_specs or ()]
        text = json.dumps(messages, default=str)
        if _JUDGE_TOOL in tools or "Fences of this audit" in text:
            self.judged.append(f"{system_prompt}\n{text}")
            answer = self._verdict(messages, is_tool=_JUDGE_TOOL in tools)
        else:
            answer = self._next(messages)
        is_cut = isinstance(answer, Cut)
        if isinstance(answer, Cut):
            answer = answer.text
        blocks = [{"text": answer}] if isinstance(answer, str) else answer
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            for event in _events(block):
                yield event
        has_call = any("toolUse" in block for block in blocks)
        reason = "tool_use" if has_call else "end_turn"
        yield {"messageStop": {"stopReason": "max_tokens" if is_cut else reason}}
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}

    def _next(self, messages: Any) -> Any:
        number = min(len(self.requests), len(self.answers) - 1)
        self.requests.append(json.dumps(messages, default=str))
        return _raised(self.answers[number])

    def _verdict(self, messages: Any, *, is_tool: bool) -> Any:
        number = min(len(self.judged), len(self.verdicts)) - 1
        verdict = _raised(self.verdicts[number])
        if isinstance(verdict, Cut | str):
            return verdict
        if is_tool:
            fields = {"passed": verdict.passed, "feedback": verdict.feedback}
            return call(_JUDGE_TOOL, f"judge-{number}", **fields)
        prompt = messages[0]["content"][0]["text"]
        judged = _JUDGED.search(prompt)
        assert judged is not None, prompt
        fact = {"observation": judged[1], "quote": _response_in(prompt, judged[1])}
        criterion = {
            "criterion": "the goal",
            "satisfied": verdict.passed,
            "evidence": [fact] if verdict.passed else [],
            "missing": verdict.feedback or "",
        }
        return json.dumps(
            {
                "criteria": [criterion],
                "score": 1.0 if verdict.passed else 0.2,
                "complete": verdict.passed,
                "missing": verdict.feedback or "",
            }
        )


def _raised(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _response_in(prompt: str, observation: str) -> str:
    """Return the first line of an observation in the prompt of an audit."""
    block = prompt.split(f"[{observation}]", 1)[1]
    return block.splitlines()[2]


def _events(block: dict[str, Any]) -> Sequence[dict[str, Any]]:
    if "toolUse" in block:
        used = block["toolUse"]
        start = {"name": used["name"], "toolUseId": used["toolUseId"]}
        delta = {"toolUse": {"input": json.dumps(used["input"])}}
        return (
            {"contentBlockStart": {"start": {"toolUse": start}}},
            {"contentBlockDelta": {"delta": delta}},
            {"contentBlockStop": {}},
        )
    return (
        {"contentBlockStart": {"start": {}}},
        {"contentBlockDelta": {"delta": {"text": block["text"]}}},
        {"contentBlockStop": {}},
    )
