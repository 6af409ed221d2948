"""The folder of a snapshot store: making, locking, shrinking and removing it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import time
import weakref
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from pathlib import Path

from goalrunner.core.errors import (
    WorkspaceBusy,
    WorkspaceError,
    os_errors,
)
from goalrunner.records.files import keep_content
from goalrunner.records.removal import remove_whole
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.objects import REFS, kept_ids

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotecthfs = false
\tprotectntfs = false
\tautocrlf = false
\tsafecrlf = false
\tuntrackedcache = false
\tattributesfile = /dev/null
\texcludesfile = /dev/null
\tloosecompression = 1
\tcompression = 1
\tlogallrefupdates = false
[gc]
\tautodetach = false
[maintenance]
\tauto = false
"""
_ATTRIBUTES = (
    "* -text !eol !crlf -ident -filter !working-tree-encoding !diff !merge "
    "!export-ignore !export-subst\n"
)
"""Attributes that take precedence over every .gitattributes.

Content is bytes, without conversion of line ends, filters or encodings.
"""

_SETTINGS = {
    "config": _CONFIG,
    "info/attributes": _ATTRIBUTES,
    "HEAD": "ref: refs/heads/none\n",
}


def store_name(workspace: Path) -> str:
    """Return the name of the store of a workspace.

    `workspace` is an absolute path without links.
    """
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


def store_of(workspace: Path, home: Path) -> Path:
    """Return the folder of the store of a workspace.

    A run in a copy of the workspace has another one, for the copy alone.
    """
    return home / "stores" / store_name(workspace)


def make_store(folder: Path) -> None:
    """Create the store, or what is missing of it. Raise OSError."""
    # `mkdir` sets the mode of the last folder only.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = ("objects/info", "objects/pack", "refs/heads", "refs/snapshots", "info")
    for name in names:
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    keep_settings(folder)


def keep_settings(folder: Path) -> None:
    """Give the store its settings again if another program has changed them.

    An agent without a sandbox could write some with which git stores other content than
    a file has. Raise OSError.
    """
    # Git would read the settings of the folder that it names.
    (folder / "commondir").unlink(missing_ok=True)
    for name, text in _SETTINGS.items():
        keep_content(folder / name, text.encode())


class PathClaim:
    """The lock on a workspace, held until `close`.

    `lock` is a file in the workspace's store; it has the process id of the runner and
    the id of its `run`, for messages. `workspace` is None if the workspace of a store
    is not known or gone. Raise WorkspaceBusy if another run is active in the workspace.
    """

    def __init__(
        self,
        workspace: Path | None,
        lock: Path,
        run: str = "",
    ) -> None:
        handles = contextlib.ExitStack()
        # The locks end with the object, even if `close` is not called.
        self._release = weakref.finalize(self, handles.close)
        places = {lock: os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW}
        if workspace is not None:
            # Two stores, such as those of two GOAL_HOMEs, can have one workspace.
            places = {workspace: os.O_RDONLY | os.O_DIRECTORY, **places}
        try:
            for path, flags in places.items():
                handle = os.open(path, flags, 0o600)
                handles.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise _busy(workspace or lock.parent, lock) from error
        except BaseException:
            self.close()
            raise
        # The text is only for messages.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {run}".strip().encode(), 0)

    def close(self) -> None:
        """Release the workspace; closing twice does nothing."""
        self._release()


def refuse_claimed(workspace: Path, lock: Path) -> None:
    """Raise WorkspaceBusy if another run is active in this workspace.

    `lock` is as for `PathClaim`. With it, a run is refused before its folder is made.
    """
    # A workspace that cannot be read gives an error of its own later.
    with contextlib.suppress(OSError):
        PathClaim(workspace, lock).close()


