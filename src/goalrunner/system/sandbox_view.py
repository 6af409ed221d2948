"""What a confined command finds at which path: mounts, writable folders, hidden logins and sockets."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import RecordError
from goalrunner.core.process_ports import Confinement, Jail

_TABLE = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The kernel's mark of a socket that accepts connections."""


def listening(table: Path = _TABLE) -> tuple[Path, ...]:
    """The paths that somebody listens at, without links. Abstract sockets have none; they go with the network."""
    try:
        lines = table.read_bytes().split(b"\n")[1:]
    except OSError:
        return ()
    return tuple(dict.fromkeys(path for path in map(_sockets_real, _names(lines)) if _is_socket(path)))


def _names(lines: Iterable[bytes]) -> Iterable[bytes]:
    for line in lines:
        # Number, references, protocol, flags, type, state, inode, path. A path may hold anything, newlines too.
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and parts[7].startswith(b"/") and _flags(parts[3]) & _LISTENS:
            yield parts[7]


def _flags(word: bytes) -> int:
    try:
        return int(word, 16)
    except ValueError:
        return 0


def _sockets_real(name: bytes) -> Path:
    return Path(os.fsdecode(os.path.realpath(name)))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


TMP, RUN = Path("/tmp"), Path("/run")  # noqa: S108 - the place itself is meant
_EMPTY_PLACES = (Path("/var/tmp"), Path("/var/run"), RUN)  # noqa: S108
"""Private and empty as well. /run holds the sockets of whoever would do something for a command outside of its jail."""

_OF_RUN = ("current-system", "booted-system", "opengl-driver", "wrappers", "nscd", "systemd/resolve")
"""What programs need of /run to start, and to find other machines by name."""

_EMPTY = Path(os.path.realpath(__file__)).parents[1] / "py.typed"
"""A regular file without content: git takes no other kind into its index."""

Kind = Literal["hidden", "readable", "writable"]
_STRENGTH: tuple[Kind, ...] = ("hidden", "readable", "writable")


@dataclass(frozen=True)
class Mount:
    """`path` shows `source`; of what is hidden, nothing."""

    path: Path
    kind: Kind
    source: Path

    @property
    def is_folder(self) -> bool:
        """Whether a folder stands there."""
        return self.source.is_dir()


def mounts(within: Confinement) -> list[Mount]:
    """Outer paths before inner ones. The first is the whole system, which can be read."""
    found: dict[Path, Mount] = {}
    for mount in sorted(_all(within), key=lambda mount: _STRENGTH.index(mount.kind)):
        found[mount.path] = mount
    for path in listening():
        if path not in found and _is_the_machines(path, found):
            found[path] = Mount(path, "hidden", path)
    laid = sorted(found.values(), key=lambda mount: len(mount.path.parts))
    return [Mount(Path("/"), "readable", Path("/")), *(mount for mount in laid if mount.path != Path("/"))]


def _is_the_machines(path: Path, found: Mapping[Path, Mount]) -> bool:
    """Whether that path would be in view as the machine has it, in what a command only reads."""
    around = next((found[parent] for parent in path.parents if parent in found), None)
    return around is None or (around.kind == "readable" and around.path == around.source)


def tops(laid: list[Mount]) -> list[Path]:
    """Folders of /tmp below which something of the system stays in view."""
    inner = (mount.path.relative_to(TMP).parts for mount in laid if mount.path.is_relative_to(TMP))
    return sorted({TMP / parts[0] for parts in inner if len(parts) > 1})


def _all(within: Confinement) -> Iterator[Mount]:
    for path in (*_EMPTY_PLACES, *within.hidden):
        if path.exists() and not path.is_symlink():
            yield Mount(path, "hidden", path)
    yield Mount(TMP, "writable", within.tmp) if within.tmp else Mount(TMP, "hidden", TMP)
    if within.home is not None:
        yield Mount(within.home[0], "writable", within.home[1])
    for path in (*_needed(), *within.readable):
        if path.exists():
            yield Mount(path, "readable", path)
    for path in within.writable:
        if path.exists():
            yield Mount(path, "writable", path)
    for path in within.emptied:
        if path.is_file():
            yield Mount(path, "readable", _EMPTY)


