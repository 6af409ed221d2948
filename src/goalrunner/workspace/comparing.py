"""What differs between two snapshots. Owns reading trees of the store; knows nothing of the workspace as it is now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from goalrunner.model.snapshot import Change, Snapshot
from goalrunner.workspace.command import Git
from goalrunner.workspace.entry import Entry
from goalrunner.workspace.names import raw, shown
from goalrunner.workspace.recent import Recent
from goalrunner.workspace.sorting import read_manifest

_TEXT_LIMIT = "1m"
"""A larger file is shown as one that differs, not line by line."""

_TREES = 2
"""That are kept in memory once they were read: the start of a run, and the newest."""


class Comparison:
    """Reads snapshots. A snapshot's tree holds `content`, and `unstored` where something is named but not kept."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._entries = Recent[Mapping[bytes, Entry]](_TREES)
        self._unstored = Recent[Mapping[bytes, Entry]](_TREES)

    def forget(self) -> None:
        """Read everything again: snapshots were removed."""
        self._entries.forget()
        self._unstored.forget()

    async def entries(self, snapshot: Snapshot) -> Mapping[bytes, Entry]:
        """Every path of a snapshot. Raises WorkspaceError when it is not in the store."""
        return await self._entries.get(snapshot.tree, self._list)

    async def entry(self, snapshot: Snapshot, path: bytes) -> Entry | None:
        """One path of a snapshot; None when it is no file there."""
        output = await self._git.ask("ls-tree", "-z", "--full-tree", "--", f"{snapshot.tree}:content", path)
        meta, _, found = output.partition(b"\t")
        if found == path + b"\0" and b" blob " in meta:
            return _entry(meta)
        return (await self.unstored(snapshot)).get(path)

    async def unstored(self, snapshot: Snapshot) -> Mapping[bytes, Entry]:
        """The paths that a snapshot names without their content."""
        return await self._unstored.get(snapshot.tree, self._name_unstored)

    async def changed(self, old: Snapshot, new: Snapshot) -> dict[bytes, str]:
        """Every path that differs, and whether it was added, modified or deleted."""
        if old.tree == new.tree:
            return {}
        trees = (f"{old.tree}:content", f"{new.tree}:content")
        output = await self._git.ask("diff-tree", "-r", "-z", "--name-status", "--no-renames", *trees)
        fields = output.split(b"\0")[:-1]
        kinds = {path: _KINDS[status] for status, path in zip(fields[::2], fields[1::2], strict=True)}
        before, after = await self.unstored(old), await self.unstored(new)
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                kinds[path] = _merged(kinds.get(path), path in before, path in after)
        return kinds

    async def repositories(self, old: Snapshot, new: Snapshot) -> list[str]:
        """The repositories whose HEAD, refs or index differ, as `.git` or `vendor/lib/.git`."""
        if old.repository == new.repository:
            return []
        before, after = await self._states(old), await self._states(new)
        return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))

    async def changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Everything that differs, sorted by path."""
        changes = [Change(path=shown(path), kind=kind) for path, kind in (await self.changed(old, new)).items()]
        changes += [Change(path=path, kind="repository") for path in await self.repositories(old, new)]
        return tuple(sorted(changes, key=lambda change: (change.path, change.kind)))

    async def diff(self, old: Snapshot, new: Snapshot, paths: Sequence[str]) -> str:
        """A unified patch, for reading: bytes that are no UTF-8 are replaced, large and binary files only named."""
        trees = (f"{old.tree}:content", f"{new.tree}:content")
        how = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
        limit = ("-c", f"core.bigFileThreshold={_TEXT_LIMIT}")
        output = await self._git.ask(*limit, "diff-tree", "-r", "-p", *how, *trees, "--", *map(raw, paths))
        before, after = await self.unstored(old), await self.unstored(new)
        wanted = tuple(paths)
        lines = [
            f"{shown(path)}: {_said(before.get(path))} -> {_said(after.get(path))}\n"
            for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path) and (not wanted or _within(shown(path), wanted))
        ]
        return output.decode("utf-8", "replace") + "".join(lines)

    async def _list(self, tree: str) -> Mapping[bytes, Entry]:
        output = await self._git.ask("ls-tree", "-r", "-z", "--full-tree", tree)
        rows = (row.partition(b"\t") for row in output.split(b"\0")[:-1])
        listed = {path: _entry(meta) for meta, _, path in rows}
        named = await self._read_unstored(tree) if listed.pop(b"unstored", None) else {}
        return {**{path.removeprefix(b"content/"): entry for path, entry in listed.items()}, **named}

    async def _name_unstored(self, tree: str) -> Mapping[bytes, Entry]:
        listed = await self._git.ask("ls-tree", "-z", tree)
        return await self._read_unstored(tree) if b"\tunstored\0" in listed else {}

    async def _read_unstored(self, tree: str) -> Mapping[bytes, Entry]:
        return read_manifest(await self._git.ask("cat-file", "blob", f"{tree}:unstored"))

    async def _states(self, snapshot: Snapshot) -> Mapping[str, str]:
        if not snapshot.repository:
            return {}
        states: dict[str, str] = json.loads(await self._git.ask("cat-file", "blob", snapshot.repository))
        return states


_KINDS = {b"A": "added", b"D": "deleted", b"M": "modified", b"T": "modified"}


def _entry(meta: bytes) -> Entry:
    mode, _, blob = meta.decode().split(" ")
    return Entry(mode, blob)


def _merged(kind: str | None, before: bool, after: bool) -> str:
    """A path may move between what is stored and what is only named: then it is there before and after."""
    was = before or kind in {"modified", "deleted"}
    is_ = after or kind in {"modified", "added"}
    return "modified" if was and is_ else "added" if is_ else "deleted"


def _said(entry: Entry | None) -> str:
    if entry is None:
        return "not there"
    return f"not kept, sha256 {entry.blob[:16]}" if entry.blob else "unreadable"


def _within(path: str, paths: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in paths)
