"""The environment of sandboxed commands, and what it shows and hides."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from goalrunner.system.sandbox_view import RUN, TMP, VAR_TMP, real_path

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
# Private keys, and logins of coding agents, models, code hosts, registries and clouds.
_PRIVATE_IN_HOME = (*_KEYS, *_AGENTS, *_MODELS, *_HOSTS, *_CLOUDS)


def private_paths(home: Path, more: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the private keys and logins below `home` that exist, without links.

    `more` are further names there.
    """
    private = []
    for name in dict.fromkeys((*_PRIVATE_IN_HOME, *more)):
        path = real_path(home / name)
        # A link to the home itself would hide everything.
        if path.exists() and path != home:
            private.append(path)
    return tuple(private)


# Caches that tools write at every use: below the /tmp of the sandbox.
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

# Installed programs and models in cache folders; they are read where they are, because
# they are too large to install again.
_INSTALLED = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright",
    "PUPPETEER_CACHE_DIR": "puppeteer",
    "CYPRESS_CACHE_FOLDER": "Cypress",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
}

# Sockets of services that act outside of the sandbox, and the hidden GOAL_HOME.
_REMOVED = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "STY",
    "GOAL_HOME",
)

# Variables with lists of folders, and with one path each, that programs read from.
_PATH_LISTS = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "GOPATH")
_PATHS = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "NVM_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOROOT",
    "JAVA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "PIP_FIND_LINKS",
)


def sandbox_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a sandbox.

    Caches are in its /tmp, and the sockets of services are removed.
    """
    home = Path(environ.get("HOME") or "/")
    caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    environment = {}
    for name, folder in _INSTALLED.items():
        if (caches / folder).is_dir():
            environment[name] = str(caches / folder)
    # What the user set wins.
    environment |= {k: v for k, v in environ.items() if k not in _REMOVED}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name in environ:
            environment[name] = str(TMP)
    for name, folder in _CACHES.items():
        environment[name] = str(TMP / folder)
    return environment


def visible_paths(
    environ: Mapping[str, str], home: Path | None = None
) -> tuple[Path, ...]:
    """Return the programs and packages that must stay visible.

    They lie in /tmp, in /run, or in `home` if the sandbox replaces it.
    """
    places = [TMP, RUN, VAR_TMP]
    if home is not None:
        places.insert(0, home)
    visible: dict[Path, None] = {}
    for path in _named_paths(environ, with_home=home is None):
        for spelling in (path, real_path(path)):
            place = _place_of(spelling, places)
            if place is not None:
                path_to_show = _visible_path(spelling, place, is_home=place == home)
                visible[real_path(path_to_show)] = None
    return tuple(visible)


def _named_paths(environ: Mapping[str, str], *, with_home: bool) -> list[Path]:
    """Return the absolute paths that an environment and this program use."""
    names = []
    for variable in _PATH_LISTS:
        names += environ.get(variable, "").split(os.pathsep)
    names += [environ.get(variable, "") for variable in _PATHS]
    if with_home:
        names.append(environ.get("HOME", ""))
    package = str(Path(__file__).parents[1])
    names += [sys.prefix, sys.base_prefix, sys.executable, package]
    return [Path(name) for name in names if name.startswith("/")]


def _place_of(path: Path, places: list[Path]) -> Path | None:
    """Return the first of some folders that contains a path; None if none does."""
    for place in places:
        if path != place and path.is_relative_to(place):
            return place
    return None


def _visible_path(path: Path, place: Path, *, is_home: bool) -> Path:
    """Return the path to show so that a program at `path` in `place` starts."""
    if is_home:
        # Programs in a home are mostly links: ~/.local/bin/x leads to
        # ~/.local/share/x. The whole first folder is shown.
        return place / path.relative_to(place).parts[0]
    # node_modules/.bin contains links to its siblings.
    if path.name in ("bin", ".bin") and path.parent != place:
        return path.parent
    return path
