"""Installed packages: what dependency folders contain, and labels for what changed.

Bytecode, caches of tools and the workspace's own editable install are left out.
"""

# Tens of thousands of paths are joined and listed here; pathlib is several times slower.

from __future__ import annotations

import base64
import contextlib
import csv
import glob
import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from goalrunner.snapshots.git import content
from goalrunner.snapshots.objects import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns

_CACHE_FOLDERS = frozenset(
    name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1]
)
_NODE_CACHES = (
    ".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json", ".yarn-integrity", ".modules.yaml",
    ".yarn-state.yml", ".pnpm-workspace-state-v1.json",
)  # fmt: skip
_SITES = (
    "lib/python*/site-packages",
    "lib64/python*/site-packages",
    "Lib/site-packages",
    "lib/python*/dist-packages",
)
_SMALL = 1 << 20


@dataclass
class Installed:
    """What a dependency folder contains. A folder of neither Python nor Node is one file without a name."""

    versions: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """By relative path, what changes with the content. After a NUL follows what changes with an installation as well."""
    records: dict[str, str] = field(default_factory=dict)
    """The hash of the RECORD of each Python distribution, by its metadata folder."""
    own: list[str] = field(default_factory=list)
    """Packages that were installed from the workspace. Those that are editable have no version."""

    def add_version(self, name: str, version: str) -> None:
        """Add a version of a package; several copies of one version count once."""
        self.versions[name] = sorted({*self.versions.get(name, ()), version})

    @property
    def digest(self) -> str:
        """A hash over versions and files."""
        return _digest(
            [*map(str, self.versions.items()), *map("\0".join, self.files.items())]
        )


def inspect(workspace: Path, root: str) -> Installed | None:
    """Return what the dependency folder, file or link `root` of the workspace contains; None if it does not exist."""
    path = os.path.join(workspace, root)
    if not os.path.lexists(path):
        return None
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    if is_folder and os.path.basename(root) == "node_modules":
        return _node_packages(path, os.path.realpath(workspace))
    if is_folder and (
        os.path.basename(root) == "site-packages"
        or os.path.lexists(os.path.join(path, "pyvenv.cfg"))
    ):
        return _python_packages(path, os.path.realpath(workspace))
    return Installed(files={"": state_of(path)})


def state_of(path: str) -> str:
    """Return a hash of a link, of a file's content, or of names, sizes and times in a folder; caches are left out.

    It is empty if the path does not exist, and stays the same if the path is renamed.
    """
    if os.path.islink(path):
        return _digest([os.readlink(path)])
    if os.path.isdir(path):
        return _digest(
            [f"{name}\0{_stamp(place, info)}" for name, place, info in _files(path)]
        )
    return _sha256(path)


_PACKAGE = re.compile(r"(?:.*/)?node_modules/((?:@[^/]+/)?[^/.][^/]*)/(.*)")


def _node_packages(root: str, workspace: str) -> Installed:
    """Return the packages of a `node_modules` folder, those in nested ones and in pnpm's included."""
    installed, manifest_times = (
        Installed(),
        cache(lambda folder: _mtime(f"{root}/{folder}package.json")),
    )
    inside = (f"{os.path.realpath(root)}/", f"{workspace}/")
    for file, path, info in _files(root, _NODE_CACHES):
        found = _PACKAGE.fullmatch(f"node_modules/{file}")
        if not stat.S_ISLNK(info.st_mode):
            # `npm ci` rewrites every file, and packages do not list hashes: where package.json is new as well, only the
            # size is compared.
            installed.files[file] = str(info.st_size)
            if found:
                installed.files[file] += (
                    f"\0{info.st_mtime_ns} {manifest_times(file.removesuffix(found[2]))}"
                )
        elif not f"{os.path.realpath(path)}/".startswith(
            inside
        ):  # npm's workspaces are in the snapshots
            installed.files[file] = os.readlink(path)
        if found and found[2] == "package.json":
            version = ""
            with contextlib.suppress(ValueError, AttributeError):
                version = str(json.loads(_text(path)).get("version", ""))
            installed.add_version(found[1], version)
    return installed


