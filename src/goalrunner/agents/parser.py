"""Events in the output of an agent, the base class of the parsers that read them, and access to JSON values."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from goalrunner.agents.file_tools import unified
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import Outage
from goalrunner.core.messages import at as at
from goalrunner.core.messages import block_text as block_text
from goalrunner.core.messages import clean as clean
from goalrunner.core.messages import items as items
from goalrunner.core.messages import json_of
from goalrunner.core.messages import text as text

_LARGEST: Final = 10**15
"""No plausible number of tokens or dollars is larger."""


def first(value: Any, *paths: str) -> Any:
    """Return the first value that is not None at one of the paths, which are keys joined by dots."""
    return next(
        (found for path in paths if (found := at(value, *path.split("."))) is not None),
        None,
    )


def object_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line holds; None for anything else."""
    try:
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


LONGEST_LINE = 128_000_000
"""Bytes."""


class Lines:
    """Splits pieces of bytes into lines. Invalid UTF-8 becomes U+FFFD; a line of more than `longest` bytes is left out."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held = bytearray()
        self._is_too_long = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the lines that are complete now, without their newlines."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._hold(line)
            if not self._is_too_long:
                yield self._held.decode("utf-8", "replace")
            self._held, self._is_too_long = bytearray(), False
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        self._is_too_long = (
            self._is_too_long or len(self._held) + len(part) > self._longest
        )
        if self._is_too_long:
            self._held.clear()
        else:
            self._held += part


def number(value: Any) -> float | None:
    """Return a number that is not negative and finite; None for anything else."""
    plausible = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= _LARGEST
    )
    return value if plausible else None


def exit_code(value: Any) -> int | None:
    """Return an exit code; None for anything else."""
    return value if type(value) is int and -1_000 < value < 2**32 else None


def is_failure(value: Any) -> bool:
    """Return whether a flag or a status means a failure."""
    if isinstance(value, str):
        return value.lower() in (
            "true",
            "error",
            "failed",
            "failure",
            "cancelled",
            "canceled",
        )
    return bool(value)


@dataclass(frozen=True)
class SessionStarted:
    """The id of the agent's session, with which a later round resumes it; model and version if they are reported."""

    id: str
    model: str = ""
    version: str = ""


@dataclass(frozen=True)
class Text:
    """A whole message of the agent."""

    text: str


@dataclass(frozen=True)
class TextDelta:
    """A piece of a message. The pieces are the message, unless a `Text` with the whole message follows."""

    text: str


@dataclass(frozen=True)
class CallStarted:
    """The beginning of a tool call. A second event with the same id adds a missing command."""

    id: str
    tool: str = ""
    command: str = ""
    change: str = ""
    """Lines that an edit adds and removes: "+4 −1"."""


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


@dataclass(frozen=True)
class UsageReported:
    """Usage of the agent. `cost` is in US dollars, None if unknown. `cumulative`: totals of the session so far."""

    input: int = 0
    output: int = 0
    cost: float | None = None
    cumulative: bool = False
    tokens: bool = True
    """Whether the report is about tokens."""
    dollars: bool = True
    """Whether the report is about dollars; False: another event reports them."""


Obstacle = Literal["sign_in", "refused"]
"""Why no later turn can succeed: no valid key or login; or the model or the account is refused."""


@dataclass(frozen=True)
class Failed:
    """The agent reports a failure. If `ends`, the runner ends the round without waiting for further attempts.

    `outage` and `obstacle` come from typed fields only, never from a text of the model or of a tool.
    """

    message: str
    ends: bool = False
    outage: Outage | None = None
    """Set if the failure passes by itself."""
    obstacle: Obstacle | None = None
    """Set if the next turn would fail as well."""
    ending: str = ""
    """How the turn ended, in a few words: "error_max_turns"; empty: as the message says."""


@dataclass(frozen=True)
class TurnEnded:
    """The agent reports that its turn is over. Without it, the output of an agent that `reports_end` was cut."""


@dataclass(frozen=True)
class Noise:
    """Other output, such as a banner, a log line or a damaged line."""

    text: str


