"""The packages of a Python environment, by distribution and by the files of each RECORD.

The workspace's own editable install is left out.
"""

# Tens of thousands of paths are joined and listed here; pathlib is several times slower.

from __future__ import annotations

import csv
import glob
import json
import os
import posixpath
import re
import stat
from urllib.parse import unquote, urlsplit

from goalrunner.checking.installed import FoundFile, Installed, digest_of, entries_of, joined, line_of, read_text, walk

METADATA = (".dist-info", ".egg-info")
_SMALL = 1 << 20
_SITES = ("lib/*/site-packages", "lib64/*/site-packages", "Lib/site-packages", "*/lib")
_UNCOUNTED = frozenset({".lock"})
"""Files at the top of an environment that uv writes at each command."""


class PythonPackages:
    """One look at a Python environment."""

    def __init__(self, root: str, workspace: str) -> None:
        self.installed = Installed("python")
        self._root = root
        self._workspace = workspace
        self._sites = [os.path.relpath(site, root).replace(os.sep, "/") for site in sites(root)]
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        """The part that a file or folder belongs to; "" is the workspace's own install, "*" a folder of several."""
        self._single = {"", "bin", "Scripts", *self._sites}
        for site in self._sites:
            while site := posixpath.dirname(site):
                self._single.add(site)
        for site in self._sites:
            for name in _names(os.path.join(root, site)):
                self._metadata(site, name)
        for name in _names(os.path.join(root, "conda-meta")):
            if name.endswith(".json") and name.count("-") >= 2:
                self.installed.add_version(*name[: -len(".json")].rsplit("-", 2)[:2])
        lines: dict[str, list[str]] = {}
        for folder, files in walk(root):
            self._look(folder, files, lines)
        self.installed.code.update((part, digest_of(found)) for part, found in lines.items())

    def _metadata(self, site: str, folder: str) -> None:
        stem, ending = os.path.splitext(folder)
        path = os.path.join(self._root, site, folder)
        if ending == ".egg-link":
            self._egg_link(read_text(path).partition("\n")[0].strip(), joined(site, folder))
        if ending not in METADATA or stem.startswith("~"):
            return
        name, _, rest = stem.partition("-")
        name = name.replace("_", "-").lower()
        version = rest.partition("-py")[0] or _header(path)
        own = self._is_own(read_text(os.path.join(path, "direct_url.json")))
        part = "" if own else f"package:{name}"
        self._folders[joined(site, folder)] = part
        hashes = self._claim(site, part, read_text(os.path.join(path, "RECORD")))
        if own:
            self.installed.own.append(name)
            return
        self.installed.add_version(name, version)
        self.installed.records[part] = hashes

    def _claim(self, site: str, part: str, record: str) -> dict[str, str]:
        """Note which part the files of a RECORD belong to; return their hashes."""
        hashes = {}
        for row in csv.reader(record.splitlines()):
            if len(row) < 2 or "__pycache__" in row[0] or row[0].endswith((".pyc", ".pyo")):
                continue
            path = f"{site}/{row[0]}" if site != "." else row[0]
            path = posixpath.normpath(path) if ".." in path else path
            folder = path.rpartition("/")[0]
            if folder.endswith(".dist-info") and not path.endswith("/entry_points.txt"):
                continue
            if ".dist-info/" not in path or path.endswith("/entry_points.txt"):
                hashes[path] = row[1].removeprefix("sha256=")
            self._files[path] = part
            if self._folders.setdefault(folder, part) != part:
                self._folders[folder] = "*"
        return hashes

    def _egg_link(self, target: str, path: str) -> None:
        """Note what `setup.py develop` wrote for the workspace: the link, its .pth line (elsewhere) and its scripts."""
        if not self._inside(target):
            return
        self._files[path] = ""
        for points in glob.glob(os.path.join(glob.escape(target), "*.egg-info", "entry_points.txt")):
            for script in re.findall(r"^\s*([\w.-]+)\s*=", read_text(points), re.MULTILINE):
                self._files[f"bin/{script}"] = ""

    def _is_own(self, direct_url: str) -> bool:
        """Return whether a direct_url.json is that of an editable install of the workspace."""
        try:
            value = json.loads(direct_url)
            return bool(value["dir_info"].get("editable")) and self._inside(unquote(urlsplit(value["url"]).path))
        except (ValueError, TypeError, KeyError, AttributeError):
            return False

    def _inside(self, path: str) -> bool:
        return os.path.isabs(path) and f"{os.path.realpath(path)}/".startswith(f"{self._workspace}/")

    def _part(self, folder: str) -> str:
        """Return the part that a folder belongs to; "*" if each of its files has one of its own."""
        if folder in self._single:
            return "*"
        part = self._folders.get(folder)
        if part is None:
            above = self._folders[posixpath.dirname(folder)] if folder else "*"
            part = self._folders[folder] = f"folder:{self._label(folder)}" if above == "*" else above
        return part

    def _label(self, path: str) -> str:
        for site in self._sites:
            if path.startswith(f"{site}/"):
                return path[len(site) + 1 :]
        return path

    def _look(self, folder: str, files: list[FoundFile], lines: dict[str, list[str]]) -> None:
        whole = self._part(folder)
        self._folders[folder] = whole
        metadata = any(piece.endswith(METADATA) for piece in folder.split("/"))
        for name, path, info in files:
            if metadata and name != "entry_points.txt":
                continue
            place = f"{folder}/{name}" if folder else name
            part = self._files.get(place) if whole == "*" else whole
            if part is None and folder in self._single:
                if not place.endswith(METADATA) and place not in _UNCOUNTED and (digest := self._loose(path, info)):
                    self.installed.code[f"file:{self._label(place)}"] = digest
                continue
            if part is None:
                part = f"folder:{self._label(folder)}"
            if part:
                lines.setdefault(part, []).append(line_of(place, path, info))
                self.installed.files.setdefault(part, []).append(place)

    def _loose(self, path: str, info: os.stat_result) -> str:
        """Return a digest of a file of no package; empty for a .pth file that names folders of the workspace only."""
        if info.st_size > _SMALL or not stat.S_ISREG(info.st_mode):
            return digest_of([line_of("", path, info)])
        text = read_text(path)
        if path.endswith(".pth") and text.strip():
            text = "\n".join(line for line in text.splitlines() if line.strip() and not self._inside(line.strip()))
            if not text:
                return ""
        return digest_of([text])


def sites(root: str) -> list[str]:
    """Return the folders of an environment that packages are installed in; links to another one are left out."""
    if os.path.basename(root) == "site-packages":
        return [root]
    found = [path for pattern in _SITES for path in glob.glob(os.path.join(glob.escape(root), pattern))]
    if os.path.basename(root) != "__pypackages__":
        found = [path for path in found if path.endswith("site-packages")]
    return sorted(
        path for path in found if os.path.realpath(path) == os.path.join(os.path.realpath(root), path[len(root) + 1 :])
    )


def _names(folder: str) -> list[str]:
    return sorted(entry.name for entry in entries_of(folder))


def _header(path: str) -> str:
    """Return the version that an .egg-info folder or file says."""
    text = read_text(os.path.join(path, "PKG-INFO")) or read_text(path)
    found = re.search(r"^Version:\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else ""
