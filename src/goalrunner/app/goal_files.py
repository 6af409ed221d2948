"""Noticing that a goal file was changed while a run with it worked.

The hashes of the file at the start and at the end of a run are stored in GOAL_HOME.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from pydantic import BaseModel, ValidationError

from goalrunner.app.previous_run import file_hash
from goalrunner.core.errors import RecordError
from goalrunner.records.files import write_whole

_FOLDER = "goal-files"


class _LastRun(BaseModel):
    """The last run with a goal file, and the hash of the file at its start and end.

    `end` is empty while the run works.
    """

    run_id: str
    start: str
    end: str = ""


def _record_of(home: Path, goal_file: Path) -> Path:
    # Another link to the file names the same record.
    path = os.path.realpath(goal_file)
    return home / _FOLDER / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _hash_of(goal_file: Path) -> str:
    """Return the hash of a goal file; empty if it cannot be read."""
    with contextlib.suppress(RecordError):
        return file_hash(goal_file)
    return ""


def _last_run(home: Path, goal_file: Path) -> _LastRun | None:
    with contextlib.suppress(OSError, ValidationError):
        return _LastRun.model_validate_json(_record_of(home, goal_file).read_bytes())
    return None


def _write(home: Path, goal_file: Path, last: _LastRun) -> None:
    record = _record_of(home, goal_file)
    with contextlib.suppress(OSError):  # the record is only for a note
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, last.model_dump_json().encode(), lasting=False)


def goal_file_began(
    home: Path, goal_file: Path, run_id: str, copied: Path | None = None
) -> str:
    """Record the start of a run.

    `copied` is the file in the copy of the workspace in which the run works. Return the
    last run if the file was changed while that worked, and was not put back.
    """
    before, now = _last_run(home, goal_file), _hash_of(copied or goal_file)
    _write(home, goal_file, _LastRun(run_id=run_id, start=now))
    # A run without an end was killed, or is active. A file that was put back needs
    # no note.
    if before is None or not before.end or before.start in (before.end, now):
        return ""
    return before.run_id


def goal_file_ended(
    home: Path, goal_file: Path, run_id: str, copied: Path | None = None
) -> None:
    """Record the goal file at the end of a run; `copied` is as for its start."""
    last = _last_run(home, goal_file)
    # Another run with the file may have begun meanwhile.
    if last is not None and last.run_id == run_id:
        end = _hash_of(copied or goal_file) or "removed"
        _write(home, goal_file, last.model_copy(update={"end": end}))