def _busy(workspace: Path, lock: Path) -> WorkspaceBusy:
    process, run = "", ""
    with contextlib.suppress(OSError), lock.open(errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            # Without a lock on it, the file is about an earlier run.
            process, _, run = file.read().strip().partition(" ")
    name, watch = (f": {run}", f" (goal watch {run})") if run else ("", "")
    return WorkspaceBusy(
        f"another run is active in {workspace}{name} (process {process or 'unknown'})",
        f"wait for it to end{watch}, or name another workspace: --workspace DIR",
    )


_PUT_ASIDE = "restored"
"""A file in the store with a line for each snapshot taken before a restore.

It has the time (seconds since 1970) and the id.
"""


def put_aside(store: Path, identifier: str) -> None:
    """Note a snapshot taken before a restore, which no log names. Raise OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with open(os.open(store / _PUT_ASIDE, flags, 0o600), "a") as file:
        file.write(f"{int(time.time())} {identifier}\n")


def _put_aside_since(store: Path, since: float) -> set[str]:
    """Return the snapshots taken before a restore at `since` or later."""
    identifiers: set[str] = set()
    with contextlib.suppress(OSError):
        for line in (store / _PUT_ASIDE).read_text().splitlines():
            when, _, identifier = line.partition(" ")
            if when.isdecimal() and float(when) >= since:
                identifiers.add(identifier)
    return identifiers


def last_used(store: Path) -> float:
    """Return when a store was last used, in seconds since 1970.

    Return 0 if it cannot be read.
    """
    latest = 0.0
    for name in ("lock", "index", "refs/snapshots", _PUT_ASIDE):
        with contextlib.suppress(OSError):
            latest = max(latest, (store / name).stat().st_mtime)
    return latest


def shrink(
    store: Path,
    workspace: Path,
    environ: Mapping[str, str],
    needed: Callable[[], Collection[str]],
    since: float,
    longest: float | None = None,
) -> int:
    """Remove every snapshot that is not `needed`, and its objects; return how many.

    `needed` is called while the workspace is locked. Snapshots taken before a restore
    later than `since` (seconds since 1970) stay. After `longest` seconds, objects that
    are left stay until other snapshots are removed. Raise WorkspaceError, above all if
    a run is active in the workspace.
    """
    with _claimed(store, workspace):
        identifiers = {*needed(), *_put_aside_since(store, since)}
        git = Git(store, workspace, environ)
        return asyncio.run(_shrink(git, identifiers, longest))


async def _shrink(git: Git, needed: Collection[str], longest: float | None) -> int:
    removed = [name for name in await kept_ids(git) if name not in needed]
    if removed:
        orders = "".join(f"delete {REFS}{name}\n" for name in removed)
        await git.ask("update-ref", "--stdin", stdin=orders.encode())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                # No other process writes into the store: the workspace is locked.
                await git.ask("gc", "--prune=now", "--quiet")
    return len(removed)


_OWNER = "check its owner and permissions"


def remove_store(
    store: Path,
    workspace: Path,
    is_needed: Callable[[], bool],
) -> bool:
    """Remove a store unless it is needed; return whether it was removed.

    `is_needed` is called while the workspace is locked. Raise WorkspaceError if a run
    is active in the workspace, or the store cannot be removed.
    """
    with _claimed(store, workspace):
        if is_needed():
            return False
        with os_errors(f"{store} cannot be removed", _OWNER, WorkspaceError):
            remove_whole(store)
    return True


def share_store(store: Path) -> int:
    """Keep the objects of a store while a copy of its workspace writes some; return the
    handle, which a program started by exec inherits.

    A copy has a lock of its own on its workspace, so that runs in several copies and
    one in the workspace itself can go on at once. Raise OSError.
    """
    handle = _open_sharing(store)
    # It waits for `goal prune`, which takes some seconds.
    fcntl.flock(handle, fcntl.LOCK_SH)
    os.set_inheritable(handle, True)
    return handle


def _open_sharing(store: Path) -> int:
    return os.open(store / "sharing", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _claimed(store: Path, workspace: Path) -> Iterator[None]:
    """Lock a workspace and its store. Raise WorkspaceBusy if one of them is in use."""
    exists = workspace != store and workspace.is_dir()
    with contextlib.ExitStack() as handles:
        with os_errors(f"{store} cannot be locked", _OWNER, WorkspaceError):
            claim = PathClaim(workspace if exists else None, store / "lock")
            handles.callback(claim.close)
            sharing = _open_sharing(store)
            handles.callback(os.close, sharing)
            _lock_alone(sharing, workspace)
        yield


def _lock_alone(sharing: int, workspace: Path) -> None:
    try:
        fcntl.flock(sharing, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise WorkspaceBusy(
            f"a run is active in a copy of {workspace}",
            "wait for it to end; goal list shows it",
        ) from error
