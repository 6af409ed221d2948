"""The git repository of a fresh checkout: commits and tags of the workspace's repository, and a commit of the checkout.

Only commit and tag objects are copied, which is quick: `git describe`, `git rev-list` and setuptools_scm answer as in the
workspace. Files of earlier commits are missing, so `git diff HEAD~1` and `git blame` fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.checking.environment import EnvironmentFailed
from goalrunner.workspace.git import ask_git
from goalrunner.workspace.repositories import content

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