def _python_packages(root: str, workspace: str) -> Installed:
    """Return the packages of a Python environment, or of a site-packages folder."""
    installed, sites = Installed(), ["", *_sites(root)]
    for folder in (
        path
        for site in sites
        for path in glob.glob(posixpath.join(site, "*-info"), root_dir=root)
    ):
        name, version = _distribution(folder)
        installed.records[folder] = _sha256(f"{root}/{folder}/RECORD")
        is_editable = _is_editable(_text(f"{root}/{folder}/direct_url.json"), workspace)
        if is_editable is not None:
            installed.own.append(name)
        if not is_editable and not name.startswith(
            "~"
        ):  # remains of an interrupted pip
            installed.add_version(name, version)
    for file, path, info in _files(root):
        folder, name = posixpath.split(file)
        if name == ".lock" or (
            file != f"{folder}/entry_points.txt"
            and {folder, file} & installed.records.keys()
        ):
            continue
        # A new environment has the same small files, such as pyvenv.cfg, with new times.
        is_small = (
            folder in (*sites, "bin", "Scripts")
            and info.st_size <= _SMALL
            and stat.S_ISREG(info.st_mode)
        )
        linked = f"\0{info.st_ctime_ns}" if info.st_nlink > 1 else ""
        installed.files[file] = (
            _sha256(path) if is_small else _stamp(path, info) + linked
        )
    return installed


def _sites(root: str) -> list[str]:
    """Return the folders that packages are installed in, relative to an environment; links to another one are left out."""
    real = os.path.realpath(root)
    found = (path for pattern in _SITES for path in glob.glob(pattern, root_dir=root))
    return sorted(
        path
        for path in found
        if os.path.realpath(os.path.join(root, path)) == os.path.join(real, path)
    )


def _distribution(folder: str) -> tuple[str, str]:
    """Return the name and the version in the name of a metadata folder."""
    name, _, version = os.path.splitext(os.path.basename(folder))[0].partition("-")
    return name.replace("_", "-").lower(), version.partition("-py")[0]


