"""Where presets come from, and which of two with one name counts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from goalrunner.errors import UsageError
from goalrunner.model.preset import Preset

ACP, COMMAND = "acp", "command"
"""Names of agents that have no preset: all that is known of them is `[agent] command`."""


def builtin() -> dict[str, Preset]:
    """Those that come along, by name."""
    files = (entry for entry in resources.files(__package__).iterdir() if entry.name.endswith(".toml"))
    return {entry.name.removesuffix(".toml"): _read(entry.read_text("utf-8"), entry.name) for entry in files}


def known(own: Mapping[str, Preset], environ: Mapping[str, str]) -> dict[str, Preset]:
    """All of them, by name. `own` are the goal's. Raises UsageError for a file that does not hold."""
    return {**builtin(), **_of_user(environ), **own}


def find(name: str, own: Mapping[str, Preset], environ: Mapping[str, str]) -> Preset:
    """The preset of that name. Raises UsageError where there is none."""
    if name in (ACP, COMMAND) and name not in own:
        return Preset()
    presets = known(own, environ)
    if name not in presets:
        raise UsageError(f'there is no agent "{name}"', f"known: chat, command, acp, {', '.join(sorted(presets))}")
    return presets[name]


def _of_user(environ: Mapping[str, str]) -> dict[str, Preset]:
    config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return {
        path.stem: _read(path.read_text("utf-8"), str(path))
        for path in sorted(Path(config, "goal/agents").glob("*.toml"))
    }


def _read(text: str, name: str) -> Preset:
    try:
        return Preset.model_validate(tomllib.loads(text))
    except (ValueError, ValidationError) as error:
        raise UsageError(f"{name}: {error}", "mend it, or remove it") from error
