"""What leads from a clean checkout back into the live workspace. Owns finding it; runs nothing, changes nothing.

An editable install makes Python import from the folder in which an agent works, whatever lies in the checkout. It is
found where it is written down: `.pth` and `.egg-link` files, the finders that build tools generate, and
`direct_url.json`, in the environments whose programs a command line names. What a program does on its own - a tool
that looks for another interpreter, a script that starts Python by an absolute path - is not seen.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from goalrunner.workspace.fingerprint import Fingerprint
from goalrunner.workspace.refusal import Refusal

SETUP = '[workspace] setup = "pip install -e ." (or "uv sync", "npm ci") gives the checkout dependencies of its own'
"""The remedy for nearly all of it."""

_PROJECT_RUNNERS = frozenset({"uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi", "tox", "nox"})
"""What runs a command in an environment of the project's own, wherever PATH leads."""

_USUAL = ("python", "python3", "pytest")
_COMMANDS = re.compile(r"[;&|()`\n]+")
_SEPARATORS = re.compile(r"[\s;&|()<>`'\"=]+")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SITES = ("lib/python*/site-packages", "lib64/python*/site-packages", "lib/python*/dist-packages", "Lib/site-packages")
_SHEBANG = 256


def live_imports(
    commands: Iterable[str], env: Mapping[str, str], checkout: Path, workspace: Path, linked: Collection[Path] = ()
) -> tuple[Refusal, ...]:
    """Every place where Python, started by one of the commands in the checkout, would import from the workspace.

    What leads into a `linked` folder is no live import: those are watched by their fingerprints.
    """
    found: dict[str, Refusal] = {}
    prefixes = _prefixes(commands, env, checkout)
    user = _user_base(env) if any(not (prefix / "pyvenv.cfg").exists() for prefix in prefixes) else None
    sites = {site for prefix in (*prefixes, *linked, *([user] if user else [])) for site in _sites(prefix)}
    for site in sorted(sites):
        for file, target in _leads(site, workspace):
            if not _inside(target, linked):
                found[str(file)] = Refusal(str(file), f"imports resolve into the live workspace ({target})", SETUP)
    return tuple(found[name] for name in sorted(found))


def live_links(
    folder: Path, shown: str, workspace: Path, linked: Collection[Path], seen: Fingerprint
) -> tuple[Refusal, ...]:
    """Every link in a linked folder that leads into the workspace and not into a linked folder (npm's workspaces)."""
    found = []
    for path in sorted(path for path, file in seen.files.items() if file.mode & 0o170000 == 0o120000):
        target = Path(os.path.realpath(folder / path))
        if _inside(target, [workspace]) and not _inside(target, linked):
            found.append(Refusal(f"{shown}/{path}", f"is a link into the live workspace ({target})", SETUP))
    return tuple(found)


def _inside(path: Path, folders: Collection[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _user_base(env: Mapping[str, str]) -> Path | None:
    if env.get("PYTHONNOUSERSITE"):
        return None
    if base := env.get("PYTHONUSERBASE"):
        return Path(base)
    return Path(env["HOME"]) / ".local" if env.get("HOME") else None


def _prefixes(commands: Iterable[str], env: Mapping[str, str], checkout: Path) -> set[Path]:
    """The environments that the commands' programs belong to; the usual programs' where no command names any."""
    found: set[Path] = set()
    for command in commands:
        own: set[Path] = set()
        words = [word for word in _SEPARATORS.split(command) if word]
        for simple in _COMMANDS.split(command):
            leading = (_prefix(word, env, checkout) for word in _SEPARATORS.split(simple) if word)
            own |= next((prefix for prefix in leading if prefix), set())
        if not own and not _PROJECT_RUNNERS.intersection(words):
            own = {prefix for name in _USUAL for prefix in _prefix(name, env, checkout)}
        elif _PROJECT_RUNNERS.intersection(words):
            own = set(_sites_owner(checkout))
        found |= own
    return found


def _sites_owner(checkout: Path) -> Iterator[Path]:
    """The environment that such a tool makes."""
    if (checkout / ".venv").is_dir():
        yield checkout / ".venv"


def _prefix(word: str, env: Mapping[str, str], checkout: Path) -> set[Path]:
    """The environment of the Python that a program is, or is written for."""
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
    """The environment that an interpreter stands in; for a virtual one with system packages the base as well."""
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
    """The files of one site-packages that name a path in the workspace, and the path."""
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
    """Every path that the text of a file names: its lines, and what stands in quotes."""
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
    """Where an editable install comes from, by the record that installers leave (PEP 610)."""
    try:
        record = json.loads(file.read_bytes())
        url = urlparse(record["url"])
        editable = record["dir_info"]["editable"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(os.path.realpath(unquote(url.path))) if editable and url.scheme == "file" else None
