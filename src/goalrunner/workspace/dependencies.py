"""What a clean checkout needs besides its content: installed packages. Owns where they come from, and whether to trust it.

`setup` is a command that runs in the checkout and installs into it. Its products are used again within a run as long as
its inputs are the same and nobody touched them. `link` names folders of the workspace (`.venv`, `node_modules`) that
are shown in the checkout; they are fingerprinted at the start, and one that changed proves nothing any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.ports import Completion, Launcher
from goalrunner.process.program import SHELL
from goalrunner.workspace.cleanroom import Checkout
from goalrunner.workspace.fingerprint import Fingerprint, take
from goalrunner.workspace.inputs import input_paths
from goalrunner.workspace.live import live_imports, live_links
from goalrunner.workspace.protection import Touched
from goalrunner.workspace.refusal import Refusal
from goalrunner.workspace.restoration import drop, remove
from goalrunner.workspace.surroundings import activated, environment

OWN_CACHES = frozenset({".cache", ".vite", ".vite-temp", ".vitest", ".lock"})
"""Names at the top of a linked folder that tools write at every use. They are neither linked nor fingerprinted."""

SETUP_TIMEOUT = 1_800.0
"""Seconds that `setup` may take."""

_SHOWN = 10
_PIP = re.compile(r"(?<![\w./-])(?:pip3?|python3?\s+-m\s+pip)\s")


@dataclass(frozen=True)
class Provided:
    """A checkout's dependencies."""

    env: dict[str, str]
    """The environment for what runs in the checkout; nothing in it names the workspace any more."""
    refusals: tuple[Refusal, ...]
    """Why what runs there proves nothing; empty when it may run."""
    touched: tuple[Touched, ...] = ()
    """Protected paths that `setup` touched; they were put back."""
    setup: Completion | None = None
    """How `setup` ended; None when it did not run."""
    reused: bool = False
    """Whether the products of an earlier `setup` are there."""


