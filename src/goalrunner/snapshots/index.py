"""The store's own git index of the workspace, and the kinds of paths in it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import Answer, Git, GitFailed, both
from goalrunner.snapshots.objects import ONE_PACK, Entry, shown
from goalrunner.snapshots.repositories import Start

_TRIES = 6
_EMPTY_BLOB = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_PLACEHOLDER = b".goalrunner-looks-inside"
_CLOSED = re.compile(r"warning: could not open directory '(.+)/': Permission denied")
_MANY = 1_000


LARGE = 50_000_000
"""Bytes; a larger file is hashed, not stored."""

UNREADABLE = Entry("000000", "", stored=False)

_EFFECTIVE = os.access in os.supports_effective_ids
_TICK = 50_000_000
"""Nanoseconds of one tick of a file system's clock: two changes within one may have the same time."""


@dataclass
class Sorted:
    """Paths by kind: content to store, content to record by its hash, no content."""

    storable: list[bytes] = field(default_factory=list)
    unstored: dict[bytes, Entry] = field(default_factory=dict)
    gone: list[bytes] = field(default_factory=list)
    """Missing paths, and pipes, sockets, devices and folders."""


class Sorter:
    """Classifies paths below a folder, and caches the hashes of files that are not stored."""

    def __init__(self, folder: Path, large: int) -> None:
        self._root = os.fsencode(folder)
        self._large = large
        self._hashes: dict[bytes, tuple[tuple[int, ...], Entry]] = {}

    def sort(self, paths: Collection[bytes]) -> Sorted:
        """Classify paths; one below a link does not exist."""
        result = Sorted()
        real: dict[bytes, bool] = {}
        for path in sorted(paths):
            folder = os.path.dirname(path)
            if folder not in real:
                real[folder] = self.is_folder(folder)
            try:
                info = os.lstat(os.path.join(self._root, path)) if real[folder] else None
                entry = self._unstored(path, info) if info else None
            except FileNotFoundError:
                info = entry = None
            if info is None or not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                result.gone.append(path)
            elif entry:
                result.unstored[path] = entry
            else:
                result.storable.append(path)
        return result

    def changed_since(self, paths: Collection[bytes], second: int) -> set[bytes]:
        """Return the paths whose inode changed in that second of the epoch or later."""
        found = set()
        for path in paths:
            with contextlib.suppress(OSError):
                found |= {path} if os.lstat(os.path.join(self._root, path)).st_ctime >= second else set()
        return found

    def is_folder(self, path: bytes) -> bool:
        """Return whether a path is a folder and none of its parents is a link."""
        place = os.path.join(self._root, path).rstrip(b"/")
        return os.path.realpath(place) == place and os.path.isdir(place)

    def _unstored(self, path: bytes, info: os.stat_result) -> Entry | None:
        """Return the entry of a file whose content is not kept; None for other files."""
        parts = path.lower().split(b"/")
        is_link = stat.S_ISLNK(info.st_mode)
        # Git reserves `.git` in any case, and links named `.gitmodules`.
        is_reserved = b".git" in parts or (is_link and b".gitmodules" in parts)
        place = os.path.join(self._root, path)
        if is_link and is_reserved:
            return Entry("120000", content_hash(place, info.st_mode).hex(), stored=False)
        if not stat.S_ISREG(info.st_mode):
            return None
        if not os.access(place, os.R_OK, effective_ids=_EFFECTIVE):
            os.lstat(place)  # raises if it was removed in the meantime
            return UNREADABLE
        if info.st_size <= self._large and not is_reserved:
            return None
        mark = (info.st_ino, info.st_size, info.st_mode, info.st_mtime_ns, info.st_ctime_ns)
        if path in self._hashes and self._hashes[path][0] == mark:
            return self._hashes[path][1]
        began = time.time_ns()
        digest = content_hash(place, info.st_mode).hex()
        entry = Entry("100755" if info.st_mode & 0o100 else "100644", digest, stored=False)
        if info.st_ctime_ns + _TICK < began:
            self._hashes[path] = (mark, entry)
        return entry


