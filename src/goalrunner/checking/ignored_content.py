"""The content of a workspace that git ignores, as it was at the start of a run, and what changed in it."""

# A hundred thousand paths are listed here; pathlib is several times slower.

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from goalrunner.checking.environment import File
from goalrunner.checking.ignored_classes import Classifier, Mark, folders_above
from goalrunner.checking.ignored_files import MODE, PACK, SIZE, Kept, Stat, content_of, stat_of, write_pack
from goalrunner.checking.installed import inspect, listing
from goalrunner.checking.packages import Installed, labels
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.run_folder import write_whole


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
        self._pack = keep / f"ignored{PACK}"
        self._dependencies = tuple(dependencies)
        self._contents = contents
        self._home = home
        self._same: dict[str, Stat] = {}
        self.first: Classifier | None = None
        """The look that the state of the start was taken from; None in a run that is resumed."""
        self._verified: set[tuple[str, str]] = set()
        self._written: Future[None] | None = None

    def remember(self, names: Iterable[str]) -> None:
        """Keep the state of the start, unless that was done before. Raise WorkspaceError if it cannot be kept or read."""
        self.begin(names)
        self.keep()

    def begin(self, names: Iterable[str]) -> None:
        """Look at the start, and begin to write the record in a thread; nothing may change the workspace before `keep`.

        Read the record if there is one. Raise WorkspaceError if it cannot be read.
        """
        if self._record.exists():
            _ = self._start
            return
        with _without_collector():
            self.first = found = self._classify(names)
            self.__dict__["_start"] = _Start(
                {path: info for path, info in found.others.items() if info},
                {*found.folders},
                {entry.root: (entry.kind, entry.why) for entry in found.found if entry.root},
                self._installed(found.dependencies),
            )
        writer = ThreadPoolExecutor(1)
        self._written = writer.submit(self._write, self._start)
        writer.shutdown(wait=False)

    def keep(self) -> None:
        """Wait until the record is written. Raise WorkspaceError if it cannot be kept."""
        try:
            if self._written is not None:
                self._written.result()
        except OSError as error:
            raise WorkspaceError(f"ignored files cannot be kept: {error}", "check the disk of GOAL_HOME") from error

    def _write(self, start: _Start) -> None:
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _without_collector():
            if self._contents:
                start.contents = write_pack(self._workspace, start.files, self._pack)
            data = start.as_json()
        write_whole(self._record, data)

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
        build = tuple(entry.path for entry in now.found if entry.kind == "build")
        if now is self.first:
            return Changes(build=build)
        there = now.others
        same = there == start.files
        differ = [
            path
            for path, info in (() if same else start.files.items())
            if there.get(path) != info and self._differs(path, info)
        ]
        new = set() if same else there.keys() - start.files.keys()
        known = {root for root, (kind, _) in start.roots.items() if kind == "dependencies"}
        found = labels(start.packages, self._installed(known), self._workspace, self._verified)
        return Changes(
            appeared=tuple(path for path in _appeared(now, start, new) if os.path.lexists(self._workspace / path)),
            changed=tuple(sorted(path for path in differ if path in start.contents)),
            lost=tuple(sorted(path for path in differ if path not in start.contents)),
            build=build,
            new_dependencies=tuple(sorted(now.dependencies - known)),
            dependencies=tuple(sorted(label for some in found.values() for label in some)),
            dependency_folders=tuple(sorted(found)),
        )

    def original(self, path: str) -> File | None:
        """Return the start content of an other file; None if it was not kept. Raise WorkspaceError if it is damaged."""
        kept = self._start.contents.get(path)
        if kept is None:
            return None
        digest, offset = kept
        info = self._start.files[path]
        try:
            with self._pack.open("rb") as pack:
                pack.seek(offset)
                data = pack.read(info[SIZE])
        except OSError as error:
            raise WorkspaceError(f"the kept content of {path} cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise WorkspaceError(f"the kept content of {path} is damaged: {self._pack}", "start a new run")
        return File(info[MODE], data)

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
        with _without_collector():
            return Classifier(self._workspace, names, self._dependencies, known, home=self._home)

    def _installed(self, roots: Iterable[str]) -> dict[str, Installed]:
        seen = {root: inspect(self._workspace, root) for root in sorted(roots)}
        return {root: installed for root, installed in seen.items() if installed}

    def _differs(self, path: str, before: Stat) -> bool:
        now = stat_of(f"{self._workspace}/{path}")
        if now == before or (now and self._same.get(path) == now):
            return False
        kept = self._start.contents.get(path)
        if now is None or kept is None or (now[SIZE], now[MODE]) != (before[SIZE], before[MODE]):
            return True
        data = content_of(f"{self._workspace}/{path}", now)
        if data is None or hashlib.sha256(data).hexdigest() != kept[0]:
            return True
        self._same[path] = now
        return False

    @cached_property
    def _start(self) -> _Start:
        try:
            return _Start.from_json(self._record.read_bytes())
        except OSError as error:
            raise WorkspaceError(f"the record of ignored files cannot be read: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            message = f"the record of ignored files is damaged, or was written by another version: {self._record}"
            raise WorkspaceError(message, "start a new run") from error


@dataclass
class _Start:
    """The state of the start. `contents` are the files whose content the pack has."""

    files: dict[str, Stat]
    folders: set[str]
    roots: dict[str, Mark]
    packages: dict[str, Installed]
    contents: dict[str, Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in {path.rpartition("/")[0] for path in (*self.files, *self.roots)} - {""}:
            self.folders.update((*folders_above(folder), folder))

    def as_json(self) -> bytes:
        """Return the record. Stats are columns: a list of numbers is written far faster than a list of lists."""
        stats = list(zip(*self.files.values(), strict=True))
        packages = {root: one.as_json() for root, one in self.packages.items()}
        changed = {"files": [list(self.files), stats], "folders": sorted(self.folders), "packages": packages}
        return json.dumps(vars(self) | changed).encode()

    @classmethod
    def from_json(cls, data: bytes) -> _Start:
        """Return what `as_json` wrote. Raise KeyError, TypeError or ValueError if another version wrote it."""
        state: dict[str, Any] = json.loads(data)
        paths, stats = state["files"]
        return cls(
            dict(zip(paths, zip(*stats, strict=True), strict=True)),
            set(state["folders"]),
            {path: (kind, why) for path, (kind, why) in state["roots"].items()},
            {root: Installed(**value) for root, value in state["packages"].items()},
            {path: (digest, offset) for path, (digest, offset) in state["contents"].items()},
        )


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the garbage collector away while a hundred thousand small objects are made, none of which is garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _without_logs(look: Classifier) -> dict[str, Stat | None]:
    return {path: info for path, info in look.others.items() if not path.endswith((".log", ".pid"))}


def _appeared(now: Classifier, start: _Start, others: Collection[str]) -> tuple[str, ...]:
    """Return new other files (`others`), or the topmost new folders that hold nothing else."""
    mixed = {folder for entry in now.found if entry.kind != "other" for folder in folders_above(entry.path)}
    new = now.folders - start.folders - mixed
    found = set()
    closed = [entry.path for entry in now.found if entry.kind == "other"]
    for path in (*closed, *others):
        if path not in start.files and path not in start.folders:
            found.add(next((folder for folder in folders_above(path) if folder in new), path))
    return tuple(sorted(found))
