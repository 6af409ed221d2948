"""Installed packages and code of dependency folders, and how they differ."""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from goalrunner.checking.installed import (
    CACHE_FOLDERS,
    Installed,
    digest_of,
    entries_of,
    joined,
    line_of,
    link_target,
    read_text,
    walk,
)
from goalrunner.checking.python_packages import METADATA, PythonPackages, sites
from goalrunner.snapshots.objects import shown

NODE_CACHES = frozenset({".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json", ".yarn-integrity"})
NODE_STATE = (".modules.yaml", ".yarn-state.yml", ".pnpm-workspace-state")


class NodePackages:
    """One look at a `node_modules` folder."""

    def __init__(self, root: str, workspace: str) -> None:
        self.installed = Installed("node")
        self._root = os.path.realpath(root)
        self._workspace = workspace
        self._lines: dict[str, list[str]] = {}
        self._waiting = [root]
        while self._waiting:
            self._packages(self._waiting.pop(), "")
        self.installed.code.update((part, digest_of(lines)) for part, lines in self._lines.items())

    def _packages(self, folder: str, scope: str) -> None:
        for entry in entries_of(folder):
            name = scope + entry.name
            if entry.name in NODE_CACHES or entry.name.startswith(NODE_STATE):
                continue
            if entry.is_symlink():
                self._link(name, entry.path)
            elif not entry.is_dir(follow_symlinks=False):
                self._lines.setdefault(f"file:{name}", []).append(digest_of([read_text(entry.path)]))
            elif entry.name == ".pnpm":
                self._waiting += [os.path.join(inner.path, "node_modules") for inner in entries_of(entry.path)]
            elif not scope and (entry.name == ".bin" or entry.name.startswith("@")):
                self._packages(entry.path, f"{name}/")
            else:
                self._package(name, entry.path)

    def _link(self, name: str, path: str) -> None:
        """Note a link; npm's workspaces are links to folders of the workspace, which the snapshots hold."""
        real = f"{os.path.realpath(path)}/"
        if real.startswith(f"{self._root}/"):
            self._lines.setdefault(f"link:{name}", []).append(f"-> {link_target(path)}")
        elif not real.startswith(f"{self._workspace}/"):
            self._lines.setdefault(f"file:{name}", []).append(f"-> {link_target(path)}")

    def _package(self, name: str, path: str) -> None:
        version = ""
        lines = self._lines.setdefault(f"package:{name}", [])
        for folder, files in walk(path, nested=self._waiting):
            for file, place, info in files:
                # `npm ci` writes every file anew, and no package tells the hashes of its files: sizes alone are compared.
                size = link_target(place) if stat.S_ISLNK(info.st_mode) else info.st_size
                lines.append(f"{joined(folder, file)}\0{size}")
                if not folder and file == "package.json":
                    version = _version(read_text(place))
        self.installed.add_version(name, version)


def _version(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    return str(value.get("version", "")) if isinstance(value, dict) else ""


_MANY = 20


def inspect(workspace: Path, root: str) -> Installed | None:
    """Return what the dependency folder, file or link `root` of the workspace holds; None if it does not exist.

    A folder of neither Python nor Node counts as a whole.
    """
    path = os.path.join(workspace, root)
    try:
        info = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return Installed("file", code={"": digest_of([line_of("", path, info)])})
    name = os.path.basename(root)
    if name == "node_modules":
        return NodePackages(path, os.path.realpath(workspace)).installed
    if name in {"site-packages", "__pypackages__"} or any(
        os.path.lexists(os.path.join(path, marker)) for marker in ("pyvenv.cfg", "conda-meta")
    ):
        return PythonPackages(path, os.path.realpath(workspace)).installed
    lines = [line_of(joined(here, name), path, info) for here, files in walk(path) for name, path, info in files]
    return Installed("folder", code={"": digest_of(lines)})


def listing(workspace: Path, root: str) -> list[str]:
    """Return the names at the top of a dependency folder, with the times of packages or their metadata; cheap to compare."""
    path = os.path.join(workspace, root)
    if os.path.islink(path):
        return [link_target(path)]
    timed = ("",) if os.path.basename(root) == "node_modules" else METADATA
    lines = []
    for folder in (path, *sites(path), *glob.glob(os.path.join(glob.escape(path), "@*"))):
        for entry in sorted(entries_of(folder), key=lambda entry: entry.name):
            if entry.name in CACHE_FOLDERS or entry.name.startswith(NODE_STATE) or entry.name in NODE_CACHES:
                continue
            with contextlib.suppress(OSError):  # it vanished
                time = entry.stat(follow_symlinks=False).st_mtime_ns if entry.name.endswith(timed) else ""
                lines.append(f"{folder}/{entry.name} {time}")
    return lines


def labels(
    before: Mapping[str, Installed], after: Mapping[str, Installed], workspace: Path, verified: set[tuple[str, str]]
) -> tuple[str, ...]:
    """Return what differs in the folders of the start, as sorted labels: "+httpx 0.28", "code of requests changed".

    `verified` remembers packages that were compared with their RECORD, by part and digest.
    """
    found = []
    environments = {root for both in (before, after) for root, installed in both.items() if installed.kind == "python"}
    for root, old in before.items():
        new = after.get(root)
        prefix = "" if old.kind == "python" and len(environments) == 1 else f"{root}: "
        if new is None:
            found.append(f"{root} removed")
        elif old.kind not in {"python", "node"} or new.kind != old.kind:
            found += [f"{root} changed"] if (old.kind, old.code) != (new.kind, new.code) else []
        else:
            found += [prefix + label for label in _differences(old, new, os.path.join(workspace, root), verified)]
    return tuple(sorted(shown(os.fsencode(label)) for label in found))


def _differences(old: Installed, new: Installed, path: str, verified: set[tuple[str, str]]) -> list[str]:
    found = []
    other_version = set()
    for name in old.versions.keys() | new.versions.keys():
        gone, come = (
            sorted({*a.versions.get(name, ())} - {*b.versions.get(name, ())}) for a, b in ((old, new), (new, old))
        )
        if name in new.own or not (gone or come):
            continue
        other_version.add(name)
        if len(gone) == len(come) == 1:
            found.append(f"{name} {gone[0]} → {come[0]}")
        else:
            found += [f"-{name} {version}".rstrip() for version in gone]
            found += [f"+{name} {version}".rstrip() for version in come]
    code = []
    for part in old.code.keys() | new.code.keys():
        kind, _, name = part.partition(":")
        was, now = old.code.get(part), new.code.get(part)
        if was == now or name in other_version:
            continue
        if kind == "package":
            if name not in new.own and not _as_recorded(part, old, new, path, verified):
                code.append(f"code of {name} changed")
        elif kind != "link" or (was and now):
            kind = "file" if kind == "link" else kind
            found.append(f"{kind} {name} {'changed' if now else 'removed'}" if was else f"new {kind} {name}")
    return found + (code if len(code) <= _MANY else [f"code of {len(code):,} packages changed"])


def _as_recorded(part: str, old: Installed, new: Installed, path: str, verified: set[tuple[str, str]]) -> bool:
    """Return whether the files of a package are those of the RECORD of the start, and no others."""
    record, key = old.records.get(part), (f"{path} {part}", new.code.get(part, ""))
    if key in verified:
        return True
    if not record or set(new.files.get(part, ())) != record.keys():
        return False
    if all(_sha256(os.path.join(path, name)) == hash_ for name, hash_ in record.items()):
        verified.add(key)
        return True
    return False


def _sha256(path: str) -> str:
    """Return a file's hash as RECORD writes it; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).decode().rstrip("=")
    except OSError:
        return ""
