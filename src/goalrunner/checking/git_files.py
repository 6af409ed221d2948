"""The files of git folders that no snapshot contains: HEAD, index, refs, configuration and hooks.

They are recorded before an in-place check and put back after it. Objects stay as they are: new ones do no harm, and
copying them would take longer than most checks. In every check, configuration and hooks are those of the run's start.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.checking.journal import GitFile, Journal, OpenJournal
from goalrunner.checking.moves import lstat, make_parents, write_new
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.run_folder import write_whole
from goalrunner.snapshots.repositories import Repository, content, enclosing
from goalrunner.snapshots.restore import remove

_MOST_FILES = 20_000
_MOST_BYTES = 200_000_000
"""Beyond these, the rest of the files is not recorded: files that a check changes there stay changed."""

_LARGE = ("objects", "lfs")
"""Folders beside a HEAD whose content is not recorded, in submodules and worktrees as well."""

_KEPT = frozenset({"HEAD", "packed-refs", "config", "config.worktree", "refs", "hooks"})
"""What is copied before it is overwritten: a person may have committed during the check. Its objects are still there."""


def places_of(repositories: Iterable[Repository], workspace: Path) -> list[str]:
    """Return the files and folders to record for these repositories.

    Of a git folder outside of the workspace that other worktrees share, only the configuration, the hooks and the
    branch of this worktree: people work in the other worktrees meanwhile.
    """
    places: dict[str, None] = {}
    for repository in repositories:
        dot = repository.root / ".git"
        if dot.is_file() or dot.is_symlink():
            places[str(dot)] = None
        places[os.path.realpath(repository.git_dir)] = None
        common = repository.common.resolve()
        if common != repository.git_dir.resolve() and not common.is_relative_to(workspace):
            names = ["config", "hooks", "info"]
            head = content(repository.git_dir / "HEAD")
            if head.startswith(b"ref: refs/") and b".." not in head:
                branch = os.fsdecode(head[5:].strip())
                names += [branch, f"logs/{branch}"]
            places.update((str(common / name), None) for name in names)
    return list(places)


def record(places: Iterable[str]) -> tuple[list[GitFile], list[bytes], bool]:
    """Return the files below these places, their contents, and whether that is all of them."""
    rows: list[GitFile] = []
    contents: list[bytes] = []
    size = 0
    for path, info in _walk(places):
        if len(rows) >= _MOST_FILES:
            return rows, contents, False
        offset = -1
        if stat.S_ISREG(info.st_mode) and size + info.st_size <= _MOST_BYTES:
            with contextlib.suppress(OSError):
                data = _read(path)
                if len(data) == info.st_size:
                    offset = size
                    contents.append(data)
                    size += len(data)
        target = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
        rows.append(GitFile(path, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ino, offset, target))
    return rows, contents, True


def _walk(places: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files, links and folders below the places, parents first; large folders without what is in them."""
    seen: set[str] = set()
    large: set[str] = set()
    waiting = sorted(places, reverse=True)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            info = os.lstat(path)
            names = os.listdir(path) if stat.S_ISDIR(info.st_mode) and path not in large else []
        except OSError:
            continue
        if stat.S_IFMT(info.st_mode) in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            yield path, info
        if "HEAD" in names and "refs" in names:
            large.update(os.path.join(path, name) for name in _LARGE)
            names = [name for name in names if not name.startswith("goal-checks-")]
        waiting += [os.path.join(path, name) for name in sorted(names, reverse=True)]


def lost(journal: Journal) -> list[str]:
    """Return what the check removed and the record cannot restore, in words: objects, and files that were too large."""
    found, objects = [], _objects(journal)
    for row in journal.git_files:
        if os.path.lexists(row.path):
            continue
        if row.path in objects:
            found.append(f"the objects of {os.path.dirname(row.path)} were removed by the check")
        elif stat.S_ISREG(row.mode) and row.offset < 0 and not row.path.endswith(".lock"):
            found.append(f"{row.path} was removed by the check and too large to be kept")
    return found


def _objects(journal: Journal) -> set[str]:
    """Return the recorded folders of objects."""
    known = {row.path for row in journal.git_files}
    folders = {os.path.dirname(path) for path in known if os.path.basename(path) == "HEAD"}
    return {f"{folder}/objects" for folder in folders if f"{folder}/refs" in known} & known


