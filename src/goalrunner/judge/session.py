"""The messages of an audit, its repairs, and the second opinion on a blocked goal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

from goalrunner.core.check_ports import AuditRequest, Confirmation
from goalrunner.core.errors import AuthenticationFailed, ModelError
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.judge.excerpt import TOKEN, excerpt
from goalrunner.judge.prompt_builder import audit_prompt
from goalrunner.judge.prompt_text import OPINION, Form, repair_prompt
from goalrunner.judge.text import fence
from goalrunner.judge.verdict_parser import UnreadableReplyError, objects_in
from goalrunner.system.launcher import in_thread

REPAIRS = 2
"""How often the judge is asked again after an answer that cannot be read."""

_ECHO = 8_000
"""Characters of an answer of its own that the judge is shown again."""


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

    @property
    def usage(self) -> Usage:
        """The running account."""
        ...

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


class Talk:
    """One conversation with the judge's model: the messages, the calls, and the repairs that are left."""

    def __init__(
        self,
        llm: JudgeModel,
        recorder: AuditRecorder,
        form: Form,
        schema: dict[str, Any],
        schema_name: str,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.form = form
        self._llm = llm
        self._recorder = recorder
        self._schema = schema
        self._redact = redact
        self._schema_name = schema_name
        self._messages: list[dict[str, Any]] = []
        self._repairs = REPAIRS
        self._finish_reason = ""

    async def begin(self, request: AuditRequest, nonce: str, max_tokens: int) -> None:
        """The rules and the prompt."""
        # In a thread: outputs may be large, and the deadline must not wait for them.
        build = partial(audit_prompt, request, nonce=nonce, max_tokens=max_tokens, form=self.form)
        prompt = await in_thread(build)
        self._messages = [{"role": "system", "content": self.form.rules}, {"role": "user", "content": prompt}]

    async def ask(self) -> str:
        """The judge's next answer. Raises ModelError and BudgetExhausted."""
        self._recorder.check_budget()
        before = self._llm.usage
        try:
            answer = await self._llm.complete(
                [{**message, "content": self._redact(message["content"])} for message in self._messages],
                schema=self._schema,
                schema_name=self._schema_name,
                temperature=0.0,
            )
        except (ModelError, asyncio.CancelledError) as error:
            # What a call cost that was given up is counted as well.
            if self._llm.usage != before:
                self._recorder.usage("judge", self._llm.usage.since(before))
            if isinstance(error, ModelError):
                self._recorder.audit_failed(_kind(error), error.message)
            raise
        self._recorder.usage("judge", answer.usage)
        self._messages.append({"role": "assistant", "content": answer.text[:_ECHO] or "(no answer)"})
        self._finish_reason = answer.finish_reason
        return answer.text

    def say(self, text: str) -> None:
        """The next message to the judge."""
        self._messages.append({"role": "user", "content": text})

    def repair(self, reason: str) -> bool:
        """Record an answer that cannot be read, and say what was wrong; False where no repair is left."""
        if self._finish_reason == "length":
            reason = f"The answer was cut at the token limit. {reason}"
        self._recorder.audit_failed("parse", reason)
        self._repairs -= 1
        self.say(repair_prompt(reason, self.form))
        return self._repairs >= 0


def _kind(error: ModelError) -> Literal["transport", "authentication"]:
    return "authentication" if isinstance(error, AuthenticationFailed) else "transport"


CONFIRM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirmed": {"type": "boolean"},
        "reason": {"type": "string", "description": "why or why not, in a sentence or two"},
    },
    "required": ["confirmed", "reason"],
    "additionalProperties": False,
}
"""The schema of the answer, as OpenAI's strict mode takes it."""

_CLAIM = 400 * TOKEN
_LOOKS_LIKE_OPINION = re.compile(r'"confirmed"\s*:')
_REPORTED = "Somebody reports that the work on this goal is blocked. The report is a claim, not evidence:"


def opinion_form(claim: str, nonce: str) -> Form:
    """What is asked: whether this claim holds."""
    report = fence("report", excerpt(claim.strip(), _CLAIM, nonce), nonce, harmless=True)
    return replace(OPINION, question=f"{_REPORTED}\n{report}\n\n{OPINION.question}")


def parse_confirmation(text: str) -> Confirmation:
    """The opinion in an answer. Raises UnreadableReplyError with one sentence that says what is wrong."""
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
