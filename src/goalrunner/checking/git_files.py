"""The files that checks depend on and that snapshots of the workspace do not contain.

These are settings and hooks of git, configuration above the workspace, and checks
outside of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from goalrunner.checking.configuration import configures_runners
from goalrunner.checking.environment import File, Layer, lstat, read_whole
from goalrunner.checking.manifests import check_part
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.repositories import content, enclosing

_SETTINGS = (
    "config",
    "config.worktree",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
)
# Bytes; a larger file is no setting.
_LARGEST_SETTING = 1_000_000
_MOST_FILES = 2_000
"""Files of a folder of checks outside of the workspace."""
_STEERING = re.compile(
    r"(filter|alias|include|includeif|extensions)\..*"
    r"|diff\.(external|.*\.\w+)|merge\..*\.driver"
    r"|core\.(worktree|attributesfile|excludesfile|autocrlf|eol|symlinks|sparse\w+"
    r"|bare|ignorecase)"
)
"""Keys of git's configuration that decide which files its commands read and write, or
which programs they start."""


@dataclass(frozen=True)
class _Differences:
    """What differs from the start of the run."""

    originals: dict[Path, File]
    """The files that were changed or deleted, with their content at the start."""
    new: set[Path]

    @property
    def paths(self) -> set[Path]:
        return self.originals.keys() | self.new


class GitSettings:
    """The files that checks depend on and that snapshots do not contain.

    `checks` are paths outside of the workspace that validators name, relative to it.
    The files of the start are recorded in the file `record` for a resumed run.
    """

    def __init__(
        self,
        workspace: Path,
        record: Path,
        checks: Sequence[str] = (),
    ) -> None:
        self._workspace = workspace
        self._checks = tuple(
            Path(os.path.normpath(workspace / path)) for path in checks
        )
        self._record = record
        self._start: dict[Path, File] = {}

    def remember(self) -> None:
        """Read the files at the start, or the record of an earlier process.

        Raise WorkspaceError if the record is damaged.
        """
        if self._record.exists():
            self._read_record()
            return
        self._start = self._now()
        rows = [
            # Content is bytes, which JSON cannot hold.
            (str(path), file.mode, base64.b64encode(file.data).decode())
            for path, file in self._start.items()
        ]
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._record, json.dumps(rows).encode())

    def _read_record(self) -> None:
        try:
            for path, mode, data in json.loads(self._record.read_bytes()):
                self._start[Path(path)] = File(int(mode), base64.b64decode(data))
        except (OSError, ValueError, TypeError) as error:
            raise WorkspaceError(
                "the run was made by another version of goal, "
                f"or {self._record} is damaged: {error}",
                "start a new run: goal run GOAL_FILE",
            ) from error

    def state(self) -> str:
        """Return a hash over the files as they were at the start."""
        rows = [(str(path), file.mode, file.data) for path, file in self._start.items()]
        return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()

    def layers(self, workspace: Layer) -> tuple[Layer, ...]:
        """Return the layers in which these files are as at the start.

        The first one is the workspace's, the others are for folders outside of it.
        """
        roots = self.roots()
        differences = self._differences()
        tops = _topmost(path.parent for path in self._above(differences.paths))
        outside = [root for root in roots if not _is_in_one(root, tops)]
        layers: list[Layer] = []
        remaining = differences.paths
        for layer in (workspace, *map(Layer, (*tops, *outside))):
            # A path belongs to one layer alone, even if git folders lie in each other.
            inside = {path for path in remaining if path.is_relative_to(layer.root)}
            remaining -= inside
            put = dict(layer.put)
            hide = set(layer.hide)
            for path in inside:
                name = path.relative_to(layer.root).as_posix()
                if path in differences.originals:
                    put[name] = differences.originals[path]
                else:
                    hide.add(name)
            layers.append(Layer(layer.root, put, frozenset(hide)))
        return tuple(layers)

    def _differences(self) -> _Differences:
        now = self._now()
        originals = {
            path: original
            for path, original in self._start.items()
            if not _is_same(path, original, now.get(path))
        }
        # A new manifest without settings of checks is no difference.
        new = {
            path
            for path in now.keys() - self._start.keys()
            if not _is_same(path, None, now[path])
        }
        return _Differences(originals, new)

    def above(self) -> list[Path]:
        """Return the checks and the configuration outside that differ, sorted.

        The checks lie outside of the workspace, the configuration lies above it.
        """
        return self._above(self._differences().paths)

    def steering(self) -> list[str]:
        """Return the settings of git that differ and change what its commands do.

        They decide what git reads or which programs it starts. Hooks are left out.
        """
        differences = self._differences()
        folders = git_folders(self._workspace)
        settings: list[str] = []
        for path in sorted(differences.paths):
            is_of_git = _is_in_one(path, folders)
            # Checks run without hooks, and info/exclude starts nothing.
            if not is_of_git or path.parent.name == "hooks" or path.name == "exclude":
                continue
            name = os.path.relpath(path, self._workspace)
            if path.name not in ("config", "config.worktree"):
                settings.append(name)
                continue
            original = _data(differences.originals.get(path)) or b""
            changed_rows = self._rows(original) ^ self._rows(content(path))
            keys = {row.partition("\n")[0] for row in changed_rows}
            settings += [
                f"{name} ({key})" for key in sorted(keys) if _STEERING.fullmatch(key)
            ]
        return settings

    def _rows(self, config: bytes) -> set[str]:
        """Return the keys of a configuration file, each with its value after a newline.

        Git prints keys in lower case, so that one key has one spelling.
        """
        # An included file is no part of this one; a new include is a key in it.
        listing = ("config", "--no-includes", "--file", "-", "--list", "-z")
        _, output, _ = ask_git(
            self._workspace,
            *listing,
            environ=os.environ,
            timeout=60.0,
            stdin=config,
        )
        return set(output.decode(errors="replace").split("\0"))

    def _above(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths that lie directly above the workspace, or are checks."""
        above: list[Path] = []
        for path in paths:
            is_check = _is_in_one(path, self._checks)
            if is_check or self._workspace.is_relative_to(path.parent):
                above.append(path)
        return sorted(above)

    def _files_of_checks(self, repository: Path) -> Iterator[Path]:
        """Yield the files of the checks outside of the workspace in its repository."""
        for check in self._checks:
            is_inside = check.is_relative_to(repository)
            # A check that contains the workspace, such as `..`, would be everything.
            if not is_inside or self._workspace.is_relative_to(check):
                continue
            if not check.is_dir():
                yield check
            yield from islice(_files_below(check), _MOST_FILES)

    def roots(self) -> tuple[Path, ...]:
        """Return the git folders outside of the workspace, the outermost ones alone."""
        roots: list[Path] = []
        # The git folder of a worktree lies in the folder that worktrees share.
        for folder in git_folders(self._workspace):
            if not _is_in_one(folder, [self._workspace, *roots]):
                roots.append(folder)
        return tuple(roots)

    def _now(self) -> dict[Path, File]:
        """Return the files as they are now."""
        files: dict[Path, File] = {}
        for path in self._paths():
            info = lstat(str(path))
            if info is None or info.st_size > _LARGEST_SETTING:
                continue
            if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                continue
            data = read_whole(str(path), info.st_mode)
            if data is not None:
                files[path] = File(info.st_mode, data)
        return files

    def _paths(self) -> Iterator[Path]:
        """Yield where such files may lie; they need not exist."""
        for folder in git_folders(self._workspace):
            yield from (folder / name for name in _SETTINGS)
            for hook in folder.glob("hooks/*"):
                # Git makes these in each repository and never starts them.
                if hook.suffix != ".sample":
                    yield hook
        repository = enclosing(self._workspace)
        if repository is None:
            return
        # Programs such as pytest look for their configuration up to the repository.
        for folder in self._workspace.parents:
            if folder.is_relative_to(repository.root):
                for path in folder.glob("*"):
                    if configures_runners(path.name):
                        yield path
        yield from self._files_of_checks(repository.root)


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without bytecode."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(parent) / name
            if "__pycache__" not in path.parts:
                yield path


