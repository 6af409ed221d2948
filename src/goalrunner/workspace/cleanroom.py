"""A clean checkout: the proven tree, with every protected path as it was at the start. Owns its making and its removal.

It lies outside the workspace and has a git directory of its own; nothing in it is shared with the workspace. What runs
in it may still write into it: `disturbed` tells which protected paths no longer hold.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from goalrunner.errors import WorkspaceError
from goalrunner.model.snapshot import Snapshot
from goalrunner.workspace.caches import CACHES
from goalrunner.workspace.command import both
from goalrunner.workspace.entry import Entry
from goalrunner.workspace.fingerprint import Fingerprint, Seen, take
from goalrunner.workspace.git import ask_git
from goalrunner.workspace.gotests import test_mains
from goalrunner.workspace.names import shown
from goalrunner.workspace.patterns import Patterns
from goalrunner.workspace.protection import EXECUTABLE, LINK, Protection, Touched, touched
from goalrunner.workspace.refusal import Refusal
from goalrunner.workspace.restoration import clear, drop, on_disk, restore

GIT_TIMEOUT = 600.0
"""Seconds that git may take to hold the content of a checkout."""


ROOM, ROOM_TMP = "now", "tmp"
"""What a proof's commands write in the room's folder, and what a jail gives them as /tmp; both go with the room."""


class Snapshots(Protocol):
    """What a clean room needs of the store of snapshots."""

    async def entries(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Every file of a snapshot."""
        ...

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """The content of one file, or where a link leads; None when it is not there or not kept."""
        ...

    async def checkout(self, snapshot: Snapshot, folder: Path) -> None:
        """Write the whole snapshot into an empty folder."""
        ...


@dataclass
class Checkout:
    """A checkout at `path`, in the folder `root` that belongs to the room alone."""

    root: Path
    path: Path
    touched: tuple[Touched, ...]
    """Protected paths that the work touched; they are here as at the start."""
    refusals: tuple[Refusal, ...]
    """Why this checkout proves nothing; empty when it may be used."""
    protected: int
    """How many files here are protected and as at the start."""
    protection: Protection
    base: Mapping[str, Entry]
    sealed: Fingerprint
    """Every file as it was when the room was made."""
    read: Callable[[str], Awaitable[bytes | None]] = field(repr=False)
    installed: list[str] = field(default_factory=list)
    """Folders of packages that were put here afterwards; what steers a runner elsewhere steers nobody in them."""
    leaving: list[Callable[[], None]] = field(default_factory=list)
    """What is to be done before the checkout is removed."""

    @property
    def here(self) -> Path:
        """The folder of everything that goes when the room is closed; the checkout is one part of it."""
        return self.root / ROOM

    async def disturbed(self) -> tuple[Touched, ...]:
        """Protected paths that what ran here has touched since the room was made, outside of what was installed."""
        now = await asyncio.to_thread(take, self.path, self.sealed, (".git",))
        free = tuple(f"{name}/" for name in self.installed)
        seen = {_shown(path): _entry(file) for path, file in now.files.items() if not path.startswith(free)}
        sealed = {_shown(path): _entry(file) for path, file in self.sealed.files.items() if not path.startswith(free)}
        return touched(self.protection, sealed, seen, caches=_CACHES)

    async def mend(self, disturbed: Sequence[Touched]) -> None:
        """Put protected paths back as at the start. Raises WorkspaceError when the store does not hold one."""
        await restore(self.path, disturbed, self.base, self.read)

    async def close(self) -> None:
        """Remove the checkout; what can be used again stays in `root`."""
        for step in self.leaving:
            await asyncio.to_thread(step)
        await asyncio.to_thread(clear, self.here)
        await asyncio.to_thread(clear, self.root / ROOM_TMP)


