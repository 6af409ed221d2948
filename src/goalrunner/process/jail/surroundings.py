"""The environment inside a jail. Owns which variables change there; what the user gives by name is added later, and wins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from goalrunner.process.jail.mounts import RUN, TMP

_CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "PIP_CACHE_DIR": ".cache/pip",
    "UV_CACHE_DIR": ".cache/uv",
    "POETRY_CACHE_DIR": ".cache/pypoetry",
    "npm_config_cache": ".cache/npm",
    "YARN_CACHE_FOLDER": ".cache/yarn",
    "GOCACHE": ".cache/go-build",
    "GRADLE_USER_HOME": ".cache/gradle",
    "NUGET_PACKAGES": ".cache/nuget",
    "COMPOSER_CACHE_DIR": ".cache/composer",
    "MPLCONFIGDIR": ".cache/matplotlib",
}
"""What tools write at every use, although nobody asked them to: below the /tmp of the jail."""

_INSTALLED = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright",
    "PUPPETEER_CACHE_DIR": "puppeteer",
    "CYPRESS_CACHE_FOLDER": "Cypress",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
}
"""What lies in a cache and is no cache: programs and models that somebody installed. They are read where they are."""

_GONE = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "STY", "GOAL_HOME",
)  # fmt: skip
"""Ways to somebody who would act outside of the jail, and the home that is not there."""

_FOLDERS = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "GOPATH")
_ROOTS = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "CARGO_HOME", "RUSTUP_HOME", "GOROOT", "JAVA_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_FIND_LINKS",
)  # fmt: skip


def inside(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` as it is to be in a jail whose /tmp lasts: caches are there, and no ways out."""
    kept = {name: value for name, value in environ.items() if name not in _GONE}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name in kept:
            kept[name] = str(TMP)
    caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/") / ".cache")
    installed = {name: str(caches / folder) for name, folder in _INSTALLED.items() if (caches / folder).is_dir()}
    return {**installed, **kept, **{name: str(TMP / folder) for name, folder in _CACHES.items()}}


def shown(environ: Mapping[str, str], home: Path | None = None) -> tuple[Path, ...]:
    """Programs and packages that must stay in view although they lie in /tmp, in /run, or in a home that is replaced."""
    folders = (part for name in _FOLDERS for part in environ.get(name, "").split(os.pathsep))
    own = "" if home else environ.get("HOME", "")
    named = (*folders, *(environ.get(name, "") for name in _ROOTS), *_interpreter(), own)
    places = [*([home] if home else []), TMP, RUN, Path("/var/tmp")]  # noqa: S108
    found = (path for text in named if os.path.isabs(text) for path in _of(Path(text), places, home))  # noqa: PTH117
    return tuple(dict.fromkeys(found))


def _interpreter() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix, sys.executable)
    yield str(Path(__file__).parents[2])


def _of(path: Path, places: list[Path], home: Path | None) -> Iterator[Path]:
    for spelled in dict.fromkeys((path, Path(os.path.realpath(path)))):
        place = next((place for place in places if spelled != place and spelled.is_relative_to(place)), None)
        if place is None:
            continue
        if place == home:
            # Programs there are mostly links to somewhere near: ~/.local/bin/x leads to ~/.local/share/x.
            yield Path(os.path.realpath(place / spelled.relative_to(place).parts[0]))
        else:
            # node_modules/.bin holds links to what lies beside it.
            prefix = spelled.parent if spelled.name in ("bin", ".bin") and spelled.parent != place else spelled
            yield Path(os.path.realpath(prefix))