def _needed() -> Iterator[Path]:
    yield from (RUN / name for name in _OF_RUN)
    names = Path(os.path.realpath("/etc/resolv.conf"))
    if names.is_relative_to(RUN):
        yield names


def make_ready(within: Confinement) -> None:
    """Make the folders that stand as /tmp and as home, with a place for everything laid over them. Raises RecordError."""
    stands = [(TMP, within.tmp)] if within.tmp is not None else []
    stands += [within.home] if within.home is not None else []
    try:
        for _, private in stands:
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
        for mount in mounts(within):
            # The last that holds it is the innermost.
            of_it = [(place, private) for place, private in stands if place in mount.path.parents]
            for place, private in of_it[-1:]:
                _make(private, mount.path.relative_to(place).parts, is_folder=mount.is_folder)
    except OSError as error:
        told = f"cannot make {error.filename}: {error.strerror}"
        raise RecordError(told, "free some space, or set GOAL_HOME") from error


def _make(root: Path, parts: tuple[str, ...], *, is_folder: bool) -> None:
    path = root
    for at, part in enumerate(parts, start=1):
        path = path / part
        wants_folder = is_folder or at < len(parts)
        if path.is_symlink() or (path.exists() and path.is_dir() is not wants_folder):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if wants_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.touch(mode=0o600)


@dataclass(frozen=True)
class Room:
    """A folder in which commands may write everything; `tmp` stands as their /tmp, and lies in no room."""

    folder: Path
    tmp: Path | None = None
    sees: tuple[Path, ...] = ()
    """Folders that stay in view for its commands, wherever they lie."""


@dataclass(frozen=True)
class Cell:
    """A jail with its rooms. A command writes the room that it starts in, and one that starts elsewhere nothing.

    `within` is what all of them have in common.
    """

    jail: Jail
    rooms: tuple[Room, ...]
    within: Confinement

    def confined(self, argv: Sequence[str], cwd: Path, shared: Sequence[Path] = ()) -> tuple[str, ...]:
        """The words that run `argv` in `cwd` confined. Raises RecordError where its /tmp cannot be made."""
        within = self.within_at(cwd, shared)
        make_ready(within)
        return self.jail.confine(argv, cwd=_real(cwd), within=within)

    def within_at(self, cwd: Path, shared: Sequence[Path] = ()) -> Confinement:
        """What a command may see and do that starts in `cwd`."""
        here = _real(cwd)
        room = next((room for room in self.rooms if here.is_relative_to(room.folder)), None)
        return replace(
            self.within,
            writable=(*self.within.writable, *map(_real, shared), *((room.folder,) if room else ())),
            readable=(*self.within.readable, *(room.sees if room else (here,))),
            tmp=room.tmp if room else None,
        )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


_IN_HOME = """
    .ssh .gnupg .password-store .local/share/keyrings .docker/run .config/goal
    .claude .claude.json .codex .gemini .qwen .openhands .config/opencode .local/share/opencode .config/github-copilot
    .aider.conf.yml .config/io.datasette.llm .config/litellm
    .cache/huggingface/token .huggingface .netrc .git-credentials .config/git/credentials .config/gh .pypirc
    .cargo/credentials .cargo/credentials.toml .config/gcloud .azure .aws/sso
""".split()  # noqa: SIM905 - a table, to be read
"""Private keys, logins of coding agents, tokens of models and registries. What a build needs of them is given by name."""


def hidden_in(home: Path, more: Iterable[str] = ()) -> tuple[Path, ...]:
    """Those that are there, and `more` names below `home`, without links."""
    paths = (Path(os.path.realpath(home / name)) for name in dict.fromkeys((*_IN_HOME, *more)))
    return tuple(path for path in paths if path.exists() and path != home)
