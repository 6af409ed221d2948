"""What is known of each agent: where it comes from, how it can be driven, what it can, what of it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner import __version__
from goalrunner.model.goal import CHAT
from goalrunner.model.preset import Preset
from goalrunner.survey.program import find_program
from goalrunner.survey.version import versions

Origin = Literal["built in", "user", "goal file"]


@dataclass(frozen=True)
class Can:
    """What an agent can when it is driven in one way."""

    resume: bool
    """Go on in its own session in a later round, or in another process; else it is told what was said before."""
    usage: bool
    """Report its tokens, so that a budget of them can be kept."""
    cost: bool
    """Report its dollars, likewise."""
    cancel: bool
    """Be ended in the middle of a round."""
    permission: bool
    """Ask before it acts, so that a person can decide."""
    sandbox: bool
    """Work in a jail and still find its login."""


@dataclass(frozen=True)
class Way:
    """One way to drive an agent."""

    by: Literal["itself", "command", "acp"]
    program: str
    """What is started; empty for the built-in one."""
    path: str
    """Where that was found; empty where it was not."""
    can: Can

    @property
    def is_there(self) -> bool:
        """Whether its program is installed, as far as can be known."""
        return bool(self.path) or not self.program


@dataclass(frozen=True)
class AgentFacts:
    """One agent. `ways` are those in which it can be driven, the usual one first."""

    name: str
    origin: Origin
    ways: tuple[Way, ...]
    version: str = ""
    install: str = ""
    """What to type where it is not there."""

    @property
    def installed(self) -> bool:
        """Whether it can be driven in any way."""
        return any(way.is_there for way in self.ways)


CHAT_FACTS = AgentFacts(
    CHAT,
    "built in",
    (Way("itself", "", "", Can(resume=True, usage=True, cost=True, cancel=True, permission=True, sandbox=True)),),
    __version__,
)
"""The built-in agent."""


@dataclass(frozen=True)
class Candidate:
    """An agent by name, and where its preset comes from."""

    name: str
    preset: Preset
    origin: Origin


def survey(candidates: Sequence[Candidate], environ: Mapping[str, str]) -> tuple[AgentFacts, ...]:
    """The facts of each, in order. Versions are asked all at once; one that does not answer in time is unknown."""
    found = [(one, ways_of(one.preset, environ)) for one in candidates]
    asked = {one.name: one.preset for one, ways in found if one.preset.version and any(way.is_there for way in ways)}
    told = asyncio.run(versions(asked, environ)) if asked else {}
    return tuple(
        AgentFacts(one.name, one.origin, ways, told.get(one.name, ""), one.preset.install) for one, ways in found
    )


def ways_of(preset: Preset, environ: Mapping[str, str], workspace: Path | None = None) -> tuple[Way, ...]:
    """How an agent can be driven here; as a command first."""
    jailed = bool(preset.home) or not preset.login
    by_command = Can(
        resume=bool(preset.resume),
        usage="tokens" in preset.reports,
        cost="cost_usd" in preset.reports,
        cancel=True,
        permission=False,
        sandbox=jailed,
    )
    # What the protocol leaves to the agent counts as not there.
    by_protocol = Can(
        resume=True,
        usage="tokens" in preset.acp_reports,
        cost="cost_usd" in preset.acp_reports,
        cancel=True,
        permission=True,
        sandbox=jailed,
    )
    ways = []
    if preset.argv:
        ways.append(Way("command", *find_program(preset.argv, environ, workspace), by_command))
    if preset.acp:
        ways.append(Way("acp", *find_program(preset.acp, environ, workspace), by_protocol))
    return tuple(ways)
