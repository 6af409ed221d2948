"""Protocols of agents: conversations, and what they record while they work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from goalrunner.core.events import Account
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Message


@dataclass(frozen=True)
class ProposedPlan:
    """The steps that an agent sees: its words, before anything of them is believed."""

    current: str = ""
    pending: tuple[str, ...] = ()
    completed: Mapping[str, str] = field(default_factory=dict)
    """Step -> id of the observation that is said to show it."""
    stop_reason: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What a tool call gave, before it is numbered and kept."""

    tool_call_id: str
    tool: str
    command: str
    """The command line, or the path."""
    facts: tuple[str, ...]
    """What the runner itself knows: ("exit 0",)."""
    output: bytes | Path
    """The whole output: bytes, or a file that is adopted (moved) into the artifacts."""
    duration: float = 0.0
    summary: str = ""
    """One short line for people: "exit 1", "+4 −1"."""
    path: str | None = None
    """The only path that it depends on, relative to the workspace; None: the whole of it."""
    writes: bool = True
    """Whether it may have changed the workspace."""
    notice: Literal["blocked", "question"] | None = None
    """What `command` tells the run besides: the agent cannot go on, or asks a person."""
    plan: ProposedPlan | None = None
    """A plan to be kept; the output is then what the runner says of it."""
    reported_by: str = ""
    """The external agent whose word it is; empty: the runner saw it. Nothing is looked at for what is only reported."""


@dataclass(frozen=True)
class Recorded:
    """A tool result that is kept: its observation, and the two ends of its output, redacted."""

    observation: Observation
    head: bytes
    """The whole output where `tail` is empty."""
    tail: bytes = b""
    omitted: int = 0
    """Bytes between them."""


@dataclass(frozen=True)
class AgentRun:
    """A process of an external agent that is over, or one that was cut."""

    agent: str
    ending: str
    """"exit 0", "killed by SIGKILL", "cut"."""
    duration: float
    output: Path
    """Its whole stdout, which is adopted (moved) into the artifacts; it need not exist."""
    errors: Path
    """Its whole stderr, likewise."""
    note: str = ""
    """What people must be told of it."""


class Recorder(Protocol):
    """What an agent or a judge may write while it works. Everything is redacted and durable when a call returns."""

    def message(self, message: Message) -> None:
        """A chat message: transcript line, then event."""
        ...

    async def permit(
        self, tool_call_id: str, kind: Literal["shell", "write"], text: str, preview: str = ""
    ) -> str | None:
        """Called before `tool_called` of what has an effect. None: go ahead; a text: it is denied, and the agent is told.

        Raises ApprovalPending where nobody is there to decide, and ApprovalDenied where a denial ends the run.
        """
        ...

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Intent: this call is about to run."""
        ...

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Result: kept whole and numbered, the workspace looked at where it may have changed; gives what may be shown."""
        ...

    def usage(self, account: Account, usage: Usage) -> None:
        """One model call's usage."""
        ...

    def session(self, session: AgentSession) -> None:
        """An external agent has opened a memory of its own, or what it reported in all has grown."""
        ...

    async def agent_ran(self, ran: AgentRun) -> None:
        """A process of an external agent is over: what it wrote is kept, whole unless the run was cut. Evidence of nothing."""
        ...

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None:
        """The judge gave no usable answer."""
        ...

    def text(self, delta: str) -> None:
        """A piece of the agent's text as it streams: for progress alone, never written."""
        ...

    def check_budget(self) -> None:
        """Called before each model call. Raises BudgetExhausted when nothing is left to pay it with."""
        ...

    def scratch(self, suffix: str = "") -> Path:
        """A fresh path for a file in the run's own folder, outside the workspace."""
        ...


@dataclass(frozen=True)
class RoundReply:
    """The end of the agent's turn."""

    text: str
    """The last message; empty when there was none."""
    reason: Literal["answered", "max_steps"] = "answered"
    steps: int = 0
    left: tuple[str, ...] = ()
    """Names of background processes that it left, and that were ended."""


@dataclass(frozen=True)
class Unfinished:
    """What an earlier process left of a turn: of the calls in the last message of the assistant, by id."""

    results: Mapping[str, Recorded] = field(default_factory=dict)
    """Results that were recorded, and whose message was not."""
    cut: tuple[str, ...] = ()
    """Calls that had begun and have no result: what they did is unknown, and they are never run again."""
    session: AgentSession | None = None
    """The memory that an external agent keeps of it."""
    objective: int | None = None
    """The place in the chat, its system prompt not counted, of the run's own first prompt; None: it was not given yet."""
    told: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Of the calls that were cut: the tool, and the command as it was told when the call began."""


class Conversation(Protocol):
    """An agent with its memory; one `send` is one round."""

    @property
    def messages(self) -> Sequence[Message]:
        """The chat so far, oldest first; the very list that the agent works on."""
        ...

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Give the agent a user message and let it work until it answers. Raises ModelError, BudgetExhausted."""
        ...

    def checkpoint(self) -> object:
        """The conversation as it is: messages, system prompt, model state. Not the workspace."""
        ...

    def restore(self, checkpoint: object) -> None:
        """Make it again what it was at that checkpoint."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A conversation that can go on in another process. One that is not begins afresh there."""

    def load(self, messages: Sequence[Message], left: Unfinished, recorder: Recorder) -> None:
        """Take up the chat of an earlier process, as it was recorded by `recorder`; nothing of it is recorded again."""
        ...

    def take_over(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run, which is recorded as the beginning of this one."""
        ...

    async def proceed(self, notice: str, left: Unfinished, recorder: Recorder) -> RoundReply:
        """Go on in the middle of a turn: calls that never began are run, those that were cut are told to the agent.

        `notice` is a user message that is given first where it is not empty. Raises as `send` does.
        """
        ...


@runtime_checkable
class Pausing(Protocol):
    """A conversation whose agent stays alive from round to round."""

    def paused(self) -> AbstractContextManager[None]:
        """Stop the agent's processes while the context is open; nothing if none runs."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A conversation that holds something open from round to round."""

    async def close(self) -> None:
        """End it. Closing twice does nothing; never raises."""
        ...