StreamEvent = (
    SessionStarted
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
    """Reads the output of one agent, one JSON object per line. There is one instance per round.

    `preset` is the agent that comes with the parser.
    """

    preset: ClassVar[Preset] = Preset()
    reports_end: ClassVar[bool] = False
    """Whether the output of a finished turn contains a `TurnEnded` or a `Failed`."""

    @abstractmethod
    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one line."""

    def other(self, line: str) -> StreamEvent:
        """Return the event of a line that is not a JSON object."""
        return Noise(line)

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> Iterator[StreamEvent]:
        """Yield what the agent's own files contain about a failed turn of a session. `env` is the agent's environment."""
        return iter(())

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        """Return what the agent's own files contain about a session whose output names neither model nor version."""
        return SessionStarted(session)


_OLD_TEXT, _NEW_TEXT = (
    ("old_string", "oldString", "old_str"),
    ("new_string", "newString", "new_str"),
)
"""Keys of the text that an edit replaces, and of its replacement."""
LONGEST_NOISE = 2_000
"""Characters that are kept of a line that is not understood."""


def session(
    line: Any, path: str, model: str = "", version: str = ""
) -> Iterator[StreamEvent]:
    """Yield the session id at a path, if there is one, with the model and the version at theirs."""
    if name := block_text(first(line, path)):
        yield SessionStarted(name, text(first(line, model)), text(first(line, version)))


def message(line: Any, path: str) -> Iterator[StreamEvent]:
    """Yield the message at a path, if it is not empty."""
    if said := block_text(first(line, path)):
        yield Text(said)


def call(line: Any, call_id: str, tool: str, *command: str) -> CallStarted:
    """Return the start of the call whose fields are at these paths."""
    return CallStarted(
        block_text(first(line, call_id)),
        block_text(first(line, tool)),
        block_text(first(line, *command)),
        edited_lines(first(line, *command[-1:])),
    )


def edited_lines(arguments: Any) -> str:
    """Return how many lines the arguments of an edit add and remove: "+4 −1"; empty for another call."""
    edits = items(at(arguments, "edits")) or [arguments]
    pairs = [(first(edit, *_OLD_TEXT), first(edit, *_NEW_TEXT)) for edit in edits]
    return changed_lines(
        [
            (old, new)
            for old, new in pairs
            if isinstance(old, str) and isinstance(new, str)
        ]
    )


def changed_lines(edits: Sequence[tuple[str, str]]) -> str:
    """Return how many lines these edits, old and new text, add and remove; empty without edits."""
    if not edits:
        return ""
    old, new = (
        "".join(f"{part}\n" for part in parts if part)
        for parts in zip(*edits, strict=True)
    )
    return unified(old, new, "").summary


def result(
    line: Any,
    call_id: str,
    *output: str,
    tool: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
    code: str = "",
    failed: str = "",
) -> CallFinished:
    """Return the end of the call whose fields are at these paths."""
    return CallFinished(
        id=block_text(first(line, call_id)),
        output=block_text(first(line, *output)),
        exit_code=exit_code(first(line, code)),
        failed=is_failure(first(line, failed)),
        tool=block_text(first(line, *tool)),
        command=block_text(first(line, *command)),
        change=edited_lines(first(line, *command[-1:])),
    )


def tokens(
    line: Any,
    given: str,
    made: str,
    *cached: str,
    cumulative: bool = False,
    cost: str = "",
) -> Iterator[UsageReported]:
    """Yield the tokens at these paths, if there are any. `cached` are tokens that are not part of the input."""
    if first(line, given, made, *cached, *([cost] if cost else [])) is None:
        return
    yield UsageReported(
        input=sum(int(number(first(line, path)) or 0) for path in (given, *cached)),
        output=int(number(first(line, made)) or 0),
        cost=number(first(line, cost)) if cost else None,
        cumulative=cumulative,
    )


def failure(
    line: Any,
    *paths: str,
    ends: bool = False,
    outage: Outage | None = None,
    obstacle: Obstacle | None = None,
    ending: str = "",
) -> Failed:
    """Return the failure with the first message at these paths, or with the whole line."""
    message = block_text(first(line, *paths)) or json_of(line)[:LONGEST_NOISE]
    return Failed(message, ends, outage, obstacle, ending)
