"""What changes in the content of a workspace that git ignores, during a run."""

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
"""Suffix of the pack with the original content of small files."""
CACHE = "__pycache__"
LARGEST_IN_PACK = 1 << 20
"""The content of a file with more bytes than this is not stored."""
_LARGEST_PACK = 256 << 20
"""Bytes of all files together; the smallest files are stored first."""
_MOST_WRITTEN = 20_000
"""Files of one folder of build output that are looked at."""
_MOST_BUILT = 1_000
"""Files of build output that are named one by one."""
InPack = tuple[str, int]
"""The hash of a file's content, and its place in the pack."""


@dataclass(frozen=True)
class Changes:
    """How ignored content differs from the start of the run.

    Paths are relative and without a slash at the end.
    """

    appeared: tuple[str, ...] = ()
    """Other files that are new, or the topmost new folder if it holds nothing else."""
    changed: tuple[str, ...] = ()
    """Other files that differ or were deleted."""
    build: tuple[str, ...] = ()
    """Build output that exists now."""
    built: tuple[str, ...] = ()
    """Build output that checks name and that was written since the start."""
    caches: tuple[str, ...] = ()
    """Folders of Python bytecode that were written to since the start.

    They lie in the workspace or in its packages.
    """
    dependencies: tuple[str, ...] = ()
    """Labels of what differs in dependency folders, such as "+.venv" for a new one."""
    dependency_folders: tuple[str, ...] = ()
    """The dependency folders that differ."""
    state: str = ""
    """A hash over the stats of other files, without logs, and installed packages."""


