"""The content of a workspace that git ignores, as it was at the start of a run, and what changed in it."""

# A hundred thousand paths are listed here; pathlib is several times slower.

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from goalrunner.checking.dependencies import (
    Installed,
    bytecode_in,
    dependency_labels,
    inspect,
    written_since,
)
from goalrunner.checking.environment import File, read_whole
from goalrunner.checking.ignored_classes import (
    CTIME,
    MODE,
    SIZE,
    Classifier,
    Mark,
    Stat,
    folders_above,
    stat_of,
)
from goalrunner.core.errors import WorkspaceError, os_errors
from goalrunner.records.files import write_whole

PACK = ".contents"
"""Suffix of the pack that the content of small files is kept in."""
CACHE = "__pycache__"
KEPT_FILE = 1 << 20
"""The content of a file with more bytes than this is not kept."""
_MOST_WRITTEN = 20_000
"""Files of one folder of build output that are looked at."""
_MOST_BUILT = 1_000
"""Files of build output that are named one by one."""
KEPT_TOTAL = 256 << 20
"""The content of all files together; the smallest ones are kept first."""
Kept = tuple[str, int]
"""The hash of a file's content, and its place in the pack."""


@dataclass(frozen=True)
class Changes:
    """How ignored content differs from the start of the run. Paths are relative and without a slash at the end."""

    appeared: tuple[str, ...] = ()
    """Other files that are new, or the topmost new folder if it holds nothing else."""
    changed: tuple[str, ...] = ()
    """Other files that differ or were deleted."""
    build: tuple[str, ...] = ()
    """Build output that exists now."""
    built: tuple[str, ...] = ()
    """Build output that checks name and that was written since the start."""
    caches: tuple[str, ...] = ()
    """Folders of Python bytecode, of the workspace and of packages, that were written to since the start."""
    dependencies: tuple[str, ...] = ()
    """Labels of what differs in dependency folders, such as "+.venv" for a new one."""
    dependency_folders: tuple[str, ...] = ()
    """The dependency folders that differ."""
    state: str = ""
    """A hash over the stats of other files, without logs, and over installed packages."""


