"""The differences between snapshots, and patterns of paths in the form of .gitignore, those of caches above all."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Change, DiffStat, Snapshot
from goalrunner.snapshots.files import read_manifest
from goalrunner.snapshots.git import Git, GitFailed
from goalrunner.snapshots.objects import Entry, object_id, raw, shown, tree_id

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


_PATCH = (
    *("-c", "core.bigFileThreshold=1m", "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
)
"""The git command of a patch. Larger files are not shown line by line."""

_ROW = re.compile(rb":(?P<entries>\d+ \d+ \w+ \w+) \w+\0(?P<path>[^\0]+)\0|\w+ \w+\n")
"""A path that differs, or the line that begins the comparison of two trees."""
_ABSENT = Entry("", "")

K = TypeVar("K")
V = TypeVar("V")


class SnapshotReader:
    """Reads snapshots. The tree of a snapshot contains `content`, and `unstored` if some content is not kept.

    Paths are in the form of `objects.shown`. Caches and the goal's `outputs` match `passing`.
    """

    def __init__(self, git: Git, passing: Patterns) -> None:
        self.git = git
        self._passing = passing
        self._trees: dict[str, Mapping[str, Entry]] = {}
        """The trees used last: that of the start of a run, and the newest."""

    async def entries(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the entry of every path of a snapshot. Raise WorkspaceError if it is not in the store."""
        found = self._trees.pop(snapshot.tree, None)
        self._trees[snapshot.tree] = found = await self._list(snapshot.tree) if found is None else found
        while len(self._trees) > 2:
            del self._trees[next(iter(self._trees))]
        return found

    async def unstored(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the paths of a snapshot whose content is not kept."""
        return {path: entry for path, entry in (await self.entries(snapshot)).items() if not entry.stored}

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the content of a file, or the target of a link; None if the path does not exist.

        Raise WorkspaceError if the content was not kept, or is not what the snapshot recorded.
        """
        entry = (await self.entries(snapshot)).get(path)
        if entry is None:
            return None
        if not entry.stored:
            raise WorkspaceError(f"{path} is in the snapshot only as a hash; its content was not stored")
        content = await self.git.ask("cat-file", "blob", entry.blob)
        if object_id("blob", content) != entry.blob:
            raise self.changed(path)
        return content

    def changed(self, what: str) -> WorkspaceError:
        """Return the error for an object with another content than its id says; git does not compare them."""
        return WorkspaceError(
            f"the kept content of {what} differs from the snapshot: a file in {self.git.store} was changed",
            f"remove {self.git.store} and start a new run; the original content is lost",
        )

    async def changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return what differs, sorted by path, without caches and the goal's `outputs`."""
        changes = await self.all_changes(old, new)
        return tuple(change for change in changes if not self._passing.match(change.path))

    async def all_changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return everything that differs, sorted by path; repositories as `.git` or `vendor/lib/.git`."""
        [(contents, states)] = await self._steps((old, new))
        changes = [Change(path=path, kind=_kind(was, now)) for path, (was, now) in contents.items()]
        changes += [Change(path=path, kind="repository") for path in states]
        return tuple(sorted(changes, key=lambda change: (change.path, change.kind)))

    async def differences(self, snapshots: Sequence[Snapshot]) -> list[dict[str, tuple[str, str]]]:
        """Compare each of these with the next one; return by path what identifies its content before and after.

        It is empty where the path does not exist. Caches and the goal's `outputs` are left out. At most two git
        processes run, however many snapshots there are.
        """
        steps = [
            {path: (_identity(was), _identity(now)) for path, (was, now) in contents.items()} | states
            for contents, states in await self._steps(snapshots)
        ]
        return [{path: pair for path, pair in step.items() if not self._passing.match(path)} for step in steps]

    async def diff_stat(self, old: Snapshot, new: Snapshot) -> DiffStat:
        """Count the files and lines that differ, without caches and the goal's `outputs`."""
        trees = (f"{old.tree}:content", f"{new.tree}:content")
        output = await self.git.ask("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-textconv", *trees)
        rows = [row.split(b"\t", 2) for row in output.split(b"\0")[:-1]]
        kept = [(row[0], row[1]) for row in rows if not self._passing.match(shown(row[2]))]
        added, removed = ([int(row[side]) for row in kept if row[side].isdigit()] for side in (0, 1))
        return DiffStat(files=len(kept), added=sum(added), removed=sum(removed))

    async def diff(self, old: Snapshot, new: Snapshot, paths: Sequence[str] = (), *, errors: str = "replace") -> str:
        """Return a unified patch from one to the other, of these paths or folders, or of all.

        Large and binary files are only named. `errors` is how invalid UTF-8 is decoded.
        """
        trees = (f"{old.tree}:content", f"{new.tree}:content")
        output = await self.git.ask(*_PATCH, *trees, "--", *map(raw, paths))
        unstored = _merged(await self.unstored(old), await self.unstored(new), None)
        lines = [
            f"{path}: {_said(was)} -> {_said(now)}\n"
            for path, (was, now) in sorted(unstored.items())
            if not paths or any(f"{path}/".startswith(one.rstrip("/") + "/") for one in paths)
        ]
        return output.decode("utf-8", errors) + "".join(lines)

    async def patches(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[str]:
        """Return a unified patch for each pair, from one git process. Content that is not kept is left out of it."""
        names = [f"{old.tree} {new.tree}\n".encode() for old, new in pairs]
        output = await self.git.ask(*_PATCH, "--stdin", "--relative=content", stdin=b"".join(names))
        found, end = [], 0
        for name, following in zip(names, (*names[1:], b""), strict=True):
            start = end + len(name)  # no line of a patch begins like the next name
            end = output.index(b"\n" + following, start - 1) + 1 if following else len(output)
            found.append(output[start:end].decode("utf-8", "surrogateescape"))
        return found

    async def _steps(
        self, snapshots: Sequence[Snapshot]
    ) -> list[tuple[dict[str, tuple[Entry, Entry]], dict[str, tuple[str, str]]]]:
        """Return for each pair the paths that differ with their entries, and the repositories with their states."""
        pairs = list(pairwise(snapshots))
        rows = await self._rows([(old.tree, new.tree) for old, new in pairs])
        manifests = [step.pop(b"unstored", (_ABSENT, _ABSENT)) for step in rows]
        named = {entry.blob for pair in manifests for entry in pair} | {snapshot.repository for snapshot in snapshots}
        blobs = await self._blobs(sorted(named - {""})) | {"": b"{}"}
        steps = []
        for contents, (was, now), (old, new) in zip(rows, manifests, pairs, strict=True):
            step = {shown(path.removeprefix(b"content/")): pair for path, pair in contents.items()}
            for path, pair in _merged(read_manifest(blobs[was.blob]), read_manifest(blobs[now.blob]), None).items():
                there = step.get(path, (_ABSENT, _ABSENT))
                step[path] = pair[0] or there[0], pair[1] or there[1]
            states = _merged(json.loads(blobs[old.repository]), json.loads(blobs[new.repository]), "")
            steps.append(({path: pair for path, pair in step.items() if pair[0] != pair[1]}, states))
        return steps

    async def _rows(self, pairs: Sequence[tuple[str, str]]) -> list[dict[bytes, tuple[Entry, Entry]]]:
        """Return for each pair of trees the paths that differ, and their entries."""
        stdin = "".join(f"{old} {new}\n" for old, new in pairs).encode()
        output = await self.git.ask("diff-tree", "--stdin", "-r", "-z", "--no-renames", stdin=stdin)
        steps: list[dict[bytes, tuple[Entry, Entry]]] = []
        for row in _ROW.finditer(output):
            if row["path"] is None:
                steps.append({})
                continue
            was_mode, mode, was, now = row["entries"].decode().split(" ")
            # An absent path has an id of zeros.
            steps[-1][row["path"]] = (
                Entry(was_mode, was) if was.strip("0") else _ABSENT,
                Entry(mode, now) if now.strip("0") else _ABSENT,
            )
        if len(steps) != len(pairs):
            raise GitFailed(f"a snapshot cannot be read: a tree is not in {self.git.store}")
        return steps

    async def _blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        if not names:
            return {}
        output = await self.git.ask("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        blobs = {}
        place = 0
        for name in names:
            heading_end = output.index(b"\n", place)
            heading = output[place:heading_end].split(b" ")
            if heading[1:2] != [b"blob"]:
                raise GitFailed(f"a snapshot cannot be read: the object {name} is not in {self.git.store}")
            place = heading_end + 1 + int(heading[2])
            blobs[name] = output[heading_end + 1 : place]
            if object_id("blob", blobs[name]) != name:
                raise self.changed("a list of paths")
            place += 1
        return blobs

    async def _list(self, tree: str) -> Mapping[str, Entry]:
        output = await self.git.ask("ls-tree", "-r", "-z", "--full-tree", tree)
        rows = [row.partition(b"\t") for row in output.split(b"\0")[:-1]]
        listed = {path: Entry(meta[:6].decode(), meta[12:].decode()) for meta, _, path in rows}
        files = [(path, entry.mode, entry.blob) for path, entry in listed.items()]
        if await asyncio.to_thread(tree_id, files, b"content") != tree:
            raise self.changed("a folder")
        manifest = listed.pop(b"unstored", None)
        unstored = (await self._blobs([manifest.blob]))[manifest.blob] if manifest else b"{}"
        return {shown(path.removeprefix(b"content/")): entry for path, entry in listed.items()} | read_manifest(
            unstored
        )


def _merged(old: Mapping[K, V], new: Mapping[K, V], absent: V) -> dict[K, tuple[V, V]]:
    """Return by key the values before and after, where they differ."""
    pairs = {key: (old.get(key, absent), new.get(key, absent)) for key in old.keys() | new.keys()}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _identity(entry: Entry) -> str:
    return "" if entry == _ABSENT else f"{entry.mode} {entry.blob}{'' if entry.stored else ' not kept'}"


def _kind(was: Entry, now: Entry) -> Literal["added", "modified", "deleted"]:
    return "added" if was == _ABSENT else "deleted" if now == _ABSENT else "modified"


def _said(entry: Entry | None) -> str:
    if entry is None:
        return "not there"
    return f"not kept, sha256 {entry.blob[:16]}" if entry.blob else "unreadable"


class Patterns:
    """An ordered list of patterns; the last one that matches decides, and `!` excludes a path.

    `tests/**` is everything below `tests`, `build/` the folder of that name anywhere, `/setup.py` the one at the root.
    Paths are relative, with forward slashes, in the form of `objects.shown`. Case matters on every system.
    """

    def __init__(self, lines: Sequence[str], *, own: bool = False) -> None:
        """Raise UsageError for an invalid pattern; `own` patterns, made by this program, are compiled at their first use."""
        self.lines = tuple(lines)
        if self.lines and not own:
            _compiled(self.lines)

    def rule(self, path: str) -> str | None:
        """Return the line that matches the path; None if none does, or a later one excludes it."""
        if not self.lines:
            return None
        result = _compiled(self.lines).check_file(path)
        return self.lines[result.index] if result.include and result.index is not None else None

    def match(self, path: str) -> bool:
        """Return whether a pattern matches the path."""
        return self.rule(path) is not None


@lru_cache(maxsize=64)
def _compiled(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Return the compiled patterns; a run uses the same few lists in each round."""
    from pathspec import GitIgnoreSpec  # many commands never match a pattern

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError as error:
            message = f"{line!r} is not a valid pattern of paths: {error}"
            raise UsageError(message, "write it as in a .gitignore") from error
    return GitIgnoreSpec.from_lines(lines)


CACHES: tuple[str, ...] = (
    "__pycache__/", ".pytest_cache/", ".hypothesis/", ".testmondata*", ".mypy_cache/", ".dmypy.json", ".pytype/", ".pyre/",
    ".ruff_cache/", ".import_linter_cache/", ".tox/", ".nox/", ".ipynb_checkpoints/", ".coverage", ".coverage.*", "htmlcov/",
    ".nyc_output/", "node_modules/.cache/", "node_modules/.vite/", "node_modules/.vitest/", ".eslintcache",
    ".stylelintcache", ".parcel-cache/", ".turbo/", "*.tsbuildinfo", ".gradle/", ".DS_Store", "Thumbs.db",
)  # fmt: skip
"""Caches of test runners, compilers and linters, and measurements of coverage; as in a .gitignore."""
