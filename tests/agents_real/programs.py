"""The real agents that these tests can drive: which, whether they are installed, and where."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("claude", "codex", "gemini", "opencode", "qwen")

FOLDER = "GOAL_AGENTS_DIR"
"""Variable that names a folder in which some are installed, each in a folder of its own or all in one."""


def places() -> list[Path]:
    """Folders that may hold programs beside those of PATH."""
    root = os.environ.get(FOLDER)
    if not root:
        return []
    patterns = ("bin", "node_modules/.bin", "*/bin", "*/node_modules/.bin")
    return sorted(folder for pattern in patterns for folder in Path(root).glob(pattern) if folder.is_dir())


def search_path() -> str:
    """PATH with those folders first."""
    return os.pathsep.join([*map(str, places()), os.environ.get("PATH", os.defpath)])


def installed(name: str) -> bool:
    """Whether the program can be started."""
    return shutil.which(name, path=search_path()) is not None
