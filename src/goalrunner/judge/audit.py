"""One audit: a new conversation with the judge's model, and the check of its citations."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from goalrunner.core.check_ports import Audit, AuditRequest, Confirmation
from goalrunner.core.errors import BudgetExhausted, ModelError
from goalrunner.core.goal import Goal, JudgeConfig
from goalrunner.core.observation import RESPONSE, Observation
from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.citations import Examination, examine, identifier_of
from goalrunner.judge.excerpt import SECOND_LOOK
from goalrunner.judge.prompt_builder import Deliverable, Events, audit_form, audit_request, least_tokens, look_prompt
from goalrunner.judge.prompt_text import Form, correction_prompt
from goalrunner.judge.rendering import deliverable_response
from goalrunner.judge.session import (
    AuditRecorder,
    JudgeModel,
    JudgeSession,
    Opinion,
    opinion_form,
    parse_confirmation,
)
from goalrunner.judge.verdict_parser import UnreadableReplyError, parse_reply, settled
from goalrunner.judge.verdict_schema import (
    AbsentRequirementError,
    JudgeOutcome,
    matched,
    requirements_of,
)
from goalrunner.system.launcher import in_thread

UNREADABLE = "the judge gave no valid answer"
"""What is missing in the verdict for an unreadable answer. The agent never sees it."""


class LLMJudge:
    """A judge that asks a model. Audits share no memory."""

    def __init__(
        self,
        llm: JudgeModel,
        config: JudgeConfig | None = None,
        *,
        nonce: Callable[[], str] = lambda: secrets.token_hex(4),
        redact: Callable[[str], str] = str,
    ) -> None:
        """`redact` replaces secrets in every message before it is sent."""
        self._llm = llm
        self._redact = redact
        self._config = config or JudgeConfig()
        self._nonce = nonce

    async def audit(self, request: AuditRequest, recorder: AuditRecorder) -> Audit:
        """Ask; once show the observations that the judge asks for, and once report citations that do not hold.

        Raise ModelError, BudgetExhausted, and UsageError if the goal alone is too long for the prompt.
        """
        if self._config.require == "runner":
            request = replace(request, require="runner")
        nonce = self._nonce()
        form = audit_form(self._config.system_prompt)
        session = JudgeSession(self._llm, recorder, form, JudgeOutcome, "verdict", self._redact)
        most = self._most(request, form)
        await session.begin(request, nonce, most)
        expanded = False
        checked: Audit | None = None
        while True:
            try:
                text = await session.ask()
            except (ModelError, BudgetExhausted):
                if checked is None:
                    raise
                return checked  # this question was only another chance
            try:
                # In a thread: outputs may be large, and the deadline must not wait for them.
                outcome: JudgeOutcome = await in_thread(parse_reply, text)
                requested = [] if expanded else _requested(outcome.need, request)
                if requested:
                    expanded = True
                    look = partial(look_prompt, request, requested, nonce=nonce, max_tokens=self._second_room(most))
                    session.add(await in_thread(look))
                    continue
                outcome = settled(outcome)
                found: Examination = await in_thread(self._examine, outcome, request)
            except (UnreadableReplyError, AbsentRequirementError) as error:
                if not session.repair(str(error)):
                    break
            else:
                # A stale citation needs new work of the agent, other faults need another answer of the judge.
                passes = outcome.passed and outcome.score >= self._minimum(request)
                if not (passes and found.mendable) or checked is not None:
                    return found.audit
                checked = found.audit
                session.add(correction_prompt(found.mendable))
        # A verdict that could be read before counts; it is not complete either.
        return checked or Audit(verdict=GoalVerdict(score=0.0, complete=False, missing=UNREADABLE, source="fallback"))

    async def confirm(self, request: AuditRequest, claim: str, recorder: AuditRecorder) -> Confirmation:
        """Ask in a new conversation whether the goal is blocked as claimed; an unreadable answer confirms nothing.

        Raises as `audit` does.
        """
        nonce = self._nonce()
        form = opinion_form(claim, nonce)
        session = JudgeSession(self._llm, recorder, form, Opinion, "opinion", self._redact)
        await session.begin(request, nonce, self._most(request, form))
        while True:
            text = await session.ask()
            try:
                return parse_confirmation(text)
            except UnreadableReplyError as error:
                if not session.repair(str(error)):
                    return Confirmation(confirmed=False, reason=f"The second opinion could not be read. {error}")

    def _examine(self, outcome: JudgeOutcome, request: AuditRequest) -> Examination:
        criteria = matched(outcome, requirements_of(request.success_criteria, request.constraints))
        return examine(outcome, criteria, request, minimum_score=self._minimum(request))

    def _minimum(self, request: AuditRequest) -> float:
        return max(request.minimum_score, self._config.minimum_score)

    def _most(self, request: AuditRequest, form: Form) -> int:
        """Return the tokens of the prompt: as configured, at most half of the context window, at least for the goal."""
        window = self._llm.context_window()
        if window is None or window // 2 >= self._config.max_tokens:
            return self._config.max_tokens
        return min(self._config.max_tokens, max(window // 2, least_tokens(request, form)))

    def _second_room(self, most: int) -> int:
        """Return the tokens for requested observations; a quarter of the context window stays free."""
        window = self._llm.context_window()
        room = SECOND_LOOK * most
        return room if window is None else min(room, window * 3 // 4 - most)


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
    redact: Callable[[str], str] = str,
) -> GoalVerdict:
    """Judge once: return the verdict on `events`, a trail or chat messages in OpenAI's format.

    The workspace is judged unless the goal or `deliverable` names the response. Raises UsageError for an empty objective,
    ModelError if the judge cannot be asked. (Source: judge_goal of OpenHands' goal loop.)
    """
    whole = objective if isinstance(objective, Goal) else None
    chosen = deliverable or (whole.deliverable if whole else "workspace")
    request = audit_request(
        objective, events, deliverable=chosen, success_criteria=success_criteria, constraints=constraints
    )
    judge = LLMJudge(llm, config or (whole.judge if whole else None), redact=redact)
    return (await judge.audit(request, recorder or _Unrecorded())).verdict


class _Unrecorded:
    """The recorder of a judgement outside of a run."""

    def usage(self, account: Literal["agent", "judge"], usage: Usage) -> None:
        """Do nothing: the model counts its own usage."""

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None:
        """Do nothing: the verdict's source tells it."""

    def check_budget(self) -> None:
        """Do nothing: there is no budget."""


def _requested(need: Sequence[str], request: AuditRequest) -> list[Observation]:
    """Return the observations that an answer asks for, each once; unknown ids are ignored."""
    shown = deliverable_response(request.trail, request.deliverable)
    found = (request.trail.observation(identifier_of(identifier)) for identifier in dict.fromkeys(need))
    wanted = {item.id: item for item in found if item is not None and (item.source != RESPONSE or item == shown)}
    return list(wanted.values())
