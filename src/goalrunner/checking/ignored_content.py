"""The content of a workspace that git ignores, as it was at the start of a run, and what changed in it."""

# A hundred thousand paths are listed here; pathlib is several times slower.

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from goalrunner.checking.environment import File
from goalrunner.checking.ignored_classes import Classifier, Mark, folders_above
from goalrunner.checking.ignored_files import Kept, Stat, content_of, stat_of, write_pack
from goalrunner.checking.installed import Installed
from goalrunner.checking.packages import inspect, labels, listing
from goalrunner.errors import WorkspaceError
from goalrunner.wholefile import write_whole


@dataclass(frozen=True)
class Changes:
    """How ignored content differs from the start of the run. Paths are relative and without a slash at the end."""

    appeared: tuple[str, ...] = ()
    """Other files that are new, or the topmost new folder if it holds nothing else."""
    changed: tuple[str, ...] = ()
    """Other files that differ or were deleted; `IgnoredContent.original` returns their content."""
    lost: tuple[str, ...] = ()
    """Other files that differ or were deleted, and whose content was not kept."""
    build: tuple[str, ...] = ()
    """Build output that exists now."""
    new_dependencies: tuple[str, ...] = ()
    """Dependency folders that are new."""
    dependencies: tuple[str, ...] = ()
    """Labels of what differs in the dependency folders of the start."""
    dependency_folders: tuple[str, ...] = ()
    """The dependency folders that differ."""


