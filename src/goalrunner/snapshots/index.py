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
from goalrunner.snapshots.git import Answer, Git, GitFailed, both
from goalrunner.snapshots.look import MOST_TO_LOOK_AT
from goalrunner.snapshots.objects import ONE_PACK, Entry
from goalrunner.snapshots.repositories import Start

_TRIES = 6
_EMPTY_BLOB = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_PLACEHOLDER = b".goalrunner-looks-inside"
_CLOSED = re.compile(r"warning: could not open directory '(.+)/': Permission denied")
_MANY = 1_000


class Index:
    """The index, and the files that it cannot hold. Used by one task at a time."""

    def __init__(
        self,
        git: Git,
        start: Start,
        sorter: Sorter,
        *,
        packs: bool,
        known: Collection[bytes] = (),
    ) -> None:
        """`known` are paths whose content the store may have already; then reading a file writes nothing."""
        self._git = git
        self._ask = partial(git.ask, tree=git.workspace)
        self._start = start
        self._rules = f"--exclude-from={start.rules}"
        self._sorter = sorter
        self._bulk = ONE_PACK if packs else ()
        self._known = frozenset(known)
        self._racy = frozenset[bytes]()
        with contextlib.suppress(FileNotFoundError):
            self._racy = frozenset((git.store / "racy").read_bytes().split(b"\0")[:-1])
        self._tracked: frozenset[bytes] = frozenset()
        self._absent: frozenset[bytes] = frozenset()
        self._written = ""
        self.folders: set[bytes] = {b""}
        """Every folder that contains, or contained, a watched path."""
        self.is_large = False
        """Whether the workspace has so many files that only git looks at them."""

    async def settle(self, tracked_by_user: Collection[bytes] | None) -> None:
        """Prepare the index for the first snapshot: remove what this start ignores, unless the user's repository tracks it.

        `tracked_by_user` is None if the start was saved before.
        """
        held = set(await self._listed())
        if tracked_by_user is not None and not held.issuperset(tracked_by_user):
            await self.update()
            held = set(await self._listed())
        ignored = set(await self._listed("--ignored", self._rules))
        if tracked_by_user is not None:
            hidden = ignored.intersection(tracked_by_user) | set(
                tracked_by_user
            ).difference(held)
            found = await asyncio.to_thread(self._sorter.sort, hidden)
            self._start.write_tracked(sorted({*found.storable, *found.unstored}))
        self._tracked = self._absent = self._start.tracked()
        await self._forget(ignored - self._tracked)
        self._written = ""
        self._write_racy(self._racy - (ignored - self._tracked))
        self._know(held)
        self.is_large = len(held) > MOST_TO_LOOK_AT

    async def update(self) -> tuple[str, dict[bytes, Entry]]:
        """Read what changed; return the tree and the entries that are not in it. Raise WorkspaceError."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(
                GitFailed
            ):  # a file was removed, or shrank, while git read it
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
        self._write_racy(
            frozenset(
                await asyncio.to_thread(self._sorter.changed_since, storable, began - 1)
            )
        )
        self._absent = (
            self._absent | self._tracked.intersection([*found.gone, *found.unstored])
        ) - storable
        self._know(storable)
        if paths or not self._written:
            self._written = ""
            self._written = (await self._ask("write-tree")).decode().strip()
        return self._written, found.unstored

    async def paths(self) -> list[bytes]:
        """Return the paths in the index."""
        return await self._listed()

    @property
    def misses_tracked(self) -> bool:
        """Whether a path is missing that is ignored but tracked by the user's repository: its return counts."""
        return bool(self._absent)

    async def ignored(self) -> list[bytes]:
        """Return the ignored paths. A folder ends with a slash; if not it but all that it contains is ignored, that follows."""
        output = await self._ask(
            "ls-files", "--others", "--ignored", "--directory", self._rules, "-z"
        )
        return output.split(b"\0")[:-1]

    def doubt(self, paths: Iterable[bytes]) -> None:
        """Let the next update read these paths even if their times did not change."""
        self._write_racy(self._racy | frozenset(paths))

    def _know(self, paths: Iterable[bytes]) -> None:
        for folder in {path.rpartition(b"/")[0] for path in paths}:
            above = folder
            while above not in self.folders:
                self.folders.add(above)
                above = above.rpartition(b"/")[0]

    async def _look(self) -> tuple[set[bytes], set[bytes]]:
        """Return what differs from the index: changed paths, and other paths."""
        arguments = ("diff-files", "--name-only", "-z", "--no-renames")
        changed, found = await both(
            self._git.run(*arguments, tree=self._git.workspace), self._others()
        )
        if changed.code != 0:
            raise GitFailed(
                f"the index of {self._git.store} is damaged: {changed.errors.decode('utf-8', 'replace')}"
            )
        for line in os.fsdecode(changed.errors + found.errors).splitlines():
            if line.endswith("Permission denied") and not self._is_foreign(line):
                hint = (
                    "give yourself access to it (chmod u+rwx), or add it to .gitignore"
                )
                raise WorkspaceError(
                    f"{self._git.workspace} cannot be read: {line.removeprefix('warning: ')}",
                    hint,
                )
        modified, others = (
            set(changed.output.split(b"\0")[:-1]),
            set(found.output.split(b"\0")[:-1]),
        )
        if nested := {path for path in others if path.endswith(b"/")}:
            others = (others - nested) | await self._inside(nested)
        return modified, others

    def _is_foreign(self, warning: str) -> bool:
        """Return whether git warns of a folder of another user, such as a database's volume. The agent cannot have closed it."""
        match = _CLOSED.fullmatch(warning)
        try:
            return (
                match is not None
                and os.lstat(self._git.workspace / match[1]).st_uid != os.geteuid()
            )
        except OSError:
            return False

    async def _others(self, *paths: bytes) -> Answer:
        """Return what is neither ignored nor in the index; a nested repository ends with a slash."""
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
            raise GitFailed(
                f"{self._git.workspace} cannot be read: {answer.errors.decode('utf-8', 'replace').strip()}"
            )
        return answer

    async def _inside(self, nested: set[bytes]) -> set[bytes]:
        """Return the files of nested repositories. Git lists them once its index contains a file there."""
        waiting, seen, files = set(nested), set(nested), set[bytes]()
        while waiting:
            folders = sorted(waiting)
            await self._change(
                [
                    b"100644 %b\t%b%b" % (_EMPTY_BLOB, folder, _PLACEHOLDER)
                    for folder in folders
                ]
            )
            found = set[bytes]()
            for first in range(0, len(folders), _MANY):
                found |= set(
                    (await self._others(*folders[first : first + _MANY])).output.split(
                        b"\0"
                    )[:-1]
                )
            waiting = {path for path in found if path.endswith(b"/")}
            files |= found - waiting
            waiting -= seen
            seen |= waiting
        await self._forget(folder + _PLACEHOLDER for folder in seen)
        self.folders |= {folder.rstrip(b"/") for folder in seen}
        return files

    async def _listed(self, *arguments: str | bytes) -> list[bytes]:
        return (await self._ask("ls-files", "--cached", "-z", *arguments)).split(b"\0")[
            :-1
        ]

    async def _forget(self, paths: Iterable[bytes]) -> None:
        await self._change([b"0 %b\t%b" % (b"0" * 40, path) for path in paths])

    async def _change(self, lines: list[bytes]) -> None:
        if lines:
            await self._ask(
                "update-index",
                "-z",
                "--index-info",
                stdin=b"".join(line + b"\0" for line in lines),
            )

    async def _add(self, paths: list[bytes]) -> None:
        if not paths:
            return
        self._write_racy(
            self._racy | frozenset(paths)
        )  # in case this process is killed
        known = [path for path in paths if path in self._known]
        others = [path for path in paths if path not in self._known]
        await self._store(known)
        await self._store(others, *(self._bulk if len(others) >= _MANY else ()))

    async def _store(self, paths: list[bytes], *options: str) -> None:
        if paths:
            stdin = b"".join(path + b"\0" for path in paths)
            await self._ask(
                *options,
                "update-index",
                "--add",
                "--remove",
                "--replace",
                "-z",
                "--stdin",
                stdin=stdin,
            )

    def _write_racy(self, paths: frozenset[bytes]) -> None:
        if paths != self._racy:
            write_whole(
                self._git.store / "racy",
                b"".join(path + b"\0" for path in sorted(paths)),
                lasting=False,
            )
            self._racy = paths
