"""The packages that dependency folders contain, and digests of their code.

Bytecode, caches of tools and the workspace's own editable install are left out.
"""

# Tens of thousands of paths are joined and listed here; pathlib is several times slower.

from __future__ import annotations

import contextlib
import csv
import glob
import json
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from goalrunner.checking.packages import Installed, digest
from goalrunner.snapshots.ignore_rules import CACHES

_CACHE_FOLDERS = frozenset(name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1])
_NODE_STATE = (".modules.yaml", ".yarn-state.yml", ".pnpm-workspace-state")
_NODE_CACHES = frozenset({".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json", ".yarn-integrity"})
_METADATA = (".dist-info", ".egg-info")
_SITES = ("lib/*/site-packages", "lib64/*/site-packages", "Lib/site-packages", "*/lib")
_SMALL = 1 << 20
_Files = list[tuple[str, str, os.stat_result]]
"""The name, the path and the stat of files and links."""


def inspect(workspace: Path, root: str) -> Installed | None:
    """Return what the dependency folder, file or link `root` of the workspace contains; None if it does not exist.

    A folder of neither Python nor Node counts as a whole.
    """
    path = os.path.join(workspace, root)
    try:
        info = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return Installed("file", code={"": digest([_line("", path, info)])})
    name = os.path.basename(root)
    if name == "node_modules":
        return _NodePackages(path, os.path.realpath(workspace)).installed
    markers = (os.path.join(path, marker) for marker in ("pyvenv.cfg", "conda-meta"))
    if name in {"site-packages", "__pypackages__"} or any(map(os.path.lexists, markers)):
        return _PythonPackages(path, os.path.realpath(workspace)).installed
    lines = [_line(_joined(folder, file), place, info) for folder, files in _walk(path) for file, place, info in files]
    return Installed("folder", code={"": digest(lines)})


def listing(workspace: Path, root: str) -> list[str]:
    """Return the names at the top of a dependency folder, with the times of packages or their metadata; cheap to compare."""
    path = os.path.join(workspace, root)
    if os.path.islink(path):
        return [os.readlink(path)]
    timed = ("",) if os.path.basename(root) == "node_modules" else _METADATA
    lines = []
    for folder in (path, *_sites(path), *glob.glob(os.path.join(glob.escape(path), "@*"))):
        for entry in sorted(_entries(folder), key=lambda entry: entry.name):
            if entry.name in _CACHE_FOLDERS or entry.name.startswith(_NODE_STATE) or entry.name in _NODE_CACHES:
                continue
            with contextlib.suppress(OSError):  # it vanished
                time = entry.stat(follow_symlinks=False).st_mtime_ns if entry.name.endswith(timed) else ""
                lines.append(f"{folder}/{entry.name} {time}")
    return lines


class _NodePackages:
    """The packages of a `node_modules` folder."""

    def __init__(self, root: str, workspace: str) -> None:
        self.installed = Installed("node")
        self._inside = (f"{os.path.realpath(root)}/", f"{workspace}/")
        self._lines: dict[str, list[str]] = {}
        self._waiting = [root]
        while self._waiting:
            self._look(self._waiting.pop(), "")
        self.installed.code.update((part, digest(lines)) for part, lines in self._lines.items())

    def _look(self, folder: str, scope: str) -> None:
        for entry in _entries(folder):
            name = scope + entry.name
            if entry.name in _NODE_CACHES or entry.name.startswith(_NODE_STATE):
                continue
            if entry.is_symlink():
                # Links to installed packages and to npm's workspaces, which the snapshots contain, are no code.
                if not f"{os.path.realpath(entry.path)}/".startswith(self._inside):
                    self._lines.setdefault(f"file:{name}", []).append(f"-> {os.readlink(entry.path)}")
            elif not entry.is_dir(follow_symlinks=False):
                self._lines.setdefault(f"file:{name}", []).append(_read(entry.path))
            elif entry.name == ".pnpm":
                self._waiting += [os.path.join(inner.path, "node_modules") for inner in _entries(entry.path)]
            elif not scope and (entry.name == ".bin" or entry.name.startswith("@")):
                self._look(entry.path, f"{name}/")
            else:
                self._package(name, entry.path)

    def _package(self, name: str, path: str) -> None:
        lines = self._lines.setdefault(f"package:{name}", [])
        for folder, files in _walk(path, nested=self._waiting):
            # `npm ci` writes every file anew, and no package lists the hashes of its files: only sizes are compared.
            lines += [f"{_joined(folder, file)}\0{info.st_size}" for file, _, info in files]
        version = ""
        with contextlib.suppress(ValueError, AttributeError):
            version = str(json.loads(_read(f"{path}/package.json")).get("version", ""))
        self.installed.add_version(name, version)


