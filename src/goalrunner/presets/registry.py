"""Where presets come from: those that come along, and the files of the user's own, which `goalfile` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.core.goal import CHAT, AgentConfig

ACP, COMMAND = "acp", "command"
"""Names of agents that have no preset: all that is known of them is `[agent] command`."""


@cache
def builtin_names() -> tuple[str, ...]:
    """Names of those that come along, without reading them."""
    names = (entry.name for entry in resources.files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def builtin_text(name: str) -> str:
    """The table of one that comes along, as TOML."""
    return resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8")


def builtin() -> dict[str, Preset]:
    """Those that come along, by name."""
    return {name: Preset.model_validate(tomllib.loads(builtin_text(name))) for name in builtin_names()}


def user_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """Files of the user's own presets, by name: `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, else below `~/.config`."""
    config, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    folder = Path(config if Path(config).is_absolute() else Path(home, ".config"), "goal/agents")
    if not folder.is_absolute():
        return {}
    try:
        return {path.stem: path for path in sorted(folder.glob("*.toml")) if path.stem not in (CHAT, COMMAND, ACP)}
    except OSError:
        return {}


def protocol_of(config: AgentConfig, preset: Preset) -> Protocol:
    """How an external agent is driven: as the goal says, else as a command where it has one, else by ACP."""
    if config.protocol is not None:
        return config.protocol
    return "acp" if config.use == ACP or (preset.acp and not preset.argv) else "command"
