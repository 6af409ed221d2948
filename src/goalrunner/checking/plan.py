"""The plan of a check: what its sides change in the workspace.

On a side, some files have their original content, and some do not exist.
"""

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
    NOT_KEPT,
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


@dataclass(frozen=True)
class Plan:
    """What differs from the start of the run, as far as checks may put it back."""

    root: Path
    store: SnapshotStore
    changes: tuple[ChangedPath, ...]
    """Every path that differs, with files that git ignores."""
    entries: Mapping[str, EntryPair]
    """The paths of `changes` in the snapshots, without files that git ignores."""
    ignored: Mapping[str, File]
    """The original content of files that git ignores, as far as it is stored."""
    hidden: frozenset[str]
    """What no side has: caches of bytecode that may belong to other content."""
    refusal: str = ""
    hint: str = ""

    async def layer(self, put_back: Sequence[ChangedPath]) -> Layer:
        """Return the layer in which these paths are as at the start.

        New ones, and those whose content is not stored, do not exist.
        """
        originals: dict[str, Entry] = {}
        names: set[str] = set()
        for item in put_back:
            if item.path not in self.entries:
                # Paths that git ignores have this form already.
                names.add(item.path)
                continue
            original, _ = self.entries[item.path]
            names.add(on_disk(item.path))
            if original is not None:
                originals[item.path] = original
        blobs = {entry.blob: path for path, entry in originals.items()}
        # One git process reads all of them.
        contents = await self.store.contents(blobs) if blobs else {}
        put = {
            on_disk(path): _original(entry, contents)
            for path, entry in originals.items()
        }
        for path in self.ignored.keys() & names:
            put[path] = self.ignored[path]
        hide = {*self.hidden, *(names - put.keys())}
        for path in put:
            # Its bytecode may be that of the agent's version.
            if path.endswith(".py"):
                hide.add(posixpath.join(posixpath.dirname(path), CACHE))
        return Layer(self.root, put, frozenset(hide))

    def key(self, paths: Sequence[str], tests: Sequence[str]) -> str:
        """Return a hash over paths with their content, and over tests.

        An approval is for this hash.
        """
        rows = [f"{path}\0{self._content_id(path)}" for path in paths]
        text = "\0\0".join((*rows, *tests))
        digest = hashlib.sha256(text.encode(errors="surrogateescape"))
        return digest.hexdigest()[:32]

    def _content_id(self, path: str) -> str:
        """Return an id of the content of a path; empty if it does not exist."""
        if path not in self.entries:
            return _digest(self.root / path)
        _, new = self.entries[path]
        return "" if new is None else new.blob


async def make_plan(
    store: SnapshotStore,
    protection: Protection,
    ignored: IgnoredContent,
    changes: Changes,
    start: StartFiles,
    changed: Mapping[str, EntryPair],
    delivered: ObservedChecks | None = None,
) -> Plan:
    """Plan a check by what `changed` since the start.

    `changes` are those of files that git ignores. `delivered` is what the checks showed
    of the agent's work.
    """
    protection = protection.at(start)
    # A new cache is no change.
    entries = {
        path: pair
        for path, pair in changed.items()
        if pair[0] is not None or not _CACHES.match(path)
    }
    contents = await store.contents(contents_needed(entries))
    items: list[ChangedPath] = []
    missing: list[str] = []
    for item in classify_changes(
        protection,
        start,
        entries,
        contents,
        delivered=delivered,
    ):
        original, _ = entries[item.path]
        if original is None or original.stored:
            items.append(item)
            continue
        if item.protected and not item.allowed:
            missing.append(item.path)
        items.append(_with_agents_content(item))
    items += _ignored_changes(protection, changes)
    items += _folders_before(protection, store.workspace, start)
    originals = _originals(ignored, changes)
    missing += [
        item.path
        for item in items
        if item.protected
        and item.path in changes.changed
        and item.path not in originals
    ]
    refusal, hint = _refusal(protection, missing, changes)
    special = _special_files(store.workspace, changed)
    if special:
        hint = ""
        refusal = (
            f"a pipe or device is in place of {some(special)}; make it a file again"
        )
    hidden = {*changes.caches, *_bytecode(protection, start, changed)}
    # Under strict rules, build output is built anew.
    if protection.strict:
        hidden.update(path for path in changes.build if not protection.allowed(path))
    return Plan(
        root=store.workspace,
        store=store,
        changes=tuple(items),
        entries=entries,
        ignored=originals,
        hidden=frozenset(hidden),
        refusal=refusal,
        hint=hint,
    )


