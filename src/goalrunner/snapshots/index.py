"""The store's own git index of the workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable
from functools import partial

from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.files import Sorter
from goalrunner.snapshots.git import (
    Answer,
    Git,
    GitFailed,
    both,
)
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.look import MOST_TO_LOOK_AT
from goalrunner.snapshots.objects import Entry

_TRIES = 6
_EMPTY_BLOB = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_PLACEHOLDER = b".goalrunner-looks-inside"
"""The name of a file that the index contains while a nested repository is listed."""
_CLOSED = re.compile(r"warning: could not open directory '(.+)/': Permission denied")
_MANY = 1_000
"""Paths in one command line, and files from which on one pack is written."""
_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Options with which git writes one pack.

It takes half the time and a tenth of the disk space of a file for each object.
"""


async def packs_well(git: Git) -> bool:
    """Return whether this git writes the files of one `update-index` into one pack.

    Raise WorkspaceError if it is too old.
    """
    match = re.match(rb"git version (\d+)\.(\d+)", await git.ask("version"))
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < (2, 31):
        raise WorkspaceError(
            "git is too old for snapshots of the workspace",
            "install git 2.31 or newer",
        )
    return version >= (2, 38)


class Index:
    """The index, and the files that it cannot hold. Used by one task at a time."""

    def __init__(
        self,
        git: Git,
        start: Start,
        sorter: Sorter,
        *,
        packs: bool,
        stored: Collection[bytes] = (),
    ) -> None:
        """Create it for a store.

        `stored` are paths whose content the store may have already: reading them writes
        nothing. `packs` tells whether git writes many files into one pack.
        """
        self._git = git
        self._ask = partial(git.ask, tree=git.workspace)
        self._start = start
        self._rules = f"--exclude-from={start.rules}"
        self._sorter = sorter
        self._bulk = _ONE_PACK if packs else ()
        self._stored = frozenset(stored)
        self._racy = frozenset[bytes]()
        """Files that changed while git read them, or just before."""
        with contextlib.suppress(FileNotFoundError):
            self._racy = frozenset(_split((git.store / "racy").read_bytes()))
        self._tracked: frozenset[bytes] = frozenset()
        """Ignored files that the user's repository tracks."""
        self._absent: frozenset[bytes] = frozenset()
        """Those of the tracked ones that the index does not contain."""
        self._written = ""
        """The tree of the index; empty if it has to be written again."""
        self.folders: set[bytes] = {b""}
        """Every folder that contains, or contained, a watched path."""
        self.is_large = False
        """Whether the workspace has so many files that only git looks at them."""

    async def settle(self, tracked_by_user: Collection[bytes] | None) -> None:
        """Prepare the index for the first snapshot.

        Remove what this start ignores, unless the user's repository tracks it.
        `tracked_by_user` is None if the start was saved before.
        """
        listed = set(await self._listed())
        if tracked_by_user is not None and not listed.issuperset(tracked_by_user):
            # Tracked files have to be in the index to be compared with the rules.
            await self.update()
            listed = set(await self._listed())
        ignored = set(await self._listed("--ignored", self._rules))
        if tracked_by_user is not None:
            tracked = set(tracked_by_user)
            # What is ignored and not in the index is in none of git's lists.
            hidden = (ignored & tracked) | (tracked - listed)
            by_kind = await asyncio.to_thread(self._sorter.sort, hidden)
            self._start.write_tracked(sorted({*by_kind.storable, *by_kind.unstored}))
        self._tracked = self._absent = self._start.tracked()
        await self._forget(ignored - self._tracked)
        self._written = ""
        self._write_racy(self._racy - (ignored - self._tracked))
        self._add_folders(listed)
        self.is_large = len(listed) > MOST_TO_LOOK_AT

    async def update(self) -> tuple[str, dict[bytes, Entry]]:
        """Read what changed; return the tree and the entries that are not in it.

        Raise WorkspaceError.
        """
        for _ in range(_TRIES - 1):
            # A file may be removed, or shrink, while git reads it.
            with contextlib.suppress(GitFailed):
                return await self._update()
        return await self._update()

    async def _update(self) -> tuple[str, dict[bytes, Entry]]:
        modified, others = await self._look()
        began = int(time.time())
        paths = modified | others | self._racy | self._absent
        by_kind = await asyncio.to_thread(self._sorter.sort, paths)
        storable = frozenset(by_kind.storable)
        # Git compares the times of a racy file, so it would not read it again.
        await self._forget(self._racy | (modified - storable))
        await self._add(by_kind.storable)
        # Some file systems keep times in whole seconds.
        racy = await asyncio.to_thread(self._sorter.changed_since, storable, began - 1)
        self._write_racy(frozenset(racy))
        not_storable = self._tracked.intersection([*by_kind.gone, *by_kind.unstored])
        self._absent = (self._absent | not_storable) - storable
        self._add_folders(storable)
        if paths or not self._written:
            # Empty while git works, in case it fails.
            self._written = ""
            self._written = (await self._ask("write-tree")).decode().strip()
        return self._written, by_kind.unstored

    async def paths(self) -> list[bytes]:
        """Return the paths in the index."""
        return await self._listed()

    @property
    def misses_tracked(self) -> bool:
        """Whether a tracked path is missing that is ignored, so that its return counts.

        The user's repository tracks it.
        """
        return bool(self._absent)

    async def ignored(self) -> list[bytes]:
        """Return the ignored paths; a folder ends with a slash.

        If not a folder but all that it contains is ignored, the paths in it follow it.
        """
        output = await self._ask(
            "ls-files",
            "--others",
            "--ignored",
            "--directory",
            self._rules,
            "-z",
        )
        return _split(output)

    def doubt(self, paths: Iterable[bytes]) -> None:
        """Let the next update read these paths even if their times did not change."""
        self._write_racy(self._racy | frozenset(paths))

    def _add_folders(self, paths: Iterable[bytes]) -> None:
        """Add the folders that these paths lie in."""
        for path in paths:
            folder = path.rpartition(b"/")[0]
            while folder not in self.folders:
                self.folders.add(folder)
                folder = folder.rpartition(b"/")[0]

    async def _look(self) -> tuple[set[bytes], set[bytes]]:
        """Return what differs from the index: changed paths, and other paths."""
        comparing = self._git.run(
            "diff-files",
            "--name-only",
            "-z",
            "--no-renames",
            tree=self._git.workspace,
        )
        # Both look at the whole workspace, so they run side by side.
        comparison, listing = await both(comparing, self._others())
        if comparison.code != 0:
            errors = comparison.errors.decode("utf-8", "replace")
            raise GitFailed(f"the index of {self._git.store} is damaged: {errors}")
        self._refuse_closed(os.fsdecode(comparison.errors + listing.errors))
        modified = set(_split(comparison.output))
        others = set(_split(listing.output))
        nested = {path for path in others if path.endswith(b"/")}
        if nested:
            others = (others - nested) | await self._inside(nested)
        return modified, others

    def _refuse_closed(self, errors: str) -> None:
        """Raise WorkspaceError if git could not enter a folder of this user."""
        for line in errors.splitlines():
            if line.endswith("Permission denied") and not self._is_foreign(line):
                message = line.removeprefix("warning: ")
                raise WorkspaceError(
                    f"{self._git.workspace} cannot be read: {message}",
                    "give yourself access to it (chmod u+rwx), or add it to .gitignore",
                )

    def _is_foreign(self, warning: str) -> bool:
        """Return whether git warns of a folder of another user: a database's volume.

        The agent cannot have closed it.
        """
        match = _CLOSED.fullmatch(warning)
        if match is None:
            return False
        try:
            info = os.lstat(self._git.workspace / match[1])
        except OSError:
            return False
        return info.st_uid != os.geteuid()

    async def _others(self, *paths: bytes) -> Answer:
        """Return what is neither ignored nor in the index.

        A nested repository ends with a slash.
        """
        answer = await self._git.run(
            "ls-files",
            "--others",
            self._rules,
            "-z",
            "--",
            *paths,
            tree=self._git.workspace,
        )
        if answer.code != 0:
            errors = answer.errors.decode("utf-8", "replace").strip()
            raise GitFailed(f"{self._git.workspace} cannot be read: {errors}")
        return answer

    async def _inside(self, nested: set[bytes]) -> set[bytes]:
        """Return the files of nested repositories."""
        waiting, entered, files = set(nested), set(nested), set[bytes]()
        while waiting:
            folders = sorted(waiting)
            # Git lists the files of one as soon as its index contains a file there.
            placeholders = [
                b"100644 %b\t%b%b" % (_EMPTY_BLOB, folder, _PLACEHOLDER)
                for folder in folders
            ]
            await self._change(placeholders)
            listed: set[bytes] = set()
            # The length of a command line is limited.
            for first in range(0, len(folders), _MANY):
                listing = await self._others(*folders[first : first + _MANY])
                listed.update(_split(listing.output))
            inner = {path for path in listed if path.endswith(b"/")}
            files |= listed - inner
            waiting = inner - entered
            entered |= waiting
        await self._forget(folder + _PLACEHOLDER for folder in entered)
        self.folders |= {folder.rstrip(b"/") for folder in entered}
        return files

    async def _listed(self, *arguments: str | bytes) -> list[bytes]:
        return _split(await self._ask("ls-files", "--cached", "-z", *arguments))

    async def _forget(self, paths: Iterable[bytes]) -> None:
        await self._change([b"0 %b\t%b" % (b"0" * 40, path) for path in paths])

    async def _change(self, lines: list[bytes]) -> None:
        if lines:
            stdin = _joined(lines)
            await self._ask("update-index", "-z", "--index-info", stdin=stdin)

    async def _add(self, paths: list[bytes]) -> None:
        if not paths:
            return
        # In case this process is killed before it knows which of them changed.
        self._write_racy(self._racy | frozenset(paths))
        await self._store([path for path in paths if path in self._stored])
        new_paths = [path for path in paths if path not in self._stored]
        # A pack for each of a few files would be slower than files for them.
        options = self._bulk if len(new_paths) >= _MANY else ()
        await self._store(new_paths, *options)

    async def _store(self, paths: list[bytes], *options: str) -> None:
        if not paths:
            return
        # Without `--replace`, a file cannot take the place of a folder.
        command = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        await self._ask(*options, *command, stdin=_joined(paths))

    def _write_racy(self, paths: frozenset[bytes]) -> None:
        if paths != self._racy:
            data = _joined(sorted(paths))
            write_whole(self._git.store / "racy", data, lasting=False)
            self._racy = paths


def _split(output: bytes) -> list[bytes]:
    """Return the parts of a text, each of which ends with a NUL."""
    return output.split(b"\0")[:-1]


def _joined(parts: Iterable[bytes]) -> bytes:
    """Return the inverse of `_split`."""
    return b"".join(part + b"\0" for part in parts)
