"""What a dependency folder holds: its packages, digests of its code, and the walk over its files that they come from.

Bytecode and caches of tools are left out.
"""

# Tens of thousands of paths are joined and listed here; pathlib is several times slower.

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from goalrunner.snapshots.ignore_rules import CACHES

CACHE_FOLDERS = frozenset(name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1])
FoundFile = tuple[str, str, os.stat_result]
"""The name, the path and the stat of a file or link."""


@dataclass
class Installed:
    """What a dependency folder holds.

    Parts of its code are `package:NAME`, `folder:PATH` and `file:PATH` (of no package), and `link:PATH`. `records` are
    the hashes of each Python package's files; `files` are the names that were found, and are not written down.
    """

    kind: str
    versions: dict[str, list[str]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    records: dict[str, dict[str, str]] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": self.kind,
            "versions": self.versions,
            "code": self.code,
            "records": self.records,
            "own": self.own,
        }

    def add_version(self, name: str, version: str) -> None:
        """Add a version of a package; several copies of one version count once."""
        self.versions[name] = sorted({*self.versions.get(name, ()), version})


def walk(root: str, nested: list[str] | None = None) -> Iterator[tuple[str, list[FoundFile]]]:
    """Yield each folder below `root`, relative to it, and its files and links; parents come first, caches never.

    With `nested`, the folder `node_modules` at the top is added to that list and not entered.
    """
    waiting = [("", root)]
    while waiting:
        folder, place = waiting.pop()
        files: list[FoundFile] = []
        for entry in entries_of(place):
            name = entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if nested is not None and not folder and name == "node_modules":
                        nested.append(entry.path)
                    elif name not in CACHE_FOLDERS:
                        waiting.append((f"{folder}/{name}" if folder else name, entry.path))
                else:
                    files.append((name, entry.path, entry.stat(follow_symlinks=False)))
            except OSError:  # it vanished
                continue
        yield folder, files


def line_of(name: str, path: str, info: os.stat_result) -> str:
    """Return name, size and times. A file with several names has no time of change: linking it elsewhere sets that."""
    if stat.S_ISLNK(info.st_mode):
        return f"{name}\0-> {link_target(path)}"
    return f"{name}\0{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns if info.st_nlink == 1 else ''}"


def digest_of(lines: list[str]) -> str:
    """Return one digest of lines, whatever their order."""
    return hashlib.sha256("\0".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()[:32]


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it vanished or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def read_text(path: str) -> str:
    """Return the text of a file; empty if there is none or it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=_no_wait) as file:
            return file.read()
    except OSError:
        return ""


def _no_wait(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def link_target(path: str) -> str:
    """Return the target of a link; empty if there is none or it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def joined(folder: str, name: str) -> str:
    """Return the path of a name in a folder; the folder at the top is empty or "."."""
    return f"{folder}/{name}" if folder and folder != "." else name