async def clean_checkout(
    store: Snapshots,
    proven: Snapshot,
    base: Snapshot,
    protection: Protection,
    root: Path,
    *,
    workspace: Path,
    linked: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Checkout:
    """Make one below `root`, under the workspace's own name. Raises WorkspaceError when it cannot be made whole.

    `linked` are the paths that are linked into it later; git is told to leave them out.
    """
    path = root / ROOM / "checkout" / (workspace.name or "workspace")
    await asyncio.to_thread(clear, root / ROOM)
    await asyncio.to_thread(clear, root / ROOM_TMP)
    for folder in (root, root / ROOM, path.parent, path):  # the mode is that of the last folder alone
        folder.mkdir(mode=0o700, parents=True, exist_ok=folder != path)
    before, now = await store.entries(base), await store.entries(proven)
    links = await _links(store, base, before)
    protection = protection.following(links)
    repository = root / ROOM / "repository"
    await both(store.checkout(proven, path), asyncio.to_thread(_init, repository, workspace, linked, environ))

    async def read(name: str) -> bytes | None:
        return await store.read(base, name)

    found = touched(protection, before, now, caches=_CACHES)
    if protection.active:
        found += await test_mains(protection, before, now, read, partial(store.read, proven))
        found += _leading_out(path, protection, before, now, {entry.path for entry in found})
    await restore(path, found, before, read)
    caches = [name for name in now if name not in before and _CACHES.match(name)]
    await asyncio.to_thread(drop, path, caches)
    refusals = _into(path, Path(os.path.realpath(workspace))) + _unheld(protection, links)
    commit = asyncio.to_thread(_commit, path, repository, workspace, environ)
    _, sealed = await both(commit, asyncio.to_thread(take, path, None, (".git",)))
    protected = sum(1 for name in before if protection.why(name))
    found = tuple(sorted(found, key=lambda entry: entry.path))
    return Checkout(root, path, found, refusals, protected, protection, before, sealed, read)


def _entry(seen: Seen) -> Entry:
    """A file of the checkout, to be compared like one of a snapshot."""
    if stat.S_ISLNK(seen.mode):
        return Entry(LINK, seen.digest)
    return Entry(EXECUTABLE if seen.mode & stat.S_IXUSR else "100644", seen.digest or str(seen.stat))


def _shown(path: str) -> str:
    return shown(os.fsencode(path))


async def _links(store: Snapshots, snapshot: Snapshot, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Every link of a snapshot and where it leads."""
    names = [name for name, entry in entries.items() if entry.mode == LINK and entry.stored]
    return {name: os.fsdecode(await store.read(snapshot, name) or b"") for name in names}


def _leading_out(
    path: Path, protection: Protection, before: Mapping[str, Entry], now: Mapping[str, Entry], known: Container[str]
) -> tuple[Touched, ...]:
    """New links that lead out of the checkout: what they lead to is in no snapshot, so nothing about it is proven."""
    found = []
    here = Path(os.path.realpath(path))
    for name, entry in now.items():
        if entry.mode != LINK or name in known or protection.allowed(name):
            continue
        old = before.get(name)
        link = on_disk(path, name)
        target = Path(os.path.realpath(link))
        if (old is not None and old.blob == entry.blob) or target.is_relative_to(here):
            continue
        rule = f"a new link that leads out of the workspace ({_shown(str(link.readlink()))}); make it relative"
        found.append(Touched(name, "changed" if old else "planted", rule, protection.lift(name)))
    return tuple(found)


def _into(path: Path, workspace: Path) -> tuple[Refusal, ...]:
    """Links of the checkout that lead into the live workspace."""
    found = []
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            here = Path(folder) / name
            if here.is_symlink() and Path(os.path.realpath(here)).is_relative_to(workspace):
                found.append(
                    Refusal(
                        _shown(here.relative_to(path).as_posix()),
                        "is a link into the live workspace",
                        "make the link relative, or remove it",
                    )
                )
    return tuple(sorted(found, key=lambda refusal: refusal.path))


def _unheld(protection: Protection, links: Mapping[str, str]) -> tuple[Refusal, ...]:
    """Protected links that lead out of the workspace: what stands there is watched by nobody."""
    return tuple(
        Refusal(
            name,
            f"{protection.why_link(name)}, but it is a link to {target}, which is in no snapshot",
            f"move the files into the workspace, or write {protection.lift(name)}",
        )
        for name, target in sorted(links.items())
        if protection.named_link(name) and _out(name, target)
    )


def _out(name: str, target: str) -> bool:
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return there == ".." or there.startswith(("/", "../"))


def _init(folder: Path, workspace: Path, linked: Sequence[str], environ: Mapping[str, str]) -> None:
    """An empty repository in a folder of its own, for a checkout still to be written."""
    folder.mkdir(mode=0o700)
    _git(folder, workspace, environ, "-c", "init.defaultBranch=main", "init", "-q", "--template=")
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_text("".join(f"/{name.strip('/')}\n" for name in linked), encoding="utf-8")
    (info / "attributes").write_text("* -text -ident !filter !working-tree-encoding\n", encoding="utf-8")


def _commit(path: Path, repository: Path, workspace: Path, environ: Mapping[str, str]) -> None:
    """The checkout's own repository, with one commit of the content, so that checks that ask git get an answer."""
    (repository / ".git").rename(path / ".git")
    repository.rmdir()
    quick = ("-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
    who = ("-c", "user.name=goal", "-c", "user.email=goal@localhost", *quick)
    commit = ("commit", "-q", "--no-verify", "--no-gpg-sign", "--allow-empty", "-m", "the proven snapshot")
    _git(path, workspace, environ, *who, "-c", "core.autocrlf=false", "add", "-A", "-f", ".")
    _git(path, workspace, environ, *who, *commit)


def _git(folder: Path, workspace: Path, environ: Mapping[str, str], *call: str) -> None:
    code, _, errors = ask_git(folder, *call, environ=environ, timeout=GIT_TIMEOUT, workspace=workspace)
    if code != 0:
        said = errors.decode(errors="replace").strip()
        raise WorkspaceError(f"cannot make a git repository of the clean checkout {folder}: {said}", "")


_CACHES = Patterns(CACHES, own=True)
