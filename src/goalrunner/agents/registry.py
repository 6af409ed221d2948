"""The agents that a goal may name: built in, registered by other packages, or in files of the user."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from goalrunner.agents.parser import AgentParser
from goalrunner.core.agent_preset import TEXT, Preset, Protocol
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import CHAT, AgentConfig

ACP, COMMAND = "acp", "command"
"""Names of agents without a preset, which are described by `[agent] command` only."""

GROUP = "goalrunner.agents"
"""The entry-point group in which other packages register subclasses of AgentParser."""


_BUILT_IN = {
    "claude": "Claude",
    "codex": "Codex",
    "gemini": "Gemini",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "qwen": "Qwen",
}
"""Name, which is also that of the module, and class."""


def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in agents, without importing them."""
    return tuple(_BUILT_IN)


def builtin() -> dict[str, Preset]:
    """Return the presets of the built-in agents by name."""
    return {name: parser_class(name).preset for name in _BUILT_IN}


def agent_names() -> tuple[str, ...]:
    """Return the names of the built-in and registered agents."""
    return tuple(sorted((*_BUILT_IN, *registered_names())))


def registered_names() -> tuple[str, ...]:
    """Return the names of the agents that other packages have registered, without importing them."""
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP).names - {*_BUILT_IN, CHAT, COMMAND, ACP, TEXT}))


def parser_class(name: str) -> type[AgentParser]:
    """Return the class of a built-in or registered agent.

    Raise KeyError if there is none of that name, and UsageError if a registered one cannot be imported.
    """
    if name in _BUILT_IN:
        found: type[AgentParser] = getattr(import_module(f"goalrunner.agents.{name}"), _BUILT_IN[name])
        return found
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP, name=name)
    if not points:
        raise KeyError(name)
    (point, *_) = points
    hint = f"repair or uninstall the package that registers it in the entry-point group {GROUP}"
    try:
        loaded = point.load()
    except Exception as error:
        raise UsageError(f"the agent {name} cannot be imported from {point.value}: {error}", hint) from error
    if not (isinstance(loaded, type) and issubclass(loaded, AgentParser)):
        raise UsageError(f"the agent {name}: {point.value} is not a subclass of AgentParser", hint)
    return loaded


def user_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the user's preset files by name: `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, or below `~/.config`."""
    config, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    folder = Path(config if Path(config).is_absolute() else Path(home, ".config"), "goal/agents")
    if not folder.is_absolute():
        return {}
    try:
        return {path.stem: path for path in sorted(folder.glob("*.toml")) if path.stem not in (CHAT, COMMAND, ACP)}
    except OSError:
        return {}


def protocol_of(config: AgentConfig, preset: Preset) -> Protocol:
    """Return how an external agent is driven: as the goal says, else as a command if it has one, else by ACP."""
    if config.protocol is not None:
        return config.protocol
    return "acp" if config.use == ACP or (preset.acp and not preset.argv) else "command"
