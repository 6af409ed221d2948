"""The judge: audits, reviews and second opinions, each in a new conversation."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from goalrunner.core.errors import BudgetExhausted, ModelError
from goalrunner.core.events import (
    ChecksReviewed,
    ConfirmationRecorded,
    VerdictRecorded,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import JudgeConfig
from goalrunner.core.observation import Observation
from goalrunner.core.ports import AuditRequest, ChecksReviewRequest
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge import prompt_builder
from goalrunner.judge.check_review import (
    REVIEW,
    CheckReview,
    parse_review,
    quotes_correction,
)
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.judge_session import AuditRecorder, JudgeSession
from goalrunner.judge.prices import SECOND_LOOK
from goalrunner.judge.prompt_builder import Events, audit_request, plain_goal
from goalrunner.judge.prompt_text import correction_prompt
from goalrunner.judge.verdict_check import (
    CheckedVerdict,
    check_verdict,
    in_words_of_goal,
)
from goalrunner.judge.verdict_parser import (
    JudgeOutcome,
    parse_confirmation,
    parse_reply,
    settled_outcome,
)
from goalrunner.llm import LLM
from goalrunner.system.event_loop import in_thread

_Check = Callable[[JudgeOutcome, AuditRequest], CheckedVerdict]


class LLMJudge:
    """A judge that asks a model. Audits share no memory."""

    def __init__(
        self,
        llm: LLM,
        config: JudgeConfig | None = None,
        *,
        redact: Callable[[str], str] = str,
        check: _Check = check_verdict,
    ) -> None:
        """`redact` replaces secrets in messages.

        `check` replaces the check of citations, to measure its effect.
        """
        self._llm = llm
        self._config = config or JudgeConfig()
        self._redact = redact
        self._check = check

    async def audit(
        self, request: AuditRequest, recorder: AuditRecorder | None = None
    ) -> VerdictRecorded:
        """Ask the judge for a verdict.

        The judge may ask once to see whole observations, and is asked once to correct
        citations that do not hold. Raise ModelError, BudgetExhausted, and UsageError if
        the goal alone is too long for the prompt.
        """
        # The stricter of the goal's and the judge's own settings counts.
        score = max(request.minimum_score, self._config.minimum_score)
        request = replace(request, minimum_score=score)
        if self._config.require == "runner":
            request = replace(request, require="runner")
        # It stands in the fences around recorded texts, so that no text can close them.
        nonce = secrets.token_hex(4)
        form = prompt_builder.audit_form(
            self._config.system_prompt, request.unread, nonce
        )
        session = JudgeSession(self._llm, recorder, form, self._redact)
        await session.begin(request, nonce, self._config.max_tokens)
        return await _Audit(session, request, nonce, self._check).verdict()

    async def review(
        self, request: ChecksReviewRequest, recorder: AuditRecorder
    ) -> ChecksReviewed:
        """Ask in a new conversation which changes of the checks the goal asks for.

        Quotes that do not hold are reported once. An unreadable answer leaves the
        decision to a person. Raise ModelError and BudgetExhausted.
        """
        review = CheckReview(request, secrets.token_hex(4))
        decided = review.without_judge()
        if decided is not None:
            return decided
        room = SECOND_LOOK * self._config.max_tokens
        window = self._llm.context_window()
        if window is not None:
            # A quarter of the context window stays free for the answers.
            room = min(room, window * 3 // 4)
        # A change that the judge does not see could weaken a check.
        if not await in_thread(review.fits, room):
            return review.undecided(
                "the diff is too long for the judge to see it whole"
            )
        session = JudgeSession(self._llm, recorder, REVIEW, self._redact)
        session.open(review.prompt)
        try:
            reviewed, faults = review.decide(await session.answer(parse_review))
            if faults:
                session.add(quotes_correction(faults))
                reviewed, _ = review.decide(await session.answer(parse_review))
        except UnreadableReplyError as error:
            reason = f"its answer could not be read. {error}"
            return review.undecided(reason, asked=True)
        return reviewed

    async def confirm(
        self, request: AuditRequest, claim: str, recorder: AuditRecorder
    ) -> ConfirmationRecorded:
        """Ask in a new conversation whether the goal is blocked as claimed.

        An unreadable answer means no. Raise the same errors as `audit`.
        """
        nonce = secrets.token_hex(4)
        form = prompt_builder.opinion_form(claim, nonce)
        session = JudgeSession(self._llm, recorder, form, self._redact)
        await session.begin(request, nonce, self._config.max_tokens)
        try:
            confirmed, reason = await session.answer(parse_confirmation)
        except UnreadableReplyError as error:
            confirmed, reason = False, f"The second opinion could not be read. {error}"
        return ConfirmationRecorded(claim=claim, confirmed=confirmed, reason=reason)


class _Audit:
    """The answers of a judge in one audit, until one counts."""

    def __init__(
        self, session: JudgeSession, request: AuditRequest, nonce: str, check: _Check
    ) -> None:
        self._session = session
        self._request = request
        self._nonce = nonce
        self._check = check
        self._has_shown_observations = False

    async def verdict(self) -> VerdictRecorded:
        """Return the verdict. Raise ModelError and BudgetExhausted."""
        # The verdict before the judge was asked to correct its citations. It is not
        # complete, and counts if no corrected one can be read.
        uncorrected: VerdictRecorded | None = None
        while True:
            try:
                text = await self._session.ask()
            except (ModelError, BudgetExhausted):
                if uncorrected is None:
                    raise
                return uncorrected
            try:
                outcome = await self._outcome(text)
            except UnreadableReplyError as error:
                if self._session.repair(str(error)):
                    continue
                return uncorrected or self._unreadable()
            if outcome is None:
                # The observations that the judge asked for are the next message.
                continue
            checked: CheckedVerdict = await in_thread(
                self._check, outcome, self._request
            )
            # Once: a judge could cite wrongly again and again.
            may_correct = uncorrected is None
            if not (may_correct and self._is_worth_correcting(outcome, checked)):
                return checked.event
            uncorrected = checked.event
            self._session.add(correction_prompt(checked.mendable))

    def _is_worth_correcting(
        self, outcome: JudgeOutcome, checked: CheckedVerdict
    ) -> bool:
        """Return whether other citations could make the verdict complete.

        A stale citation is not mendable: it needs new work of the agent.
        """
        is_score_enough = outcome.score >= self._request.minimum_score
        return outcome.passed and is_score_enough and bool(checked.mendable)

    async def _outcome(self, text: str) -> JudgeOutcome | None:
        """Return the verdict in an answer.

        None if it asks for observations, which are then added as the next message.
        """
        outcome: JudgeOutcome = await in_thread(parse_reply, text)
        # Once: a judge could ask for one observation after another.
        if not self._has_shown_observations:
            requested = prompt_builder.requested_observations(
                outcome.need, self._request
            )
            if requested:
                await self._show(requested)
                return None
        # Requests after the first are ignored.
        return in_words_of_goal(settled_outcome(outcome), self._request)

    async def _show(self, requested: Sequence[Observation]) -> None:
        self._has_shown_observations = True
        build_prompt = partial(
            prompt_builder.look_prompt,
            self._request,
            requested,
            nonce=self._nonce,
            max_tokens=self._session.look_room,
        )
        self._session.add(await in_thread(build_prompt))

    def _unreadable(self) -> VerdictRecorded:
        """Return the verdict if no answer could be read."""
        missing = str(self._session.unread or "")
        verdict = GoalVerdict(
            score=0.0, complete=False, missing=missing, source="fallback"
        )
        return VerdictRecorded(round=self._request.round, verdict=verdict)


async def judge_goal_async(
    llm: LLM,
    objective: str | Goal,
    events: Events,
    *,
    config: JudgeConfig | None = None,
    redact: Callable[[str], str] = str,
) -> GoalVerdict:
    """Judge once: return the verdict on `events`.

    They are a trail or chat messages in OpenAI's format. The workspace is judged unless
    the goal names the response. Raise UsageError for an empty objective, ModelError if
    the model does not answer. (Source: judge_goal of OpenHands' goal loop.)
    """
    goal = objective if isinstance(objective, Goal) else plain_goal(objective)
    if config is not None:
        goal = goal.model_copy(update={"judge": config})
    judge = LLMJudge(llm, goal.judge, redact=redact)
    recorded = await judge.audit(audit_request(goal, events))
    return recorded.verdict
