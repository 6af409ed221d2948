"""The external agents that a goal may name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from goalrunner.agents.parser import AgentParser
from goalrunner.core.agent_preset import TEXT, Preset, Protocol
from goalrunner.core.errors import UsageError
from goalrunner.core.goal_tables import BUILTIN, AgentConfig

ACP, COMMAND = "acp", "command"
"""Names of agents without a preset: `[agent] command` alone describes them."""

GROUP = "goalrunner.agents"
"""The entry-point group in which other packages register subclasses of AgentParser."""

# A preset of one of these names could never be selected.
_RESERVED = (BUILTIN, COMMAND, ACP)
BUILT_IN = {
    "claude": "Claude",
    "codex": "Codex",
    "gemini": "Gemini",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "qwen": "Qwen",
}
"""Name of the agent -> its class in `builtin_agents`."""


def agent_names() -> tuple[str, ...]:
    """Return the names of the built-in and registered agents."""
    return tuple(sorted((*BUILT_IN, *registered_names())))


def registered_names() -> tuple[str, ...]:
    """Return the names of the agents that other packages have registered.

    The packages are not imported.
    """
    return _registered_on(tuple(sys.path))


@lru_cache(maxsize=1)
def _registered_on(search_path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names for this `sys.path`, which is searched once.

    Each search takes 40 ms, and a batch has thousands of goals.
    """
    # Slow to import, and most commands need no entry points.
    from importlib.metadata import entry_points

    names = entry_points(group=GROUP).names - {*BUILT_IN, TEXT, *_RESERVED}
    return tuple(sorted(names))


def parser_class(name: str) -> type[AgentParser]:
    """Return the class of a built-in or registered agent.

    Raise KeyError if there is none of that name, and UsageError if a registered one
    cannot be imported.
    """
    if name in BUILT_IN:
        # Imported on use: most commands need no parser.
        module = import_module("goalrunner.agents.builtin_agents")
        built_in: type[AgentParser] = getattr(module, BUILT_IN[name])
        return built_in
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP, name=name)
    if not points:
        raise KeyError(name)
    (point, *_) = points
    hint = (
        "repair or uninstall the package that registers it "
        f"in the entry-point group {GROUP}"
    )
    try:
        # This runs code of another package, which may raise anything.
        loaded = point.load()
    except Exception as error:
        raise UsageError(
            f"the agent {name} cannot be imported from {point.value}: {error}", hint
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, AgentParser)):
        raise UsageError(
            f"the agent {name}: {point.value} is not a subclass of AgentParser", hint
        )
    return loaded


def user_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the user's preset files by name.

    They are `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, or below `~/.config`.
    """
    # https://specifications.freedesktop.org/basedir-spec/: ignore a relative path.
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        config = Path(environ.get("HOME", ""), ".config")
    folder = config / "goal/agents"
    if not folder.is_absolute():
        return {}
    paths = sorted(folder.glob("*.toml"))
    return {path.stem: path for path in paths if path.stem not in _RESERVED}


def protocol_of(config: AgentConfig, preset: Preset) -> Protocol:
    """Return the protocol of an external agent.

    That is the goal's, else "acp" for `use = "acp"` or without another command.
    """
    if config.protocol is not None:
        return config.protocol
    has_only_acp = preset.acp and not preset.argv
    return "acp" if config.use == ACP or has_only_acp else "command"


@dataclass(frozen=True)
class ExternalAgent:
    """An agent as a goal names it."""

    name: str
    preset: Preset
    workspace: Path
    env: Mapping[str, str]
    """Its whole environment, including its keys."""
    model: tuple[str, ...] = ()
    """The words of `{model}`."""
    args: tuple[str, ...] = ()
    """The words of `{args}`."""
    idle_timeout: float | None = None
    """Seconds without a sign of life after which a turn is ended; None: no limit."""