class IgnoredContent:
    """What git ignores in a workspace, as it was at the start of a run.

    `keep` is a folder for what a resumed run needs. With `contents`, small other files are kept there as well.
    `home` is a folder inside of the workspace that is no part of it. `named` are the digests of the paths that checks name.
    Methods block; call them in a thread.
    """

    def __init__(
        self,
        workspace: Path,
        keep: Path,
        *,
        dependencies: Sequence[str] = (),
        contents: bool,
        home: Path | None = None,
        named: Collection[str] = (),
    ) -> None:
        self._named = named
        self._workspace = workspace
        self._record = keep / "ignored.json"
        self._pack = keep / f"ignored{PACK}"
        self._dependencies = tuple(dependencies)
        self._contents = contents
        self._home = home

    @property
    def is_recorded(self) -> bool:
        """Return whether the start was recorded, by this process or an earlier one."""
        return self._record.exists()

    def remember(self, names: Iterable[str]) -> None:
        """Record the start, or read what an earlier process recorded. Raise WorkspaceError."""
        if self.is_recorded:
            _ = self._start
            return
        found = Classifier(self._workspace, names, self._dependencies, home=self._home)
        roots = {
            entry.root: (entry.kind, entry.why) for entry in found.found if entry.root
        }
        # Packages count even if git does not ignore them, as in a project without git.
        tops = {
            path.parent.name: path.name for path in self._workspace.glob("*/pyvenv.cfg")
        }
        tops |= {path.name: path.name for path in self._workspace.glob("node_modules")}
        roots = {name: ("dependencies", why) for name, why in tops.items()} | roots
        installed = self._installed(found.dependencies | tops.keys())
        self._start = start = _Start(
            found.others, found.folders, roots, installed, began=time.time_ns()
        )
        with os_errors(
            "ignored files cannot be kept",
            "check the disk of GOAL_HOME",
            WorkspaceError,
        ):
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._contents:
                start.contents = _write_pack(self._workspace, start.files, self._pack)
            self._keep(start)

    def _keep(self, start: _Start) -> None:
        packages = {root: vars(one) for root, one in start.packages.items()}
        values = vars(start) | {"folders": sorted(start.folders), "packages": packages}
        write_whole(self._record, json.dumps(values).encode())

    def look(self, names: Iterable[str]) -> Classifier:
        """Look at what git ignores now, for the other methods."""
        return Classifier(
            self._workspace,
            names,
            self._dependencies,
            self._start.roots,
            home=self._home,
        )

    @staticmethod
    def same(one: Classifier, other: Classifier) -> bool:
        """Return whether two looks found the same other files; logs are left out."""
        return one.others == other.others or _without_logs(one) == _without_logs(other)

    def adopt(self, before: Classifier, after: Classifier) -> None:
        """Count what checks wrote between two looks as content of the start, unless the agent had changed it."""
        start, written = self._start, {}
        for path, info in after.others.items():
            is_of_agent = before.others.get(path) != start.files.get(path)
            if (
                before.others.get(path) != info
                and not is_of_agent
                and path not in start.contents
            ):
                written[path] = info
        if written:
            start.files |= written
            start.folders |= after.folders - before.folders
            self._keep(start)

    def compare(self, now: Classifier) -> Changes:
        """Return what differs from the start."""
        start, there = self._start, now.others
        build = tuple(entry.path for entry in now.found if entry.kind == "build")
        differ = sorted(
            path
            for path, info in start.files.items()
            if there.get(path) != info and self._differs(path, info)
        )
        new = _appeared(now, start, there.keys() - start.files.keys())
        known = {
            root for root, (kind, _) in start.roots.items() if kind == "dependencies"
        }
        packages = self._installed(known | now.dependencies)
        found = (
            dependency_labels(start.packages, packages, self._workspace)
            if packages != start.packages
            else {}
        )
        found |= {folder: [f"+{folder}"] for folder in now.dependencies - known}
        caches = [path for path in build if path.endswith(CACHE)]
        caches += (
            path for root in known for path in bytecode_in(self._workspace, root)
        )
        return Changes(
            appeared=tuple(
                path for path in new if os.path.lexists(self._workspace / path)
            ),
            changed=tuple(differ),
            build=build,
            built=tuple(sorted({path for root in build for path in self._built(root)})),
            caches=tuple(
                path
                for path in caches
                if written_since(f"{self._workspace}/{path}", start.began)
            ),
            dependencies=tuple(
                sorted(label for some in found.values() for label in some)
            ),
            dependency_folders=tuple(sorted(found)),
            state=_state(now, packages),
        )

    def original(self, path: str) -> File | None:
        """Return the content of an "other" file at the start; None if it was not kept. Raise WorkspaceError if it is damaged."""
        if path not in self._start.contents:
            return None
        digest, offset = self._start.contents[path]
        info = self._start.files[path]
        with (
            os_errors(f"the kept content of {path} cannot be read", "", WorkspaceError),
            self._pack.open("rb") as pack,
        ):
            pack.seek(offset)
            data = pack.read(info[SIZE])
        if hashlib.sha256(data).hexdigest() != digest:
            raise WorkspaceError(
                f"the kept content of {path} is damaged: {self._pack}",
                "start a new run",
            )
        return File(info[MODE], data)

    def _built(self, root: str) -> Iterator[str]:
        """Yield what checks name of build output, as far as it was written since the start."""
        if not self._named or root.endswith(CACHE):
            return
        began = self._start.began if root in self._start.roots else 0
        named = [
            path
            for path in islice(
                _written_below(self._workspace, root, began), _MOST_WRITTEN
            )
            if any(
                digest_of_path(name) in self._named
                for name in (*folders_above(path), path)
            )
        ]
        yield from named if len(named) < _MOST_BUILT else [root]

    def _installed(self, roots: Iterable[str]) -> dict[str, Installed]:
        seen = {root: inspect(self._workspace, root) for root in sorted(roots)}
        return {root: installed for root, installed in seen.items() if installed}

    def _differs(self, path: str, before: Stat) -> bool:
        now = stat_of(f"{self._workspace}/{path}")
        if now == before:
            return False
        kept = self._start.contents.get(path)
        if (
            now is None
            or kept is None
            or (now[SIZE], now[MODE]) != (before[SIZE], before[MODE])
        ):
            return True
        data = _content_of(f"{self._workspace}/{path}", now)
        return data is None or hashlib.sha256(data).hexdigest() != kept[0]

    @cached_property
    def _start(self) -> _Start:
        try:
            values: dict[str, Any] = json.loads(self._record.read_bytes())
            values["packages"] = {
                root: Installed(**value) for root, value in values["packages"].items()
            }
            for name in ("files", "roots", "contents"):  # JSON has lists for tuples
                values[name] = {
                    path: tuple(value) for path, value in values[name].items()
                }
            return _Start(**values | {"folders": set(values["folders"])})
        except OSError as error:
            raise WorkspaceError(
                f"the record of ignored files cannot be read: {error}"
            ) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"the run was made by another version of goal, or {self._record} is damaged"
            raise WorkspaceError(
                message, "start a new run: goal run GOAL_FILE"
            ) from error


