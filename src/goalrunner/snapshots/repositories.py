"""The git repositories in and around a workspace: where they are, and their state."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.snapshots.git import Git, ask_git
from goalrunner.snapshots.paths import printable_path

_LARGEST = 64_000_000
"""Bytes that are read of a file."""


@dataclass(frozen=True)
class Repository:
    """A repository."""

    root: Path
    """An absolute path."""
    git_dir: Path
    common: Path
    """The folder that its worktrees share."""

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    def changed_since(self, time: int) -> int:
        """Return when HEAD, its log or the index changed last (ns, ctime).

        Return 0 if that was before `time`.
        """
        latest = 0
        # `git add`, `git commit` and `git reset` write these.
        for path in (self.git_dir / "HEAD", self.git_dir / "logs" / "HEAD", self.index):
            with contextlib.suppress(OSError):
                latest = max(latest, path.lstat().st_ctime_ns)
        return latest if latest >= time else 0


def repository_at(folder: Path) -> Repository | None:
    """Return the repository in this folder; None if there is none.

    Its `.git` is a folder, or a file that names one.
    """
    git_dir = folder / ".git"
    try:
        if not git_dir.is_dir():
            # A worktree and a submodule have a file that names the folder.
            text = content(git_dir)
            if not text.startswith(b"gitdir: "):
                return None
            target = text.removeprefix(b"gitdir: ").rstrip(b"\r\n")
            git_dir = folder / os.fsdecode(target)
        # An empty folder named `.git` is no repository.
        head = git_dir / "HEAD"
        if not head.is_symlink() and not head.is_file():
            return None
        common = git_dir
        shared = content(git_dir / "commondir").strip()
        if shared:
            common = git_dir / os.fsdecode(shared)
        if not (common / "objects").is_dir():
            return None
    except (OSError, ValueError):
        return None
    return Repository(folder, git_dir, common)


def enclosing(workspace: Path) -> Repository | None:
    """Return the repository that contains the workspace, or whose root it is."""
    for folder in (workspace, *workspace.parents):
        repository = repository_at(folder)
        if repository is not None:
            return repository
    return None


def content(path: Path | str) -> bytes:
    """Return the content of a regular file, at most 64 MB.

    Return nothing if it is missing, unreadable or no regular file.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return b""
            return file.read(_LARGEST)
    except (OSError, ValueError):
        return b""


_NEW_GOAL_FILE = re.compile(rb"\?\? (?:.*/)?goal\.toml\Z")
"""An entry of `git status` in its porcelain format."""


def describe(
    path: Path,
    environ: Mapping[str, str] | None = None,
    timeout: float = 2.0,
) -> str:
    """Return in words whether a folder is in a repository, and whether it is clean.

    The words are "git, clean", "git, uncommitted changes", "git" if git did not answer
    in time, or "no git". A goal file that is not in git yet, as `goal init` writes it,
    is no change. The folder is not changed, and filters of its repository do not run.
    """
    call = partial(
        ask_git,
        path,
        environ=os.environ if environ is None else environ,
        timeout=timeout,
    )
    _, names, _ = call(
        "config",
        "--name-only",
        "-z",
        "--get-regexp",
        r"^filter\..*\.(clean|process|required)$",
    )
    # An empty command is no filter, and a required filter may not be missing.
    without_filters: dict[str, str] = {}
    for name in os.fsdecode(names).split("\0")[:-1]:
        without_filters[name] = "false" if name.endswith(".required") else ""
    code, output, _ = call(
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--",
        ".",
        settings=without_filters,
    )
    if code == 0:
        for entry in output.split(b"\0"):
            if entry and not _NEW_GOAL_FILE.match(entry):
                return "git, uncommitted changes"
        return "git, clean"
    # Git is missing, too slow, or refuses the folder of another user.
    folders = (path.absolute(), *path.absolute().parents)
    is_inside = any((folder / ".git").exists() for folder in folders)
    return "git" if is_inside else "no git"


