"""The objects of a snapshot store, its lock, which lets one run at a time work in a workspace, and its removal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import time
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceBusy, WorkspaceError, os_errors
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import write_whole
from goalrunner.records.removal import remove_whole
from goalrunner.snapshots.git import Git


@dataclass(frozen=True)
class Entry:
    """One path of a snapshot. Equal entries mean equal files."""

    mode: str
    """The mode in git's form: 100644 a file, 100755 an executable file, 120000 a symbolic link, 000000 an unreadable path."""
    blob: str
    """The id of the content in the store; its SHA-256 if it is not stored; empty for an unreadable path."""
    stored: bool = True
    """False if the content is not kept: too large, unreadable, or of a name that git cannot store."""


EntryPair = tuple[Entry | None, Entry | None]
"""A path in two snapshots; None where it does not exist."""


def write_blob(store: Path, content: bytes) -> str:
    """Store bytes as a blob; return its id. Raise OSError."""
    return _write(store, "blob", content)


def write_tree(
    store: Path, *, trees: Mapping[str, str], blobs: Mapping[str, str]
) -> str:
    """Store a tree of named trees and blobs, given by their ids; return its id. Raise OSError."""
    rows = [(f"{name}/", f"40000 {name}", id_) for name, id_ in trees.items()]
    rows += [(name, f"100644 {name}", id_) for name, id_ in blobs.items()]
    return _write(
        store,
        "tree",
        b"".join(
            row.encode() + b"\0" + bytes.fromhex(id_) for _, row, id_ in sorted(rows)
        ),
    )