class Dependencies:
    """The dependencies of one run. `setup` is a command line (empty: none), `link` are paths relative to the workspace.

    `home` is GOAL_HOME: what was read of a linked folder is kept in its `links/`, to be quicker the next time.
    """

    def __init__(
        self, workspace: Path, home: Path, launcher: Launcher, *, setup: str = "", link: Sequence[str] = ()
    ) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._home = home
        self._launcher = launcher
        self._setup = setup
        self.link = tuple(name.strip("/").removeprefix("./") for name in link)
        self._start: dict[str, Fingerprint] = {}
        self._products: dict[str, dict[str, Fingerprint]] = {}

    async def remember(self, record: Path | None = None) -> tuple[Refusal, ...]:
        """Fingerprint the linked folders: before anything else of a run happens. Gives what is wrong with them.

        With `record`, a folder of the run, the fingerprints are kept there and a resumed run finds them again. Raises
        WorkspaceError where one is damaged: what the start was like is then not known any more.
        """
        for name in self.link:
            kept = record / f"{_key(name)}.json" if record else None
            before = Fingerprint.load(kept) if kept else None
            if kept and before is None and kept.exists():
                raise WorkspaceError(f"{kept} is damaged: it said what {name} was like at the start", "start a new run")
            start = before if before is not None else await asyncio.to_thread(self._look, name)
            self._start[name] = start
            # One that is not there yet may be installed before the run is resumed.
            if kept and before is None and (self._workspace / name).is_dir():
                kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                start.save(kept)
        missing = (name for name in self.link if not (self._workspace / name).is_dir())
        return tuple(
            Refusal(name, "is named by link and is no folder", "install it first, or take it out of [workspace] link")
            for name in missing
        ) + tuple(refusal for name in self.link for refusal in self._live_links(name, self._start[name]))

    async def provide(
        self, room: Checkout, env: Mapping[str, str], commands: Iterable[str], output: Path, *, strict: bool = True
    ) -> Provided:
        """Link, install, and look for ways back into the workspace that the validators' `commands` would take.

        `output` is the file for what `setup` prints. `strict` is whether the goal says `protect`: without it, only a
        `setup` that fails is refused.
        """
        refusals = list(await self.changed()) if strict else []
        await asyncio.to_thread(self._show, room)
        inside = environment(env, self._workspace, room)
        setup: Completion | None = None
        touched: tuple[Touched, ...] = ()
        reused = False
        if self._setup:
            key = await asyncio.to_thread(self._inputs, room)
            reused = await asyncio.to_thread(self._reuse, room, key)
            if not reused:
                setup, touched = await self._install(room, inside, key, output)
                refusals += _failed(setup, self._setup)
            inside = activated(inside, room)
        if strict:
            linked = [Path(os.path.realpath(self._workspace / name)) for name in self.link]
            refusals += await asyncio.to_thread(
                live_imports, tuple(commands), inside, room.path, self._workspace, linked
            )
        return Provided(inside, tuple(refusals), touched, setup, reused)

    async def changed(self) -> tuple[Refusal, ...]:
        """What is no longer as it was when the linked folders were remembered, and links that lead into the workspace."""
        found: list[Refusal] = []
        for name, start in self._start.items():
            now = await asyncio.to_thread(take, self._workspace / name, start, OWN_CACHES)
            changes = start.changes(now)
            remedy = f'[workspace] setup = "..." in place of link, or put {name} back as it was'
            found += [
                Refusal(f"{name}/{path}", f"{how} since the start, and {name} is linked", remedy)
                for path, how in changes[:_SHOWN]
            ]
            if len(changes) > _SHOWN:
                found.append(Refusal(name, f"{len(changes) - _SHOWN} more paths changed since the start", remedy))
            found += self._live_links(name, now)
        return tuple(found)

    def _live_links(self, name: str, seen: Fingerprint) -> tuple[Refusal, ...]:
        linked = [self._workspace / other for other in self.link]
        linked += [Path(os.path.realpath(folder)) for folder in linked]
        return live_links(self._workspace / name, name, self._workspace, linked, seen)

    def _look(self, name: str) -> Fingerprint:
        folder = self._workspace / name
        kept = self._home / "links" / f"{_key(os.path.realpath(folder))}.json"
        seen = take(folder, Fingerprint.load(kept), OWN_CACHES)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen.save(kept)
        return seen

    def _show(self, room: Checkout) -> None:
        """A folder of links: what a tool adds at its top stays in the checkout."""
        for name in self.link:
            source, shown = self._workspace / name, room.path / name
            drop(room.path, [name])
            if not Path(os.path.realpath(shown.parent)).is_relative_to(os.path.realpath(room.path)):
                continue
            room.installed.append(name)
            shown.mkdir(parents=True)
            for child in sorted(source.iterdir()) if source.is_dir() else ():
                if child.name not in OWN_CACHES:
                    (shown / child.name).symlink_to(child)

    async def _install(
        self, room: Checkout, env: dict[str, str], key: str, output: Path
    ) -> tuple[Completion, tuple[Touched, ...]]:
        if _PIP.search(f"{self._setup} ") and (python := shutil.which("python3", path=env.get("PATH"))):
            # pip installs into the environment that it runs in: never the user's own.
            made = await self._launch([python, "-m", "venv", str(room.here / "env")], room, env, output)
            if made.exit_code != 0:
                return made, ()
        done = await self._launch([SHELL, "-c", self._setup], room, activated(env, room), output)
        now = await asyncio.to_thread(take, room.path, room.sealed, (".git",))
        changes = room.sealed.changes(now)
        products = _products(room, (path for path, how in changes if how == "added"))
        room.installed += [name for name in products if _installed(room, name)]
        touched = await room.disturbed()
        await room.mend(touched)
        if done.exit_code == 0 and not touched and all(how == "added" for _, how in changes):
            await asyncio.to_thread(self._keep, room, key, products)
        return done, touched

    async def _launch(self, argv: Sequence[str], room: Checkout, env: Mapping[str, str], output: Path) -> Completion:
        return await self._launcher.launch(argv, cwd=room.path, env=env, output=output, timeout=SETUP_TIMEOUT)

    def _inputs(self, room: Checkout) -> str:
        digest = hashlib.sha256(self._setup.encode())
        for path in input_paths(self._setup, sorted(room.sealed.files)):
            digest.update(f"\0{path}\0{room.sealed.files[path].digest}".encode(errors="surrogateescape"))
        return digest.hexdigest()[:32]

    def _keep(self, room: Checkout, key: str, products: Sequence[str]) -> None:
        """Remember the products as they are now, and move them out of the checkout when it is removed."""
        places = [f"checkout/{room.path.name}/{name}" for name in products] + ["env"]
        self._products[key] = {name: _take(room.here / name) for name in places if (room.here / name).exists()}
        room.leaving.append(_mover(self._products[key], room.here, room.root / "kept" / key))

    def _reuse(self, room: Checkout, key: str) -> bool:
        kept, here = room.root / "kept" / key, room.here
        products = self._products.pop(key, None)
        if products is None or not kept.is_dir():
            return False
        as_they_were = all(not seen.changes(_take(kept / name, seen)) for name, seen in products.items())
        free = not any(os.path.lexists(here / name) for name in products)
        if as_they_were and free:
            _mover(products, kept, here)()
            self._products[key] = products
            prefix = f"checkout/{room.path.name}/"
            names = [name.removeprefix(prefix) for name in products if name.startswith(prefix)]
            room.installed += [name for name in names if _installed(room, name)]
            room.leaving.append(_mover(products, here, kept))
        else:
            remove(kept)
        return as_they_were and free


def _failed(done: Completion, setup: str) -> tuple[Refusal, ...]:
    if done.exit_code == 0:
        return ()
    why = done.error or f"exit {done.exit_code}"
    return (Refusal("[workspace] setup", f"`{setup}` failed in the clean checkout ({why})", f"see {done.output}"),)


def _products(room: Checkout, added: Iterable[str]) -> list[str]:
    """The topmost new folders, and new files beside old ones."""
    folders = {""} | {path[: i.start()] for path in room.sealed.files for i in re.finditer("/", path)}
    found = set()
    for path in added:
        parts = path.split("/")
        depth = next((n for n in range(1, len(parts)) if "/".join(parts[:n]) not in folders), len(parts))
        found.add("/".join(parts[:depth]))
    return sorted(found)


def _installed(room: Checkout, name: str) -> bool:
    """Whether a product is a folder of packages, in which a `conftest.py` steers nobody."""
    last = name.rpartition("/")[2]
    return (
        last == "node_modules"
        or last.endswith((".egg-info", ".dist-info"))
        or (room.path / name / "pyvenv.cfg").exists()
    )


def _mover(names: Iterable[str], source: Path, target: Path) -> Callable[[], None]:
    def move() -> None:
        for name in names:
            if (source / name).exists():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).rename(target / name)

    return move


def _take(path: Path, known: Fingerprint | None = None) -> Fingerprint:
    """Of a folder, or of a single file."""
    if path.is_dir():
        return take(path, known)
    seen = take(path.parent)
    return Fingerprint({name: file for name, file in seen.files.items() if name == path.name})


def _key(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]
