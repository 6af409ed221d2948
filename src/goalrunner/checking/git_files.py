"""What checks depend on around a workspace: settings of git, and checks and their configuration outside of it."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from goalrunner.checking.configuration import configures_runners
from goalrunner.checking.environment import File, Layer, lstat, read_whole
from goalrunner.checking.manifests import check_part
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import ask_git, content, enclosing

_SETTINGS = (
    "config",
    "config.worktree",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
)
_LARGEST_SETTING = 1_000_000
_MOST_FILES = 2_000
"""Files of a folder of checks outside of the workspace."""
_STEERING = re.compile(
    r"(filter|alias|include|includeif|extensions)\..*|diff\.(external|.*\.\w+)|merge\..*\.driver"
    r"|core\.(worktree|attributesfile|excludesfile|autocrlf|eol|symlinks|sparse\w+|bare|ignorecase)"
)
"""Keys of git's configuration that decide which files its commands read and write, or which programs they start."""


class GitSettings:
    """The settings of the repository around a workspace, and in it the configuration above the workspace, and other checks.

    `checks` are paths outside of the workspace that validators name, relative to it. What is in the repository is kept in
    the file `record` for a run that is resumed.
    """

    def __init__(
        self, workspace: Path, record: Path, checks: Sequence[str] = ()
    ) -> None:
        self._workspace = workspace
        self._checks = tuple(
            Path(os.path.normpath(workspace / path)) for path in checks
        )
        self._record = record
        self._start: dict[Path, File] = {}

    def remember(self) -> None:
        """Read them at the start, or what an earlier process kept. Raise WorkspaceError if the record is damaged."""
        if not self._record.exists():
            self._start = self._now()
            rows = [
                (str(path), one.mode, base64.b64encode(one.data).decode())
                for path, one in self._start.items()
            ]
            self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._record, json.dumps(rows).encode())
            return
        try:
            rows = json.loads(self._record.read_bytes())
            self._start = {
                Path(path): File(int(mode), base64.b64decode(data))
                for path, mode, data in rows
            }
        except (OSError, ValueError, TypeError) as error:
            message = f"the run was made by another version of goal, or {self._record} is damaged: {error}"
            raise WorkspaceError(
                message, "start a new run: goal run GOAL_FILE"
            ) from error

    def layers(self, workspace: Layer) -> tuple[Layer, ...]:
        """Return the workspace's layer with settings that differ put back, and layers for folders outside of it."""
        roots, (put, hide) = self.roots(), self._differing()
        tops: list[Path] = []
        for folder in sorted(
            {path.parent for path in self._above(put.keys() | hide)},
            key=lambda path: len(path.parts),
        ):
            if not any(folder.is_relative_to(top) for top in tops):
                tops.append(folder)
        roots = (
            *tops,
            *(
                root
                for root in roots
                if not any(root.is_relative_to(top) for top in tops)
            ),
        )
        layers, rest = [workspace, *map(Layer, roots)], put.keys() | hide
        for number, layer in enumerate(layers):
            own = {path for path in rest if path.is_relative_to(layer.root)}
            rest -= own
            names = {path: path.relative_to(layer.root).as_posix() for path in own}
            restored = {names[path]: one for path, one in put.items() if path in own}
            hidden = {names[path] for path in hide & own}
            layers[number] = Layer(
                layer.root, {**layer.put, **restored}, layer.hide | hidden
            )
        return tuple(layers)

    def _differing(self) -> tuple[dict[Path, File], set[Path]]:
        """Return what has another content than at the start, with that content, and what is new."""
        now = self._now()
        put = {
            path: one
            for path, one in self._start.items()
            if not _is_same(path, one, now.get(path))
        }
        return put, {
            path
            for path in now.keys() - self._start.keys()
            if not _is_same(path, None, now[path])
        }

    def above(self) -> list[Path]:
        """Return the checks outside of the workspace, and the configuration above it, that differ from the start."""
        put, hide = self._differing()
        return self._above(put.keys() | hide)

    def steering(self) -> list[str]:
        """Return the settings of git that differ and change what its commands read or start, hooks aside."""
        put, hide = self._differing()
        folders, found = git_folders(self._workspace), []
        for path in sorted(put.keys() | hide):
            if (
                path.parent.name == "hooks"
                or path.name == "exclude"
                or not any(map(path.is_relative_to, folders))
            ):
                continue
            name = os.path.relpath(path, self._workspace)
            if path.name not in ("config", "config.worktree"):
                found.append(name)
                continue
            before = put[path].data if path in put else b""
            changed = self._rows(before) ^ self._rows(content(path))
            keys = {row.partition("\n")[0] for row in changed}
            found += [
                f"{name} ({key})" for key in sorted(keys) if _STEERING.fullmatch(key)
            ]
        return found

    def _rows(self, config: bytes) -> set[str]:
        """Return the keys of a configuration file, in lower case, each with its value after a newline."""
        listing = ("config", "--no-includes", "--file", "-", "--list", "-z")
        _, output, _ = ask_git(
            self._workspace, *listing, environ=os.environ, timeout=60.0, stdin=config
        )
        return set(output.decode(errors="replace").split("\0"))

    def _above(self, paths: Iterable[Path]) -> list[Path]:
        return sorted(
            path
            for path in paths
            if self._workspace.is_relative_to(path.parent)
            or any(path.is_relative_to(check) for check in self._checks)
        )

    def _files_of_checks(self, repository: Path) -> Iterator[Path]:
        """Yield the files of the checks outside of the workspace that lie in its repository."""
        for path in self._checks:
            if not path.is_relative_to(repository) or self._workspace.is_relative_to(
                path
            ):
                continue
            files = (path.parent / name for name in [path.name] if not path.is_dir())
            inner = (
                Path(folder) / name
                for folder, _, names in os.walk(path)
                for name in sorted(names)
            )
            yield from (
                *files,
                *islice(
                    (one for one in inner if "__pycache__" not in one.parts),
                    _MOST_FILES,
                ),
            )

    def roots(self) -> tuple[Path, ...]:
        """Return the git folders that lie outside of the workspace, without those in another one."""
        found: list[Path] = []
        for folder in git_folders(self._workspace):
            if not any(
                folder.is_relative_to(root) for root in (self._workspace, *found)
            ):
                found.append(folder)
        return tuple(found)

    def _now(self) -> dict[Path, File]:
        found: dict[Path, File] = {}
        paths = [
            folder / name
            for folder in git_folders(self._workspace)
            for name in _SETTINGS
        ]
        for folder in git_folders(self._workspace):
            paths += (
                path for path in folder.glob("hooks/*") if path.suffix != ".sample"
            )
        repository = enclosing(self._workspace)
        for folder in self._workspace.parents:
            if repository and folder.is_relative_to(repository.root):
                paths += (
                    path for path in folder.glob("*") if configures_runners(path.name)
                )
        paths += self._files_of_checks(repository.root) if repository else ()
        for path in paths:
            info = lstat(str(path))
            is_file = info is not None and stat.S_IFMT(info.st_mode) in (
                stat.S_IFREG,
                stat.S_IFLNK,
            )
            if info and is_file and info.st_size <= _LARGEST_SETTING:
                data = read_whole(str(path), info.st_mode)
                found |= {path: File(info.st_mode, data)} if data is not None else {}
        return found


