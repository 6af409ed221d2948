"""What the sides of a check change in the workspace: which files have their original content, and which do not exist."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.checking import protection as rules
from goalrunner.checking.environment import File, Layer
from goalrunner.checking.ignored_content import CACHE, Changes, IgnoredContent
from goalrunner.checking.protection import (
    ChangedPath,
    Protection,
    classify_changes,
    contents_needed,
)
from goalrunner.checking.start_files import ObservedChecks, StartFiles
from goalrunner.core.errors import some
from goalrunner.snapshots.objects import Entry, EntryPair
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.store import SnapshotStore

_CACHES = Patterns(CACHES, builtin=True)
_NOT_KEPT = "its original content is not kept"


@dataclass(frozen=True)
class Plan:
    """What differs from the start of the run, as far as checks may put it back."""

    root: Path
    store: SnapshotStore
    changes: tuple[ChangedPath, ...]
    """Every path that differs, with files that git ignores."""
    entries: Mapping[str, EntryPair]
    """The paths of `changes` in the snapshots; files that git ignores are not in them."""
    ignored: Mapping[str, File]
    """The original content of files that git ignores, as far as it is kept."""
    hidden: frozenset[str]
    """What no side has: caches of bytecode that may belong to other content."""
    refusal: str = ""
    hint: str = ""

    async def layer(self, put_back: Sequence[ChangedPath]) -> Layer:
        """Return the layer in which these paths are as at the start; new ones, and those that are not kept, do not exist."""
        old = {
            item.path: self.entries[item.path][0]
            for item in put_back
            if item.path in self.entries
        }
        stored = {entry.blob: path for path, entry in old.items() if entry is not None}
        contents = await self.store.contents(stored) if stored else {}
        put = {
            on_disk(path): _original(entry, contents)
            for path, entry in old.items()
            if entry is not None
        }
        names = {
            on_disk(item.path) if item.path in old else item.path for item in put_back
        }
        put |= {path: file for path, file in self.ignored.items() if path in names}
        caches = {
            posixpath.join(posixpath.dirname(path), CACHE)
            for path in put
            if path.endswith(".py")
        }
        return Layer(
            self.root, put, frozenset({*self.hidden, *caches, *(names - put.keys())})
        )

    def key(self, paths: Sequence[str], tests: Sequence[str]) -> str:
        """Return a hash over paths with their content and over tests: what an approval is for."""
        rows = []
        for path in paths:
            _, new = self.entries.get(path, (None, None))
            content = (
                new.blob
                if new is not None
                else _digest(self.root / path)
                if path not in self.entries
                else ""
            )
            rows.append(f"{path}\0{content}")
        return hashlib.sha256(
            "\0\0".join((*rows, *tests)).encode(errors="surrogateescape")
        ).hexdigest()[:32]


async def make_plan(
    store: SnapshotStore,
    protection: Protection,
    ignored: IgnoredContent,
    changes: Changes,
    start: StartFiles,
    changed: Mapping[str, EntryPair],
    delivered: ObservedChecks | None = None,
) -> Plan:
    """Plan a check by what `changed` since the start; `changes` are those of files that git ignores.

    `delivered` is what the checks showed of the agent's work.
    """
    protection = protection.at(start)
    entries = {
        path: pair
        for path, pair in changed.items()
        if not (pair[0] is None and _CACHES.match(path))
    }
    contents = await store.contents(contents_needed(entries))
    found = classify_changes(protection, start, entries, contents, delivered=delivered)
    lost = [
        item
        for item in found
        if (old := entries[item.path][0]) is not None and not old.stored
    ]
    kept = {
        path: file
        for path in changes.changed
        if (file := ignored.original(path)) is not None
    }
    found = (
        *(_of_agent(item) if item in lost else item for item in found),
        *_ignored_changes(protection, changes),
        *_folders_before(protection, store.workspace, start),
    )
    missing = [item.path for item in lost if item.protected and not item.allowed]
    missing += [
        item.path
        for item in found
        if item.protected and item.path in changes.changed and item.path not in kept
    ]
    refusal, hint = _refusal(protection, missing, changes)
    if special := _special_files(store.workspace, changed):
        refusal, hint = (
            f"a pipe or device is in place of {some(special)}; make it a file again",
            "",
        )
    hidden = {*changes.caches, *_bytecode(protection, start, changed)}
    if protection.strict:  # build output is built anew
        hidden |= {path for path in changes.build if not protection.allowed(path)}
    return Plan(
        store.workspace, store, found, entries, kept, frozenset(hidden), refusal, hint
    )


def _of_agent(item: ChangedPath) -> ChangedPath:
    """Return a path that cannot be put back."""
    return (
        item
        if item.protected or item.kind == "source"
        else replace(item, rule=_NOT_KEPT, allowed=_NOT_KEPT)
    )


def _ignored_changes(protection: Protection, changes: Changes) -> Iterator[ChangedPath]:
    """Yield the files that git ignores and that are new or changed. Of those, only strict rules keep original content."""
    for path in changes.changed:
        may_change = (
            protection.is_editable(path)
            if protection.mode == "editable"
            else protection.allowed(path)
        )
        rule = protection.describe(path).rule
        if protection.strict:
            allowed = "allow" if may_change else ""
            yield ChangedPath(
                path, "changed", "data", rule, protected=not allowed, allowed=allowed
            )
        else:
            yield ChangedPath(
                path,
                "changed",
                "data",
                rule,
                named=bool(rule),
                allowed="allow" if may_change else "",
            )
    for path in changes.built if not protection.strict else ():
        yield ChangedPath(
            path, "new", "data", allowed="allow" if protection.allowed(path) else ""
        )
    for path in changes.appeared:
        is_editable = bool(protection.editable) and protection.is_editable(path)
        if (
            not is_editable
        ):  # with `editable`, validators with original checks never see them
            yield ChangedPath(
                path, "new", "data", protected=protection.mode == "editable"
            )


def _bytecode(
    protection: Protection, start: StartFiles, changed: Mapping[str, EntryPair]
) -> Iterator[str]:
    """Yield caches of bytecode that may belong to other content: beside protected sources, or written in the run."""
    sources = (path for path in protection.protected() if path.endswith(".py"))
    folders = {
        on_disk(folder) for folder in {posixpath.dirname(path) for path in sources}
    }
    yield from (posixpath.join(folder, CACHE) for folder in folders)
    written = [path for path, (_, new) in changed.items() if new is not None]
    if protection.strict:
        written += start.caches
    for path in written:
        if cache := re.match(rf"(.*/)?{CACHE}(?=/|$)", path):
            yield on_disk(cache[0])


def _digest(path: Path) -> str:
    """Return the hash of a file that git ignores; empty if it is no file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def on_disk(path: str) -> str:
    """Return a path of a snapshot as `os.fsdecode` gives it."""
    return os.fsdecode(raw(path))