def content_hash(place: bytes, mode: int) -> bytes:
    """Return a hash of the content of a file, or of the target of a link. Raise OSError if it cannot be read."""
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.readlink(place)).digest()
    if not stat.S_ISREG(mode):
        return b""
    with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def manifest(unstored: Mapping[bytes, Entry]) -> bytes:
    """Return the entries without content as JSON."""
    rows = {shown(path): [entry.mode, entry.blob] for path, entry in unstored.items()}
    return json.dumps(rows, sort_keys=True, indent=0).encode()


def read_manifest(data: bytes) -> dict[str, Entry]:
    """Return the entries of a manifest. Raise ValueError."""
    return {path: Entry(mode, blob, stored=False) for path, (mode, blob) in json.loads(data).items()}


class Index:
    """The index, and the files that it cannot hold. Used by one task at a time."""

    def __init__(self, git: Git, start: Start, sorter: Sorter, *, packs: bool) -> None:
        self._git = git
        self._ask = partial(git.ask, tree=git.workspace)
        self._start = start
        self._rules = f"--exclude-from={start.rules}"
        self._sorter = sorter
        self._bulk = ONE_PACK if packs else ()
        self._racy = frozenset[bytes]()
        with contextlib.suppress(FileNotFoundError):
            self._racy = frozenset((git.store / "racy").read_bytes().split(b"\0")[:-1])
        self._tracked: frozenset[bytes] = frozenset()
        self._absent: frozenset[bytes] = frozenset()
        self._written = ""
        self.folders: set[bytes] = {b""}
        """Every folder that contains, or contained, a watched path."""

    async def settle(self, tracked_by_user: Collection[bytes] | None) -> None:
        """Prepare the index for the first snapshot: remove what this start ignores, unless the user's repository tracks it.

        `tracked_by_user` is None if the start was saved before.
        """
        if tracked_by_user is not None:
            await self.update()
        held, ignored = map(set, await both(self._listed(), self._listed("--ignored", self._rules)))
        if tracked_by_user is not None:
            hidden = ignored.intersection(tracked_by_user) | set(tracked_by_user).difference(held)
            found = await asyncio.to_thread(self._sorter.sort, hidden)
            self._start.write_tracked(sorted({*found.storable, *found.unstored}))
        self._tracked = self._absent = self._start.tracked()
        await self._forget(ignored - self._tracked)
        self._written = ""
        self._write_racy(self._racy - (ignored - self._tracked))
        self._know(held)

    async def update(self) -> tuple[str, dict[bytes, Entry]]:
        """Read what changed; return the tree and the entries that are not in it. Raise WorkspaceError."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(GitFailed):  # a file was removed, or shrank, while git read it
                return await self._update()
        return await self._update()

    async def _update(self) -> tuple[str, dict[bytes, Entry]]:
        modified, others = await self._look()
        began = int(time.time())
        paths = modified | others | self._racy | self._absent
        found = await asyncio.to_thread(self._sorter.sort, paths)
        storable = frozenset(found.storable)
        await self._forget(self._racy | (modified - storable))
        await self._add(found.storable)
        self._write_racy(frozenset(await asyncio.to_thread(self._sorter.changed_since, storable, began - 1)))
        self._absent = (self._absent | self._tracked.intersection([*found.gone, *found.unstored])) - storable
        self._know(storable)
        if paths or not self._written:
            self._written = ""
            self._written = (await self._ask("write-tree")).decode().strip()
        return self._written, found.unstored

    async def ignored(self) -> list[bytes]:
        """Return the ignored paths; an ignored folder ends with a slash."""
        output = await self._ask("ls-files", "--others", "--ignored", "--directory", self._rules, "-z")
        return output.split(b"\0")[:-1]

    def doubt(self, paths: Iterable[bytes]) -> None:
        """Let the next update read these paths even if their times did not change."""
        self._write_racy(self._racy | frozenset(paths))

    def _know(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            folder = os.path.dirname(path)
            while folder not in self.folders:
                self.folders.add(folder)
                folder = os.path.dirname(folder)

    async def _look(self) -> tuple[set[bytes], set[bytes]]:
        """Return what differs from the index: changed paths, and other paths."""
        arguments = ("diff-files", "--name-only", "-z", "--no-renames")
        changed, found = await both(self._git.run(*arguments, tree=self._git.workspace), self._others())
        if changed.code != 0:
            raise GitFailed(f"the index of {self._git.store} is damaged: {changed.errors.decode('utf-8', 'replace')}")
        for line in os.fsdecode(changed.errors + found.errors).splitlines():
            if line.endswith("Permission denied") and not self._is_foreign(line):
                hint = "give yourself access to it (chmod u+rwx), or add it to .gitignore"
                raise WorkspaceError(f"{self._git.workspace} cannot be read: {line.removeprefix('warning: ')}", hint)
        modified, others = set(changed.output.split(b"\0")[:-1]), set(found.output.split(b"\0")[:-1])
        if nested := {path for path in others if path.endswith(b"/")}:
            others = (others - nested) | await self._inside(nested)
        return modified, others

    def _is_foreign(self, warning: str) -> bool:
        """Return whether git warns of a folder of another user, such as a database's volume. The agent cannot have closed it."""
        match = _CLOSED.fullmatch(warning)
        try:
            return match is not None and os.lstat(self._git.workspace / match[1]).st_uid != os.geteuid()
        except OSError:
            return False

    async def _others(self, *paths: bytes) -> Answer:
        """Return what is neither ignored nor in the index; a nested repository ends with a slash."""
        answer = await self._git.run("ls-files", "--others", self._rules, "-z", "--", *paths, tree=self._git.workspace)
        if answer.code != 0:
            raise GitFailed(f"{self._git.workspace} cannot be read: {answer.errors.decode('utf-8', 'replace').strip()}")
        return answer

    async def _inside(self, nested: set[bytes]) -> set[bytes]:
        """Return the files of nested repositories. Git lists them once its index contains a file there."""
        waiting, seen, files = set(nested), set(nested), set[bytes]()
        while waiting:
            folders = sorted(waiting)
            await self._change([b"100644 %b\t%b%b" % (_EMPTY_BLOB, folder, _PLACEHOLDER) for folder in folders])
            found = set[bytes]()
            for first in range(0, len(folders), _MANY):
                found |= set((await self._others(*folders[first : first + _MANY])).output.split(b"\0")[:-1])
            waiting = {path for path in found if path.endswith(b"/")}
            files |= found - waiting
            waiting -= seen
            seen |= waiting
        await self._forget(folder + _PLACEHOLDER for folder in seen)
        self.folders |= {folder.rstrip(b"/") for folder in seen}
        return files

    async def _listed(self, *arguments: str | bytes) -> list[bytes]:
        return (await self._ask("ls-files", "--cached", "-z", *arguments)).split(b"\0")[:-1]

    async def _forget(self, paths: Iterable[bytes]) -> None:
        await self._change([b"0 %b\t%b" % (b"0" * 40, path) for path in paths])

    async def _change(self, lines: list[bytes]) -> None:
        if lines:
            await self._ask("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines))

    async def _add(self, paths: list[bytes]) -> None:
        if paths:
            self._write_racy(self._racy | frozenset(paths))  # in case this process is killed
            bulk = self._bulk if len(paths) >= _MANY else ()
            stdin = b"".join(path + b"\0" for path in paths)
            await self._ask(*bulk, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=stdin)

    def _write_racy(self, paths: frozenset[bytes]) -> None:
        if paths != self._racy:
            write_whole(self._git.store / "racy", b"".join(path + b"\0" for path in sorted(paths)), lasting=False)
            self._racy = paths
