"""Protocols of agents, of people who decide, and of observers of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from goalrunner.core.errors import GoalError
from goalrunner.core.events import (
    Account,
    AgentRan,
    ChangedChecks,
    PlanProposed,
    Record,
)
from goalrunner.core.observation import EvidenceRow, Observation
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.run_state import Approval, RunState

Message = Mapping[str, Any]
"""A chat message in OpenAI's shape: role, content (str), tool_calls, tool_call_id,
name."""

CALLED = -1
"""In `ToolResult.started`: the tool had not started when its call was recorded, so the
recorder knows the time."""


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call, before it is recorded.

    >>> from goalrunner import ToolResult
    >>> ToolResult("c1", "shell", "pytest -q", ("exit 0",), b"3 passed").writes
    True
    """

    tool_call_id: str
    tool: str
    command: str
    """The command line, or the path."""
    facts: tuple[str, ...]
    """What the runner itself knows: ("exit 0",)."""
    output: bytes | Path
    """The whole output, or a file with it that is moved into the artifacts."""
    duration: float = 0.0
    summary: str = ""
    """One short line for people: "exit 1", "+4 −1"."""
    path: str | None = None
    """The only path that it depends on, relative to the workspace; None: the whole of
    it."""
    writes: bool = True
    """Whether it may have changed the workspace."""
    notice: Literal["blocked", "question"] | None = None
    """Set if `command` is a message to the run: the agent cannot continue, or asks a
    person."""
    plan: PlanProposed | None = None
    """A plan to record. The runner checks its completed steps and replaces `output` by
    the reply."""
    reported_by: str = ""
    """The external agent that reported it; empty if the runner saw it."""
    started: int | None = CALLED
    """When its tool had not started yet, in nanoseconds since 1970; None: not known."""
    ended: int | None = None
    """When it had ended; None: now."""


@dataclass(frozen=True)
class Recorded:
    """A recorded tool result, with as much of its output as an agent sees.

    These are both ends of its redacted output, and the number of bytes between them.
    """

    observation: Observation
    head: bytes
    tail: bytes = b""
    omitted: int = 0


class Recorder(Protocol):
    """Records what an agent or a judge does.

    Everything is redacted and durable when a call returns.

    >>> from goalrunner import ToolResult
    >>> async def send(self, prompt, recorder):
    ...     if reason := await recorder.permit("c1", "shell", "make"):
    ...         return reason
    ...     recorder.tool_called("c1", "shell", "make")
    ...     result = ToolResult("c1", "shell", "make", ("exit 0",), b"built")
    ...     return (await recorder.tool_result(result)).head.decode()
    """

    def message(self, message: Message) -> None:
        """Record a message of the chat, in OpenAI's shape."""

    def user_said(self, text: str) -> None:
        """Record what a person wrote to the agent.

        It is recorded in addition to its message, if that is recorded.
        """

    async def permit(
        self,
        tool_call_id: str,
        kind: Literal["shell", "write"],
        text: str,
        preview: str = "",
    ) -> str | None:
        """Return None if an action is allowed, or why it is denied.

        It is called before `tool_called`. Raise ApprovalPending if no person is
        available, and ApprovalDenied if a denial ends the run.
        """

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Record a call before its tool starts."""

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Record a result, and return what an agent may see.

        A snapshot is taken if the workspace may have changed.
        """

    def usage(self, account: Account, usage: Usage) -> None:
        """Add what a model call used: tokens, US dollars, calls.

        A budget needs it. `account` is "agent" for the agent of a conversation.
        """

    def session(self, session: AgentSession) -> None:
        """Record the session of an external agent, or its new totals."""

    async def agent_ran(self, ran: AgentRan, output: Path, errors: Path) -> None:
        """Record that a process of an external agent has ended.

        The files with its stdout and stderr, which need not exist, are moved into the
        artifacts.
        """

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        """Record why the judge gave no usable answer.

        `answer` is both ends of an answer that could not be read.
        """

    @property
    def streams_text(self) -> bool:
        """Whether `text` is shown to a person.

        If not, an answer need not stream, which is faster.
        """

    def text(self, delta: str) -> None:
        """Show a piece of the agent's streamed text; it is not recorded."""

    def check_budget(self, account: Account = "agent") -> None:
        """Raise BudgetExhausted if the budget is spent.

        It is called before each model call. Raise the error of an earlier call if
        another run has found that the account cannot be used now.
        """

    def scratch(self, suffix: str = "") -> Path:
        """Return a new path for a file in the run's folder.

        It is outside of the workspace.
        """


@dataclass(frozen=True)
class RoundReply:
    """The end of the agent's turn.

    >>> from goalrunner import RoundReply
    >>> RoundReply("All tests pass.", steps=4).reason
    'answered'
    """

    text: str
    """The last message; empty when there was none."""
    reason: Literal["answered", "max_steps", "interrupted"] = "answered"
    steps: int = 0
    left: tuple[str, ...] = ()
    """Names of background processes that it left."""
    failure: GoalError | None = None
    """The error that ended an interrupted turn. It ends the run only if the agent said
    nothing and changed no file."""
    ending: str = ""
    """Why an interrupted turn ended, for people and the agent's next prompt: "no output
    for 15 min"."""