class PutBack:
    """Puts back recorded files one by one, so that one that fails does not keep the others from it.

    `kept` are the files that were copied to the folder `keep` first, `problems` what failed, in words.
    """

    def __init__(self, opened: OpenJournal, keep: Path) -> None:
        self.kept: list[str] = []
        self.problems: list[str] = []
        self._opened = opened
        self._keep = keep
        self._objects = _objects(opened.journal)

    def run(self) -> None:
        """Remove new files, deepest first, and restore the recorded ones, parents first."""
        journal = self._opened.journal
        known = {row.path for row in journal.git_files}
        for place in journal.git_places:
            if place.startswith(f"{journal.workspace}/"):
                with contextlib.suppress(OSError):  # it is named with the files below
                    make_parents(journal.workspace, place)
        new = [path for path, _ in _walk(journal.git_places) if path not in known] if journal.git_whole else []
        for path in sorted(new, reverse=True):
            with self._problem(path):
                if os.path.isdir(path) and not os.path.islink(path):
                    with contextlib.suppress(OSError):  # not empty: a socket, or something else that is no file
                        os.rmdir(path)
                else:
                    self._save(path)
                    os.unlink(path)
        for row in journal.git_files:
            with self._problem(row.path):
                self._restore(row)

    @contextlib.contextmanager
    def _problem(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror or error}")

    def _restore(self, row: GitFile) -> None:
        info = lstat(row.path)
        if info and stat.S_IFMT(info.st_mode) != stat.S_IFMT(row.mode):
            remove(Path(row.path))
            info = None
        if stat.S_ISLNK(row.mode):
            if info is None or os.readlink(row.path) != row.target:
                remove(Path(row.path))
                os.symlink(row.target, row.path)
            return
        if not stat.S_ISDIR(row.mode):
            self._restore_content(row, info)
        elif info is None and row.path not in self._objects:  # `lost` names these
            os.mkdir(row.path)
        if (info := lstat(row.path)) and stat.S_IMODE(info.st_mode) != stat.S_IMODE(row.mode):
            os.chmod(row.path, stat.S_IMODE(row.mode))

    def _restore_content(self, row: GitFile, info: os.stat_result | None) -> None:
        """Restore the content of a file, if it was recorded. A lock that is gone is that of a git command that ended."""
        same = info and (info.st_size, info.st_mtime_ns, info.st_ino) == (row.size, row.mtime, row.inode)
        if same or row.offset < 0 or (info is None and row.path.endswith(".lock")):
            return
        wanted = self._opened.content(row)
        if info and info.st_size == row.size and _read(row.path) == wanted:
            return
        self._save(row.path)
        new = f"{row.path}.goal-{os.urandom(4).hex()}"
        write_new(new, wanted, row.mode)
        os.utime(new, ns=(row.mtime, row.mtime))
        os.replace(new, row.path)

    def _save(self, path: str) -> None:
        """Copy a file that a person may have changed during the check."""
        place = next((place for place in self._opened.journal.git_places if path.startswith(f"{place}/")), "")
        name = os.path.relpath(path, place) if place else os.path.basename(path)
        if name.split("/")[0] in _KEPT and not path.endswith(".lock") and os.path.isfile(path):
            target = self._keep / os.path.relpath(path, "/")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
            self.kept.append(path)


def _read(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read()


_SETTINGS = ("config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_LARGEST_SETTING = 1_000_000


class GitSettings:
    """The settings of the repository around a workspace, kept in the file `record` for a run that is resumed."""

    def __init__(self, workspace: Path, record: Path) -> None:
        self._workspace = workspace
        self._record = record
        self._start: dict[str, dict[str, File]] = {}

    def remember(self) -> None:
        """Read them at the start, or what an earlier process kept. Raise WorkspaceError if the record is damaged."""
        if self._record.exists():
            self._start = self._load()
            return
        self._start = {str(folder): dict(_settings(folder)) for folder in self._folders()}
        kept = {
            folder: {name: [item.mode, base64.b64encode(item.data).decode()] for name, item in files.items()}
            for folder, files in self._start.items()
        }
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._record, json.dumps(kept).encode())

    def layers(self, workspace: Layer) -> tuple[Layer, ...]:
        """Return the workspace's layer with settings that differ put back, and a layer for each git folder outside of it."""
        put: dict[Path, dict[str, File]] = {workspace.root: dict(workspace.put)}
        hide: dict[Path, set[str]] = {workspace.root: set(workspace.hide)}
        for folder in self._folders():
            root = next((root for root in put if folder.is_relative_to(root)), folder)
            start, now = self._start.get(str(folder), {}), dict(_settings(folder))
            prefix = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
            back = {f"{prefix}{name}": item for name, item in start.items() if now.get(name) != item}
            put.setdefault(root, {}).update(back)
            hide.setdefault(root, set()).update(f"{prefix}{name}" for name in now if name not in start)
        return tuple(Layer(root, files, frozenset(hide[root])) for root, files in put.items())

    def roots(self) -> tuple[Path, ...]:
        """Return the git folders that lie outside of the workspace."""
        return tuple(layer.root for layer in self.layers(Layer(self._workspace))[1:])

    def _folders(self) -> tuple[Path, ...]:
        """Return the git folders: the one that worktrees share first, then the worktree's own."""
        found = enclosing(self._workspace)
        if found is None:
            return ()
        folders = dict.fromkeys(Path(os.path.realpath(folder)) for folder in (found.common, found.git_dir))
        modules = Path(os.path.realpath(found.common)) / "modules"
        inner = [Path(folder) for folder, _, files in os.walk(modules) if "HEAD" in files and "config" in files]
        return (*folders, *sorted(inner))

    def _load(self) -> dict[str, dict[str, File]]:
        try:
            kept = json.loads(self._record.read_bytes())
            return {
                folder: {name: File(int(mode), base64.b64decode(data)) for name, (mode, data) in files.items()}
                for folder, files in kept.items()
            }
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise WorkspaceError(
                f"{self._record} is damaged: {error}", "start a new run: goal run GOAL_FILE"
            ) from error


def _settings(folder: Path) -> Iterator[tuple[str, File]]:
    hooks = sorted(folder.glob("hooks/*"))
    for path in (*(folder / name for name in _SETTINGS), *(hook for hook in hooks if hook.suffix != ".sample")):
        try:
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                yield path.relative_to(folder).as_posix(), File(info.st_mode, os.fsencode(path.readlink()))
            elif stat.S_ISREG(info.st_mode) and info.st_size <= _LARGEST_SETTING:
                yield path.relative_to(folder).as_posix(), File(info.st_mode, path.read_bytes())
        except OSError:
            continue
