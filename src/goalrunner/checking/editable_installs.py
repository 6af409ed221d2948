"""Editable installs through which a check in a checkout would import from the live workspace.

They are found in `.pth` and `.egg-link` files, in the finders that build tools generate, and in `direct_url.json`, in the
environments of the programs that a command line names. A script that starts Python by an absolute path is not followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from goalrunner.core.shell_programs import started

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
    prefixes: set[Path] = set()
    for command in commands:
        programs = [one for one in started(command)[0] if one.words and not one.module]
        names = {one.name for one in programs}
        own = {prefix for one in programs for prefix in _prefixes(one.words[0], env, checkout)}
        if _PROJECT_RUNNERS & names:
            own = {checkout / ".venv"}
        elif not own and not _OTHER_LANGUAGES & names:
            own = {prefix for name in _USUAL for prefix in _prefixes(name, env, checkout)}
        prefixes |= own
    if any(not (prefix / "pyvenv.cfg").exists() for prefix in prefixes) and not env.get("PYTHONNOUSERSITE"):
        prefixes.add(Path(env.get("PYTHONUSERBASE") or Path(env.get("HOME") or "/", ".local")))
    sites = {Path(os.path.realpath(site)) for prefix in prefixes for way in _SITES for site in prefix.glob(way)}
    return tuple(sorted(found for site in sites for found in _leads(site, workspace)))


def _prefixes(word: str, env: Mapping[str, str], checkout: Path) -> set[Path]:
    """Return the environment of a Python, or of the Python that the first line of a script names.

    For a virtual one with system packages, and for one that is a link, the base comes with it.
    """
    name = str(checkout / word) if "/" in word else shutil.which(word, path=env.get("PATH", os.defpath))
    if not name or not os.access(name, os.X_OK) or not Path(name).is_file():
        return set()
    if not _PYTHON.fullmatch(Path(name).name):
        with contextlib.suppress(OSError), Path(name).open("rb") as file:
            first = os.fsdecode(file.read(_SHEBANG)).partition("\n")[0]
            parts = first[2:].split() if first.startswith("#!") else []
            if len(parts) > 1 and Path(parts[0]).name == "env":
                parts = [shutil.which(parts[-1], path=env.get("PATH", os.defpath)) or ""]
            return _prefixes(parts[0], env, checkout) if parts and _PYTHON.fullmatch(Path(parts[0]).name) else set()
        return set()
    prefix, base = Path(name).parent.parent, Path(os.path.realpath(name)).parent.parent
    try:
        settings = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return {prefix, base}
    return (
        {prefix, base} if re.search(r"^include-system-site-packages\s*=\s*true", settings, re.MULTILINE) else {prefix}
    )


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
