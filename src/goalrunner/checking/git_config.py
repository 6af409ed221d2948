"""The git repository of a checkout, and git's configuration and hooks at the start of a run."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.checking.environment import EnvironmentFailed, File, Layer
from goalrunner.core.errors import WorkspaceError
from goalrunner.records.run_folder import write_whole
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.repositories import content, enclosing

_TIMEOUT = 600.0
_HISTORY_TIMEOUT = 60.0
_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Options with which `git add` writes one pack: a file for each object takes several times as long."""
_LARGEST = 200_000
"""Commits; a longer history is left out."""

_OPTIONS = (
    "-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.autocrlf=false",
    "-c", "user.name=goal", "-c", "user.email=goal@localhost",
)  # fmt: skip


@dataclass(frozen=True)
class _History:
    """The commits and tags of a repository; `branch` is empty for a detached HEAD."""

    head: str
    tree: str
    branch: str
    tags: Mapping[str, str]
    pack: bytes
    shallow: bytes


class _Failed(Exception):
    """A call of git failed."""


def make_repository(folder: Path, workspace: Path, environ: Mapping[str, str]) -> None:
    """Make a git repository of a checkout. HEAD is the workspace's if its files are the same, else a new commit on top.

    A workspace whose history cannot be read, or is too long, gives a repository with one commit. Raise EnvironmentFailed.
    """
    try:
        history = _history(workspace, environ)
    except (_Failed, ValueError):
        history = None
    try:
        _make(_Calls(folder, workspace, environ), history)
    except (_Failed, OSError) as error:
        raise EnvironmentFailed(f"cannot make a git repository of the checkout {folder}: {error}") from error


@dataclass(frozen=True)
class _Calls:
    """Calls git in a folder, with no program or configuration of the workspace or the user."""

    folder: Path
    workspace: Path
    environ: Mapping[str, str]
    timeout: float = _TIMEOUT

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output. Raise _Failed."""
        code, output, errors = ask_git(
            self.folder,
            *(*_OPTIONS, "--no-replace-objects", *arguments),
            environ=self.environ,
            timeout=self.timeout,
            workspace=self.workspace,
            stdin=stdin,
        )
        if code != 0:
            raise _Failed(errors.decode(errors="replace").strip() or f"git {' '.join(arguments)} failed")
        return output


def _history(workspace: Path, environ: Mapping[str, str]) -> _History:
    git = _Calls(workspace, workspace, environ, _HISTORY_TIMEOUT)
    head, tree, shallow = git("rev-parse", "HEAD", "HEAD^{tree}", "--git-path", "shallow").decode().splitlines()
    try:
        branch = git("symbolic-ref", "-q", "--short", "HEAD").decode().strip()
    except _Failed:
        branch = ""
    objects = git("rev-list", f"--max-count={_LARGEST + 1}", "HEAD", "--tags").decode().split()
    if len(objects) > _LARGEST:
        raise _Failed("the history is too long")
    commits = frozenset(objects)
    tags: dict[str, str] = {}
    for row in (
        git("for-each-ref", "--format=%(objectname) %(*objectname) %(refname)", "refs/tags").decode().splitlines()
    ):
        name, target, ref = row.split(" ", 2)
        if (target or name) in commits:
            tags[ref] = name
    objects += {name for name in tags.values() if name not in commits}
    listed = "".join(f"{name}\n" for name in objects).encode()
    pack = git("pack-objects", "-q", "--stdout", "--window=0", stdin=listed)
    return _History(head, tree, branch, tags, pack, content(workspace / shallow))


def _make(git: _Calls, history: _History | None) -> None:
    branch = history.branch if history else ""
    git("init", "-q", "--template=", "-b", branch or "main")
    info = git.folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    # Files are committed as they are, whatever the workspace's own attributes say.
    (info / "attributes").write_text("* -text -ident !filter !working-tree-encoding\n", encoding="utf-8")
    if history:
        git("index-pack", "--stdin", stdin=history.pack)
        if history.shallow:
            (git.folder / ".git" / "shallow").write_bytes(history.shallow)
        refs = "".join(f"{name} {ref}\n" for ref, name in sorted(history.tags.items()))
        (git.folder / ".git" / "packed-refs").write_text(refs, encoding="utf-8")
    git(*_ONE_PACK, "add", "-A", "-f", ".")
    tree = git("write-tree").decode().strip()
    if history and history.tree == tree:
        commit = history.head
    else:
        parent = ("-p", history.head) if history else ()
        commit = git("commit-tree", tree, *parent, "-m", "snapshot of the workspace").decode().strip()
    detached = ("--no-deref",) if history and not branch else ()
    git("update-ref", *detached, "HEAD", commit)


_FILES = ("config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_GIT_SETTINGS_LARGEST = 1_000_000


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
        roots = [workspace.root]
        put: dict[Path, dict[str, File]] = {workspace.root: dict(workspace.put)}
        hide: dict[Path, set[str]] = {workspace.root: set(workspace.hide)}
        for folder in self._folders():
            root = next((root for root in roots if folder.is_relative_to(root)), None)
            if root is None:
                root = folder
                roots.append(root)
            start, now = self._start.get(str(folder), {}), dict(_settings(folder))
            prefix = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
            back = {f"{prefix}{name}": item for name, item in start.items() if now.get(name) != item}
            put.setdefault(root, {}).update(back)
            hide.setdefault(root, set()).update(f"{prefix}{name}" for name in now if name not in start)
        return tuple(Layer(root, put.get(root, {}), frozenset(hide.get(root, ()))) for root in roots)

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
    names = [*_FILES, *(f"hooks/{name}" for name in _listed(folder / "hooks") if not name.endswith(".sample"))]
    for name in names:
        path = folder / name
        try:
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                yield name, File(info.st_mode, os.fsencode(path.readlink()))
            elif stat.S_ISREG(info.st_mode) and info.st_size <= _GIT_SETTINGS_LARGEST:
                yield name, File(info.st_mode, path.read_bytes())
        except OSError:
            continue


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
