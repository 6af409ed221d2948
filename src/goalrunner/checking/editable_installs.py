"""Editable installs through which a check in a checkout would import from the live workspace.

They are found in `.pth` and `.egg-link` files, in the finders that build tools generate, and in `direct_url.json`, in the
environments of the programs that a command line names. A script that starts Python by an absolute path is not followed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from goalrunner.shell import started

_PROJECT_RUNNERS = frozenset({"uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi", "tox", "nox"})
"""Programs that run a command in an environment of the project, wherever PATH leads."""

_OTHER_LANGUAGES = frozenset(
    {"npm", "npx", "node", "yarn", "pnpm", "bun", "deno", "go", "cargo", "mvn", "gradle", "bundle"}
)
"""Programs that start no Python."""

_USUAL = ("python", "python3", "pytest")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SITES = ("lib/python*/site-packages", "lib64/python*/site-packages", "lib/python*/dist-packages", "Lib/site-packages")
_SHEBANG = 256


def editable_installs(
    commands: Iterable[str], env: Mapping[str, str], checkout: Path, workspace: Path
) -> tuple[tuple[Path, Path], ...]:
    """Return every file that makes Python, started by one of the commands in the checkout, import from the workspace.

    Each comes with the path in the workspace that it leads to.
    """
    prefixes = _prefixes(commands, env, checkout)
    user = _user_base(env) if any(not (prefix / "pyvenv.cfg").exists() for prefix in prefixes) else None
    sites = {site for prefix in (*prefixes, *([user] if user else [])) for site in _sites(prefix)}
    return tuple(sorted(found for site in sites for found in _leads(site, workspace)))


def _user_base(env: Mapping[str, str]) -> Path | None:
    if env.get("PYTHONNOUSERSITE"):
        return None
    if base := env.get("PYTHONUSERBASE"):
        return Path(base)
    return Path(env["HOME"]) / ".local" if env.get("HOME") else None


def _prefixes(commands: Iterable[str], env: Mapping[str, str], checkout: Path) -> set[Path]:
    """Return the environments of the commands' programs; where a command names none, those of `python` and `pytest`."""
    found: set[Path] = set()
    for command in commands:
        programs = [one for one in started(command)[0] if one.words and not one.module]
        names = {one.name for one in programs}
        own = {prefix for one in programs for prefix in _prefix(one.words[0], env, checkout)}
        if _PROJECT_RUNNERS & names:
            own = {checkout / ".venv"}
        elif not own and not _OTHER_LANGUAGES & names:
            own = {prefix for name in _USUAL for prefix in _prefix(name, env, checkout)}
        found |= own
    return found


def _prefix(word: str, env: Mapping[str, str], checkout: Path) -> set[Path]:
    """Return the environment of a Python, or of the Python that the first line of a script names."""
    name = str(checkout / word) if "/" in word else shutil.which(word, path=env.get("PATH", os.defpath))
    if not name or not os.access(name, os.X_OK) or not Path(name).is_file():
        return set()
    if _PYTHON.fullmatch(Path(name).name):
        return _around(Path(name))
    try:
        with Path(name).open("rb") as file:
            first = os.fsdecode(file.read(_SHEBANG)).partition("\n")[0]
    except OSError:
        return set()
    if not first.startswith("#!"):
        return set()
    parts = first[2:].split()
    if len(parts) > 1 and Path(parts[0]).name == "env":
        parts = [shutil.which(parts[-1], path=env.get("PATH", os.defpath)) or ""]
    return _around(Path(parts[0])) if parts and _PYTHON.fullmatch(Path(parts[0]).name) else set()


def _around(python: Path) -> set[Path]:
    """Return the environment of an interpreter; for a virtual one with system packages the base as well."""
    prefix = python.parent.parent
    try:
        settings = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return {prefix, Path(os.path.realpath(python)).parent.parent}
    if not re.search(r"^include-system-site-packages\s*=\s*true", settings, re.MULTILINE):
        return {prefix}
    return {prefix, Path(os.path.realpath(python)).parent.parent}


def _sites(prefix: Path) -> Iterator[Path]:
    for pattern in _SITES:
        yield from (Path(os.path.realpath(site)) for site in prefix.glob(pattern))


def _leads(site: Path, workspace: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of one site-packages that name a path in the workspace, and the path."""
    for file in sorted(site.glob("*")):
        name = file.name.lower()
        if name.endswith((".pth", ".egg-link")) or (name.endswith(".py") and "editable" in name):
            for target in _named(file, site):
                if target.is_relative_to(workspace):
                    yield file, target
                    break
        elif name.endswith(".dist-info"):
            source = _editable(file / "direct_url.json")
            if source is not None and source.is_relative_to(workspace):
                yield file / "direct_url.json", source


def _named(file: Path, site: Path) -> Iterator[Path]:
    """Yield every path that a file names: its lines, and what stands in quotes."""
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    quoted = re.findall(r"'((?:/|[A-Za-z]:)[^'\n]*)'|\"((?:/|[A-Za-z]:)[^\"\n]*)\"", text)
    lines = [] if file.suffix == ".py" else [line.strip() for line in text.splitlines()]
    for name in [*lines, *(one or other for one, other in quoted)]:
        if name and not name.startswith(("import ", "import\t", "#")) and "\0" not in name:
            yield Path(os.path.realpath(site / name))


def _editable(file: Path) -> Path | None:
    """Return where an editable install comes from, as the installer recorded it (PEP 610)."""
    try:
        record = json.loads(file.read_bytes())
        url = urlparse(record["url"])
        editable = record["dir_info"]["editable"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(os.path.realpath(unquote(url.path))) if editable and url.scheme == "file" else None
