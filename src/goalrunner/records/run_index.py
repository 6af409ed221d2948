"""Finding a run by what a user types, and listing runs, newest first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.records.run_folder import RunFolder

_SHOWN = 5
_PIECE = 1 << 16
"""Bytes of a summary that are read at once; most are smaller."""


def find_run(home: Path, reference: str | None = None) -> RunFolder:
    """Return the run of that id, of the only id with that prefix, or in the folder of that path; for None the newest run.

    Raise RunNotFound, and UsageError if the runs cannot be listed.
    """
    named = _folder(reference) if reference else None
    if named is not None:
        return named
    names = _names(home)
    if not names:
        raise RunNotFound(f"there is no run in {home}", "goal run GOAL_FILE starts one")
    if reference is None:
        return RunFolder(home / "runs" / list_runs(home)[0]["run_id"])
    if reference in names:
        return RunFolder(home / "runs" / reference)
    matching = sorted(name for name in names if reference and name.startswith(reference))
    if len(matching) == 1:
        return RunFolder(home / "runs" / matching[0])
    if matching:
        raise RunNotFound(f'"{reference}" matches {len(matching)} runs: {_some(matching)}', "type more of the id")
    raise RunNotFound(f'no run "{reference}" in {home}', _advice(reference, names))


def list_runs(home: Path) -> list[dict[str, Any]]:
    """Return the summary of each run (`summary.json`), newest first.

    A run whose summary is missing or damaged has `run_id`, `status` "unreadable", `started_at` (its folder's time),
    `message` and nothing else. Raise UsageError if the runs cannot be listed.
    """
    runs = f"{home}/runs"
    found = [_summary(f"{runs}/{name}", name) for name in _names(home)]
    return sorted(found, key=lambda summary: (summary["started_at"], summary["run_id"]), reverse=True)


def _folder(reference: str) -> RunFolder | None:
    """Return the run in the folder of that path, which `goal show --path` prints; None if there is none."""
    try:
        path = os.path.realpath(reference)
    except (OSError, ValueError):  # the current folder is gone, or the name can be none
        return None
    if os.path.isfile(f"{path}/events.jsonl") or os.path.isfile(f"{path}/summary.json"):  # noqa: PTH113 - never raises
        return RunFolder(Path(path))
    return None


def _names(home: Path) -> list[str]:
    """Return the names of the runs' folders; none before the first run. Raise UsageError."""
    runs = home / "runs"
    try:
        with os.scandir(runs) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        wrong = home if os.path.lexists(home) and not os.path.isdir(home) else runs  # noqa: PTH112 - never raises
        raise UsageError(f"{wrong} is not a folder", "set GOAL_HOME to the folder that holds the runs") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{runs} cannot be read: {why}", "set GOAL_HOME to a folder that you may read") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a run, with the folder's name as `run_id`; see `list_runs` for a damaged one."""
    return _summary(str(folder.path), folder.run_id)


def _summary(path: str, name: str) -> dict[str, Any]:
    """Return `read_summary` of a path as text: with thousands of runs, a Path costs as much as reading the file."""
    try:
        summary = json.loads(_content(f"{path}/summary.json"))
    except OSError as error:
        return _unreadable(path, name, f"summary.json: {(error.strerror or 'cannot be read').lower()}")
    except (ValueError, RecursionError):
        return _unreadable(path, name, "summary.json is damaged")
    if not isinstance(summary, dict) or not isinstance(summary.get("started_at"), str):
        return _unreadable(path, name, "summary.json is damaged")
    summary["run_id"] = name
    return summary


def _content(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while piece := os.read(handle, _PIECE):
            content += piece
            if len(piece) < _PIECE:
                break
        return content
    finally:
        os.close(handle)


def _unreadable(path: str, name: str, message: str) -> dict[str, Any]:
    from datetime import UTC, datetime  # not at the top: few runs need it

    try:
        time = os.stat(path).st_mtime  # noqa: PTH116 - as text, as above
    except OSError:
        time = 0.0
    started = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return {"run_id": name, "status": "unreadable", "started_at": started, "message": message}


def _advice(reference: str, names: list[str]) -> str:
    from difflib import get_close_matches

    near = (
        get_close_matches(reference, names, n=3, cutoff=0.7) or [name for name in names if reference[:40] in name][:3]
    )
    return f"did you mean {_some(near)}?" if near else "goal list shows the runs"


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
