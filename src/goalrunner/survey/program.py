"""Which program a command starts, and where it is. Starts nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.agents.external import program_of
from goalrunner.process.program import program_outside


def find_program(words: Sequence[str], environ: Mapping[str, str], workspace: Path | None = None) -> tuple[str, str]:
    """The program that a command starts, and its path: empty where it is not found. Relative ones lie in the workspace.

    One outside of the workspace comes first, as it does in a run. Of a line that only a shell understands, the shell is
    the program.
    """
    program = program_of(words) or "sh"
    if "/" in program:
        path = Path(workspace or Path.cwd(), program).expanduser()
        return program, str(path) if path.is_file() and os.access(path, os.X_OK) else ""
    found = program_outside(program, environ, (workspace or Path.cwd(),))
    return program, str(found or shutil.which(program, path=environ.get("PATH", os.defpath)) or "")
