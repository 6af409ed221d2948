"""Agent, validator and judge that play a script, and fail loudly when it is exhausted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.agent_ports import Recorder, RoundReply, ToolResult
from goalrunner.core.check_ports import Audit, AuditRequest, Confirmation, ValidationContext
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import ApprovalAnswer, ApprovalRequest, Message, QuestionReply
from goalrunner.core.verdict import Citation, CriterionVerdict, GoalVerdict, ValidatorResult


class ScriptExhausted(AssertionError):
    """A double was asked for more than its script holds."""


@dataclass(frozen=True)
class ScriptedRound:
    """One round: tool results in order, then a last message; or an error."""

    text: str = "done"
    tools: tuple[ToolResult, ...] = ()
    usage: Usage = field(default_factory=lambda: Usage(input_tokens=10, output_tokens=5, calls=1))
    delay: float = 0.0
    """Seconds before the round does anything."""
    error: Exception | None = None


class ScriptedConversation:
    """An agent that plays rounds."""

    def __init__(self, *rounds: ScriptedRound | str) -> None:
        self._rounds = [ScriptedRound(text=item) if isinstance(item, str) else item for item in rounds]
        self._played = 0
        self.messages: list[Message] = []

    @property
    def prompts(self) -> list[str]:
        """The user messages that are in the conversation now."""
        return [str(message["content"]) for message in self.messages if message["role"] == "user"]

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Play the next round."""
        if self._played >= len(self._rounds):
            raise ScriptExhausted(f"the conversation has {len(self._rounds)} rounds, one more was asked for")
        round_ = self._rounds[self._played]
        self._played += 1
        self._say({"role": "user", "content": prompt}, recorder)
        await asyncio.sleep(round_.delay)
        if round_.error is not None:
            raise round_.error
        for result in round_.tools:
            recorder.tool_called(result.tool_call_id, result.tool, result.command)
            shown = (await recorder.tool_result(result)).head.decode(errors="replace")
            self._say({"role": "tool", "tool_call_id": result.tool_call_id, "content": shown}, recorder)
        recorder.check_budget()
        recorder.text(round_.text)
        recorder.usage("agent", round_.usage)
        self._say({"role": "assistant", "content": round_.text}, recorder)
        return RoundReply(text=round_.text, steps=1)

    def checkpoint(self) -> object:
        """A copy of the messages."""
        return list(self.messages)

    def restore(self, checkpoint: object) -> None:
        """Put a copy back."""
        if not isinstance(checkpoint, list):
            raise TypeError("not a checkpoint of this conversation")
        self.messages[:] = checkpoint

    def _say(self, message: Message, recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


class ScriptedValidator:
    """A validator that plays verdicts: True, False, or a feedback text (red)."""

    def __init__(self, *verdicts: bool | str, name: str = "check", serial: bool = False, hidden: bool = False) -> None:
        self.name = name
        self.hidden = hidden
        self.command = f"scripted {name}"
        self.serial = serial
        self._verdicts = list(verdicts)
        self.contexts: list[ValidationContext] = []

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Play the next verdict."""
        if len(self.contexts) >= len(self._verdicts):
            raise ScriptExhausted(f"validator {self.name} has {len(self._verdicts)} verdicts, one more was asked for")
        verdict = self._verdicts[len(self.contexts)]
        self.contexts.append(context)
        await asyncio.sleep(0)
        passed = verdict is True
        feedback = verdict if isinstance(verdict, str) else ""
        return (
            ValidatorResult(
                name=self.name,
                passed=passed,
                feedback=feedback,
                reason="passed" if passed else "red",
                command=self.command,
                summary="green" if passed else "red",
            ),
            None,
        )


class ScriptedJudge:
    """A judge that plays verdicts and second opinions. Nobody checks its citations: it stands for judge and check.

    A verdict may be given as a whole Audit, such as one that fails on freshness alone.
    """

    def __init__(
        self,
        *verdicts: GoalVerdict | Audit | Exception,
        usage: Usage | None = None,
        opinions: Sequence[Confirmation | bool | Exception] = (),
    ) -> None:
        self._verdicts = list(verdicts)
        self._opinions = list(opinions)
        self._usage = usage or Usage(input_tokens=20, output_tokens=5, calls=1)
        self.requests: list[AuditRequest] = []
        self.claims: list[str] = []

    async def audit(self, request: AuditRequest, recorder: Recorder) -> Audit:
        """Play the next verdict."""
        if len(self.requests) >= len(self._verdicts):
            raise ScriptExhausted(f"the judge has {len(self._verdicts)} verdicts, one more was asked for")
        verdict = self._verdicts[len(self.requests)]
        self.requests.append(request)
        recorder.check_budget()
        await asyncio.sleep(0)
        if isinstance(verdict, Exception):
            raise verdict
        recorder.usage("judge", self._usage)
        if isinstance(verdict, Audit):
            return verdict
        cited = sum(len(criterion.evidence) for criterion in verdict.criteria)
        return Audit(verdict=verdict, citations_checked=cited)

    async def confirm(self, request: AuditRequest, claim: str, recorder: Recorder) -> Confirmation:
        """Play the next second opinion."""
        if len(self.claims) >= len(self._opinions):
            raise ScriptExhausted(f"the judge has {len(self._opinions)} second opinions, one more was asked for")
        opinion = self._opinions[len(self.claims)]
        self.claims.append(claim)
        recorder.check_budget()
        await asyncio.sleep(0)
        if isinstance(opinion, Exception):
            raise opinion
        recorder.usage("judge", self._usage)
        if isinstance(opinion, bool):
            return Confirmation(confirmed=opinion, reason="as scripted")
        return opinion


class ScriptedApprover:
    """A person who plays decisions and answers: True, False, a reason (a denial), or None for nobody being there."""

    def __init__(self, *decisions: bool | str | None, answers: Sequence[str | None] = ()) -> None:
        self._decisions = list(decisions)
        self._answers = list(answers)
        self.requests: list[ApprovalRequest] = []
        self.questions: list[str] = []

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Play the next decision."""
        if len(self.requests) >= len(self._decisions):
            raise ScriptExhausted(f"the person has {len(self._decisions)} decisions, one more was asked for")
        decision = self._decisions[len(self.requests)]
        self.requests.append(request)
        await asyncio.sleep(0)
        if decision is None:
            return None
        reason = decision if isinstance(decision, str) else ""
        return ApprovalAnswer("approved" if decision is True else "denied", "ada@desk", reason)

    async def answer(self, question: str) -> QuestionReply | None:
        """Play the next answer."""
        if len(self.questions) >= len(self._answers):
            raise ScriptExhausted(f"the person has {len(self._answers)} answers, one more was asked for")
        text = self._answers[len(self.questions)]
        self.questions.append(question)
        await asyncio.sleep(0)
        return None if text is None else QuestionReply(text, "ada@desk")


def satisfied(criterion: str = "it works", observation: str = "o1", quote: str = "1 passed") -> GoalVerdict:
    """A complete verdict with one criterion and one citation."""
    evidence = (Citation(observation=observation, quote=quote),)
    item = CriterionVerdict(criterion=criterion, satisfied=True, evidence=evidence)
    return GoalVerdict(score=1.0, complete=True, criteria=(item,))


def unsatisfied(missing: str, criterion: str = "it works", score: float = 0.3) -> GoalVerdict:
    """A verdict that is not complete."""
    item = CriterionVerdict(criterion=criterion, satisfied=False, missing=missing)
    return GoalVerdict(score=score, complete=False, missing=missing, criteria=(item,))


def shell_result(call: str, command: str, output: str, exit_code: int = 0) -> ToolResult:
    """A shell tool's result, for scripted rounds."""
    return ToolResult(
        tool_call_id=call,
        tool="shell",
        command=command,
        facts=(f"exit {exit_code}",),
        output=output.encode(),
        summary=f"exit {exit_code}",
    )
