"""One conversation with a model that judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from goalrunner.core.errors import AuthenticationFailed, ModelError, shortened
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import UnreadAnswer
from goalrunner.judge import prompt_builder
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.prices import SECOND_LOOK
from goalrunner.judge.prompt_builder import least_tokens
from goalrunner.judge.prompt_text import AuditForm, repair_prompt
from goalrunner.llm import LLM
from goalrunner.system.event_loop import in_thread

REPAIRS = 2
"""How many times the judge is asked again after an unreadable answer."""

# A repeated answer of any length would fill the context window.
_ECHO = 8_000
"""Characters of its own answer that the judge sees again."""

_RECORDED = 1_000
"""Characters of an unreadable answer that are recorded: both ends."""

_Answer = TypeVar("_Answer")
_Failure = Literal["parse", "transport", "authentication"]


class AuditRecorder(Protocol):
    """The part of the port Recorder that an audit needs."""

    def usage(self, account: Account, usage: Usage) -> None: ...

    def audit_failed(self, kind: _Failure, detail: str, answer: str = "") -> None: ...

    def check_budget(self, account: Account = "agent") -> None: ...


class JudgeSession:
    """One conversation with a model.

    Without a recorder, only the model counts its usage. An unreadable answer is
    recorded as a failed audit if the account is the judge's.
    """

    def __init__(
        self,
        llm: LLM,
        recorder: AuditRecorder | None,
        form: AuditForm,
        redact: Callable[[str], str] = str,
        account: Account = "judge",
    ) -> None:
        self._llm = llm
        self._recorder = recorder
        self._form = form
        self._redact = redact
        self._account: Account = account
        self._messages: list[dict[str, Any]] = []
        self._repairs = REPAIRS
        """How many more unreadable answers may be repaired."""
        self._max_tokens = 0
        self._finish_reason = ""
        self._text = ""
        self.unread: UnreadAnswer | None = None
        """The last answer that could not be read."""

    async def begin(self, request: AuditRequest, nonce: str, max_tokens: int) -> None:
        """Add the rules and the prompt, which take at most `max_tokens` together.

        In a small context window, they take at most half of it if the goal allows that.
        """
        window = self._llm.context_window()
        if window is not None:
            # Half of the window stays free for the answers and a second look.
            least = least_tokens(request, self._form)
            max_tokens = min(max_tokens, max(window // 2, least))
        self._max_tokens = max_tokens
        build_prompt = partial(
            prompt_builder.audit_prompt,
            request,
            nonce=nonce,
            max_tokens=max_tokens,
            form=self._form,
        )
        # In a thread: outputs may be large, and the deadline must not wait for them.
        self.open(await in_thread(build_prompt))

    def open(self, prompt: str) -> None:
        """Add the rules and a prompt."""
        self._messages = [
            {"role": "system", "content": self._form.rules},
            {"role": "user", "content": prompt},
        ]

    @property
    def look_room(self) -> int:
        """The tokens that requested observations may take in a second message."""
        window = self._llm.context_window()
        room = SECOND_LOOK * self._max_tokens
        # A quarter of the context window stays free.
        return min(room, window * 3 // 4 - self._max_tokens) if window else room

    async def ask(self) -> str:
        """Return the judge's next answer. Raise ModelError or BudgetExhausted."""
        if self._recorder:
            self._recorder.check_budget(self._account)
        messages: list[dict[str, Any]] = []
        for message in self._messages:
            messages.append({**message, "content": self._redact(message["content"])})
        usage_before = self._llm.usage
        try:
            reply = await self._llm.complete(
                messages,
                schema=self._form.schema,
                schema_name=self._form.answer_name,
                temperature=0.0,
            )
        except (ModelError, asyncio.CancelledError) as error:
            # An abandoned call is counted as well.
            if self._llm.usage != usage_before:
                self._count(self._llm.usage.since(usage_before))
            if isinstance(error, ModelError):
                is_refused = isinstance(error, AuthenticationFailed)
                kind: _Failure = "authentication" if is_refused else "transport"
                self._failed(kind, error.message)
            raise
        self._count(reply.usage)
        # Providers refuse an empty message.
        echo = reply.text[:_ECHO] or "(no answer)"
        self._messages.append({"role": "assistant", "content": echo})
        self._finish_reason, self._text = reply.finish_reason, reply.text
        return reply.text

    async def answer(self, parse: Callable[[str], _Answer]) -> _Answer:
        """Return the next answer that `parse` can read.

        Raise as `ask`, and UnreadableReplyError if no repair is left.
        """
        while True:
            text = await self.ask()
            try:
                return parse(text)
            except UnreadableReplyError as error:
                if not self.repair(str(error)):
                    raise

    def add(self, text: str) -> None:
        """Add the next message to the judge."""
        self._messages.append({"role": "user", "content": text})

    def repair(self, reason: str) -> bool:
        """Record an unreadable answer and add the reason as a message.

        Return False if no repair is left.
        """
        # The JSON is broken because it ends, not because of its form.
        if self._finish_reason == "length":
            reason = f"The answer was cut at the token limit. {reason}"
        text = self._redact(self._text.strip())
        # The next audit shows it to the judge.
        self.unread = UnreadAnswer(reason=reason, text=shortened(text, _RECORDED))
        self._failed("parse", reason, self.unread.text)
        self._repairs -= 1
        self.add(repair_prompt(reason, self._form))
        return self._repairs >= 0

    def _count(self, usage: Usage) -> None:
        if self._recorder:
            self._recorder.usage(self._account, usage)

    def _failed(self, kind: _Failure, detail: str, answer: str = "") -> None:
        if self._recorder and self._account == "judge":
            self._recorder.audit_failed(kind, detail, answer)
