"""The audit: one fresh conversation with the judge's model, and the check of what it answers. Owns the model call.

An answer that cannot be read is a failure of the judge, never work for the agent: it is recorded as its own event, the
judge is told what was wrong, at most twice, and then the verdict falls back to not complete.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from goalrunner.errors import AuthenticationFailed, ModelError
from goalrunner.judge.citations import check
from goalrunner.judge.outcome import JUDGE_SCHEMA
from goalrunner.judge.prompts import (
    JUDGE_SYSTEM_PROMPT,
    Deliverable,
    Events,
    audit_prompt,
    audit_request,
    repair_prompt,
)
from goalrunner.judge.rendering import LIMIT
from goalrunner.judge.reply import UnreadableReplyError, parse_reply
from goalrunner.judge.requirements import AbsentRequirementError, matched, requirements_of
from goalrunner.model.goal import Goal, JudgeConfig
from goalrunner.model.usage import Usage
from goalrunner.model.verdict import GoalVerdict
from goalrunner.ports import Audit, AuditRequest, Message

REPAIRS = 2
"""How often the judge is asked again after an answer that cannot be read."""

_ECHO = 8_000
_LEAST = 4_000
_CHARACTERS_PER_TOKEN = 2
"""Of a context window for the evidence: a token is some four characters, and half of the window stays free."""


class Answer(Protocol):
    """What a judge's model gives back."""

    @property
    def text(self) -> str: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def finish_reason(self) -> str: ...


class JudgeModel(Protocol):
    """The model behind a judge; `goalrunner.llm.LLM` is one."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
    ) -> Answer:
        """Answer the messages. Raises ModelError."""
        ...

    def context_window(self) -> int | None:
        """Tokens that a request may have; None: unknown."""
        ...


class AuditRecorder(Protocol):
    """What an audit writes: the part of the port Recorder that it needs."""

    def usage(self, account: Literal["agent", "judge"], usage: Usage) -> None: ...

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None: ...

    def check_budget(self) -> None: ...


class LLMJudge:
    """A judge that asks a model. Each audit starts from nothing: no memory of earlier ones."""

    def __init__(
        self,
        llm: JudgeModel,
        config: JudgeConfig | None = None,
        *,
        nonce: Callable[[], str] = lambda: secrets.token_hex(4),
        limit: int = LIMIT,
    ) -> None:
        self._llm = llm
        self._config = config or JudgeConfig()
        self._nonce = nonce
        self._limit = limit

    async def audit(self, request: AuditRequest, recorder: AuditRecorder) -> Audit:
        """Ask, repair where the answer cannot be read, check. Raises ModelError and BudgetExhausted."""
        minimum = max(request.minimum_score, self._config.minimum_score)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self._system_prompt()},
            {"role": "user", "content": audit_prompt(request, nonce=self._nonce(), limit=self._room())},
        ]
        for _ in range(REPAIRS + 1):
            answer = await self._ask(messages, recorder)
            try:
                # In a thread: outputs may be large, and the deadline must not wait for them.
                return await asyncio.to_thread(_read, answer.text, request, minimum)
            except (UnreadableReplyError, AbsentRequirementError) as error:
                reason = _reason(str(error), answer.finish_reason)
            recorder.audit_failed("parse", reason)
            messages.append({"role": "assistant", "content": answer.text[:_ECHO] or "(no answer)"})
            messages.append({"role": "user", "content": repair_prompt(reason)})
        return Audit(verdict=GoalVerdict(score=0.0, complete=False, missing="", source="fallback"))

    async def _ask(self, messages: Sequence[Mapping[str, Any]], recorder: AuditRecorder) -> Answer:
        recorder.check_budget()
        try:
            answer = await self._llm.complete(messages, schema=JUDGE_SCHEMA, schema_name="verdict", temperature=0.0)
        except ModelError as error:
            kind: Literal["transport", "authentication"] = (
                "authentication" if isinstance(error, AuthenticationFailed) else "transport"
            )
            recorder.audit_failed(kind, error.message)
            raise
        recorder.usage("judge", answer.usage)
        return answer

    def _system_prompt(self) -> str:
        own = self._config.system_prompt
        return JUDGE_SYSTEM_PROMPT if own is None else own

    def _room(self) -> int:
        window = self._llm.context_window()
        return self._limit if window is None else max(_LEAST, min(self._limit, window * _CHARACTERS_PER_TOKEN))


async def judge_goal_async(
    llm: JudgeModel,
    objective: str | Goal,
    events: Events,
    *,
    config: JudgeConfig | None = None,
    deliverable: Deliverable | None = None,
    success_criteria: Sequence[str] = (),
    constraints: Sequence[str] = (),
    recorder: AuditRecorder | None = None,
) -> GoalVerdict:
    """Judge once, without a loop: the verdict on what `events` hold, a trail or chat messages in OpenAI's shape.

    The workspace is judged unless the goal or `deliverable` says that it is the response. Raises UsageError for an
    empty objective, ModelError when the judge cannot be asked. (Source: judge_goal of OpenHands' goal loop.)
    """
    whole = objective if isinstance(objective, Goal) else None
    chosen = deliverable or (whole.deliverable if whole else "workspace")
    request = audit_request(
        objective, events, deliverable=chosen, success_criteria=success_criteria, constraints=constraints
    )
    judge = LLMJudge(llm, config or (whole.judge if whole else None))
    return (await judge.audit(request, recorder or _Unrecorded())).verdict


class _Unrecorded:
    """For a judgement outside a run: nothing is written, and there is no budget."""

    def usage(self, account: Literal["agent", "judge"], usage: Usage) -> None:
        """The model instance keeps its own account."""

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None:
        """The verdict's source says it."""

    def check_budget(self) -> None:
        """No budget."""


def _read(text: str, request: AuditRequest, minimum_score: float) -> Audit:
    outcome = parse_reply(text)
    criteria = matched(outcome, requirements_of(request.success_criteria, request.constraints))
    return check(outcome, criteria, request, minimum_score=minimum_score)


def _reason(reason: str, finish_reason: str) -> str:
    return f"The answer was cut at the token limit. {reason}" if finish_reason == "length" else reason
