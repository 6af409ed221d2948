"""What could not be started even without a jail, said in the same words. Owns that look; starts nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.process.leader import NotStarted, refusal


def unstartable(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NotStarted | None:
    """Why `argv` cannot be started in `cwd`; None where it can."""
    program = argv[0] if argv else ""
    if not program or not cwd.is_dir():
        return refusal(argv, cwd, FileNotFoundError())
    found = cwd / program if "/" in program else shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None or not Path(found).exists():
        return refusal(argv, cwd, FileNotFoundError())
    if not os.access(found, os.X_OK) or Path(found).is_dir():
        return refusal(argv, cwd, PermissionError())
    return None
