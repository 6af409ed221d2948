"""The real agents that these tests can drive: which, whether they are installed, and where."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.system.child_environment import is_provider_key

NAMES = ("claude", "codex", "gemini", "opencode", "qwen", "openhands")

FOLDER = "GOAL_AGENTS_DIR"
"""Variable that names a folder in which some are installed, each in a folder of its own or all in one."""


def places() -> list[Path]:
    """Folders that may hold programs beside those of PATH."""
    root = os.environ.get(FOLDER)
    if not root:
        return []
    patterns = ("bin", "node_modules/.bin", "*/bin", "*/node_modules/.bin")
    return sorted(
        folder
        for pattern in patterns
        for folder in Path(root).glob(pattern)
        if folder.is_dir()
    )


def search_path() -> str:
    """PATH with those folders first."""
    return os.pathsep.join([*map(str, places()), os.environ.get("PATH", os.defpath)])


def missing(preset: Preset, protocol: Protocol) -> str:
    """Why this agent cannot be driven so; empty where it can."""
    argv = preset.acp if protocol == "acp" else preset.argv
    if shutil.which(argv[0], path=search_path()):
        return ""
    return f"{argv[0]} is not installed: {preset.installing(protocol)}, or name its folder in {FOLDER}"


def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys and settings of the user reach a program."""
    for name in [
        one for one in os.environ if is_provider_key(one) or one.startswith("XDG_")
    ]:
        monkeypatch.delenv(name)