def _folders_before(
    protection: Protection, workspace: Path, start: StartFiles
) -> Iterator[ChangedPath]:
    """Yield new folders that would be found before a file of a check. Snapshots contain no empty folders."""
    for path, rule in protection.scripts.items():
        if not rule.startswith(rules.BEFORE) or protection.allowed(path):
            continue
        if (workspace / path).is_dir() and path not in start.folders:
            yield ChangedPath(path, "new", "script", rule, protected=True)


def _original(entry: Entry, contents: Mapping[str, bytes]) -> File:
    if entry.mode == rules.LINK:
        return File(stat.S_IFLNK | 0o777, contents[entry.blob])
    return File(
        stat.S_IFREG | (0o755 if entry.mode == "100755" else 0o644),
        contents[entry.blob],
    )


def _special_files(workspace: Path, changed: Mapping[str, EntryPair]) -> list[str]:
    """Return the files of the start in whose place a pipe, socket or device is: checks would wait for it."""
    found: list[str] = []
    for path, (_, new) in changed.items():
        with contextlib.suppress(OSError):
            mode = (
                (workspace / on_disk(path)).lstat().st_mode
                if new is None
                else stat.S_IFREG
            )
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                found.append(path)
    return found


def _refusal(
    protection: Protection, lost: Sequence[str], changes: Changes
) -> tuple[str, str]:
    """Return why the check is refused, and a hint for a person; empty if it is not."""
    folders = changes.dependency_folders
    if lost:
        return (
            f"the original content of {some(lost)} is needed to check your work and is not kept; restore it",
            f"the run can go on if they may change: [workspace] allow = {json.dumps(lost[:5])}",
        )
    if protection.strict and not all(
        protection.allowed(name) or protection.allowed(f"{name}/x") for name in folders
    ):
        message = f"installed packages changed ({some(changes.dependencies)}), which this goal does not allow"
        hint = f"if they may change: [workspace] allow = {json.dumps(folders[:5])}"
        hint += ', or setup = "..." to install them for the checks'
        return f"{message}; put them back as they were", hint
    return "", ""