def _is_editable(direct_url: str, workspace: str) -> bool | None:
    """Return whether a direct_url.json is that of an editable install; None if not of the workspace (PEP 610)."""
    try:
        value = json.loads(direct_url)
        path = os.path.realpath(unquote(urlsplit(value["url"]).path))
        return (
            bool(value["dir_info"].get("editable"))
            if f"{path}/".startswith(f"{workspace}/")
            else None
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def dependency_labels(
    before: Mapping[str, Installed], after: Mapping[str, Installed], workspace: Path
) -> dict[str, list[str]]:
    """Return labels for what differs in the folders of the start: "+httpx 0.28", "code of requests changed".

    Folders without a difference are left out.
    """
    found: dict[str, list[str]] = {}
    for root, old in before.items():
        if new := after.get(root):
            prefix = f"{root}: " if len(before) > 1 else ""
            some = [
                prefix + one if one else f"{root} changed"
                for one in _differences(old, new, f"{workspace}/{root}")
            ]
        else:
            some = [f"{root} removed"]
        if some:
            found[root] = [printable_path(os.fsencode(label)) for label in some]
    return found


def _differences(old: Installed, new: Installed, root: str) -> list[str]:
    """Return what differs, an empty text for the folder as a whole."""
    # An editable install is no change, unless it replaces another package.
    found, known = (
        [],
        {*new.own} - new.versions.keys() - (old.versions.keys() - {*old.own}),
    )
    for name in sorted((old.versions.keys() | new.versions.keys()) - known):
        was, now = old.versions.get(name, []), new.versions.get(name, [])
        gone, come = (
            [one for one in was if one not in now],
            [one for one in now if one not in was],
        )
        known |= {name} if gone or come else set()
        if len(gone) == len(come) == 1:
            found.append(f"{name} {gone[0]} → {come[0]}")
        else:
            found += [f"-{name} {version}".rstrip() for version in gone]
            found += [f"+{name} {version}".rstrip() for version in come]
    different = {path for path, _ in old.files.items() ^ new.files.items()}
    installed = {
        path
        for path in different
        if _is_installed_again(old.files.get(path, ""), new.files.get(path, ""))
    }
    replaced = any(
        new.records.get(folder) != record for folder, record in old.records.items()
    )
    owners = _owners(
        different if new.records else different - installed, old, new, root
    )
    changed = sorted((different - installed) | (owners.keys() & installed))
    for path in changed:
        owner, as_installed = owners.get(path, ("", False))
        if (
            owner in known
            or as_installed
            or (not owner and replaced and path not in new.files)
        ):
            continue  # the versions say it, or the file left with its distribution
        if owner:
            found.append(f"code of {owner} changed")
            known.add(owner)
        else:
            name = re.sub(".*-packages/", "", path)
            how = "removed" if path not in new.files else "changed"
            found.append(
                path
                and (f"file {name} {how}" if path in old.files else f"new file {name}")
            )
    return found


def _is_installed_again(old: str, new: str) -> bool:
    """Return whether two values of a file differ only in what a new installation, or a hard link elsewhere, changes."""
    (was, _, before), (now, _, after) = old.partition("\0"), new.partition("\0")
    return was == now and before.rpartition(" ")[2] != after.rpartition(" ")[2]


def _owners(
    changed: Collection[str], old: Installed, new: Installed, root: str
) -> dict[str, tuple[str, bool]]:
    """Return by file its package, and whether it still matches the RECORD of the start: it was only reinstalled."""
    if not new.records:
        known = old.versions | new.versions
        matches = {path: _PACKAGE.fullmatch(f"node_modules/{path}") for path in changed}
        return {
            path: (match[1], False)
            for path, match in matches.items()
            if match and match[1] in known
        }
    owners: dict[str, tuple[str, bool]] = {}
    wanted = {*changed}
    # The workspace's own package comes first, so that another package that lists the file replaces it.
    for folder, record in sorted(
        new.records.items(), key=lambda item: _distribution(item[0])[0] not in new.own
    ):
        for row in csv.reader(_text(f"{root}/{folder}/RECORD").splitlines()):
            file = (
                posixpath.normpath(posixpath.join(posixpath.dirname(folder), row[0]))
                if len(row) > 1
                else ""
            )
            if file in wanted:
                same = (
                    old.records.get(folder) == record
                    and row[1] == f"sha256={_sha256(f'{root}/{file}')}"
                )
                owners[file] = _distribution(folder)[0], same
    return owners


def _files(
    root: str, skip: Iterable[str] = ()
) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield the relative path, the path and the stat of files and links below a folder; caches are left out."""
    closed = _CACHE_FOLDERS.union(skip)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with (
            contextlib.suppress(OSError),
            os.scandir(f"{root}/{folder}") as entries,
        ):  # it vanished
            for entry in entries:
                if entry.name in closed:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{folder}{entry.name}/")
                else:
                    yield (
                        folder + entry.name,
                        entry.path,
                        entry.stat(follow_symlinks=False),
                    )


def _stamp(path: str, info: os.stat_result) -> str:
    """Return size and times; without the ctime if there are several hard links, because a new link sets it."""
    if stat.S_ISLNK(info.st_mode):
        return f"-> {os.readlink(path)}"
    return f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns if info.st_nlink == 1 else ''}"


def _mtime(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256(
        "\0".join(sorted(lines)).encode(errors="surrogateescape")
    ).hexdigest()[:32]


def _sha256(path: str) -> str:
    """Return a file's hash as RECORD writes it; empty if it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return (
                base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest())
                .decode()
                .rstrip("=")
            )
    except OSError:
        return ""


def _text(path: str) -> str:
    return content(path).decode(errors="surrogateescape")


def build_state(workspace: Path, paths: Sequence[str]) -> str:
    """Return a hash over names, sizes and times of build output, which validators see; caches are left out."""
    caches = Patterns(CACHES, builtin=True)
    seen = [
        path for path in paths if not (caches.match(path) or caches.match(f"{path}/x"))
    ]
    return hashlib.sha256(
        json.dumps([(path, state_of(f"{workspace}/{path}")) for path in seen]).encode()
    ).hexdigest()


def bytecode_in(workspace: Path, root: str) -> Iterator[str]:
    """Yield the folders of Python bytecode in a dependency folder. They are left out of what `inspect` returns."""
    if os.path.basename(root) == "node_modules" or os.path.islink(
        f"{workspace}/{root}"
    ):
        return
    for folder, folders, _ in os.walk(f"{workspace}/{root}"):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
            yield os.path.relpath(f"{folder}/__pycache__", workspace)


def written_since(folder: str, began: int) -> bool:
    """Return whether a folder or an entry was changed after `began` (ns), by the ctime, which cannot be set."""
    try:
        return any(
            os.lstat(path).st_ctime_ns > began
            for path in (folder, *(one.path for one in os.scandir(folder)))
        )
    except OSError:
        return True
