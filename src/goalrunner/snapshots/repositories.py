"""Git repositories of the workspace, and the lock that lets one run at a time work in it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.snapshots.git import Git

_LIMIT = 64_000_000
_REMOTE = b"refs/remotes/"


@dataclass(frozen=True)
class Repository:
    """A repository: its absolute root, its git folder, and the folder that its worktrees share."""

    root: Path
    git_dir: Path
    common: Path

    @property
    def index(self) -> Path:
        """The user's index, which is never written."""
        return self.git_dir / "index"


def repository_at(folder: Path) -> Repository | None:
    """Return the repository with a `.git` folder, or a file that names one, in this folder."""
    place = folder / ".git"
    try:
        if not place.is_dir():
            named = content(place)
            if not named.startswith(b"gitdir: "):
                return None
            place = folder / os.fsdecode(named[8:].rstrip(b"\r\n"))
        if not (place / "HEAD").is_symlink() and not (place / "HEAD").is_file():
            return None
        shared = content(place / "commondir").strip()
        common = place / os.fsdecode(shared) if shared else place
        return Repository(folder, place, common) if (common / "objects").is_dir() else None
    except (OSError, ValueError):
        return None


def enclosing(workspace: Path) -> Repository | None:
    """Return the repository that contains the workspace, or whose root it is."""
    found = (repository_at(folder) for folder in (workspace, *workspace.parents))
    return next((repository for repository in found if repository), None)


class RepositoryStates:
    """Computes hashes of repositories; an index is read again only if its file changed."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: dict[Path, tuple[object, bytes]] = {}

    async def states(self, repositories: Iterable[Repository]) -> dict[Path, str]:
        """Return the hash of HEAD, refs and index by the root of each repository."""
        return {repository.root: await self._state(repository) for repository in repositories}

    async def _state(self, repository: Repository) -> str:
        digest = hashlib.sha256(await asyncio.to_thread(_refs, repository))
        digest.update(await self._index(repository))
        return digest.hexdigest()

    async def _index(self, repository: Repository) -> bytes:
        """Return a hash of what is staged, without the times that `git status` refreshes."""
        mark = await asyncio.to_thread(_mark, repository.index)
        known = self._known.get(repository.index)
        if known and mark and known[0] == mark:
            return known[1]
        staged = b""
        if mark:
            answer = await self._git.run("ls-files", "--stage", "-z", index=repository.index)
            # An index in another format (split, SHA-256) is hashed as a file.
            staged = answer.output if answer.code == 0 else await asyncio.to_thread(content, repository.index)
        state = hashlib.sha256(staged).digest()
        self._known[repository.index] = (mark, state)
        return state


def content(path: Path) -> bytes:
    """Return the content of a regular file, at most 64 MB; empty if it is missing, unreadable or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            return file.read(_LIMIT) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except (OSError, ValueError):
        return b""


def _mark(index: Path) -> object:
    """Return what identifies an index file: git writes a new one each time, with its own hash at the end."""
    try:
        handle = os.open(index, os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                return None
            file.seek(max(0, info.st_size - 32))
            return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, file.read(32)
    except OSError:
        return None


def _refs(repository: Repository) -> bytes:
    head = repository.git_dir / "HEAD"
    said = os.fsencode(os.readlink(head)) if head.is_symlink() else content(head)
    refs: dict[bytes, bytes] = {}
    for line in content(repository.common / "packed-refs").splitlines():
        value, _, name = line.partition(b" ")
        if name and not value.startswith((b"#", b"^")):
            refs[name] = value
    for place in (repository.common, repository.git_dir):
        refs.update(_loose(place))
    listed = [name + b" " + value for name, value in sorted(refs.items()) if not name.startswith(_REMOTE)]
    return b"\n".join([said.strip(), content(repository.common / "reftable" / "tables.list"), *listed])


def _loose(git_dir: Path) -> Iterator[tuple[bytes, bytes]]:
    for folder, _, files in os.walk(git_dir / "refs"):
        for file in files:
            path = Path(folder, file)
            yield os.fsencode(path.relative_to(git_dir)), content(path).strip()


class Claim:
    """The lock on a workspace, held until `close`. Raise WorkspaceError if another run is active in it.

    `lock` is a file in the workspace's store; it holds the process id of the runner and the id of its `run`, for messages.
    `workspace` is None if the workspace of a store is not known or gone.
    """

    def __init__(self, workspace: Path | None, lock: Path, run: str = "") -> None:
        handles: list[int] = []
        try:
            if workspace is not None:
                handles.append(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY))
                _lock(handles[-1], workspace, lock)
            handles.append(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            _lock(handles[-1], workspace or lock.parent, lock)
        except BaseException:
            _close(handles)
            raise
        with contextlib.suppress(OSError):  # the text is only for messages
            os.ftruncate(handles[-1], 0)
            os.pwrite(handles[-1], f"{os.getpid()} {run}".strip().encode(), 0)
        self._release = weakref.finalize(self, _close, handles)

    def close(self) -> None:
        """Release the workspace; closing twice does nothing."""
        self._release()


def refuse_claimed(workspace: Path, lock: Path) -> None:
    """Raise WorkspaceError if another run is active in this workspace; `lock` is as for `Claim`. Nothing is claimed.

    A run that would be refused anyway is refused before it leaves a folder of its own.
    """
    try:
        handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # a workspace that cannot be read gives an error of its own later
        return
    try:
        _lock(handle, workspace, lock)
    finally:
        os.close(handle)


def _lock(handle: int, workspace: Path, lock: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        process, run = _holder(lock) or (_locker(handle), "")
        name, watch = (f": {run}", f" (goal watch {run})") if run else ("", "")
        raise WorkspaceError(
            f"another run is active in {workspace}{name} (process {process or 'unknown'})",
            f"wait for it to end{watch}, or name another workspace: --workspace DIR",
        ) from error


def _holder(lock: Path) -> tuple[str, str] | None:
    """Return process id and run id of the runner that holds the store's lock; None if it is free or not readable."""
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            process, _, run = os.read(handle, 200).decode("ascii").strip().partition(" ")
            return process, run
        finally:
            os.close(handle)
    return None


def _locker(handle: int) -> str:
    """Return the id of the process that locks an open folder, as Linux lists it: a runner with another GOAL_HOME."""
    inode = str(os.fstat(handle).st_ino)
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            words = line.split()
            if "FLOCK" in words and "->" not in words and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                return words[4]
    return ""


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
