"""What an agent is to do in a round, and what an agent must offer to be put through the suite. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

Ability = Literal[
    "resume",
    "usage",
    "cumulative",
    "cost",
    "budget",
    "silent",
    "hang",
    "die",
    "leave",
    "flood",
    "claim",
    "absent",
    "jailed",
    "tries",
    "persists",
]
"""What a check needs an agent to be able to do, or to be made to do. "silent": it can be made to report no usage; "absent":
a program can be named that is not there; "tries": it goes on trying where its model is out of order; "persists": also
with a wrong key, if no message says that retrying cannot help."""


KEYLESS = "401 no valid key"
"""Words of a failure for want of a key."""

BROKEN = "500 the machine is broken"
"""Words of one that a program may try to get over."""


@dataclass(frozen=True)
class Runs:
    """A command line that it runs in the workspace with a tool of its own, and reports truly."""

    line: str


@dataclass(frozen=True)
class Says:
    """What it says."""

    text: str = "I have done what I could."


@dataclass(frozen=True)
class Claims:
    """A command that it reports, and never ran."""

    line: str
    output: str


@dataclass(frozen=True)
class Uses:
    """What its model's calls in this round cost: tokens, and dollars."""

    given: int
    made: int
    cost: float


@dataclass(frozen=True)
class Fails:
    """It cannot work and says why, in whatever way it says such things; its exit code is 0 where it can be.

    `advised`: it was told that no other try helps; else it goes on trying, and says so.
    """

    message: str
    advised: bool = True


@dataclass(frozen=True)
class Dies:
    """SIGKILL."""


@dataclass(frozen=True)
class Hangs:
    """It goes on for ever. `heeds`: it ends when it is asked to."""

    heeds: bool = False


@dataclass(frozen=True)
class Leaves:
    """A process is left behind that is called `name`."""

    name: str
    how: Literal["child", "group", "session", "daemon", "bare", "deaf"] = "session"


@dataclass(frozen=True)
class Floods:
    """It writes so many bytes that mean nothing; "line" is one line of stdout without an end."""

    where: Literal["stdout", "stderr", "line"]
    size: int


Move = Runs | Says | Claims | Uses | Fails | Dies | Hangs | Leaves | Floods


@dataclass(frozen=True)
class Told:
    """What the agent was given in one round."""

    prompt: str
    session: str
    """Its own name for its memory."""
    resumed: bool
    """Whether that memory was there before the process, or the round, began."""


@dataclass(frozen=True)
class Prepared:
    """An agent that is ready to play. `agent` and `workspace` are keys of those tables of the goal."""

    agent: Mapping[str, Any]
    environ: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of `goal`."""
    workspace: Mapping[str, Any] = field(default_factory=dict)


class AgentUnderTest(Protocol):
    """An agent that can be made to play rounds: a double, or a real program before a scripted server."""

    @property
    def name(self) -> str:
        """As a goal names it, and as its reports are marked."""
        ...

    @property
    def can(self) -> frozenset[Ability]:
        """Checks that need anything else are left out."""
        ...

    @property
    def patience(self) -> float:
        """How many times as long as a double it may take for the same."""
        ...

    @property
    def signing_in(self) -> str:
        """What a failure for want of a key ends with."""
        ...

    def prepare(
        self, user: Path, rounds: Sequence[Sequence[Move]], **settings: Any
    ) -> Prepared:
        """Make it ready to play `rounds`, the last one again and again. `user` is the HOME it will have, still empty.

        `settings` are those of doubles: `cumulative`, `silent` (it reports no usage), `program` (what is started).
        """
        ...

    def told(self) -> list[Told]:
        """What it was told so far, oldest first."""
        ...
