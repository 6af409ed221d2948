"""Audits and second opinions: each a new conversation with a model; and the check of the citations."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from goalrunner.core.errors import (
    AuthenticationFailed,
    BudgetExhausted,
    ModelError,
    shortened,
)
from goalrunner.core.events import (
    Account,
    ChecksReviewed,
    ConfirmationRecorded,
    VerdictRecorded,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import JudgeConfig
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest, ChecksReviewRequest
from goalrunner.core.verdict import GoalVerdict, UnreadAnswer
from goalrunner.judge import prompt_builder
from goalrunner.judge.check_review import (
    REVIEW,
    REVIEW_SCHEMA,
    CheckReview,
    parse_review,
    quotes_correction,
)
from goalrunner.judge.citations import CheckedVerdict, check_verdict, matched
from goalrunner.judge.excerpt import SECOND_LOOK
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.prompt_builder import (
    Events,
    audit_request,
    least_tokens,
    plain_goal,
)
from goalrunner.judge.prompt_text import (
    JUDGE_OUTCOME_SCHEMA,
    OPINION_SCHEMA,
    AuditForm,
    correction_prompt,
    repair_prompt,
)
from goalrunner.judge.verdict_parser import (
    JudgeOutcome,
    parse_confirmation,
    parse_reply,
    settled_outcome,
)
from goalrunner.llm import LLM
from goalrunner.system.event_loop import in_thread

REPAIRS = 2
"""How many times the judge is asked again after an unreadable answer."""

_ECHO = 8_000
"""Characters of its own answer that the judge sees again."""

_RECORDED = 1_000
"""Characters of an unreadable answer that are recorded: both ends."""

_Answer = TypeVar("_Answer")


class AuditRecorder(Protocol):
    """The part of the port Recorder that an audit needs."""

    def usage(self, account: Account, usage: Usage) -> None: ...

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None: ...

    def check_budget(self) -> None: ...


class JudgeSession:
    """One conversation with a model. Only of the judge is an unreadable answer recorded as a failed audit."""

    def __init__(
        self,
        llm: LLM,
        recorder: AuditRecorder | None,
        form: AuditForm,
        answer: tuple[str, dict[str, Any]],
        redact: Callable[[str], str] = str,
        account: Account = "judge",
    ) -> None:
        """`answer` is the name of an answer and its JSON Schema. Without a recorder, only the model counts its usage."""
        self._llm, self._recorder, self._form, self._redact = (
            llm,
            recorder,
            form,
            redact,
        )
        self._account: Account = account
        self._answer_name, self._schema = answer
        self._messages: list[dict[str, Any]] = []
        self._repairs, self._finish_reason = REPAIRS, ""
        self._text = ""
        self.unread: UnreadAnswer | None = None
        """The last answer that could not be read."""

    async def begin(self, request: AuditRequest, nonce: str, most: int) -> int:
        """Add the rules and the prompt of at most `most` tokens, less for a small context window. Return the limit."""
        window = self._llm.context_window()
        if window is not None:
            most = min(most, max(window // 2, least_tokens(request, self._form)))
        # In a thread: outputs may be large, and the deadline must not wait for them.
        prompt = await in_thread(
            partial(
                prompt_builder.audit_prompt,
                request,
                nonce=nonce,
                max_tokens=most,
                form=self._form,
            )
        )
        self.open(prompt)
        return most

    def open(self, prompt: str) -> None:
        """Add the rules and a prompt."""
        self._messages = [
            {"role": "system", "content": self._form.rules},
            {"role": "user", "content": prompt},
        ]

    async def ask(self) -> str:
        """Return the judge's next answer. Raise ModelError or BudgetExhausted."""
        if self._recorder:
            self._recorder.check_budget()
        before = self._llm.usage
        try:
            reply = await self._llm.complete(
                [
                    {**message, "content": self._redact(message["content"])}
                    for message in self._messages
                ],
                schema=self._schema,
                schema_name=self._answer_name,
                temperature=0.0,
            )
        except (ModelError, asyncio.CancelledError) as error:
            # An abandoned call is counted as well.
            if self._llm.usage != before:
                self._count(self._llm.usage.since(before))
            if isinstance(error, ModelError):
                self._failed(
                    "authentication"
                    if isinstance(error, AuthenticationFailed)
                    else "transport",
                    error.message,
                )
            raise
        self._count(reply.usage)
        self._messages.append(
            {"role": "assistant", "content": reply.text[:_ECHO] or "(no answer)"}
        )
        self._finish_reason, self._text = reply.finish_reason, reply.text
        return reply.text

    async def answer(self, parse: Callable[[str], _Answer]) -> _Answer:
        """Return the next answer that `parse` can read. Raise as `ask`, and UnreadableReplyError if no repair is left."""
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
        """Record an unreadable answer and add the reason as a message; return False if no repair is left."""
        if self._finish_reason == "length":
            reason = f"The answer was cut at the token limit. {reason}"
        text = self._redact(self._text.strip())
        self.unread = UnreadAnswer(reason=reason, text=shortened(text, _RECORDED))
        self._failed("parse", reason, self.unread.text)
        self._repairs -= 1
        self.add(repair_prompt(reason, self._form))
        return self._repairs >= 0

    def _count(self, usage: Usage) -> None:
        if self._recorder:
            self._recorder.usage(self._account, usage)

    def _failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        if self._recorder and self._account == "judge":
            self._recorder.audit_failed(kind, detail, answer)