def _is_same(path: Path, old: File | None, new: File | None) -> bool:
    """Return whether nothing that concerns checks differs; None stands for a file that does not exist."""
    parts = [
        check_part(path.name, None if one is None else one.data) for one in (old, new)
    ]
    return old == new or (
        parts[0] == parts[1] and (old is None or new is None or old.mode == new.mode)
    )


NO_HOOKS = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": os.devnull,
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
}
"""Environment variables with which git starts no hook and no monitor."""


def git_folders(workspace: Path) -> tuple[Path, ...]:
    """Return the git folders of a workspace: the one that worktrees share first, then the worktree's own, and submodules."""
    found = enclosing(workspace)
    if found is None:
        return ()
    folders = dict.fromkeys(
        Path(os.path.realpath(folder)) for folder in (found.common, found.git_dir)
    )
    modules = Path(os.path.realpath(found.common)) / "modules"
    inner = [
        Path(folder)
        for folder, _, files in os.walk(modules)
        if "HEAD" in files and "config" in files
    ]
    return (*folders, *sorted(inner))


def without_git(layers: Sequence[Layer], workspace: Path) -> tuple[Layer, ...]:
    """Return the layers without what lies in git folders."""
    folders = git_folders(workspace)
    found = []
    for layer in layers:
        root = Path(os.path.realpath(layer.root))
        inside = {
            path
            for path in (*layer.put, *layer.hide)
            if any((root / path).is_relative_to(one) for one in folders)
        }
        put = {path: file for path, file in layer.put.items() if path not in inside}
        found.append(Layer(layer.root, put, layer.hide - inside))
    return tuple(found)
