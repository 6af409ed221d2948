"""The agents that a goal may name, and their versions."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner import __version__
from goalrunner.agents.invocation import pinned_words, program_of
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalError
from goalrunner.core.goal import CHAT
from goalrunner.core.process_ports import Launcher
from goalrunner.system.environment import child_environment
from goalrunner.system.launcher import ProcessLauncher, program_outside


def find_program(words: Sequence[str], environ: Mapping[str, str], workspace: Path | None = None) -> tuple[str, str]:
    """The program that a command starts, and its path: empty where it is not found. Relative ones lie in the workspace.

    One outside of the workspace comes first, as it does in a run. Of a line that only a shell understands, the shell is
    the program.
    """
    program = program_of(words) or "sh"
    if "/" in program:
        path = Path(workspace or Path.cwd(), program).expanduser()
        return program, str(path) if path.is_file() and os.access(path, os.X_OK) else ""
    found = program_outside(program, environ, (workspace or Path.cwd(),))
    return program, str(found or shutil.which(program, path=environ.get("PATH", os.defpath)) or "")


PATIENCE = 15.0
"""Seconds that an agent may take to say its version; those in Python take ten."""

_NUMBER = re.compile(r"\d{1,9}\.\d{1,9}[\w.+-]*")
_LONGEST, _READ = 40, 65_536


Within = Callable[[Launcher, Path, Path], Launcher]
"""What puts a launcher into a jail, with a folder for that jail's own things and the folder that is worked in."""


async def versions(
    presets: Mapping[str, Preset], environ: Mapping[str, str], within: Within | None = None
) -> dict[str, str]:
    """By name: the version of each, empty where it says none. `within` puts them into a jail."""
    launcher = ProcessLauncher()
    try:
        with tempfile.TemporaryDirectory(prefix="goal-versions-") as made:
            asked = [
                _version(preset, launcher, environ, Path(made, str(at)), within)
                for at, preset in enumerate(presets.values())
            ]
            return dict(zip(presets, await asyncio.gather(*asked), strict=True))
    finally:
        launcher.close()


async def _version(
    preset: Preset, bare: Launcher, environ: Mapping[str, str], folder: Path, within: Within | None
) -> str:
    folder.mkdir()
    launcher = within(bare, folder.with_name(f"{folder.name}-own"), folder) if within else bare
    env = {**child_environment(environ, withhold=preset.keys), **preset.env}
    try:
        words = pinned_words(preset.version, env, Path.cwd())
        out, errors = folder / "said", folder / "errors"
        said = await launcher.launch(words, cwd=folder, env=env, output=out, errors=errors, timeout=PATIENCE)
        if said.exit_code != 0:
            return ""
        # Warnings are full of numbers, so stderr counts only where nothing else is said.
        return number_in(_head(out)) or number_in(_head(errors))
    except (GoalError, OSError):
        return ""


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_READ).decode(errors="replace")


def number_in(text: str) -> str:
    """The first thing that looks like a version, else the first line that says something, shortened."""
    found = _NUMBER.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (found[0].rstrip(".") if found else next(iter(lines), ""))[:_LONGEST]


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
