"""Where presets come from, and which of two with one name counts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from goalrunner.errors import UsageError
from goalrunner.model.goal import CHAT, AgentConfig
from goalrunner.model.preset import Preset, Protocol

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
    return {name: _read(builtin_text(name), name) for name in builtin_names()}


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


def known(own: Mapping[str, Preset], environ: Mapping[str, str]) -> dict[str, Preset]:
    """All of them, by name. `own` are the goal's. Raises UsageError for a file that does not hold."""
    of_user = {name: _of_user(path) for name, path in user_files(environ).items()}
    return {**builtin(), **of_user, **own}


def find(name: str, own: Mapping[str, Preset], environ: Mapping[str, str]) -> Preset:
    """The preset of that name, empty for one that is all command. Raises UsageError where there is none.

    A goal that was loaded from a file holds the user's own preset that it uses; another file of theirs is not read.
    """
    if name in own:
        return own[name]
    if name in (ACP, COMMAND):
        return Preset()
    files = user_files(environ)
    if name in files:
        return _of_user(files[name])
    if name in builtin_names():
        return _read(builtin_text(name), name)
    names = sorted({*builtin_names(), *files, *own})
    raise UsageError(f'there is no agent "{name}"', f"known: {CHAT}, {COMMAND}, {ACP}, {', '.join(names)}")


def protocol_of(config: AgentConfig, preset: Preset) -> Protocol:
    """How an external agent is driven: as the goal says, else as a command where it has one, else by ACP."""
    if config.protocol is not None:
        return config.protocol
    return "acp" if config.use == ACP or (preset.acp and not preset.argv) else "command"


def _of_user(path: Path) -> Preset:
    try:
        return _read(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "mend it, or remove it") from error


def _read(text: str, name: str) -> Preset:
    try:
        return Preset.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name}: {where}: {first['msg']}", "mend it, or remove it") from error
    except ValueError as error:
        raise UsageError(f"{name}: {error}", "mend it, or remove it") from error