class IgnoredContent:
    """What git ignores in a workspace, as it was at the start of a run.

    `keep` is a folder for what a resumed run needs. With `contents`, small other files are kept there as well.
    `home` is a folder inside of the workspace that is no part of it. Methods block; call them in a thread.
    """

    def __init__(
        self,
        workspace: Path,
        keep: Path,
        *,
        dependencies: Sequence[str] = (),
        contents: bool,
        home: Path | None = None,
    ) -> None:
        self._workspace = workspace
        self._record = keep / "ignored.json"
        self._pack = keep / "ignored.contents"
        self._dependencies = tuple(dependencies)
        self._contents = contents
        self._home = home
        self._same: dict[str, Stat] = {}
        self.first: Classifier | None = None
        """The look that the state of the start was taken from; None in a run that is resumed."""
        self._verified: set[tuple[str, str]] = set()

    def remember(self, names: Iterable[str]) -> None:
        """Keep the state of the start, unless that was done before. Raise WorkspaceError if it cannot be kept or read."""
        if self._record.exists():
            _ = self._start
            return
        self.first = found = self._classify(names)
        files = {path: Kept(now) for path, now in found.others.items() if now}
        try:
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.update(write_pack(self._workspace, files, self._pack) if self._contents else ())
            roots = {entry.root: (entry.kind, entry.why) for entry in found.found if entry.root}
            state = {
                "files": files,
                "folders": sorted(found.folders),
                "roots": roots,
                "packages": {path: one.as_json() for path, one in self._installed(found.dependencies).items()},
            }
            data = json.dumps(state).encode()
            write_whole(self._record, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
            self.__dict__["_start"] = _Start(state, files)
        except OSError as error:
            raise WorkspaceError(f"ignored files cannot be kept: {error}", "check the disk of GOAL_HOME") from error

    def look(self, names: Iterable[str]) -> Classifier:
        """Look at what git ignores now, for the other methods."""
        return self._classify(names, self._start.roots)

    @staticmethod
    def same(one: Classifier, other: Classifier) -> bool:
        """Return whether two looks saw the same other files; logs are left out."""
        return one.others == other.others or _without_logs(one) == _without_logs(other)

    def compare(self, now: Classifier) -> Changes:
        """Return what differs from the start."""
        start = self._start
        there = now.others
        differ = [
            path for path, kept in start.files.items() if there.get(path) != kept.stat and self._differs(path, kept)
        ]
        known = {root for root, (kind, _) in start.roots.items() if kind == "dependencies"}
        installed = self._installed(known)
        found = labels(start.packages, installed, self._workspace, self._verified)
        changed = [root for root in sorted(known) if found and self._root_differs(root, installed)]
        return Changes(
            appeared=tuple(path for path in _appeared(now, start) if os.path.lexists(self._workspace / path)),
            changed=tuple(sorted(path for path in differ if start.files[path].sha256)),
            lost=tuple(sorted(path for path in differ if not start.files[path].sha256)),
            build=tuple(entry.path for entry in now.found if entry.kind == "build"),
            new_dependencies=tuple(sorted(now.dependencies - known)),
            dependencies=found,
            dependency_folders=tuple(changed),
        )

    def _root_differs(self, root: str, installed: Mapping[str, Installed]) -> bool:
        before = {root: self._start.packages[root]} if root in self._start.packages else {}
        now = {root: installed[root]} if root in installed else {}
        return bool(labels(before, now, self._workspace, self._verified))

    def original(self, path: str) -> File | None:
        """Return the start content of an other file; None if it was not kept. Raise WorkspaceError if it is damaged."""
        kept = self._start.files.get(path)
        if kept is None or not kept.sha256:
            return None
        try:
            with self._pack.open("rb") as pack:
                pack.seek(kept.offset)
                data = pack.read(kept.stat.size)
        except OSError as error:
            raise WorkspaceError(f"the kept content of {path} cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != kept.sha256:
            raise WorkspaceError(
                f"the kept content of {path} is damaged", f"start a new run; {self._pack} is of no use"
            )
        return File(kept.stat.mode, data)

    def fingerprint(self, now: Classifier) -> str:
        """Return a hash over the stats of other files and the names of installed packages; logs are left out."""
        closed = [entry.path for entry in now.found if entry.kind == "other"]
        stats = [info for info in _without_logs(now).values() if info]
        # A sum needs no order; an inode tells the file, and a new name sets its time of change.
        digest = hashlib.sha256(json.dumps([closed, len(stats), sum(map(hash, stats))]).encode())
        for root in sorted(now.dependencies):
            digest.update("\0".join((root, *listing(self._workspace, root))).encode(errors="surrogateescape"))
        return digest.hexdigest()

    def _classify(self, names: Iterable[str], known: Mapping[str, Mark] | None = None) -> Classifier:
        collecting = gc.isenabled()
        gc.disable()  # a hundred thousand small objects are made here, and none is garbage
        try:
            return Classifier(self._workspace, names, self._dependencies, known, home=self._home)
        finally:
            if collecting:
                gc.enable()

    def _installed(self, roots: Iterable[str]) -> dict[str, Installed]:
        seen = {root: inspect(self._workspace, root) for root in sorted(roots)}
        return {root: installed for root, installed in seen.items() if installed}

    def _differs(self, path: str, kept: Kept) -> bool:
        now = stat_of(f"{self._workspace}/{path}")
        if now == kept.stat or (now and self._same.get(path) == now):
            return False
        if now is None or not kept.sha256 or (now.size, now.mode) != (kept.stat.size, kept.stat.mode):
            return True
        data = content_of(f"{self._workspace}/{path}", now)
        if data is None or hashlib.sha256(data).hexdigest() != kept.sha256:
            return True
        self._same[path] = now
        return False

    @cached_property
    def _start(self) -> _Start:
        try:
            hash_, _, data = self._record.read_bytes().partition(b"\n")
        except OSError as error:
            raise WorkspaceError(f"the record of ignored files cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest().encode() != hash_:
            raise WorkspaceError(f"the record of ignored files is damaged: {self._record}", "start a new run")
        return _Start(json.loads(data))


class _Start:
    """The record of the start."""

    def __init__(self, state: dict[str, Any], files: dict[str, Kept] | None = None) -> None:
        """`files` are those of `state`, where they need not be read from JSON."""
        read = state["files"].items()
        self.files = files or {path: Kept(Stat(*info), sha, offset) for path, (info, sha, offset) in read}
        self.roots: dict[str, Mark] = {path: (kind, why) for path, (kind, why) in state["roots"].items()}
        self.packages = {root: Installed(**value) for root, value in state["packages"].items()}
        self.folders = set(state["folders"])
        for folder in {path.rpartition("/")[0] for path in (*self.files, *self.roots)} - {""}:
            self.folders.update((*folders_above(folder), folder))


def _without_logs(look: Classifier) -> dict[str, Stat | None]:
    return {path: info for path, info in look.others.items() if not path.endswith((".log", ".pid"))}


def _appeared(now: Classifier, start: _Start) -> tuple[str, ...]:
    """Return new other files, or the topmost new folders that hold nothing else."""
    mixed = {folder for entry in now.found if entry.kind != "other" for folder in folders_above(entry.path)}
    new = now.folders - start.folders - mixed
    found = set()
    closed = [entry.path for entry in now.found if entry.kind == "other"]
    for path in (*closed, *(now.others.keys() - start.files.keys())):
        if path not in start.files and path not in start.folders:
            found.add(next((folder for folder in folders_above(path) if folder in new), path))
    return tuple(sorted(found))