class _PythonPackages:
    """The packages of a Python environment.

    What is in site-packages, `bin` and the folders above them belongs to the distribution whose RECORD names it, or a
    file below it, and is a part of its own if none does, or several do.
    """

    def __init__(self, root: str, workspace: str) -> None:
        self.installed = Installed("python")
        self._root = root
        self._workspace = workspace
        self._sites = [site[len(root) + 1 :] for site in _sites(root)]
        self._open = {"", "bin", "Scripts", *self._sites}
        for site in self._sites:
            while site := posixpath.dirname(site):
                self._open.add(site)
        self._rows: dict[str, dict[str, list[str]]] = {}
        """By uppermost path and distribution: the rows of its RECORD; "" is the workspace's own install."""
        self._lines: dict[str, list[str]] = {}
        for site in self._sites:
            for entry in _entries(os.path.join(root, site)):
                self._metadata(site, entry.name)
        for entry in _entries(os.path.join(root, "conda-meta")):
            if entry.name.endswith(".json") and entry.name.count("-") >= 2:
                self.installed.add_version(*entry.name.removesuffix(".json").rsplit("-", 2)[:2])
        records: dict[str, list[str]] = {}
        for folder in self._open:
            for entry in _entries(os.path.join(root, folder)):
                with contextlib.suppress(OSError):  # it vanished
                    self._look(folder, entry, records)
        self.installed.code.update((part, digest(lines)) for part, lines in self._lines.items())
        self.installed.records.update((part, digest(rows)) for part, rows in records.items())

    def _metadata(self, site: str, folder: str) -> None:
        stem, ending = os.path.splitext(folder)
        if ending not in _METADATA or stem.startswith("~"):  # pip leaves these behind
            return
        path = os.path.join(self._root, site, folder)
        name, _, rest = stem.partition("-")
        name = name.replace("_", "-").lower()
        if self._is_own(_read(f"{path}/direct_url.json")):
            self.installed.own.append(name)
            name = ""
        else:
            self.installed.add_version(name, rest.partition("-py")[0])
        self._rows.setdefault(_joined(site, folder), {})[name] = []
        for row in csv.reader(_read(f"{path}/RECORD").splitlines()):
            if len(row) < 2 or "__pycache__" in row[0] or row[0].endswith((".pyc", ".pyo")):
                continue
            file = top = posixpath.normpath(_joined(site, row[0])) if ".." in row[0] else _joined(site, row[0])
            if file.startswith(("/", "../")):
                continue
            while (above := posixpath.dirname(top)) not in self._open:
                top = above
            rows = self._rows.setdefault(top, {}).setdefault(name, [])
            if not top.endswith(_METADATA) or file.endswith("/entry_points.txt"):
                rows.append(f"{file}\0{row[1].removeprefix('sha256=')}")

    def _look(self, folder: str, entry: os.DirEntry[str], records: dict[str, list[str]]) -> None:
        """Add a file, or the files of a folder, to the part that it belongs to."""
        top = _joined(folder, entry.name)
        metadata, is_folder = entry.name.endswith(_METADATA), entry.is_dir(follow_symlinks=False)
        rows = self._rows.get(top, {})
        owners = [name for name in rows if name]
        if top in self._open or entry.name in _CACHE_FOLDERS or top == ".lock" or (not owners and (rows or metadata)):
            return
        if len(owners) == 1:
            part = f"package:{owners[0]}"
        else:
            part = f"{'folder' if is_folder else 'file'}:{entry.name if folder in self._sites else top}"
        if not rows and not is_folder:
            if content := self._loose(entry):
                self.installed.code[part] = content
            return
        records.setdefault(part, []).extend(row for found in rows.values() for row in found)
        for name, path, info in _files(entry):
            if not metadata or name.endswith("/entry_points.txt"):
                self._lines.setdefault(part, []).append(_line(_joined(folder, name), path, info))
                self.installed.files.setdefault(part, []).append(_joined(folder, name))

    def _loose(self, entry: os.DirEntry[str]) -> str:
        """Return a digest of a file of no package; empty for a .pth file that names folders of the workspace only."""
        info = entry.stat(follow_symlinks=False)
        if info.st_size > _SMALL or not stat.S_ISREG(info.st_mode):
            return digest([_line("", entry.path, info)])
        lines = _read(entry.path).splitlines()
        if not entry.name.endswith(".pth") or not any(map(str.strip, lines)):
            return digest(lines)
        foreign = [line for line in lines if line.strip() and not self._is_inside(line.strip())]
        return digest(foreign) if foreign else ""

    def _is_own(self, direct_url: str) -> bool:
        """Return whether a direct_url.json is that of an editable install of the workspace."""
        try:
            value = json.loads(direct_url)
            return bool(value["dir_info"].get("editable")) and self._is_inside(unquote(urlsplit(value["url"]).path))
        except (ValueError, TypeError, KeyError, AttributeError):
            return False

    def _is_inside(self, path: str) -> bool:
        return os.path.isabs(path) and f"{os.path.realpath(path)}/".startswith(f"{self._workspace}/")


