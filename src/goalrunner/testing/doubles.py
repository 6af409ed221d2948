"""Scripted doubles of the ports, for tests without a model.

Each plays its script in order and raises ScriptExhausted at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from goalrunner.core.agent_ports import (
    ApprovalAnswer,
    ApprovalRequest,
    Message,
    QuestionReply,
    Recorder,
    RoundReply,
    ToolResult,
)
from goalrunner.core.events import (
    ChecksReviewed,
    ConfirmationRecorded,
    ReviewedChange,
    VerdictRecorded,
)
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest, ChecksReviewRequest, ValidationContext
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)

Item = TypeVar("Item")


class ScriptExhausted(AssertionError):
    """A double was called after the end of its script.

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> agent = ScriptedConversation("5")
    >>> run_goal(agent, "Add.", validators=lambda: False).message.split(":")[0]
    'ScriptExhausted'
    """


def _next(script: Sequence[Item], used: int, owner: str, noun: str) -> Item:
    if used >= len(script):
        raise ScriptExhausted(
            f"{owner} has {len(script)} {noun}, one more was asked for"
        )
    return script[used]


@dataclass(frozen=True)
class ScriptedRound:
    """One round: tool results in order, then a last message; or an error.

    >>> from goalrunner.testing import ScriptedConversation, ScriptedRound, shell_result
    >>> work = ScriptedRound("done", tools=(shell_result("c1", "make", "ok"),))
    >>> agent = ScriptedConversation(work, "done again")
    """

    text: str = "done"
    tools: tuple[ToolResult, ...] = ()
    usage: Usage = field(
        default_factory=lambda: Usage(input_tokens=10, output_tokens=5, calls=1)
    )
    delay: float = 0.0
    """Seconds before the round begins."""
    error: Exception | None = None


class ScriptedConversation:
    """An agent that plays rounds.

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> agent = ScriptedConversation("first answer", "second answer")
    >>> run_goal(agent, "Answer.", validators=lambda: True).iterations
    1
    """

    def __init__(self, *rounds: ScriptedRound | str) -> None:
        self._rounds = [
            ScriptedRound(text=item) if isinstance(item, str) else item
            for item in rounds
        ]
        self._played = 0
        self.messages: list[Message] = []

    @property
    def prompts(self) -> list[str]:
        """The user messages that are in the conversation now."""
        return [
            str(message["content"])
            for message in self.messages
            if message["role"] == "user"
        ]

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Play the next round."""
        round_ = _next(self._rounds, self._played, "the conversation", "rounds")
        self._played += 1
        self._add({"role": "user", "content": prompt}, recorder)
        await asyncio.sleep(round_.delay)
        if round_.error is not None:
            raise round_.error
        for result in round_.tools:
            recorder.tool_called(result.tool_call_id, result.tool, result.command)
            shown = (await recorder.tool_result(result)).head.decode(errors="replace")
            self._add(
                {"role": "tool", "tool_call_id": result.tool_call_id, "content": shown},
                recorder,
            )
        recorder.check_budget()
        recorder.text(round_.text)
        recorder.usage("agent", round_.usage)
        self._add({"role": "assistant", "content": round_.text}, recorder)
        return RoundReply(text=round_.text, steps=1)

    def checkpoint(self) -> Any:
        """Return a copy of the messages."""
        return list(self.messages)

    def restore(self, checkpoint: Any) -> None:
        """Restore a copy of the messages."""
        self.messages[:] = checkpoint

    def _add(self, message: Message, recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


class ScriptedValidator:
    """A validator that plays results: True, False, or a feedback text (red).

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation, ScriptedValidator
    >>> check = ScriptedValidator("too long", True)
    >>> run_goal(ScriptedConversation("a", "b"), "Answer.", validators=check).iterations
    2
    """

    def __init__(
        self,
        *verdicts: bool | str,
        name: str = "check",
        serial: bool = False,
        hidden: bool = False,
    ) -> None:
        self.name = name
        self.hidden = hidden
        self.command = f"scripted {name}"
        self.serial = serial
        self._verdicts = verdicts
        self.contexts: list[ValidationContext] = []

    async def validate(
        self, context: ValidationContext
    ) -> tuple[ValidatorResult, Path | None]:
        """Play the next result."""
        verdict = _next(
            self._verdicts, len(self.contexts), f"validator {self.name}", "verdicts"
        )
        self.contexts.append(context)
        await asyncio.sleep(0)
        feedback = verdict if isinstance(verdict, str) else ""
        known: dict[str, Any] = {
            "name": self.name,
            "command": self.command,
            "feedback": feedback,
        }
        if verdict is True:
            return ValidatorResult(
                passed=True, reason="passed", summary="green", **known
            ), None
        return ValidatorResult(passed=False, reason="red", summary="red", **known), None


class ScriptedJudge:
    """A judge that plays verdicts and second opinions.

    Their citations are not checked.

    A verdict or an opinion may be given as a whole event, such as a verdict that fails
    on freshness alone.

    >>> from goalrunner.testing import ScriptedJudge, satisfied, unsatisfied
    >>> judge = ScriptedJudge(unsatisfied("a test"), satisfied())
    """

    def __init__(
        self,
        *verdicts: GoalVerdict | VerdictRecorded | Exception,
        usage: Usage | None = None,
        opinions: Sequence[ConfirmationRecorded | bool | Exception] = (),
        reviews: Sequence[ChecksReviewed | bool | Exception] = (),
    ) -> None:
        self._verdicts = verdicts
        self._opinions = opinions
        self._reviews = reviews
        self._usage = usage or Usage(input_tokens=20, output_tokens=5, calls=1)
        self.requests: list[AuditRequest] = []
        self.claims: list[str] = []
        self.reviewed: list[ChecksReviewRequest] = []

    async def audit(self, request: AuditRequest, recorder: Recorder) -> VerdictRecorded:
        """Play the next verdict."""
        verdict = _next(self._verdicts, len(self.requests), "the judge", "verdicts")
        self.requests.append(request)
        answer: GoalVerdict | VerdictRecorded = await self._answer(verdict, recorder)
        if isinstance(answer, VerdictRecorded):
            return answer
        cited = sum(len(criterion.evidence) for criterion in answer.criteria)
        return VerdictRecorded(
            round=request.round, verdict=answer, citations_checked=cited
        )

    async def confirm(
        self, request: AuditRequest, claim: str, recorder: Recorder
    ) -> ConfirmationRecorded:
        """Play the next second opinion."""
        opinion = _next(
            self._opinions, len(self.claims), "the judge", "second opinions"
        )
        self.claims.append(claim)
        answer: ConfirmationRecorded | bool = await self._answer(opinion, recorder)
        if isinstance(answer, ConfirmationRecorded):
            return answer
        return ConfirmationRecorded(claim=claim, confirmed=answer, reason="as scripted")

    async def review(
        self, request: ChecksReviewRequest, recorder: Recorder
    ) -> ChecksReviewed:
        """Play the next review of changed checks.

        True accepts all changes, False refuses all.
        """
        review = _next(self._reviews, len(self.reviewed), "the judge", "reviews")
        self.reviewed.append(request)
        answer: ChecksReviewed | bool = await self._answer(review, recorder)
        if isinstance(answer, ChecksReviewed):
            return answer
        changed = request.changed
        changes = (
            ReviewedChange(
                path=path,
                change="as scripted",
                problem="" if answer else "as scripted",
                hunk=path,
            )
            for path in changed.paths
        )
        decision: Literal["accepted", "refused"] = "accepted" if answer else "refused"
        return ChecksReviewed(
            round=request.round,
            key=changed.key,
            decision=decision,
            changes=tuple(changes),
        )

    async def _answer(self, item: Item | Exception, recorder: Recorder) -> Item:
        recorder.check_budget()
        await asyncio.sleep(0)
        if isinstance(item, Exception):
            raise item
        recorder.usage("judge", self._usage)
        return item


class ScriptedApprover:
    """A person who plays decisions and answers.

    A decision is True, False, or a reason (a denial); None: no person is there.

    >>> from goalrunner.testing import ScriptedApprover
    >>> person = ScriptedApprover(True, "not today", answers=["Use the old name."])
    """

    def __init__(
        self, *decisions: bool | str | None, answers: Sequence[str | None] = ()
    ) -> None:
        self._decisions = decisions
        self._answers = answers
        self.requests: list[ApprovalRequest] = []
        self.questions: list[str] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Play the next decision."""
        decision = _next(self._decisions, len(self.requests), "the person", "decisions")
        self.requests.append(request)
        await asyncio.sleep(0)
        if decision is None:
            return None
        reason = decision if isinstance(decision, str) else ""
        return ApprovalAnswer(
            "approved" if decision is True else "denied", "ada@desk", reason
        )

    async def answer(self, question: str) -> QuestionReply | None:
        """Play the next answer."""
        text = _next(self._answers, len(self.questions), "the person", "answers")
        self.questions.append(question)
        await asyncio.sleep(0)
        return None if text is None else QuestionReply(text, "ada@desk")


def satisfied(
    criterion: str = "it works", observation: str = "o1", quote: str = "1 passed"
) -> GoalVerdict:
    """Return a complete verdict with one criterion and one citation.

    >>> from goalrunner.testing import satisfied
    >>> satisfied("it parses").complete
    True
    """
    evidence = (Citation(observation=observation, quote=quote),)
    item = CriterionVerdict(criterion=criterion, satisfied=True, evidence=evidence)
    return GoalVerdict(score=1.0, complete=True, criteria=(item,))


def unsatisfied(
    missing: str, criterion: str = "it works", score: float = 0.3
) -> GoalVerdict:
    """Return a verdict that is not complete.

    >>> from goalrunner.testing import unsatisfied
    >>> unsatisfied("a test").missing
    'a test'
    """
    item = CriterionVerdict(criterion=criterion, satisfied=False, missing=missing)
    return GoalVerdict(score=score, complete=False, missing=missing, criteria=(item,))


def shell_result(
    call: str, command: str, output: str, exit_code: int = 0
) -> ToolResult:
    """Return a shell tool's result for scripted rounds.

    >>> from goalrunner.testing import shell_result
    >>> shell_result("c1", "pytest -q", "1 failed", exit_code=1).facts
    ('exit 1',)
    """
    return ToolResult(
        tool_call_id=call,
        tool="shell",
        command=command,
        facts=(f"exit {exit_code}",),
        output=output.encode(),
        summary=f"exit {exit_code}",
    )
