"""What an external agent's output can say. Owns the words between those who read it and those who record it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionNamed:
    """It keeps a memory of this conversation under that id."""

    id: str


@dataclass(frozen=True)
class Said:
    """A whole message."""

    text: str


@dataclass(frozen=True)
class Piece:
    """A piece of a message, as it streams. Pieces that no whole message follows are one themselves."""

    text: str


@dataclass(frozen=True)
class Called:
    """A tool call begins. The same id again says more of the same call."""

    id: str
    tool: str = ""
    command: str = ""


@dataclass(frozen=True)
class Returned:
    """A tool call is over. `exit_code` is None where the agent reports none."""

    id: str
    output: str = ""
    exit_code: int | None = None
    failed: bool = False
    tool: str = ""
    command: str = ""


@dataclass(frozen=True)
class Reported:
    """What it says that it used. `cost` is None where that is unknown; `cumulative`: totals of the whole session."""

    input: int = 0
    output: int = 0
    cost: float | None = None
    cumulative: bool = False
    tokens: bool = True
    """Whether it tells of tokens at all."""
    dollars: bool = True
    """Whether it is to tell the dollars; False: another line does."""


@dataclass(frozen=True)
class Broke:
    """It says itself that something failed. `ends`: whatever it would still try is not worth waiting for."""

    message: str
    ends: bool = False


@dataclass(frozen=True)
class Noise:
    """Output that is none of these: a banner, a log line, a broken line."""

    text: str


Happening = SessionNamed | Said | Piece | Called | Returned | Reported | Broke | Noise
