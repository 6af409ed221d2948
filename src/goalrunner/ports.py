"""The ports: what the loop needs from the world, as Protocols. Owns no behaviour; adapters and doubles implement them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from goalrunner.events import Account, Event, Record
from goalrunner.model.observation import ArtifactRef, Observation, Trail, TranscriptRef
from goalrunner.model.usage import Usage
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import GoalVerdict

Message = Mapping[str, Any]
"""A chat message in OpenAI's shape: role, content (str), tool_calls, tool_call_id, name."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        ...


class Ids(Protocol):
    """Where names come from."""

    def run_id(self, objective: str) -> str:
        """A short, unused id that a person can read and type: `k3f9-make-parse`."""
        ...


class Log(Protocol):
    """The append-only log of a run; appending is durable when it returns."""

    def append(self, event: Event) -> Record:
        """Write one event and give it its place. Raises RecordError when it cannot be written whole."""
        ...


class Transcript(Protocol):
    """The chat of a run, whole; what events refer to."""

    def append(self, message: Message) -> TranscriptRef:
        """Write one message durably and say where it stands."""
        ...

    def read(self, ref: TranscriptRef) -> Message:
        """Read one message back. Raises RecordError when it is not what was written."""
        ...


class Artifacts(Protocol):
    """Large outputs, whole, by hash."""

    def put(self, data: bytes) -> ArtifactRef:
        """Keep bytes durably; the same bytes twice are one file."""
        ...

    def adopt(self, path: Path) -> ArtifactRef:
        """Keep a file's content (secrets replaced) and remove the file."""
        ...

    def read(self, ref: ArtifactRef) -> bytes:
        """The bytes. Raises RecordError when they are gone or do not match their hash."""
        ...

    def path(self, ref: ArtifactRef) -> Path:
        """Where the bytes lie."""
        ...


@dataclass(frozen=True)
class Completion:
    """A child process that is over. `exit_code` is None when a signal ended it; `output` holds stdout and stderr."""

    exit_code: int | None
    duration: float
    timed_out: bool
    output: Path
    error: str = ""
    """Why it could not be started or was cut, in words; empty when it ran to its own end."""
    survivors: tuple[str, ...] = ()
    """Command names of the processes that it left behind and that were ended with it."""


class Launcher(Protocol):
    """Starts child processes and leaves nobody behind."""

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
    ) -> Completion:
        """Run `argv` to its end, its deadline (seconds) or cancellation; then end every process that it started.

        `env` is the whole environment. stdout and stderr go to the file `output` as they come. Never raises for
        what the command does: a program that is missing gives `exit_code=127` and the reason in `error`.
        """
        ...


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


class Recorder(Protocol):
    """What an agent or a judge may write while it works. Everything is redacted and durable when a call returns."""

    def message(self, message: Message) -> None:
        """A chat message: transcript line, then event."""
        ...

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Intent: this call is about to run."""
        ...

    def tool_result(self, result: ToolResult) -> Recorded:
        """Result: kept whole and numbered; gives what may be shown."""
        ...

    def usage(self, account: Account, usage: Usage) -> None:
        """One model call's usage."""
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
class Recorded:
    """A tool result that is kept: its observation, and its whole output, redacted, as bytes."""

    observation: Observation
    output: bytes


@dataclass(frozen=True)
class RoundReply:
    """The end of the agent's turn."""

    text: str
    """The last message; empty when there was none."""
    reason: Literal["answered", "max_steps"] = "answered"
    steps: int = 0


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


@dataclass(frozen=True)
class ValidationContext:
    """What a validator may know."""

    run_id: str
    iteration: int
    objective: str
    workspace: Path
    response: str
    """Text of the round's last message."""
    conversation: Conversation
    scratch: Callable[[str], Path]
    """A fresh path in the run's own folder; the argument is a suffix."""


class Validator(Protocol):
    """A check. Whatever goes wrong inside becomes a red result with its reason; nothing is ever green by accident."""

    @property
    def name(self) -> str: ...

    @property
    def command(self) -> str:
        """The command line or callable, for people."""
        ...

    @property
    def serial(self) -> bool:
        """Whether it must never run beside another."""
        ...

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Run the check; gives the result and the file with its whole output, where there is one."""
        ...


@dataclass(frozen=True)
class AuditRequest:
    """All that a judge is told. The agent's system prompt is not in it."""

    objective: str
    success_criteria: tuple[str, ...]
    """The goal's, or those that the judge derived at its first audit."""
    constraints: tuple[str, ...]
    deliverable: Literal["workspace", "response"]
    round: int
    trail: Trail
    minimum_score: float = 0.0


@dataclass(frozen=True)
class Audit:
    """A verdict after the runner's own check of its citations."""

    verdict: GoalVerdict
    citations_checked: int = 0
    refusals: tuple[str, ...] = ()


class Judge(Protocol):
    """Audits a run; each call is fresh, without memory."""

    async def audit(self, request: AuditRequest, recorder: Recorder) -> Audit:
        """Ask once. Unreadable answers end in a fallback verdict; raises ModelError when it cannot be asked at all."""
        ...


class Observer(Protocol):
    """Watches a run. Never changes it; what it raises is its own defect and ends the run as failed."""

    def on_record(self, record: Record) -> None:
        """An event was written."""
        ...

    def on_text(self, delta: str) -> None:
        """A piece of the agent's text, as it streams."""
        ...


@dataclass(frozen=True)
class Parts:
    """The adapters that the driver is handed; compose makes them."""

    conversation: Conversation
    validators: tuple[Validator, ...]
    judge: Judge | None
    log: Log
    transcript: Transcript
    artifacts: Artifacts
    clock: Clock
    workspace: Path
    scratch: Callable[[str], Path]
    redact: Callable[[str], str] = lambda text: text