def object_id(kind: str, body: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(
        f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False
    ).hexdigest()


def _write(store: Path, kind: str, body: bytes) -> str:
    name = object_id(kind, body)
    place = store / "objects" / name[:2] / name[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        write_whole(
            place,
            zlib.compress(f"{kind} {len(body)}\0".encode() + body, 1),
            lasting=False,
        )
    return name


def keep_snapshot(store: Path, tree: str, state: str) -> Snapshot:
    """Name a tree and the state of the repositories (a blob, or empty) as a snapshot. Raise OSError."""
    identifier = _identifier(tree, state)
    root = write_tree(
        store, trees={"tree": tree}, blobs={"repository": state} if state else {}
    )
    write_whole(store / REFS / identifier, f"{root}\n".encode(), lasting=False)
    return Snapshot(id=identifier, tree=tree, repository=state)


def _identifier(tree: str, state: str) -> str:
    return hashlib.sha256(f"{tree} {state}".encode()).hexdigest()


REFS = "refs/snapshots/"
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
ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Options with which git writes one pack: half the time and a tenth of the disk space of a file for each object."""
_ATTRIBUTES = "* -text !eol !crlf -ident -filter !working-tree-encoding !diff !merge !export-ignore !export-subst\n"
"""Takes precedence over every .gitattributes: content is bytes, without conversion of line ends, filters or encodings."""


def store_name(workspace: Path) -> str:
    """Return the name of the store of a workspace, given as an absolute path without links."""
    return hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


def make_store(folder: Path) -> None:
    """Create the store, or what is missing of it. Raise OSError."""
    folder.mkdir(
        mode=0o700, parents=True, exist_ok=True
    )  # mkdir sets the mode of the last folder only
    for name in (
        "objects/info",
        "objects/pack",
        "refs/heads",
        "refs/snapshots",
        "info",
    ):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (
        ("config", _CONFIG),
        ("info/attributes", _ATTRIBUTES),
        ("HEAD", "ref: refs/heads/none\n"),
    ):
        write_whole(folder / name, text.encode(), lasting=False)


async def packs_well(git: Git) -> bool:
    """Return whether this git writes the files of one `update-index` into one pack. Raise WorkspaceError if it is too old."""
    found = re.match(rb"git version (\d+)\.(\d+)", await git.ask("version"))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < (2, 31):
        raise WorkspaceError(
            "git is too old for snapshots of the workspace", "install git 2.31 or newer"
        )
    return version >= (2, 38)


async def find_snapshot(git: Git, beginning: str) -> Snapshot:
    """Return the only snapshot whose id begins like this. Raise UsageError for none or several, or WorkspaceError."""
    found = [
        name for name in await kept_ids(git) if beginning and name.startswith(beginning)
    ]
    if not found:
        raise UsageError(
            f'no snapshot "{beginning}" is kept of {git.workspace}',
            "give the id, or its beginning",
        )
    if len(found) > 1:
        raise UsageError(
            f'"{beginning}" matches {len(found)} snapshots of {git.workspace}',
            "give more of the id",
        )
    rows = (await git.ask("ls-tree", "-z", REFS + found[0])).decode().split("\0")[:-1]
    parts = {
        name: meta.split(" ")[2]
        for meta, _, name in (row.partition("\t") for row in rows)
    }
    snapshot = Snapshot(
        id=found[0], tree=parts["tree"], repository=parts.get("repository", "")
    )
    if snapshot.id != _identifier(snapshot.tree, snapshot.repository):
        raise WorkspaceError(f"snapshot {snapshot.id} in {git.store} was changed")
    return snapshot


async def kept_ids(git: Git) -> list[str]:
    """Return the ids of all snapshots in the store. Raise WorkspaceError if it cannot be read."""
    listed = await git.ask("for-each-ref", "--format=%(refname)", REFS)
    return [name.removeprefix(REFS) for name in listed.decode().split()]


async def keeps(git: Git, snapshot: Snapshot) -> bool:
    """Return whether the store has a snapshot. Raise WorkspaceError if the store cannot be read."""
    return (
        await git.run("show-ref", "--verify", "--quiet", REFS + snapshot.id)
    ).code == 0


def printable_path(name: bytes) -> str:
    """Return the text form of a path, such as `caf\\xe9` or `two\\x0alines`."""
    text = name.decode(errors="surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        one if one.isprintable() and one != "\\" else _escaped(one) for one in text
    )


def _escaped(character: str) -> str:
    return "".join(
        f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape")
    )


def raw(path: str) -> bytes:
    """Return the bytes of a path: the inverse of `shown`."""
    data = path.encode(errors="surrogateescape")
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), data)


class PathClaim:
    """The lock on a workspace, held until `close`. Raise WorkspaceBusy if another run is active in it.

    `lock` is a file in the workspace's store; it holds the process id of the runner and the id of its `run`, for messages.
    `workspace` is None if the workspace of a store is not known or gone.
    """

    def __init__(self, workspace: Path | None, lock: Path, run: str = "") -> None:
        handles = contextlib.ExitStack()
        self._release = weakref.finalize(self, handles.close)
        places = (
            [] if workspace is None else [(workspace, os.O_RDONLY | os.O_DIRECTORY)]
        )
        try:
            for path, flags in (
                *places,
                (lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW),
            ):
                handle = os.open(path, flags, 0o600)
                handles.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise _busy(workspace or lock.parent, lock) from error
        except BaseException:
            self.close()
            raise
        with contextlib.suppress(OSError):  # the text is only for messages
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()} {run}".strip().encode(), 0)

    def close(self) -> None:
        """Release the workspace; closing twice does nothing."""
        self._release()


def refuse_claimed(workspace: Path, lock: Path) -> None:
    """Raise WorkspaceBusy if another run is active in this workspace; `lock` is as for `Claim`.

    With it, a run is refused before its folder is made.
    """
    with contextlib.suppress(
        OSError
    ):  # a workspace that cannot be read gives an error of its own later
        PathClaim(workspace, lock).close()


def _busy(workspace: Path, lock: Path) -> WorkspaceBusy:
    process, run = "", ""
    with contextlib.suppress(OSError), lock.open(errors="replace") as file:
        try:
            fcntl.flock(
                file, fcntl.LOCK_SH | fcntl.LOCK_NB
            )  # free: what it says is about an earlier run
        except OSError:
            process, _, run = file.read().strip().partition(" ")
    name, watch = (f": {run}", f" (goal watch {run})") if run else ("", "")
    return WorkspaceBusy(
        f"another run is active in {workspace}{name} (process {process or 'unknown'})",
        f"wait for it to end{watch}, or name another workspace: --workspace DIR",
    )


_PUT_ASIDE = "restored"
"""A file in the store with the time (seconds since 1970) and id of each snapshot taken before a restore."""


def put_aside(store: Path, identifier: str) -> None:
    """Note a snapshot taken before a restore, which no log names. Raise OSError."""
    with open(
        os.open(store / _PUT_ASIDE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a"
    ) as file:
        file.write(f"{int(time.time())} {identifier}\n")


def last_used(store: Path) -> float:
    """Return when a store was last used, in seconds since 1970; 0 if it cannot be read."""
    times = [0.0]
    for name in ("lock", "index", "refs/snapshots", _PUT_ASIDE):
        with contextlib.suppress(OSError):
            times.append((store / name).stat().st_mtime)
    return max(times)


def shrink(
    store: Path,
    workspace: Path,
    environ: Mapping[str, str],
    kept: Callable[[], Collection[str]],
    since: float,
) -> int:
    """Remove every snapshot that is not `kept`, and its objects; return how many.

    `kept` is called while the workspace is locked. Snapshots taken before a restore later than `since` (seconds since
    1970) stay. Raise WorkspaceError, above all if a run works there.
    """
    with _claimed(store, workspace):
        keep = {*kept()}
        with contextlib.suppress(OSError):
            for line in (store / _PUT_ASIDE).read_text().splitlines():
                when, _, identifier = line.partition(" ")
                keep |= (
                    {identifier} if when.isdecimal() and float(when) >= since else set()
                )
        return asyncio.run(_shrink(Git(store, workspace, environ), keep))


async def _shrink(git: Git, keep: Collection[str]) -> int:
    dropped = [name for name in await kept_ids(git) if name not in keep]
    if dropped:
        orders = "".join(f"delete {REFS}{name}\n" for name in dropped)
        await git.ask("update-ref", "--stdin", stdin=orders.encode())
        await git.ask("gc", "--prune=now", "--quiet")
    return len(dropped)


_OWNER = "check its owner and permissions"


def remove_store(store: Path, workspace: Path, is_needed: Callable[[], bool]) -> bool:
    """Remove a store unless `is_needed`, which is called while the workspace is locked; return whether it was removed.

    Raise WorkspaceError if a run works there, or the store cannot be removed.
    """
    with _claimed(store, workspace):
        if is_needed():
            return False
        with os_errors(f"{store} cannot be removed", _OWNER, WorkspaceError):
            remove_whole(store)
    return True


@contextlib.contextmanager
def _claimed(store: Path, workspace: Path) -> Iterator[None]:
    with os_errors(f"{store} cannot be locked", _OWNER, WorkspaceError):
        claim = PathClaim(
            workspace if workspace != store and workspace.is_dir() else None,
            store / "lock",
        )
    with contextlib.closing(claim):
        yield
