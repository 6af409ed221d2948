"""Large repositories."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.workspaces import git

FILES = 20
"""In each folder; four of them are tests."""


def large_repository(root: Path, files: int) -> Path:
    """A repository with so many small files of source, all of them committed, and a suite that takes half a second."""
    numbers = random.Random(1)
    for folder in range(files // FILES):
        place = root / f"part{folder // 100}" / f"module{folder}"
        place.mkdir(parents=True)
        for file in range(FILES):
            lines = [
                f"def f{numbers.random()}() -> int: return {line}\n"
                for line in range(numbers.randint(5, 60))
            ]
            name = f"test_f{file}.py" if file < FILES // 5 else f"f{file}.py"
            (place / name).write_text("".join(lines))
    (root / "ok.py").write_text("def ok():\n    return False\n")
    (root / "suite.py").write_text(
        "import time\nfrom ok import ok\n\ntime.sleep(0.5)\nassert ok()\n"
    )
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "-q")
    git(root, "config", "gc.autoDetach", "false")
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "one")
    git(root, "repack", "-q", "-a", "-d")
    git(root, "status", "--porcelain")
    return root
