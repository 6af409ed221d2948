"""The events of an agent's output, and the base class of the parsers that read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import Outage
from goalrunner.core.messages import facts_of

LONGEST_NOISE = 2_000
"""Characters that are kept of a line that is not understood."""


@dataclass(frozen=True)
class SessionStarted:
    """The id of the agent's session, with which a later round resumes it.

    Model and version are empty if they are not reported.
    """

    id: str
    model: str = ""
    version: str = ""


@dataclass(frozen=True)
class Prompted:
    """What the user wrote, if the program repeats it. It matters in saved output."""

    text: str


@dataclass(frozen=True)
class Text:
    """A whole message of the agent."""

    text: str
    by_subagent: bool = False


@dataclass(frozen=True)
class TextDelta:
    """A piece of a message.

    The pieces are the message, unless a `Text` with the whole message follows.
    """

    text: str


@dataclass(frozen=True)
class CallStarted:
    """The beginning of a tool call.

    A second event with the same id adds a missing command.
    """

    id: str
    tool: str = ""
    command: str = ""
    change: str = ""
    """Lines that an edit adds and removes: "+4 −1"."""
    arguments: Any = field(default=None, compare=False)
    """All arguments, if they are reported: a dict."""
    by_subagent: bool = False


@dataclass(frozen=True)
class CallFinished:
    """A tool call has ended. `exit_code` is None if the agent does not report it."""

    id: str
    output: str = ""
    exit_code: int | None = None
    failed: bool = False
    tool: str = ""
    command: str = ""
    change: str = ""
    """Lines that an edit adds and removes."""
    arguments: Any = field(default=None, compare=False)
    """All arguments, if they are reported with the end: a dict."""
    by_subagent: bool = False

    @property
    def facts(self) -> tuple[str, ...]:
        """What is known of the result: its exit code, or how it failed."""
        if self.failed and not self.exit_code:
            return facts_of(self.output, failed=True)
        return () if self.exit_code is None else (f"exit {self.exit_code}",)


@dataclass(frozen=True)
class UsageReported:
    """Usage of the agent."""

    input: int = 0
    """Tokens, including cached ones."""
    output: int = 0
    """Tokens, including those of reasoning."""
    cost: float | None = None
    """US dollars; None if unknown."""
    cumulative: bool = False
    """Whether the amounts are totals of the session so far."""
    tokens: bool = True
    """Whether the report is about tokens."""
    dollars: bool = True
    """Whether the report is about dollars; False: another event reports them."""


Obstacle = Literal["sign_in", "refused"]
"""Why no later turn can succeed: no valid key or login; or the model or the account is
refused."""


@dataclass(frozen=True)
class Failed:
    """The agent reports a failure.

    `outage` and `obstacle` come from typed fields only: a text of the model or of a
    tool may contain the words of any error.
    """

    message: str
    ends: bool = False
    """Whether the runner ends the round without waiting for further attempts."""
    outage: Outage | None = None
    """Set if the failure passes by itself."""
    obstacle: Obstacle | None = None
    """Set if the next turn would fail as well."""
    ending: str = ""
    """How the turn ended, in a few words: "error_max_turns"; empty: as the message
    says."""


@dataclass(frozen=True)
class TurnEnded:
    """The agent reports that its turn is over.

    Without it, the output of an agent that `reports_end` was cut.
    """


@dataclass(frozen=True)
class Noise:
    """Other output, such as a banner, a log line or a damaged line."""

    text: str


StreamEvent = (
    SessionStarted
    | Prompted
    | Text
    | TextDelta
    | CallStarted
    | CallFinished
    | UsageReported
    | Failed
    | TurnEnded
    | Noise
)


class AgentParser(ABC):
    """Reads the output of one agent, one JSON object per line.

    There is one instance per round.
    `preset` is the agent that comes with the parser.
    """

    preset: ClassVar[Preset] = Preset()
    reports_end: ClassVar[bool] = False
    """Whether the output of a finished turn contains a `TurnEnded` or a `Failed`."""

    @abstractmethod
    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one line."""

    @classmethod
    def prints(cls, line: dict[str, Any]) -> bool:
        """Return whether this agent, and few others, print such a line.

        Saved output is recognised by its first lines. A line that the agent does not
        print is an error in it.
        """
        return False

    def other(self, line: str) -> StreamEvent:
        """Return the event of a line that is not a JSON object."""
        return Noise(line)

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> Iterator[StreamEvent]:
        """Yield what the agent's own files contain about a failed turn of a session.

        `env` is the agent's environment.
        """
        return iter(())

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        """Return what the agent's own files contain about a session.

        Called if the output names neither model nor version.
        """
        return SessionStarted(session)
