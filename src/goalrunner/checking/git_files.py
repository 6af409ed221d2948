"""What checks depend on around a workspace: settings of git, configuration above it, and copies of git folders."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from goalrunner.checking.environment import File, Layer, lstat, read_whole
from goalrunner.checking.manifests import check_part
from goalrunner.checking.protection import configures_runners
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import Repository, content, enclosing

_SETTINGS = ("config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_LARGEST_SETTING = 1_000_000


class GitSettings:
    """The settings of the repository around a workspace, and the configuration of test runners in it above the workspace.

    They are kept in the file `record` for a run that is resumed.
    """

    def __init__(self, workspace: Path, record: Path) -> None:
        self._workspace = workspace
        self._record = record
        self._start: dict[Path, File] = {}

    def remember(self) -> None:
        """Read them at the start, or what an earlier process kept. Raise WorkspaceError if the record is damaged."""
        if not self._record.exists():
            self._start = self._now()
            rows = [(str(path), one.mode, base64.b64encode(one.data).decode()) for path, one in self._start.items()]
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._record, json.dumps(rows).encode())
            return
        try:
            rows = json.loads(self._record.read_bytes())
            self._start = {Path(path): File(int(mode), base64.b64decode(data)) for path, mode, data in rows}
        except (OSError, ValueError, TypeError) as error:
            message = f"the run was made by another version of goal, or {self._record} is damaged: {error}"
            raise WorkspaceError(message, "start a new run: goal run GOAL_FILE") from error

    def layers(self, workspace: Layer) -> tuple[Layer, ...]:
        """Return the workspace's layer with settings that differ put back, and layers for folders outside of it."""
        roots, (put, hide) = self.roots(), self._differing()
        if above := self._above(put.keys() | hide):
            top = min((path.parent for path in above), key=lambda folder: len(folder.parts))
            roots = (top, *(root for root in roots if not root.is_relative_to(top)))
        layers, rest = [workspace, *map(Layer, roots)], put.keys() | hide
        for number, layer in enumerate(layers):
            own = {path for path in rest if path.is_relative_to(layer.root)}
            rest -= own
            names = {path: path.relative_to(layer.root).as_posix() for path in own}
            restored = {names[path]: one for path, one in put.items() if path in own}
            hidden = {names[path] for path in hide & own}
            layers[number] = Layer(layer.root, {**layer.put, **restored}, layer.hide | hidden)
        return tuple(layers)

    def _differing(self) -> tuple[dict[Path, File], set[Path]]:
        """Return what has another content than at the start, with that content, and what is new."""
        now = self._now()
        put = {path: one for path, one in self._start.items() if not _is_same(path, one, now.get(path))}
        return put, {path for path in now.keys() - self._start.keys() if not _is_same(path, None, now[path])}

    def above(self) -> list[Path]:
        """Return the configuration above the workspace that differs from the start."""
        put, hide = self._differing()
        return self._above(put.keys() | hide)

    def _above(self, paths: Iterable[Path]) -> list[Path]:
        return sorted(path for path in paths if self._workspace.is_relative_to(path.parent))

    def roots(self) -> tuple[Path, ...]:
        """Return the git folders that lie outside of the workspace, without those in another one."""
        found: list[Path] = []
        for folder in self._folders():
            if not any(folder.is_relative_to(root) for root in (self._workspace, *found)):
                found.append(folder)
        return tuple(found)

    def _folders(self) -> tuple[Path, ...]:
        """Return the git folders: the one that worktrees share first, then the worktree's own, and submodules."""
        found = enclosing(self._workspace)
        if found is None:
            return ()
        folders = dict.fromkeys(Path(os.path.realpath(folder)) for folder in (found.common, found.git_dir))
        modules = Path(os.path.realpath(found.common)) / "modules"
        inner = [Path(folder) for folder, _, files in os.walk(modules) if "HEAD" in files and "config" in files]
        return (*folders, *sorted(inner))

    def _now(self) -> dict[Path, File]:
        found: dict[Path, File] = {}
        paths = [folder / name for folder in self._folders() for name in _SETTINGS]
        for folder in self._folders():
            paths += (path for path in folder.glob("hooks/*") if path.suffix != ".sample")
        repository = enclosing(self._workspace)
        for folder in self._workspace.parents:
            if repository and folder.is_relative_to(repository.root):
                paths += (path for path in folder.glob("*") if configures_runners(path.name))
        for path in paths:
            info = lstat(str(path))
            is_file = info is not None and stat.S_IFMT(info.st_mode) in (stat.S_IFREG, stat.S_IFLNK)
            if info and is_file and info.st_size <= _LARGEST_SETTING:
                data = read_whole(str(path), info.st_mode)
                found |= {path: File(info.st_mode, data)} if data is not None else {}
        return found


