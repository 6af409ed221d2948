"""A conversation with the judge's model: its messages, calls and repairs, and the second opinion on a blocked goal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from goalrunner.core.check_ports import AuditRequest, Confirmation
from goalrunner.core.errors import AuthenticationFailed, ModelError
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.judge.excerpt import TOKEN, excerpt
from goalrunner.judge.prompt_builder import audit_prompt
from goalrunner.judge.prompt_text import OPINION, Form, repair_prompt
from goalrunner.judge.text import fence
from goalrunner.judge.verdict_parser import UnreadableReplyError, objects_in
from goalrunner.judge.verdict_schema import strict_schema
from goalrunner.llm import Reply
from goalrunner.system.launcher import in_thread

REPAIRS = 2
"""How often the judge is asked again after an unreadable answer."""

_ECHO = 8_000
"""Characters of its own answer that the judge sees again."""


class JudgeModel(Protocol):
    """The model of a judge; `goalrunner.llm.LLM` is one."""

    @property
    def usage(self) -> Usage:
        """The usage so far."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
    ) -> Reply:
        """Answer the messages. Raise ModelError."""
        ...

    def context_window(self) -> int | None:
        """Return the tokens that a request may have; None if unknown."""
        ...


class AuditRecorder(Protocol):
    """The part of the port Recorder that an audit needs."""

    def usage(self, account: Literal["agent", "judge"], usage: Usage) -> None: ...

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None: ...

    def check_budget(self) -> None: ...


class JudgeSession:
    """One conversation with the judge's model."""

    def __init__(
        self,
        llm: JudgeModel,
        recorder: AuditRecorder,
        form: Form,
        answer: type[BaseModel],
        answer_name: str,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.form = form
        self._llm = llm
        self._recorder = recorder
        self._answer = answer
        self._answer_name = answer_name
        self._redact = redact
        self._messages: list[dict[str, Any]] = []
        self._repairs = REPAIRS
        self._finish_reason = ""

    async def begin(self, request: AuditRequest, nonce: str, max_tokens: int) -> None:
        """Add the rules and the prompt."""
        # In a thread: outputs may be large, and the deadline must not wait for them.
        build = partial(audit_prompt, request, nonce=nonce, max_tokens=max_tokens, form=self.form)
        prompt = await in_thread(build)
        self._messages = [{"role": "system", "content": self.form.rules}, {"role": "user", "content": prompt}]

    async def ask(self) -> str:
        """Return the judge's next answer. Raise ModelError or BudgetExhausted."""
        self._recorder.check_budget()
        before = self._llm.usage
        try:
            reply = await self._llm.complete(
                [{**message, "content": self._redact(message["content"])} for message in self._messages],
                schema=strict_schema(self._answer),
                schema_name=self._answer_name,
                temperature=0.0,
            )
        except (ModelError, asyncio.CancelledError) as error:
            # An abandoned call is counted as well.
            if self._llm.usage != before:
                self._recorder.usage("judge", self._llm.usage.since(before))
            if isinstance(error, ModelError):
                is_key = isinstance(error, AuthenticationFailed)
                self._recorder.audit_failed("authentication" if is_key else "transport", error.message)
            raise
        self._recorder.usage("judge", reply.usage)
        self._messages.append({"role": "assistant", "content": reply.text[:_ECHO] or "(no answer)"})
        self._finish_reason = reply.finish_reason
        return reply.text

    def add(self, text: str) -> None:
        """Add the next message to the judge."""
        self._messages.append({"role": "user", "content": text})

    def repair(self, reason: str) -> bool:
        """Record an unreadable answer and add the reason as a message; return False if no repair is left."""
        if self._finish_reason == "length":
            reason = f"The answer was cut at the token limit. {reason}"
        self._recorder.audit_failed("parse", reason)
        self._repairs -= 1
        self.add(repair_prompt(reason, self.form))
        return self._repairs >= 0


class Opinion(BaseModel):
    """The judge's answer about a blocked goal."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    confirmed: bool
    reason: str = Field(description="why or why not, in a sentence or two")


_CLAIM = 400 * TOKEN
_LOOKS_LIKE_OPINION = re.compile(r'"confirmed"\s*:')


def opinion_form(claim: str, nonce: str) -> Form:
    """Return the form that asks whether this claim holds."""
    report = fence("report", excerpt(claim.strip(), _CLAIM, nonce), nonce, harmless=True)
    title = "It is reported that the work on this goal is blocked. The report is a claim, not evidence:"
    return replace(OPINION, question=f"{title}\n{report}\n\n{OPINION.question}")


def parse_confirmation(text: str) -> Confirmation:
    """Return the opinion in an answer. Raise UnreadableReplyError with the reason in one sentence."""
    found, rest = objects_in(text)
    opinions = [value for value in found if "confirmed" in value]
    if not opinions:
        raise UnreadableReplyError("The answer holds no JSON object with an opinion.")
    if any(opinion != opinions[0] for opinion in opinions) or _LOOKS_LIKE_OPINION.search(rest):
        raise UnreadableReplyError("The answer holds several different opinions.")
    confirmed, reason = opinions[0]["confirmed"], opinions[0].get("reason")
    if not isinstance(confirmed, bool):
        raise UnreadableReplyError('"confirmed" must be true or false.')
    if not isinstance(reason, str) or not reason.strip():
        raise UnreadableReplyError('"reason" must say why.')
    return Confirmation(confirmed=confirmed, reason=reason.strip())
