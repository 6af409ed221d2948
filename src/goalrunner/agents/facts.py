"""The agents that a goal may name: the ways to drive them, their abilities, and their versions."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.agents.external_agents import program_of
from goalrunner.core import VERSION
from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.core.errors import GoalError
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import ProcessLauncher

_TIMEOUT = 15.0  # seconds that an agent may take to print its version; agents in Python need up to ten
_NUMBER = re.compile(r"\d{1,9}\.\d{1,9}[\w.+-]*")


def find_program(
    words: Sequence[str], environ: Mapping[str, str], workspace: Path | None = None
) -> tuple[str, str]:
    """Return the program that a command starts (`sh` for a shell line), and its path, which is empty if it is not found."""
    program = program_of(words) or "sh"
    if "/" in program:
        path = Path(workspace or Path.cwd(), program).expanduser()
        return program, str(path) if path.is_file() and os.access(path, os.X_OK) else ""
    return program, shutil.which(program, path=environ.get("PATH", os.defpath)) or ""


async def versions(
    presets: Mapping[str, Preset], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the version of each agent by name, empty if unknown. The programs run at the same time."""
    launcher = ProcessLauncher()

    async def version(preset: Preset, folder: Path) -> str:
        if not preset.version:
            return ""
        folder.mkdir()
        env = {**child_environment(environ, withhold=preset.keys), **preset.env}
        printed = folder / "output", folder / "errors"
        try:
            done = await launcher.launch(
                preset.version,
                cwd=folder,
                env=env,
                output=printed[0],
                errors=printed[1],
                timeout=_TIMEOUT,
            )
            # Warnings are full of numbers, so stderr counts only if stdout is empty.
            found = (
                number_in(path.read_bytes()[:65_536].decode(errors="replace"))
                for path in printed
            )
            return next(filter(None, found), "") if done.exit_code == 0 else ""
        except (GoalError, OSError):
            return ""

    try:
        with tempfile.TemporaryDirectory(prefix="goal-versions-") as made:
            asked = [
                version(preset, Path(made, str(at)))
                for at, preset in enumerate(presets.values())
            ]
            return dict(zip(presets, await asyncio.gather(*asked), strict=True))
    finally:
        launcher.close()


def number_in(text: str) -> str:
    """Return the first version number in a text, else its first line; at most 40 characters."""
    found = _NUMBER.search(text)
    return (
        found[0].rstrip(".") if found else text.strip().partition("\n")[0].rstrip()
    )[:40]


Origin = Literal["built in", "installed", "user", "goal file"]


@dataclass(frozen=True)
class Abilities:
    """The abilities of an agent when it is driven in one way."""

    resume: bool  # its session continues in a later round or another process; else the history is sent again
    usage: bool  # it reports its tokens, so that a budget of tokens can be enforced
    cost: bool  # it reports its dollars
    cancel: bool  # it can be stopped in the middle of a round
    permission: bool  # it asks before it acts, so that a person can decide
    sandbox: bool  # it finds its login in a sandbox


@dataclass(frozen=True)
class Way:
    """One way to drive an agent: the program that is started (empty for the built-in agent), and its path if found."""

    by: Literal["itself", "command", "acp"]
    program: str
    path: str
    can: Abilities

    @property
    def is_installed(self) -> bool:
        return bool(self.path) or not self.program


@dataclass(frozen=True)
class AgentFacts:
    """One agent. `ways` are the ways to drive it, the usual one first; `install` says how to install it."""

    name: str
    origin: Origin
    ways: tuple[Way, ...]
    version: str = ""
    install: str = ""

    @property
    def installed(self) -> bool:
        """Whether it can be driven in any way."""
        return any(way.is_installed for way in self.ways)


_ALL = Abilities(
    resume=True, usage=True, cost=True, cancel=True, permission=True, sandbox=True
)
CHAT_FACTS = AgentFacts(
    BUILTIN, "built in", (Way("itself", "", "", _ALL),), VERSION
)  # the built-in agent


def survey(
    presets: Mapping[str, Preset],
    origins: Mapping[str, Origin],
    environ: Mapping[str, str],
) -> tuple[AgentFacts, ...]:
    """Return the facts of each agent, in the order of `presets`."""
    ways = {name: ways_of(preset, environ) for name, preset in presets.items()}
    installed = {
        name: presets[name]
        for name in presets
        if any(way.is_installed for way in ways[name])
    }
    known = asyncio.run(versions(installed, environ))
    return tuple(
        AgentFacts(name, origins[name], ways[name], known.get(name, ""), preset.install)
        for name, preset in presets.items()
    )


def ways_of(
    preset: Preset, environ: Mapping[str, str], workspace: Path | None = None
) -> tuple[Way, ...]:
    """Return the ways to drive an agent here; its command line comes before ACP."""
    ways: list[Way] = []
    known: tuple[tuple[Protocol, tuple[str, ...]], ...] = (
        ("command", preset.argv),
        ("acp", preset.acp),
    )
    for by, words in known:
        can = Abilities(
            resume=by == "acp" or bool(preset.resume),
            usage="tokens" in preset.reports_by(by),
            cost="cost_usd" in preset.reports_by(by),
            cancel=True,
            permission=by == "acp",
            sandbox=bool(preset.home) or not preset.login,
        )
        if words:
            ways.append(Way(by, *find_program(words, environ, workspace), can))
    return tuple(ways)