def _originals(ignored: IgnoredContent, changes: Changes) -> dict[str, File]:
    """Return the original content of changed files that git ignores, if stored."""
    originals: dict[str, File] = {}
    for path in changes.changed:
        original = ignored.original(path)
        if original is not None:
            originals[path] = original
    return originals


def _with_agents_content(item: ChangedPath) -> ChangedPath:
    """Return a path that cannot be put back: each side has the content of the agent.

    A protected path is returned as it is; without its original content, the check is
    refused.
    """
    if item.protected or item.kind == "source":
        return item
    return replace(
        item,
        rule=NOT_KEPT,
        allowed=NOT_KEPT,
    )


def _ignored_changes(protection: Protection, changes: Changes) -> Iterator[ChangedPath]:
    """Yield the files that git ignores and that are new or changed."""
    for path in changes.changed:
        if protection.mode == "editable":
            may_change = protection.is_editable(path)
        else:
            may_change = protection.allowed(path)
        rule = protection.describe(path).rule
        allowed = "allow" if may_change else ""
        item = ChangedPath(path, "changed", "data", rule, allowed=allowed)
        # Original content is stored only under strict rules, so only then it can be
        # put back.
        if protection.strict:
            yield replace(item, protected=not allowed)
        else:
            yield replace(item, named=bool(rule))
    if not protection.strict:
        for path in changes.built:
            allowed = "allow" if protection.allowed(path) else ""
            yield ChangedPath(path, "new", "data", allowed=allowed)
    for path in changes.appeared:
        # With `editable`, validators with original checks never see the others.
        if not protection.editable or not protection.is_editable(path):
            is_protected = protection.mode == "editable"
            yield ChangedPath(path, "new", "data", protected=is_protected)


def _bytecode(
    protection: Protection,
    start: StartFiles,
    changed: Mapping[str, EntryPair],
) -> Iterator[str]:
    """Yield caches of bytecode that may belong to other content.

    They lie beside protected sources, or were written in the run.
    """
    folders = {
        posixpath.dirname(path)
        for path in protection.protected()
        if path.endswith(".py")
    }
    for folder in folders:
        yield posixpath.join(on_disk(folder), CACHE)
    written = [path for path, (_, new) in changed.items() if new is not None]
    if protection.strict:
        written += start.caches
    for path in written:
        # Python reads a cache whose recorded time and size match those of the source.
        cache = re.match(rf"(.*/)?{CACHE}(?=/|$)", path)
        if cache:
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
    protection: Protection,
    workspace: Path,
    start: StartFiles,
) -> Iterator[ChangedPath]:
    """Yield new folders that a program would find before a file of a check."""
    for path, rule in protection.scripts.items():
        if not rule.startswith(rules.BEFORE) or protection.allowed(path):
            continue
        # Snapshots contain no empty folders, so the live workspace is looked at.
        if (workspace / path).is_dir() and path not in start.folders:
            yield ChangedPath(path, "new", "script", rule, protected=True)


def _original(entry: Entry, contents: Mapping[str, bytes]) -> File:
    data = contents[entry.blob]
    if entry.mode == rules.LINK:
        return File(stat.S_IFLNK | 0o777, data)
    # A snapshot has the executable bit alone.
    permissions = 0o755 if entry.mode == "100755" else 0o644
    return File(stat.S_IFREG | permissions, data)


def _special_files(workspace: Path, changed: Mapping[str, EntryPair]) -> list[str]:
    """Return the files of the start that were replaced by a pipe, socket or device.

    Checks would wait for it.
    """
    special: list[str] = []
    for path, (_, new) in changed.items():
        # A snapshot has none of these, so the path seems to be deleted.
        if new is not None:
            continue
        with contextlib.suppress(OSError):
            mode = (workspace / on_disk(path)).lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                special.append(path)
    return special


def _refusal(
    protection: Protection,
    missing: Sequence[str],
    changes: Changes,
) -> tuple[str, str]:
    """Return why the check is refused, and a hint for a person; empty if it is not.

    `missing` are protected files whose original content is not stored.
    """
    if missing:
        why = f"the original content of {some(missing)} is needed to check your work"
        hint = f"[workspace] allow = {json.dumps(missing[:5])}"
        return (
            f"{why} and is not kept; restore it",
            f"the run can go on if they may change: {hint}",
        )
    folders = changes.dependency_folders
    is_allowed = all(
        protection.allowed(name) or protection.allowed(f"{name}/x") for name in folders
    )
    if protection.strict and not is_allowed:
        why = f"installed packages changed ({some(changes.dependencies)})"
        hint = f"[workspace] allow = {json.dumps(folders[:5])}"
        hint += ', or setup = "..." to install them for the checks'
        return (
            f"{why}, which this goal does not allow; put them back as they were",
            f"if they may change: {hint}",
        )
    return "", ""
