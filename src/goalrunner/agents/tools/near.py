"""What a mistyped path may have meant. Owns the search, which is bounded; opens no file."""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_NAMES = 5_000
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".tox"})


def near_names(root: Path, path: Path, most: int = 3) -> list[str]:
    """Paths below `root`, relative to it, that `path` may have meant: the same name elsewhere first, then alike names."""
    known = list(itertools.islice(_below(root), _MOST_NAMES))
    same = [name for name in known if Path(name).name == path.name]
    alike = difflib.get_close_matches(str(path.relative_to(root)), known, n=most, cutoff=0.7)
    return list(dict.fromkeys([*same, *alike]))[:most]


def _below(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(files):
            yield str((Path(folder) / name).relative_to(root))
