"""One audit: a fresh conversation with the judge's model, and the check of its citations."""

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
from goalrunner.judge.prompt_text import Form
from goalrunner.judge.rendering import deliverable_response
from goalrunner.judge.session import CONFIRM_SCHEMA, AuditRecorder, JudgeModel, Talk, opinion_form, parse_confirmation
from goalrunner.judge.verdict_parser import UnreadableReplyError, parse_reply, settled
from goalrunner.judge.verdict_schema import JUDGE_SCHEMA, AbsentRequirementError, JudgeOutcome, matched, requirements_of
from goalrunner.system.launcher import in_thread


def corrections(outcome: JudgeOutcome, found: Examination, minimum_score: float) -> tuple[str, ...]:
    """What to tell the judge, one sentence each. Nothing where the answer itself leaves something open.

    What is stale is not told: that takes new work, not other words, and goes to the agent.
    """
    return found.mendable if outcome.passed and outcome.score >= minimum_score else ()


def correction_prompt(found: tuple[str, ...]) -> str:
    """The turn itself."""
    listed = "\n".join(f"- {sentence}" for sentence in found)
    return (
        f"Your citations were checked. These do not hold:\n{listed}\n\n"
        "Where the evidence shows it, cite it again: whole words, exactly as they stand in that observation's output, or a "
        "fact of its heading. Drop a citation that is not needed. Where nothing shows it, the criterion is not satisfied. "
        "What you cite now counts as it is. Answer once more with the whole JSON object, in the same form."
    )


UNREADABLE = "the judge gave no answer that could be read"
"""What is missing in a verdict that stands for an unreadable answer. The agent never reads it."""


class LLMJudge:
    """A judge that asks a model. Each audit starts from nothing: no memory of earlier ones."""

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
        """Ask, show once more what the judge asks for, tell it once what its citations lack, repair what cannot be read.

        Raises ModelError, BudgetExhausted, and UsageError where the goal alone is too long for the prompt.
        """
        if self._config.require == "runner":
            request = replace(request, require="runner")
        nonce = self._nonce()
        talk = Talk(self._llm, recorder, audit_form(self._config.system_prompt), JUDGE_SCHEMA, "verdict", self._redact)
        most = self._most(request, talk.form)
        await talk.begin(request, nonce, most)
        looked = False
        checked: Audit | None = None
        while True:
            try:
                text = await talk.ask()
            except (ModelError, BudgetExhausted):
                if checked is None:
                    raise
                return checked  # the question was one more chance, not a need
            try:
                # In a thread: outputs may be large, and the deadline must not wait for them.
                outcome: JudgeOutcome = await in_thread(parse_reply, text)
                wanted = [] if looked else _wanted(outcome.need, request)
                if wanted:
                    looked = True
                    look = partial(look_prompt, request, wanted, nonce=nonce, max_tokens=self._second_room(most))
                    talk.say(await in_thread(look))
                    continue
                outcome = settled(outcome)
                found: Examination = await in_thread(self._examined, outcome, request)
            except (UnreadableReplyError, AbsentRequirementError) as error:
                if not talk.repair(str(error)):
                    break
            else:
                wrong = corrections(outcome, found, self._minimum(request))
                if not wrong or checked is not None:
                    return found.audit
                checked = found.audit
                talk.say(correction_prompt(wrong))
        # What could be read before stands; it is not complete either.
        return checked or Audit(verdict=GoalVerdict(score=0.0, complete=False, missing=UNREADABLE, source="fallback"))

    async def confirm(self, request: AuditRequest, claim: str, recorder: AuditRecorder) -> Confirmation:
        """Ask afresh whether the claim that the goal is blocked holds; what cannot be read confirms nothing.

        Raises as an audit does.
        """
        nonce = self._nonce()
        talk = Talk(self._llm, recorder, opinion_form(claim, nonce), CONFIRM_SCHEMA, "opinion", self._redact)
        await talk.begin(request, nonce, self._most(request, talk.form))
        while True:
            text = await talk.ask()
            try:
                return parse_confirmation(text)
            except UnreadableReplyError as error:
                if not talk.repair(str(error)):
                    return Confirmation(confirmed=False, reason=f"The second opinion could not be read. {error}")

    def _examined(self, outcome: JudgeOutcome, request: AuditRequest) -> Examination:
        criteria = matched(outcome, requirements_of(request.success_criteria, request.constraints))
        return examine(outcome, criteria, request, minimum_score=self._minimum(request))

    def _minimum(self, request: AuditRequest) -> float:
        return max(request.minimum_score, self._config.minimum_score)

    def _most(self, request: AuditRequest, form: Form) -> int:
        """Tokens of the prompt: as configured, and no more than half of a small context window, but for the goal itself."""
        window = self._llm.context_window()
        if window is None or window // 2 >= self._config.max_tokens:
            return self._config.max_tokens
        return min(self._config.max_tokens, max(window // 2, least_tokens(request, form)))

    def _second_room(self, most: int) -> int:
        """Tokens for the observations that the judge asks for; a quarter of the context window stays free."""
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
    """Judge once, without a loop: the verdict on what `events` hold, a trail or chat messages in OpenAI's shape.

    The workspace is judged unless the goal or `deliverable` says that it is the response. Raises UsageError for an
    empty objective, ModelError when the judge cannot be asked. (Source: judge_goal of OpenHands' goal loop.)
    """
    whole = objective if isinstance(objective, Goal) else None
    chosen = deliverable or (whole.deliverable if whole else "workspace")
    request = audit_request(
        objective, events, deliverable=chosen, success_criteria=success_criteria, constraints=constraints
    )
    judge = LLMJudge(llm, config or (whole.judge if whole else None), redact=redact)
    return (await judge.audit(request, recorder or _Unrecorded())).verdict


class _Unrecorded:
    """For a judgement outside a run: nothing is written, and there is no budget."""

    def usage(self, account: Literal["agent", "judge"], usage: Usage) -> None:
        """The model instance keeps its own account."""

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None:
        """The verdict's source says it."""

    def check_budget(self) -> None:
        """No budget."""


def _wanted(need: Sequence[str], request: AuditRequest) -> list[Observation]:
    """The observations that an answer asks for, each once; what is none is ignored."""
    shown = deliverable_response(request.trail, request.deliverable)
    found = (request.trail.observation(identifier_of(identifier)) for identifier in dict.fromkeys(need))
    wanted = {item.id: item for item in found if item is not None and (item.source != RESPONSE or item == shown)}
    return list(wanted.values())
