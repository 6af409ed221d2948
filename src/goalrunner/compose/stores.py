"""What becomes of the snapshots when runs are removed. Owns which store goes and what stays in another; decides no run.

A store goes when no run of its workspace is left. In another one the snapshots stay that a remaining run's log names. A run
whose workspace is not known might be of any: then nothing goes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.errors import RecordError, WorkspaceError
from goalrunner.eventlog import read_records
from goalrunner.events import RunStarted
from goalrunner.runs import RunFolder, list_runs
from goalrunner.workspace.layout import store_name
from goalrunner.workspace.shrinking import last_used, remove_store, shrink

_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""Whatever looks like the id of a snapshot: one too many is kept rather than one too few, of a damaged log as well."""


@dataclass(frozen=True)
class StoresPruned:
    """What happened to the stores."""

    removed: tuple[str, ...] = ()
    """Their names, which are those of their folders."""
    dropped: int = 0
    """Snapshots that went from stores that stay."""
    left: tuple[str, ...] = ()
    """Why others were left alone, one sentence each."""


def prune_stores(home: Path, environ: Mapping[str, str], since: float) -> StoresPruned:
    """After runs were removed: what no run needs goes. `since`: what is younger stays, in seconds since 1970."""
    removed: list[str] = []
    left: list[str] = []
    dropped = 0
    for store in sorted(path for path in (home / "stores").glob("*") if path.is_dir() and path.name[0] != "."):
        try:
            users = _users(home)
            if None in users.values():
                lost = next(name for name, user in users.items() if user is None)
                left.append(f"run {lost} does not say where it worked, so no snapshot was removed")
                break
            workspace = next(
                (Path(user) for user in users.values() if user and store_name(Path(user)) == store.name), None
            )
            if workspace is not None:
                dropped += shrink(store, workspace, environ, lambda: _named(home, store.name), since)  # noqa: B023
            elif last_used(store) < since and remove_store(store, store, lambda: _is_used(home, store.name)):  # noqa: B023
                removed.append(store.name)
        except WorkspaceError as error:
            left.append(f"{store}: {error.message}")
    return StoresPruned(tuple(removed), dropped, tuple(left))


def orphans(home: Path, going: Collection[str]) -> tuple[str, ...]:
    """Workspaces of which no run would be left when those of these ids are gone."""
    users = _users(home)
    staying = {user for name, user in users.items() if name not in going}
    lost = {user for name, user in users.items() if name in going and user} - staying
    return () if None in staying else tuple(sorted(user for user in lost if user))


def _users(home: Path) -> dict[str, str | None]:
    """By run: its workspace; None where nobody can tell."""
    return {
        str(item["run_id"]): str(item.get("workspace") or "") or _said_in(home / "runs" / str(item["run_id"]))
        for item in list_runs(home)
    }


def _said_in(folder: Path) -> str | None:
    """The workspace of a run whose summary does not say it."""
    with contextlib.suppress(RecordError):
        for record in read_records(RunFolder(folder).events):
            if isinstance(record.event, RunStarted):
                return record.event.workspace
    return None


def _is_used(home: Path, name: str) -> bool:
    return any(user is None or store_name(Path(user)) == name for user in _users(home).values())


def _named(home: Path, store: str) -> set[str]:
    """Every snapshot that a run of that store names. Raises WorkspaceError for a log that cannot be read."""
    found: set[str] = set()
    for name, user in _users(home).items():
        if user is None or store_name(Path(user)) == store:
            found |= _ids(RunFolder(home / "runs" / name).events)
    return found


def _ids(log: Path) -> set[str]:
    try:
        with log.open("rb") as file:
            return {match.decode() for line in file for match in _ID.findall(line)}
    except OSError as error:
        raise WorkspaceError(f"{log} cannot be read: {error.strerror}", "see who owns it") from error
