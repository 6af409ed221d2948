"""Doubles for audits: a model that plays scripted answers, and a recorder that remembers what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import BudgetExhausted
from goalrunner.core.events import Account, AgentRan
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.llm import LLM, Reply, ToolCall


@dataclass(frozen=True)
class ScriptedAnswer(Reply):
    """An answer of a judge's model."""

    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(
        default_factory=lambda: Usage(input_tokens=100, output_tokens=20, calls=1)
    )
    finish_reason: str = "stop"


@dataclass(frozen=True)
class Asked:
    """One call as the model saw it."""

    messages: list[dict[str, Any]]
    schema: dict[str, Any] | None
    temperature: float | None


class ScriptedJudgeModel(LLM):
    """Plays its answers in order, raising those that are errors; loud when asked once too often."""

    def __init__(
        self,
        answers: Sequence[str | ScriptedAnswer | BaseException],
        window: int | None = None,
        given_up: Usage = Usage(),  # noqa: B008  frozen
    ) -> None:
        """`given_up` is what a call costs that ends in an error."""
        super().__init__("test/judge")
        self.answers, self.window, self.given_up = answers, window, given_up
        self.asked: list[Asked] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
        **_: Any,
    ) -> ScriptedAnswer:
        """The next answer."""
        self.asked.append(
            Asked(
                deepcopy([dict(message) for message in messages]), schema, temperature
            )
        )
        if len(self.asked) > len(self.answers):
            raise AssertionError(
                f"the judge was asked {len(self.asked)} times, for {len(self.answers)} answers"
            )
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, BaseException):
            self.usage += self.given_up
            raise answer
        scripted = (
            answer if isinstance(answer, ScriptedAnswer) else ScriptedAnswer(answer)
        )
        self.usage += scripted.usage
        return scripted

    def context_window(self) -> int | None:
        """As told."""
        return self.window


@dataclass
class AuditNotes:
    """Remembers what an audit records; refuses the call after `calls_paid_for` ones."""

    calls_paid_for: int | None = None
    checks: int = 0
    usages: list[tuple[str, Usage]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def usage(self, account: Account, usage: Usage) -> None:
        """Kept."""
        self.usages.append((account, usage))

    def session(self, session: AgentSession) -> None:
        """A judge has none."""
        raise AssertionError(session)

    async def agent_ran(self, ran: AgentRan, output: Path, errors: Path) -> None:
        """A judge is none."""
        raise AssertionError(ran)

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        """Kept."""
        self.unread.append(answer)
        self.failures.append((kind, detail))

    def check_budget(self, account: Account = "agent") -> None:
        """Counted."""
        self.checks += 1
        if self.calls_paid_for is not None and self.checks > self.calls_paid_for:
            raise BudgetExhausted("the budget is spent")
