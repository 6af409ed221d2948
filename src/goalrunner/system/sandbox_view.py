"""What a sandboxed command sees: mounts, sockets, hidden logins, and environment variables."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import record_errors


@dataclass(frozen=True)
class Confinement:
    """What a sandboxed command may see and write: absolute paths without links. All other paths can only be read.

    The deeper of two paths wins; on the same path `writable` wins over `readable`, and `readable` over `hidden`.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Visible even inside of hidden folders and /tmp."""
    hidden: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    """Shown as empty regular files."""
    tmp: Path | None = None
    """Mounted as /tmp; None: an empty one for each command."""
    home: tuple[Path, Path] | None = None
    """A home folder, and the folder that is mounted there."""
    network: bool = True
    """False: no network, not even on this machine."""


_LISTENS = 0x10000  # the kernel's flag of a socket that accepts connections

TMP, RUN = Path("/tmp"), Path("/run")  # noqa: S108 - the place itself is meant
_EMPTY_PLACES = (Path("/var/tmp"), Path("/var/run"), RUN)  # noqa: S108
"""Private and empty, like /tmp: /run holds the sockets of services that act outside of the sandbox."""

_OF_RUN = (
    "current-system",
    "booted-system",
    "opengl-driver",
    "wrappers",
    "nscd",
    "systemd/resolve",
)
"""The parts of /run that programs need to start and to resolve host names."""

_EMPTY = Path(os.path.realpath(__file__)).parents[1] / "py.typed"
"""A regular file without content: git takes no other kind into its index."""

_KEYS = (
    ".ssh",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".docker/run",
    ".config/goal",
)
_AGENTS = (
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".qwen",
    ".openhands",
    ".config/opencode",
    ".aider.conf.yml",
)
_MODELS = (
    ".local/share/opencode",
    ".config/io.datasette.llm",
    ".config/litellm",
    ".cache/huggingface/token",
)
_HOSTS = (
    ".huggingface",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/github-copilot",
)
_CLOUDS = (
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".azure",
    ".aws/sso",
)
_IN_HOME = (*_KEYS, *_AGENTS, *_MODELS, *_HOSTS, *_CLOUDS)
"""Private keys, and logins of coding agents, models, code hosts, registries and clouds."""

Kind = Literal["hidden", "readable", "writable"]
_STRENGTH: tuple[Kind, ...] = ("hidden", "readable", "writable")


def real_path(path: Path) -> Path:
    """Return an absolute path without links; parts that do not exist are kept."""
    return Path(os.path.realpath(path))


def listening(table: Path = Path("/proc/net/unix")) -> tuple[Path, ...]:
    """Return the paths of sockets that accept connections. Abstract sockets have none; they go with the network."""
    try:
        lines = table.read_bytes().split(b"\n")[1:]
    except OSError:
        return ()
    found: dict[Path, None] = {}
    for line in lines:
        # Number, references, protocol, flags, type, state, inode, path. A path may contain anything, newlines too.
        parts = line.split(maxsplit=7)
        try:
            listens = (
                len(parts) == 8
                and parts[7].startswith(b"/")
                and int(parts[3], 16) & _LISTENS
            )
            path = Path(os.fsdecode(os.path.realpath(parts[7]))) if listens else None
            if path is not None and stat.S_ISSOCK(path.stat().st_mode):
                found[path] = None
        except (OSError, ValueError):
            continue
    return tuple(found)


@dataclass(frozen=True)
class Mount:
    """`path` shows `source`, or nothing if it is hidden."""

    path: Path
    kind: Kind
    source: Path

    @property
    def is_folder(self) -> bool:
        return self.source.is_dir()


def mounts(within: Confinement) -> list[Mount]:
    """Return the mounts, outer paths before inner ones. The first is the whole system, which can be read."""
    found: dict[Path, Mount] = {}
    for mount in sorted(_all(within), key=lambda mount: _STRENGTH.index(mount.kind)):
        found[mount.path] = mount
    for path in listening():
        around = next(
            (found[parent] for parent in (path, *path.parents) if parent in found), None
        )
        # A socket is hidden where a command would see it as it is outside of the sandbox, in what it only reads.
        if around is None or (
            path not in found
            and around.kind == "readable"
            and around.path == around.source
        ):
            found[path] = Mount(path, "hidden", path)
    laid = sorted(found.values(), key=lambda mount: len(mount.path.parts))
    return [
        Mount(Path("/"), "readable", Path("/")),
        *(mount for mount in laid if mount.path != Path("/")),
    ]


def tops(laid: list[Mount]) -> list[Path]:
    """Return the folders of /tmp below which something of the system stays visible."""
    inner = (
        mount.path.relative_to(TMP).parts
        for mount in laid
        if mount.path.is_relative_to(TMP)
    )
    return sorted({TMP / parts[0] for parts in inner if len(parts) > 1})


def _all(within: Confinement) -> Iterator[Mount]:
    for path in (*_EMPTY_PLACES, *within.hidden):
        if path.exists() and not path.is_symlink():
            yield Mount(path, "hidden", path)
    yield (
        Mount(TMP, "writable", within.tmp) if within.tmp else Mount(TMP, "hidden", TMP)
    )
    if within.home is not None:
        yield Mount(within.home[0], "writable", within.home[1])
    resolv = real_path(Path("/etc/resolv.conf"))
    needed = [
        *(RUN / name for name in _OF_RUN),
        *([resolv] if resolv.is_relative_to(RUN) else []),
    ]
    for path in (*needed, *within.readable):
        if path.exists():
            yield Mount(path, "readable", path)
    for path in within.writable:
        if path.exists():
            yield Mount(path, "writable", path)
    for path in within.emptied:
        if path.is_file():
            yield Mount(path, "readable", _EMPTY)


def make_ready(within: Confinement) -> None:
    """Create the folders that are mounted as /tmp and as home, and a mount point for what is mounted in them.

    Raise RecordError if that is not possible.
    """
    stands = [(TMP, within.tmp)] if within.tmp is not None else []
    stands += [within.home] if within.home is not None else []
    with record_errors("cannot make the /tmp and the home of the sandbox"):
        for _, private in stands:
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
        for mount in mounts(within):
            # The last one that contains it is the innermost.
            around = [
                (place, private)
                for place, private in stands
                if place in mount.path.parents
            ]
            for place, private in around[-1:]:
                _make(
                    private,
                    mount.path.relative_to(place).parts,
                    is_folder=mount.is_folder,
                )


def _make(root: Path, parts: tuple[str, ...], *, is_folder: bool) -> None:
    path = root
    for at, part in enumerate(parts, start=1):
        path = path / part
        wants_folder = is_folder or at < len(parts)
        if path.is_symlink() or (path.exists() and path.is_dir() is not wants_folder):
            shutil.rmtree(
                path
            ) if path.is_dir() and not path.is_symlink() else path.unlink()
        if wants_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.touch(mode=0o600)


def is_visible(path: Path, within: Confinement) -> bool:
    """Return whether a sandboxed command finds what lies at an absolute path, and the target of a link there."""
    laid = mounts(within)
    for spelled in (Path(os.path.normpath(path)), real_path(path)):
        innermost = [mount for mount in laid if spelled.is_relative_to(mount.path)][-1]
        there = innermost.source / spelled.relative_to(innermost.path)
        if innermost.kind == "hidden" or not os.path.lexists(there):
            return False
    return True


def private_paths(home: Path, more: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the private keys and logins below `home` that exist, and `more` names there, without links."""
    paths = (real_path(home / name) for name in dict.fromkeys((*_IN_HOME, *more)))
    return tuple(path for path in paths if path.exists() and path != home)