def _is_in_one(path: Path, folders: Iterable[Path]) -> bool:
    return any(map(path.is_relative_to, folders))


def _topmost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that lie in no other one of them."""
    tops: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not _is_in_one(folder, tops):
            tops.append(folder)
    return tops


def _is_same(
    path: Path,
    old: File | None,
    new: File | None,
) -> bool:
    """Return whether nothing that concerns checks differs.

    None stands for a file that does not exist.
    """
    if old == new:
        return True
    # The mode of a hook decides whether git starts it.
    if old is not None and new is not None and old.mode != new.mode:
        return False
    old_part = check_part(path.name, _data(old))
    return old_part == check_part(path.name, _data(new))


def _data(file: File | None) -> bytes | None:
    return None if file is None else file.data


NO_HOOKS = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": os.devnull,
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
}
"""Environment variables with which git starts no hook and no monitor."""


def git_folders(workspace: Path) -> tuple[Path, ...]:
    """Return the git folders of a workspace.

    The one that worktrees share is the first, then the worktree's, then submodules.
    """
    repository = enclosing(workspace)
    if repository is None:
        return ()
    common = Path(os.path.realpath(repository.common))
    git_dir = Path(os.path.realpath(repository.git_dir))
    submodules: list[Path] = []
    # Submodules of submodules lie deeper.
    for folder, _, names in os.walk(common / "modules"):
        if "HEAD" in names and "config" in names:
            submodules.append(Path(folder))
    return (*dict.fromkeys((common, git_dir)), *sorted(submodules))


def without_git(layers: Sequence[Layer], workspace: Path) -> tuple[Layer, ...]:
    """Return the layers without the paths in git folders."""
    folders = git_folders(workspace)
    reduced_layers: list[Layer] = []
    for layer in layers:
        root = Path(os.path.realpath(layer.root))
        of_git = {
            path
            for path in (*layer.put, *layer.hide)
            if _is_in_one(root / path, folders)
        }
        put = {path: file for path, file in layer.put.items() if path not in of_git}
        reduced_layers.append(Layer(layer.root, put, layer.hide - of_git))
    return tuple(reduced_layers)