@dataclass
class _Start:
    """The state of the start, at `began` (ns). `contents` are the files whose content the pack has."""

    files: dict[str, Stat]
    folders: set[str]
    roots: dict[str, Mark]
    packages: dict[str, Installed]
    contents: dict[str, Kept] = field(default_factory=dict)
    began: int = 0

    def __post_init__(self) -> None:
        for folder in {
            path.rpartition("/")[0] for path in (*self.files, *self.roots)
        } - {""}:
            self.folders.update((*folders_above(folder), folder))


def _without_logs(look: Classifier) -> dict[str, Stat]:
    return {
        path: info
        for path, info in look.others.items()
        if not path.endswith((".log", ".pid"))
    }


def _state(now: Classifier, packages: Mapping[str, Installed]) -> str:
    closed = [entry.path for entry in now.found if entry.kind == "other"]
    stats = _without_logs(now).values()
    installed = sorted((root, one.digest) for root, one in packages.items())
    # A sum does not depend on the order. The inode identifies a file, and renaming it changes its ctime.
    data = json.dumps([closed, len(stats), sum(map(hash, stats)), installed])
    return hashlib.sha256(data.encode()).hexdigest()


def _appeared(
    now: Classifier, start: _Start, others: Collection[str]
) -> tuple[str, ...]:
    """Return new other files (`others`), or the topmost new folders that hold nothing else."""
    mixed = {
        folder
        for entry in now.found
        if entry.kind != "other"
        for folder in folders_above(entry.path)
    }
    new = now.folders - start.folders - mixed
    found = set()
    closed = [entry.path for entry in now.found if entry.kind == "other"]
    for path in (*closed, *others):
        if path not in start.files and path not in start.folders:
            found.add(
                next((folder for folder in folders_above(path) if folder in new), path)
            )
    return tuple(sorted(found))


def digest_of_path(path: str) -> str:
    """Return a few digits that identify a path among those of a workspace, and from which it cannot be read."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


def _written_below(workspace: Path, path: str, began: int) -> Iterator[str]:
    """Yield the files at or below a path whose ctime, which cannot be set, is after `began` (ns)."""
    folders = [path]
    if (info := stat_of(f"{workspace}/{path}")) is not None:
        folders = []
        yield from [path] if info[CTIME] > began else []
    while folders:
        folder = folders.pop()
        with suppress(OSError), os.scandir(f"{workspace}/{folder}") as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.stat(follow_symlinks=False).st_ctime_ns > began:
                    yield name


def _content_of(path: str, info: Stat) -> bytes | None:
    """Return the content of a file or the target of a link; None if it cannot be read or no longer has that stat."""
    data = read_whole(path, info[MODE])
    return (
        data
        if data is not None and len(data) == info[SIZE] and stat_of(path) == info
        else None
    )


def _write_pack(
    workspace: Path, files: Mapping[str, Stat], pack: Path
) -> dict[str, Kept]:
    """Write the content of small files into one file; return where the content of each file is.

    It is not flushed to the disk: each content is compared with its hash when it is used.
    """
    kept, offset = {}, 0
    with open(
        os.open(pack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600),
        "wb",
    ) as out:
        for size, path in sorted(
            (info[SIZE], path)
            for path, info in files.items()
            if info[SIZE] <= KEPT_FILE
        ):
            if offset + size > KEPT_TOTAL:
                break
            if (data := _content_of(f"{workspace}/{path}", files[path])) is not None:
                out.write(data)
                kept[path] = (hashlib.sha256(data).hexdigest(), offset)
                offset += size
    return kept