class LLMJudge:
    """A judge that asks a model. Audits share no memory."""

    def __init__(
        self,
        llm: LLM,
        config: JudgeConfig | None = None,
        *,
        redact: Callable[[str], str] = str,
        check: Callable[[JudgeOutcome, AuditRequest], CheckedVerdict] = check_verdict,
    ) -> None:
        """`redact` replaces secrets in messages. `check` replaces the check of citations, to measure its effect."""
        self._llm, self._config, self._redact = llm, config or JudgeConfig(), redact
        self._check = check

    async def audit(
        self, request: AuditRequest, recorder: AuditRecorder | None = None
    ) -> VerdictRecorded:
        """Ask the judge. Once, show the observations that it asks for; once, report citations that do not hold.

        Raise ModelError, BudgetExhausted, and UsageError if the goal alone is too long for the prompt.
        """
        request = replace(
            request,
            minimum_score=max(request.minimum_score, self._config.minimum_score),
        )
        if self._config.require == "runner":
            request = replace(request, require="runner")
        nonce = secrets.token_hex(4)
        form = prompt_builder.audit_form(
            self._config.system_prompt, request.unread, nonce
        )
        session = JudgeSession(
            self._llm, recorder, form, ("verdict", JUDGE_OUTCOME_SCHEMA), self._redact
        )
        most = await session.begin(request, nonce, self._config.max_tokens)
        expanded = False
        first: VerdictRecorded | None = None
        while True:
            try:
                text = await session.ask()
            except (ModelError, BudgetExhausted):
                if first is None:
                    raise
                return first  # the verdict before this question counts
            try:
                outcome = await in_thread(parse_reply, text)
                requested = (
                    []
                    if expanded
                    else prompt_builder.requested_observations(outcome.need, request)
                )
                if requested:
                    expanded = True
                    # A quarter of the context window stays free.
                    window = self._llm.context_window() or SECOND_LOOK * 4 * most
                    room = min(SECOND_LOOK * most, window * 3 // 4 - most)
                    look = partial(
                        prompt_builder.look_prompt,
                        request,
                        requested,
                        nonce=nonce,
                        max_tokens=room,
                    )
                    session.add(await in_thread(look))
                    continue
                outcome = matched(settled_outcome(outcome), request)
            except UnreadableReplyError as error:
                if not session.repair(str(error)):
                    break
                continue
            checked: CheckedVerdict = await in_thread(self._check, outcome, request)
            # A stale citation needs new work of the agent, other faults need another answer of the judge.
            passes = outcome.passed and outcome.score >= request.minimum_score
            if not (passes and checked.mendable) or first is not None:
                return checked.event
            first = checked.event
            session.add(correction_prompt(checked.mendable))
        if first is not None:
            return first  # an earlier verdict counts; it is not complete either
        missing = str(session.unread or "")
        unreadable = GoalVerdict(
            score=0.0, complete=False, missing=missing, source="fallback"
        )
        return VerdictRecorded(round=request.round, verdict=unreadable)

    async def review(
        self, request: ChecksReviewRequest, recorder: AuditRecorder
    ) -> ChecksReviewed:
        """Ask in a new conversation which changes of the checks the goal asks for; report quotes that do not hold once.

        An unreadable answer leaves the decision to a person. Raise ModelError and BudgetExhausted.
        """
        review = CheckReview(request, secrets.token_hex(4))
        if (decided := review.without_judge()) is not None:
            return decided
        window, room = self._llm.context_window(), SECOND_LOOK * self._config.max_tokens
        if window is not None:
            room = min(room, window * 3 // 4)
        if not await in_thread(review.fits, room):
            return review.undecided(
                "the diff is too long for the judge to see it whole"
            )
        session = JudgeSession(
            self._llm, recorder, REVIEW, ("review", REVIEW_SCHEMA), self._redact
        )
        session.open(review.prompt)
        try:
            reviewed, faults = review.decide(await session.answer(parse_review))
            if faults:
                session.add(quotes_correction(faults))
                reviewed, _ = review.decide(await session.answer(parse_review))
        except UnreadableReplyError as error:
            return review.undecided(
                f"its answer could not be read. {error}", asked=True
            )
        return reviewed

    async def confirm(
        self, request: AuditRequest, claim: str, recorder: AuditRecorder
    ) -> ConfirmationRecorded:
        """Ask in a new conversation whether the goal is blocked as claimed. An unreadable answer means no.

        Raise the same errors as `audit`.
        """
        nonce = secrets.token_hex(4)
        form = prompt_builder.opinion_form(claim, nonce)
        session = JudgeSession(
            self._llm, recorder, form, ("opinion", OPINION_SCHEMA), self._redact
        )
        await session.begin(request, nonce, self._config.max_tokens)
        try:
            confirmed, reason = await session.answer(parse_confirmation)
        except UnreadableReplyError as error:
            confirmed, reason = False, f"The second opinion could not be read. {error}"
        return ConfirmationRecorded(claim=claim, confirmed=confirmed, reason=reason)


async def judge_goal_async(
    llm: LLM,
    objective: str | Goal,
    events: Events,
    *,
    config: JudgeConfig | None = None,
    redact: Callable[[str], str] = str,
) -> GoalVerdict:
    """Judge once: return the verdict on `events`, a trail or chat messages in OpenAI's format.

    The workspace is judged unless the goal names the response. Raise UsageError for an empty objective, ModelError if
    the model does not answer. (Source: judge_goal of OpenHands' goal loop.)
    """
    goal = objective if isinstance(objective, Goal) else plain_goal(objective)
    if config is not None:
        goal = goal.model_copy(update={"judge": config})
    judge = LLMJudge(llm, goal.judge, redact=redact)
    return (await judge.audit(audit_request(goal, events))).verdict
