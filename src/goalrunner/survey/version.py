"""What versions the installed agents say they are. Owns asking them, all at once, and finding the number in what they print."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from goalrunner.agents.external import pinned_words
from goalrunner.errors import GoalError
from goalrunner.model.preset import Preset
from goalrunner.ports import Launcher
from goalrunner.process import ProcessLauncher, child_environment

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