class IgnoredContent:
    """What git ignores in a workspace, as it was at the start of a run.

    `keep` is a folder for what a resumed run needs. With `contents`, the content of
    small other files is stored there as well. `home` is a folder inside of the
    workspace that is no part of it. `named` are the digests of the paths that checks
    name. Methods block; call them in a thread.
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
        """Record the start, or read what an earlier process recorded.

        `names` are the paths that git ignores. Raise WorkspaceError.
        """
        if self.is_recorded:
            # Read now, so that a damaged record ends the run before its first round.
            _ = self._start
            return
        look = Classifier(self._workspace, names, self._dependencies, home=self._home)
        # Packages count even if git does not ignore them, as in a project without git.
        packages: dict[str, Mark] = {}
        for path in self._workspace.glob("*/pyvenv.cfg"):
            packages[path.parent.name] = ("dependencies", path.name)
        for path in self._workspace.glob("node_modules"):
            packages[path.name] = ("dependencies", path.name)
        roots = packages | {
            entry.root: (entry.kind, entry.why)
            for entry in look.classified
            if entry.root
        }
        installed = self._installed(look.dependencies | packages.keys())
        self._start = start = _Start(
            look.others,
            look.folders,
            roots,
            installed,
            began=time.time_ns(),
        )
        with os_errors(
            "ignored files cannot be kept",
            "check the disk of GOAL_HOME",
            WorkspaceError,
        ):
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._contents:
                start.contents = _write_pack(self._workspace, start.files, self._pack)
            self._write(start)

    def _write(self, start: _Start) -> None:
        packages = {root: vars(package) for root, package in start.packages.items()}
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
        """Return whether two looks saw the same other files; logs are left out."""
        # Without logs the comparison takes longer, and mostly nothing differs.
        return one.others == other.others or _without_logs(one) == _without_logs(other)

    def adopt(self, before: Classifier, after: Classifier) -> None:
        """Count what checks wrote between two looks as content of the start.

        Files that the agent had changed, and files with stored content, do not count.
        """
        start = self._start
        written: dict[str, Stat] = {}
        for path, info in after.others.items():
            earlier = before.others.get(path)
            # What the agent changed before the check stays its change.
            is_of_agent = earlier != start.files.get(path)
            if earlier != info and not is_of_agent and path not in start.contents:
                written[path] = info
        if written:
            start.files |= written
            start.folders |= after.folders - before.folders
            self._write(start)

    def compare(self, now: Classifier) -> Changes:
        """Return what differs from the start."""
        start = self._start
        build = tuple(entry.path for entry in now.classified if entry.kind == "build")
        built = {path for root in build for path in self._built(root)}
        changed = [
            path
            for path, info in start.files.items()
            if now.others.get(path) != info and self._differs(path, info)
        ]
        new = _appeared(now, start, now.others.keys() - start.files.keys())
        packages = self._installed(start.dependencies | now.dependencies)
        labels: dict[str, list[str]] = {}
        # The comparison reads every RECORD, so it is made only if something differs.
        if packages != start.packages:
            labels = dependency_labels(start.packages, packages, self._workspace)
        for folder in now.dependencies - start.dependencies:
            labels[folder] = [f"+{folder}"]
        return Changes(
            # A file may have been deleted since git listed it.
            appeared=tuple(
                path for path in new if os.path.lexists(self._workspace / path)
            ),
            changed=tuple(sorted(changed)),
            build=build,
            built=tuple(sorted(built)),
            caches=tuple(self._written_caches(build)),
            dependencies=tuple(
                sorted(label for lines in labels.values() for label in lines)
            ),
            dependency_folders=tuple(sorted(labels)),
            state=_state(now, packages),
        )

    def original(self, path: str) -> File | None:
        """Return the content of an "other" file at the start; None if not stored.

        Raise WorkspaceError if it is damaged.
        """
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
        # After a power cut the pack may have lost its end.
        if hashlib.sha256(data).hexdigest() != digest:
            raise WorkspaceError(
                f"the kept content of {path} is damaged: {self._pack}",
                "start a new run",
            )
        return File(info[MODE], data)

    def _built(self, root: str) -> Iterator[str]:
        """Yield what checks name of build output that was written since the start."""
        if not self._named or root.endswith(CACHE):
            return
        # A folder that is new has no file of the start.
        began = self._start.began if root in self._start.roots else 0
        written = islice(_written_below(self._workspace, root, began), _MOST_WRITTEN)
        named = [path for path in written if self._is_named(path)]
        # Thousands of names would be unreadable in a message.
        yield from named if len(named) < _MOST_BUILT else [root]

    def _is_named(self, path: str) -> bool:
        """Return whether checks name a path or a folder that it lies in."""
        names = (*folders_above(path), path)
        return any(digest_of_path(name) in self._named for name in names)

    def _written_caches(self, build: Iterable[str]) -> Iterator[str]:
        """Yield the folders of bytecode that were written to since the start."""
        caches = [path for path in build if path.endswith(CACHE)]
        for root in self._start.dependencies:
            caches += bytecode_in(self._workspace, root)
        for path in caches:
            if written_since(f"{self._workspace}/{path}", self._start.began):
                yield path

    def _installed(self, roots: Iterable[str]) -> dict[str, Installed]:
        """Return what the dependency folders that exist contain."""
        packages: dict[str, Installed] = {}
        for root in sorted(roots):
            installed = inspect(self._workspace, root)
            if installed is not None:
                packages[root] = installed
        return packages

    def _differs(self, path: str, before: Stat) -> bool:
        """Return whether a file has another content than at the start."""
        now = stat_of(f"{self._workspace}/{path}")
        if now == before:
            return False
        in_pack = self._start.contents.get(path)
        if now is None or in_pack is None:
            return True
        if now[SIZE] != before[SIZE] or now[MODE] != before[MODE]:
            return True
        # The same content may have been written again: only the times differ.
        data = _content_of(f"{self._workspace}/{path}", now)
        return data is None or hashlib.sha256(data).hexdigest() != in_pack[0]

    @cached_property
    def _start(self) -> _Start:
        try:
            values: dict[str, Any] = json.loads(self._record.read_bytes())
            values["packages"] = {
                root: Installed(**value) for root, value in values["packages"].items()
            }
            # JSON has lists for tuples.
            for name in ("files", "roots", "contents"):
                values[name] = {
                    path: tuple(value) for path, value in values[name].items()
                }
            values["folders"] = set(values["folders"])
            return _Start(**values)
        except OSError as error:
            raise WorkspaceError(
                f"the record of ignored files cannot be read: {error}"
            ) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise WorkspaceError(
                "the run was made by another version of goal, "
                f"or {self._record} is damaged",
                "start a new run: goal run GOAL_FILE",
            ) from error


@dataclass
class _Start:
    """The state of the start, as the record has it."""

    files: dict[str, Stat]
    """Other files and links."""
    folders: set[str]
    """Every folder that one of the files or roots lies in, and ignored folders."""
    roots: dict[str, Mark]
    """The folders of dependencies and build output."""
    packages: dict[str, Installed]
    contents: dict[str, InPack] = field(default_factory=dict)
    """The files whose content the pack has."""
    began: int = 0
    """In ns, by the clock that gives the times of files."""

    def __post_init__(self) -> None:
        parents = {path.rpartition("/")[0] for path in (*self.files, *self.roots)}
        for folder in parents - {""}:
            self.folders.update((*folders_above(folder), folder))

    @property
    def dependencies(self) -> set[str]:
        """The folders of dependencies."""
        return {
            root for root, (kind, _) in self.roots.items() if kind == "dependencies"
        }


def _without_logs(look: Classifier) -> dict[str, Stat]:
    # Programs that run beside the agent, such as a server, write into these.
    return {
        path: info
        for path, info in look.others.items()
        if not path.endswith((".log", ".pid"))
    }


def _state(now: Classifier, packages: Mapping[str, Installed]) -> str:
    closed = [entry.path for entry in now.classified if entry.kind == "other"]
    stats = _without_logs(now).values()
    installed = sorted((root, package.digest) for root, package in packages.items())
    # A sum does not depend on the order. The inode identifies a file, and renaming it
    # changes its ctime.
    data = json.dumps([closed, len(stats), sum(map(hash, stats)), installed])
    return hashlib.sha256(data.encode()).hexdigest()


def _appeared(
    now: Classifier,
    start: _Start,
    others: Collection[str],
) -> tuple[str, ...]:
    """Return new other files (`others`), or the topmost new folders.

    A folder that holds anything else, such as build output, is not returned.
    """
    closed: list[str] = []
    mixed: set[str] = set()
    for entry in now.classified:
        if entry.kind == "other":
            closed.append(entry.path)
        else:
            mixed.update(folders_above(entry.path))
    new_folders = now.folders - start.folders - mixed
    appeared: set[str] = set()
    for path in (*closed, *others):
        if path in start.files or path in start.folders:
            continue
        topmost = (folder for folder in folders_above(path) if folder in new_folders)
        appeared.add(next(topmost, path))
    return tuple(sorted(appeared))


def digest_of_path(path: str) -> str:
    """Return digits that identify a path among those of a workspace.

    The path cannot be read from them.
    """
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


def _written_below(
    workspace: Path,
    path: str,
    began: int,
) -> Iterator[str]:
    """Yield the files at or below a path that were written after `began` (ns).

    The ctime decides, because no program can set it.
    """
    info = stat_of(f"{workspace}/{path}")
    if info is not None:
        if info[CTIME] > began:
            yield path
        return
    folders = [path]
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
    """Return the content of a file or the target of a link.

    Return None if it cannot be read or no longer has that stat.
    """
    data = read_whole(path, info[MODE])
    if data is None or len(data) != info[SIZE]:
        return None
    # It may have been written while it was read.
    if stat_of(path) != info:
        return None
    return data


def _write_pack(
    workspace: Path,
    files: Mapping[str, Stat],
    pack: Path,
) -> dict[str, InPack]:
    """Write the content of small files into one file; return where each content is."""
    contents: dict[str, InPack] = {}
    offset = 0
    small_files = sorted(
        (info[SIZE], path)
        for path, info in files.items()
        if info[SIZE] <= LARGEST_IN_PACK
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    # It is not flushed to the disk: each content is compared with its hash when it is
    # used.
    with open(os.open(pack, flags, 0o600), "wb") as out:
        for size, path in small_files:
            if offset + size > _LARGEST_PACK:
                break
            data = _content_of(f"{workspace}/{path}", files[path])
            if data is None:
                continue
            out.write(data)
            contents[path] = (hashlib.sha256(data).hexdigest(), offset)
            offset += size
    return contents
