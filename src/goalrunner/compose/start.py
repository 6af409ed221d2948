"""What a run's folder says of its start, and whether it still says the same. Owns the comparison; writes no file.

Ignore rules, what the checks said, what linked folders were like: a resumed run that found less of it would compare with
less. The log names each of these files with its hash, so that one that is gone is not taken for one that never was.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from goalrunner.checking.ignored_files import PACK
from goalrunner.errors import RecordError
from goalrunner.runs import RunFolder
from goalrunner.state import RunState
from goalrunner.wholefile import UNFINISHED

START = "start"
"""The folder of these files, in that of the run."""
UNCERTAIN = "this log is of an older schema: it does not say what was kept of the start, so some of that may be gone"


def kept_files(folder: RunFolder) -> dict[str, str]:
    """Each file with its SHA-256. Raises RecordError for one that cannot be read.

    A pack of contents is left out: a record beside it has the hash of each content.
    """
    start = folder.path / START
    found = sorted(path for path in start.rglob("*") if path.is_file() and path.suffix not in (UNFINISHED, PACK))
    return {path.relative_to(start).as_posix(): _digest(path) for path in found}


def refuse_other_start(folder: RunFolder, state: RunState) -> None:
    """Raises RecordError naming the first file that is gone or is not what it was."""
    for name, digest in state.kept.items():
        path = folder.path / START / name
        if not path.is_file():
            raise RecordError(f"{path} is gone: it said what the start of the run was like", "start a new run")
        if _digest(path) != digest:
            raise RecordError(f"{path} is damaged: it says something else of the start than it did", "start a new run")


def refuse_earlier(state: RunState, *, needs_environment: bool) -> None:
    """Raise RecordError if an earlier version began the run, which did not record what its checks rest on."""
    if needs_environment and state.base is not None and not state.check_environment:
        raise RecordError(
            "an earlier version of goalrunner began this run, and its checks cannot go on in the check environment",
            "start a new run: goal run GOAL_FILE",
        )


def start_notes(state: RunState) -> tuple[str, ...]:
    """What must be said of a log that does not name these files (schema before 1.2)."""
    return (UNCERTAIN,) if state.base is not None and state.round and not state.kept else ()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "start a new run: goal run GOAL_FILE") from error