@dataclass(frozen=True)
class Unfinished:
    """The interrupted turn of an earlier process.

    The keys of its mappings are the ids of the calls in the last assistant message.
    """

    results: Mapping[str, Recorded] = field(default_factory=dict)
    """Recorded results without a recorded message."""
    cut: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Tool and command of the calls without a result. Their effect is unknown, and they
    never run again."""
    session: AgentSession | None = None
    objective: int | None = None
    """The index of the run's own first prompt in the chat without system prompt; None
    if it was not sent."""


class Conversation(Protocol):
    """An agent with its messages; one `send` is one round.

    A conversation that awaits `recorder.permit` before each action has
    `supports_approvals = True`; without it, `run_goal` refuses goals in which a person
    decides on actions.

    >>> from goalrunner import RoundReply
    >>> class MyAgent:
    ...     def __init__(self):
    ...         self.messages = []
    ...     async def send(self, prompt, recorder):
    ...         self.messages.append({"role": "user", "content": prompt})
    ...         self.messages.append({"role": "assistant", "content": "done"})
    ...         return RoundReply("done")
    """

    @property
    def messages(self) -> Sequence[Message]:
        """The chat so far, oldest first; the list object that the agent itself uses."""

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Give the agent a user message and let it work until it answers.

        Raises ModelError, BudgetExhausted.
        """

    def checkpoint(self) -> object:
        """Return the current messages, system prompt and model state.

        The workspace is not part of it.
        """

    def restore(self, checkpoint: object) -> None:
        """Return to what `checkpoint` returned earlier, in place."""


# What follows are abilities that a conversation may have; a run asks with isinstance.


@runtime_checkable
class Loading(Protocol):
    """A conversation that can continue a chat in another process.

    Other conversations start again in that process.
    """

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Load the chat of an earlier process without recording it again."""


@runtime_checkable
class Resumable(Loading, Protocol):
    """A conversation that can continue an interrupted turn, too.

    Others get the prompt of the turn again.
    """

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Start with the chat of another run.

        It is recorded as the start of this one.
        """

    async def resume_turn(
        self, notice: str, unfinished: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn.

        Calls that did not start are run; interrupted ones are reported to the agent.
        `notice` is a user message that is sent first if it is not empty. Raises as
        `send` does.
        """


@runtime_checkable
class Pausing(Protocol):
    """A conversation whose agent stays alive from round to round."""

    def paused(self) -> AbstractContextManager[None]:
        """Stop the agent's processes while the context is open, if there are any."""


@runtime_checkable
class Switching(Protocol):
    """A conversation with several agents, of which one works."""

    async def switch(self, index: int) -> None:
        """Let the agent at that place among `plan.agents` go on with the chat.

        The one at work until now is closed.
        """


@runtime_checkable
class Closing(Protocol):
    """A conversation that must be closed."""

    async def close(self) -> None:
        """Close the conversation. Closing twice does nothing. Never raise."""


@dataclass(frozen=True)
class ApprovalAnswer:
    """The decision of a person (`by`: user@host) on an action or a result.

    >>> from goalrunner import ApprovalAnswer
    >>> ApprovalAnswer("denied", by="policy", reason="outside of office hours").by
    'policy'
    """

    decision: Literal["approved", "denied"]
    by: str = ""
    reason: str = ""
    typed: bool = False
    """Whether it was typed at a terminal. Without a sandbox, a command of the agent may
    write to that terminal."""


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person sees before the decision.

    `changed` are paths, for a completion or for changed checks.

    >>> from goalrunner import ApprovalAnswer, ApprovalRequest
    >>> async def approve(request: ApprovalRequest) -> ApprovalAnswer | None:
    ...     if request.approval.kind == "shell" and "rm" in request.approval.action:
    ...         return ApprovalAnswer("denied", by="policy", reason="removes files")
    ...     return None  # no decision: the run waits for a person
    """

    approval: Approval
    preview: str = ""
    """A unified diff: the file to be written, the changed checks, or all since the
    start; empty for a command."""
    changed: tuple[str, ...] = ()
    evidence: tuple[EvidenceRow, ...] = ()
    checks: ChangedChecks | None = None
    """The changed checks that the approval is about."""


@dataclass(frozen=True)
class QuestionReply:
    """The answer of a person (`by`: user@host) to a question.

    It is `typed` if it was given by a command, and not at the terminal of the run.

    >>> from goalrunner import QuestionReply
    >>> QuestionReply("Keep the old name.", by="ada@desk").text
    'Keep the old name.'
    """

    text: str
    by: str = ""
    typed: bool = False


class Approver(Protocol):
    """Asks a person.

    None as an answer means that no person is available, and the run waits.

    >>> from goalrunner import ApprovalAnswer, QuestionReply
    >>> class Policy:
    ...     async def approve(self, request):
    ...         return ApprovalAnswer("approved", by="policy")
    ...     async def answer(self, question):
    ...         return QuestionReply("Use your judgement.", by="policy")
    """

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Ask for the decision on an action; cancellation withdraws the question."""

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask the agent's question; cancellation withdraws it."""


# An observer is a view: its faults must not end a run that costs money.
class Observer(Protocol):
    """Observes a run. An observer that raises is removed, and the run goes on."""

    def on_record(self, record: Record) -> None:
        """Handle an event, once it is on disk."""


@runtime_checkable
class TextObserver(Observer, Protocol):
    """An observer that shows the agent's text while it streams.

    Without such an observer, answers are not streamed.
    """

    def on_text(self, delta: str) -> None: ...


@runtime_checkable
class Rejoining(Protocol):
    """An observer that needs the state of a resumed run."""

    def on_state(self, state: RunState) -> None:
        """Handle the state that an earlier process left.

        It is called once, before the first new event.
        """