def _is_same(path: Path, old: File | None, new: File | None) -> bool:
    """Return whether nothing that concerns checks differs; None stands for a file that does not exist."""
    parts = [check_part(path.name, None if one is None else one.data) for one in (old, new)]
    return old == new or (parts[0] == parts[1] and (old is None or new is None or old.mode == new.mode))


_LARGE = frozenset({"objects", "lfs", "annex"})
"""Folders whose files never change once they are written; a copy has the same files, by hard links."""


def git_places(repository: Repository, workspace: Path) -> Iterator[tuple[str, str]]:
    """Yield the paths that a check sees copies of, each with its folder: the git folder, or the `.git` file or link.

    In a git folder outside of the workspace, settings, branches and tags are copied; if there are other worktrees, in
    which people may work during the check, only those of the checked-out branch. The paths need not exist.
    """
    if repository.root.is_relative_to(workspace):
        yield str(repository.root / ".git"), str(workspace)
    shared, own = ["config", "hooks", "info"], ["HEAD", "index", "logs/HEAD", "config.worktree"]
    head = content(repository.git_dir / "HEAD")
    if head.startswith(b"ref: refs/") and b".." not in head:
        branch = os.fsdecode(head[5:].strip())
        shared += [branch, f"logs/{branch}"]
    if not (repository.common / "worktrees").exists():
        shared += ["refs", "packed-refs", "logs"]
    for folder, names in ((repository.common, shared), (repository.git_dir, own)):
        root = os.path.realpath(folder)
        if not Path(root).is_relative_to(workspace):
            yield from ((os.path.join(root, name), root) for name in names)


def copy_git(source: str, target: str) -> None:
    """Copy a git folder, or a file of one, without locks, pipes, sockets and devices. Raise OSError."""
    if os.path.islink(source) or not os.path.isdir(source):
        shutil.copy2(source, target, follow_symlinks=False)
        return
    large = tuple(f"{os.path.join(source, folder)}/" for folder in _large(source))

    def ignored(folder: str, names: list[str]) -> list[str]:
        kinds = {name: stat.S_IFMT(os.lstat(os.path.join(folder, name)).st_mode) for name in names}
        copied = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        return [name for name, kind in kinds.items() if kind not in copied or name.endswith(".lock")]

    def copy(one: str, other: str) -> None:
        if one.startswith(large):
            with contextlib.suppress(OSError):  # not every file system can
                return os.link(one, other, follow_symlinks=False)
        shutil.copy2(one, other, follow_symlinks=False)
        return None

    shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=copy)


def _large(git: str) -> list[str]:
    """Return the folders with objects in a git folder, relative to it; those of submodules included."""
    found = []
    for folder, folders, names in os.walk(git):
        if "HEAD" in names:
            inner = {name for name in _LARGE.intersection(folders) if not os.path.islink(os.path.join(folder, name))}
            found += [os.path.relpath(os.path.join(folder, name), git) for name in sorted(inner)]
            folders[:] = [name for name in folders if name not in inner]
    return found


def keep_objects(copy: str, original: str) -> None:
    """Move objects that are new in a copy into the original: a person may have made a commit. Raise OSError."""
    for large in _large(copy):
        for folder, _, names in os.walk(os.path.join(copy, large)):
            there = os.path.join(original, os.path.relpath(folder, copy))
            os.makedirs(there, exist_ok=True)
            for name in names:
                if not os.path.lexists(os.path.join(there, name)):
                    os.rename(os.path.join(folder, name), os.path.join(there, name))