def _sites(root: str) -> list[str]:
    """Return the folders of an environment that packages are installed in; links to another one are left out."""
    if os.path.basename(root) == "site-packages":
        return [root]
    ending = "lib" if os.path.basename(root) == "__pypackages__" else "site-packages"
    found = [path for pattern in _SITES for path in glob.glob(os.path.join(glob.escape(root), pattern))]
    real = os.path.realpath(root)
    return sorted(
        path for path in found if path.endswith(ending) and os.path.realpath(path) == real + path[len(root) :]
    )


def _walk(root: str, nested: list[str] | None = None) -> Iterator[tuple[str, _Files]]:
    """Yield each folder below `root`, relative to it, and its files and links; parents come first, caches never.

    With `nested`, the folder `node_modules` at the top is added to that list and not entered.
    """
    waiting = [("", root)]
    while waiting:
        folder, place = waiting.pop()
        files: _Files = []
        for entry in _entries(place):
            with contextlib.suppress(OSError):  # it vanished
                if not entry.is_dir(follow_symlinks=False):
                    files.append((entry.name, entry.path, entry.stat(follow_symlinks=False)))
                elif nested is not None and not folder and entry.name == "node_modules":
                    nested.append(entry.path)
                elif entry.name not in _CACHE_FOLDERS:
                    waiting.append((_joined(folder, entry.name), entry.path))
        yield folder, files


def _files(entry: os.DirEntry[str]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield the path of a file, or of each file in a folder, relative to the folder above; and as `_walk` gives it."""
    if not entry.is_dir(follow_symlinks=False):
        yield entry.name, entry.path, entry.stat(follow_symlinks=False)
        return
    for folder, files in _walk(entry.path):
        for name, path, info in files:
            yield f"{entry.name}/{_joined(folder, name)}", path, info


def _line(name: str, path: str, info: os.stat_result) -> str:
    """Return name, size and times. A file with several names has no time of change: linking it elsewhere sets that."""
    if stat.S_ISLNK(info.st_mode):
        return f"{name}\0-> {os.readlink(path)}"
    return f"{name}\0{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns if info.st_nlink == 1 else ''}"


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it vanished or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _read(path: str) -> str:
    """Return the text of a file; empty if there is none or it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
