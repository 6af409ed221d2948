"""Facts about the agents that a goal may name, for people who choose one."""

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

from goalrunner.agents.invocation import program_of
from goalrunner.core import VERSION
from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.core.errors import GoalError
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import ProcessLauncher

# Seconds that an agent may take to print its version; agents in Python need up to ten.
_TIMEOUT = 15.0
# Bytes that are read of its output.
_LONGEST_READ = 65_536
# Characters of a version.
_LONGEST_VERSION = 40
_NUMBER = re.compile(r"\d{1,9}\.\d{1,9}[\w.+-]*")


def find_program(
    words: Sequence[str], environ: Mapping[str, str], workspace: Path | None = None
) -> tuple[str, str]:
    """Return the program that a command starts (`sh` for a shell line), and its path.

    The path is empty if the program is not found.
    """
    program = program_of(words) or "sh"
    if "/" not in program:
        # The PATH of the agent, not of this process.
        path_variable = environ.get("PATH", os.defpath)
        return program, shutil.which(program, path=path_variable) or ""
    path = Path(workspace or Path.cwd(), program).expanduser()
    is_executable = path.is_file() and os.access(path, os.X_OK)
    return program, str(path) if is_executable else ""


async def versions(
    presets: Mapping[str, Preset], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the version of each agent by name, empty if unknown.

    The programs run at the same time.
    """
    launcher = ProcessLauncher()
    try:
        with tempfile.TemporaryDirectory(prefix="goal-versions-") as root:
            runs = []
            for index, preset in enumerate(presets.values()):
                folder = Path(root, str(index))
                runs.append(_version(launcher, preset, environ, folder))
            return dict(zip(presets, await asyncio.gather(*runs), strict=True))
    finally:
        launcher.close()


async def _version(
    launcher: ProcessLauncher, preset: Preset, environ: Mapping[str, str], folder: Path
) -> str:
    """Return the version that an agent prints, empty if unknown.

    Its program runs in the new `folder`.
    """
    if not preset.version:
        return ""
    # Of its own, so that an agent that writes files disturbs no other.
    folder.mkdir()
    env = child_environment(environ, withhold=preset.keys)
    output, errors = folder / "output", folder / "errors"
    try:
        completion = await launcher.launch(
            preset.version,
            cwd=folder,
            env={**env, **preset.env},
            output=output,
            errors=errors,
            timeout=_TIMEOUT,
        )
        if completion.exit_code != 0:
            return ""
        # Warnings are full of numbers, so stderr counts only if stdout is empty.
        for path in (output, errors):
            printed = path.read_bytes()[:_LONGEST_READ]
            version = number_in(printed.decode(errors="replace"))
            if version:
                return version
    except (GoalError, OSError):
        # Without a version, the agent is still listed.
        return ""
    return ""


def number_in(text: str) -> str:
    """Return the first version number in a text, else its first line.

    At most 40 characters are returned.
    """
    match = _NUMBER.search(text)
    if match:
        return match[0].rstrip(".")[:_LONGEST_VERSION]
    first_line = text.strip().partition("\n")[0]
    return first_line.rstrip()[:_LONGEST_VERSION]


Origin = Literal["built in", "installed", "user", "goal file"]


@dataclass(frozen=True)
class Abilities:
    """The abilities of an agent when it is driven in one way."""

    resume: bool
    """Whether its session continues in a later round or in another process.

    Otherwise the history is sent again.
    """
    usage: bool
    """Whether it reports its tokens, so that a budget of tokens can be enforced."""
    cost: bool
    """Whether it reports its dollars."""
    cancel: bool
    """Whether it can be stopped in the middle of a round."""
    permission: bool
    """Whether it asks before it acts, so that a person can decide."""
    sandbox: bool
    """Whether it finds its login in a sandbox."""


@dataclass(frozen=True)
class Way:
    """One way to drive an agent."""

    by: Literal["itself", "command", "acp"]
    program: str
    """The program that is started; empty for the built-in agent."""
    path: str
    """The path of the program; empty if it is not installed."""
    can: Abilities

    @property
    def is_installed(self) -> bool:
        return bool(self.path) or not self.program


@dataclass(frozen=True)
class AgentFacts:
    """One agent that a goal may name."""

    name: str
    origin: Origin
    ways: tuple[Way, ...]
    """The ways to drive it, the usual one first."""
    version: str = ""
    install: str = ""
    """How to install it."""

    @property
    def installed(self) -> bool:
        """Whether it can be driven in any way."""
        return any(way.is_installed for way in self.ways)


_ALL = Abilities(
    resume=True, usage=True, cost=True, cancel=True, permission=True, sandbox=True
)
CHAT_FACTS = AgentFacts(BUILTIN, "built in", (Way("itself", "", "", _ALL),), VERSION)
"""The facts of the built-in agent."""


def survey(
    presets: Mapping[str, Preset],
    origins: Mapping[str, Origin],
    environ: Mapping[str, str],
) -> tuple[AgentFacts, ...]:
    """Return the facts of each agent, in the order of `presets`."""
    ways = {name: ways_of(preset, environ) for name, preset in presets.items()}
    # Only what is installed can print its version.
    installed = [name for name in presets if any(w.is_installed for w in ways[name])]
    programs = {name: presets[name] for name in installed}
    versions_by_name = asyncio.run(versions(programs, environ))
    return tuple(
        AgentFacts(
            name,
            origins[name],
            ways[name],
            versions_by_name.get(name, ""),
            preset.install,
        )
        for name, preset in presets.items()
    )


def ways_of(
    preset: Preset, environ: Mapping[str, str], workspace: Path | None = None
) -> tuple[Way, ...]:
    """Return the ways to drive an agent here; its command line comes before ACP."""
    ways: list[Way] = []
    commands: tuple[tuple[Protocol, tuple[str, ...]], ...] = (
        ("command", preset.argv),
        ("acp", preset.acp),
    )
    for by, words in commands:
        if not words:
            continue
        can = Abilities(
            resume=by == "acp" or bool(preset.resume),
            usage="tokens" in preset.reports_by(by),
            cost="cost_usd" in preset.reports_by(by),
            cancel=True,
            permission=by == "acp",
            sandbox=bool(preset.home) or not preset.login,
        )
        program, path = find_program(words, environ, workspace)
        ways.append(Way(by, program, path, can))
    return tuple(ways)