class RepositoryStates:
    """Computes hashes of repositories.

    An index is read again only if its file changed.
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._indexes: dict[Path, tuple[object, bytes]] = {}
        """The signature of each index file, and the hash of what is staged."""

    async def state(self, repository: Repository) -> str:
        """Return the hash of HEAD, refs and index."""
        digest = hashlib.sha256(await asyncio.to_thread(_refs, repository))
        digest.update(await self._index(repository))
        return digest.hexdigest()

    async def _index(self, repository: Repository) -> bytes:
        """Return a hash of what is staged.

        The times in the index, which `git status` refreshes, do not change it.
        """
        signature, staged = None, b""
        # Git never rewrites an index in place, so each one has another inode or time.
        with contextlib.suppress(OSError):
            info = repository.index.lstat()
            signature = info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
        earlier = self._indexes.get(repository.index)
        if earlier and signature and earlier[0] == signature:
            return earlier[1]
        if signature:
            answer = await self._git.run(
                "ls-files",
                "--stage",
                "-z",
                index=repository.index,
            )
            staged = answer.output
            if answer.code != 0:
                # An index in another format (split, SHA-256) is hashed as a file.
                staged = await asyncio.to_thread(content, repository.index)
        digest = hashlib.sha256(staged).digest()
        self._indexes[repository.index] = signature, digest
        return digest


def _refs(repository: Repository) -> bytes:
    """Return the refs of a repository, without those of its remotes."""
    head = repository.git_dir / "HEAD"
    target = os.fsencode(os.readlink(head)) if head.is_symlink() else content(head)
    refs: dict[bytes, bytes] = {}
    for line in content(repository.common / "packed-refs").splitlines():
        value, _, name = line.partition(b" ")
        if name and not value.startswith((b"#", b"^")):
            refs[name] = value
    # A ref that is a file of its own takes precedence over a packed one.
    for folder in (repository.common, repository.git_dir):
        refs.update(_loose_refs(folder))
    lines = [target.strip(), content(repository.common / "reftable" / "tables.list")]
    for name, value in sorted(refs.items()):
        # `git fetch` changes these, and it is no work.
        if not name.startswith(b"refs/remotes/"):
            lines.append(name + b" " + value)
    return b"\n".join(lines)


def _loose_refs(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the value of each ref that is a file of its own."""
    for parent, _, names in os.walk(folder / "refs"):
        for name in names:
            path = Path(parent, name)
            yield os.fsencode(path.relative_to(folder)), content(path).strip()


async def head_of(git: Git) -> str:
    """Return the commit that is checked out around the workspace; empty without one."""
    repository = enclosing(git.workspace)
    if repository is None:
        return ""
    answer = await git.run(
        "rev-parse",
        "--verify",
        "--quiet",
        "HEAD",
        repository=repository.git_dir,
    )
    return answer.output.decode().strip() if answer.code == 0 else ""


async def committed_paths(git: Git, commit: str) -> Mapping[str, str] | None:
    """Return mode and blob of each file of a commit below the workspace.

    They are given by the path in the workspace. Return None if the workspace is in no
    repository, or ignored there; nothing if the commit is empty, or cannot be read.
    """
    repository = repository_at(git.workspace) or await parent_of(git)
    if repository is None:
        # With a commit, the repository was removed during the run.
        return {} if commit else None
    if not commit:
        return {}
    listing: list[str | bytes] = ["ls-tree", "-r", "-z", "--full-tree", commit]
    folder = b""
    if git.workspace != repository.root:
        inside = os.path.relpath(git.workspace, repository.root)
        folder = os.fsencode(f"{inside}/")
        listing += ["--", folder]
    answer = await git.run(*listing, repository=repository.git_dir)
    if answer.code != 0:
        return {}
    paths: dict[str, str] = {}
    for row in answer.output.split(b"\0")[:-1]:
        about, _, path = row.partition(b"\t")
        mode, _, blob = about.decode().split(" ")
        paths[printable_path(path.removeprefix(folder))] = f"{mode} {blob}"
    return paths


async def parent_of(git: Git) -> Repository | None:
    """Return the repository that contains the workspace as a folder.

    Return None if it ignores that folder.
    """
    repository = enclosing(git.workspace)
    if repository is None or repository.root == git.workspace:
        return None
    path = b"./" + os.fsencode(git.workspace.relative_to(repository.root))
    answer = await git.run(
        "check-ignore",
        "-q",
        "--no-index",
        "--",
        path,
        tree=repository.root,
        repository=repository.git_dir,
    )
    # Its exit code is 1 if nothing is ignored.
    return repository if answer.code == 1 else None


async def tracked_paths(git: Git, repositories: list[Repository]) -> set[bytes]:
    """Return what the user's repositories track below the workspace.

    Raise WorkspaceError if git cannot read an index.
    """
    workspace = os.fsencode(git.workspace) + b"/"
    paths: set[bytes] = set()
    for repository in repositories:
        # A new repository has no index.
        if not repository.index.exists():
            continue
        listed = await _tracked(git, repository)
        if repository.root == git.workspace:
            paths.update(listed)
            continue
        root = os.fsencode(repository.root) + b"/"
        for name in listed:
            path = root + name
            if path.startswith(workspace):
                paths.add(path.removeprefix(workspace))
    return paths


async def _tracked(git: Git, repository: Repository) -> list[bytes]:
    """Return what a repository tracks, relative to its root. Raise WorkspaceError."""
    arguments = ("ls-files", "--cached", "-z")
    answer = await git.run(*arguments, index=repository.index)
    if answer.code != 0:
        # The index has another format than the store's.
        answer = await git.run(
            *arguments,
            index=repository.index,
            repository=repository.git_dir,
        )
    if answer.code != 0:
        message = answer.errors.decode("utf-8", "replace").strip()
        raise WorkspaceError(
            f"the index of {repository.root} cannot be read: {message}",
            f"see what `git -C {repository.root} status` says",
        )
    return answer.output.split(b"\0")[:-1]