_CACHES = {
    "XDG_CACHE_HOME": ".cache", "PIP_CACHE_DIR": ".cache/pip", "UV_CACHE_DIR": ".cache/uv",
    "POETRY_CACHE_DIR": ".cache/pypoetry", "npm_config_cache": ".cache/npm", "YARN_CACHE_FOLDER": ".cache/yarn",
    "GOCACHE": ".cache/go-build", "GRADLE_USER_HOME": ".cache/gradle", "NUGET_PACKAGES": ".cache/nuget",
    "COMPOSER_CACHE_DIR": ".cache/composer", "MPLCONFIGDIR": ".cache/matplotlib",
}  # fmt: skip
"""Caches that tools write at every use: below the /tmp of the sandbox."""

_INSTALLED = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright", "PUPPETEER_CACHE_DIR": "puppeteer", "CYPRESS_CACHE_FOLDER": "Cypress",
    "HF_HOME": "huggingface", "TORCH_HOME": "torch",
}  # fmt: skip
"""Installed programs and models in cache folders; they are read where they are."""

_GONE = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "STY", "GOAL_HOME",
)  # fmt: skip
"""Sockets of services that act outside of the sandbox, and the hidden GOAL_HOME."""

_FOLDERS = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "GOPATH")
_ROOTS = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "CARGO_HOME", "RUSTUP_HOME", "GOROOT", "JAVA_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_FIND_LINKS",
)  # fmt: skip


def sandbox_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a sandbox: with caches in its /tmp, and without sockets of services."""
    kept = {name: value for name, value in environ.items() if name not in _GONE}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name in kept:
            kept[name] = str(TMP)
    caches = Path(
        environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/") / ".cache"
    )
    installed = {
        name: str(caches / folder)
        for name, folder in _INSTALLED.items()
        if (caches / folder).is_dir()
    }
    return {
        **installed,
        **kept,
        **{name: str(TMP / folder) for name, folder in _CACHES.items()},
    }


def visible_paths(
    environ: Mapping[str, str], home: Path | None = None
) -> tuple[Path, ...]:
    """Return the programs and packages that must stay visible although they lie in /tmp, in /run, or in a replaced home."""
    named = [
        part for name in _FOLDERS for part in environ.get(name, "").split(os.pathsep)
    ]
    named += [environ.get(name, "") for name in (*_ROOTS, *(() if home else ("HOME",)))]
    named += [
        sys.prefix,
        sys.base_prefix,
        sys.executable,
        str(Path(__file__).parents[1]),
    ]
    places = [*([home] if home else []), TMP, RUN, Path("/var/tmp")]  # noqa: S108
    found: dict[Path, None] = {}
    absolute = [Path(text) for text in named if text.startswith("/")]
    for spelled in (
        spelling for path in absolute for spelling in (path, real_path(path))
    ):
        place = next(
            (
                place
                for place in places
                if spelled != place and spelled.is_relative_to(place)
            ),
            None,
        )
        if place is None:
            continue
        # Programs in a home are mostly links: ~/.local/bin/x leads to ~/.local/share/x.
        visible = place / spelled.relative_to(place).parts[0]
        if place != home:
            # node_modules/.bin contains links to its siblings.
            visible = (
                spelled.parent
                if spelled.name in ("bin", ".bin") and spelled.parent != place
                else spelled
            )
        found[real_path(visible)] = None
    return tuple(found)
