"""Git's configuration and hooks of a workspace, as they were at the start of a run."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.run_folder import write_whole
from goalrunner.snapshots.repositories import enclosing

_FILES = ("config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_LARGEST = 1_000_000


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
    for path in (*(folder / name for name in _FILES), *(hook for hook in hooks if hook.suffix != ".sample")):
        try:
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                yield path.relative_to(folder).as_posix(), File(info.st_mode, os.fsencode(path.readlink()))
            elif stat.S_ISREG(info.st_mode) and info.st_size <= _LARGEST:
                yield path.relative_to(folder).as_posix(), File(info.st_mode, path.read_bytes())
        except OSError:
            continue
