"""Installed packages: what dependency folders contain, and what changed in them.

Bytecode, caches of tools and an editable install of the workspace are left out.
"""

# Tens of thousands of paths are joined here; pathlib is several times slower.

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
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.repositories import content

_CACHE_FOLDERS = frozenset(
    name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1]
)
_NODE_CACHES = (
    ".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json", ".yarn-integrity",
    ".modules.yaml", ".yarn-state.yml", ".pnpm-workspace-state-v1.json",
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
    """The content of a dependency folder.

    A folder of neither Python nor Node is one file without a name.
    """

    versions: dict[str, list[str]] = field(default_factory=dict)
    """By package, its versions, sorted."""
    files: dict[str, str] = field(default_factory=dict)
    """By relative path, what changes with the content.

    After a NUL follows what changes with an installation as well.
    """
    records: dict[str, str] = field(default_factory=dict)
    """By metadata folder of each Python distribution, the hash of its RECORD."""
    own: list[str] = field(default_factory=list)
    """Packages that were installed from the workspace.

    Those that are editable have no version.
    """

    def add_version(self, name: str, version: str) -> None:
        """Add a version of a package; several copies of one version count once."""
        self.versions[name] = sorted({*self.versions.get(name, ()), version})

    @property
    def digest(self) -> str:
        """A hash over versions and files."""
        rows = list(map(str, self.versions.items()))
        rows += map("\0".join, self.files.items())
        return _digest(rows)


class _File(NamedTuple):
    """A file or link below a folder. Tuples are made fastest, and there are many."""

    name: str
    """Its path, relative to the folder."""
    path: str
    info: os.stat_result


def inspect(workspace: Path, root: str) -> Installed | None:
    """Return the content of a dependency folder, file or link of the workspace.

    `root` is its path. Return None if it does not exist.
    """
    path = os.path.join(workspace, root)
    if not os.path.lexists(path):
        return None
    name = os.path.basename(root)
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    if is_folder and name == "node_modules":
        return _node_packages(path, os.path.realpath(workspace))
    is_environment = os.path.lexists(os.path.join(path, "pyvenv.cfg"))
    if is_folder and (is_environment or name == "site-packages"):
        return _python_packages(path, os.path.realpath(workspace))
    return Installed(files={"": state_of(path)})


def state_of(path: str) -> str:
    """Return a hash of a path, which stays the same if the path is renamed.

    It is a hash of a link, of a file's content, or of names, sizes and times in a
    folder, without caches. It is empty if the path does not exist.
    """
    if os.path.islink(path):
        return _digest([os.readlink(path)])
    if os.path.isdir(path):
        rows = [f"{file.name}\0{_stamp(file.path, file.info)}" for file in _files(path)]
        return _digest(rows)
    return _sha256(path)


_PACKAGE = re.compile(r"(?:.*/)?node_modules/((?:@[^/]+/)?[^/.][^/]*)/(.*)")


def _node_packages(root: str, workspace: str) -> Installed:
    """Return the packages of a `node_modules` folder.

    Those in nested ones and in pnpm's are included.
    """
    installed = Installed()
    # All files of a package ask for the time of its manifest.
    manifest_time = cache(lambda folder: _mtime(f"{root}/{folder}package.json"))
    inside = (f"{os.path.realpath(root)}/", f"{workspace}/")
    for file in _files(root, _NODE_CACHES):
        match = _PACKAGE.fullmatch(f"node_modules/{file.name}")
        if stat.S_ISLNK(file.info.st_mode):
            # Links of npm's workspaces lead to files that are in the snapshots.
            if not f"{os.path.realpath(file.path)}/".startswith(inside):
                installed.files[file.name] = os.readlink(file.path)
        else:
            # `npm ci` rewrites every file, and packages do not list hashes: where
            # package.json is new as well, only the size is compared.
            value = str(file.info.st_size)
            if match:
                package_time = manifest_time(file.name.removesuffix(match[2]))
                value += f"\0{file.info.st_mtime_ns} {package_time}"
            installed.files[file.name] = value
        if match and match[2] == "package.json":
            installed.add_version(match[1], _node_version(file.path))
    return installed


def _node_version(manifest: str) -> str:
    """Return the version in a package.json; empty if it cannot be read."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(_text(manifest)).get("version", ""))
    return ""


def _python_packages(root: str, workspace: str) -> Installed:
    """Return the packages of a Python environment, or of a site-packages folder."""
    installed = Installed()
    sites = ["", *_sites(root)]
    for site in sites:
        for folder in glob.glob(posixpath.join(site, "*-info"), root_dir=root):
            _add_distribution(installed, root, folder, workspace)
    for file in _files(root):
        folder, name = posixpath.split(file.name)
        is_metadata = folder in installed.records or file.name in installed.records
        # Entry points start code, so they count though they are metadata.
        if name == ".lock" or (is_metadata and name != "entry_points.txt"):
            continue
        is_small = stat.S_ISREG(file.info.st_mode) and file.info.st_size <= _SMALL
        # A new environment has the same small files, such as pyvenv.cfg, with new
        # times.
        if is_small and folder in (*sites, "bin", "Scripts"):
            installed.files[file.name] = _sha256(file.path)
            continue
        value = _stamp(file.path, file.info)
        if file.info.st_nlink > 1:
            value += f"\0{file.info.st_ctime_ns}"
        installed.files[file.name] = value
    return installed


def _add_distribution(
    installed: Installed,
    root: str,
    folder: str,
    workspace: str,
) -> None:
    """Add the Python distribution with this metadata folder."""
    name, version = _distribution(folder)
    installed.records[folder] = _sha256(f"{root}/{folder}/RECORD")
    is_editable = _is_editable(_text(f"{root}/{folder}/direct_url.json"), workspace)
    if is_editable is not None:
        installed.own.append(name)
    # A name with "~" is what an interrupted pip left.
    if not is_editable and not name.startswith("~"):
        installed.add_version(name, version)


def _sites(root: str) -> list[str]:
    """Return the folders that packages are installed in, relative to an environment.

    Links to another environment are left out.
    """
    real_root = os.path.realpath(root)
    sites: list[str] = []
    for pattern in _SITES:
        for site in glob.glob(pattern, root_dir=root):
            real_site = os.path.realpath(os.path.join(root, site))
            if real_site == os.path.join(real_root, site):
                sites.append(site)
    return sorted(sites)


def _distribution(folder: str) -> tuple[str, str]:
    """Return the name and the version in the name of a metadata folder."""
    stem, _ = os.path.splitext(os.path.basename(folder))
    name, _, version = stem.partition("-")
    return name.replace("_", "-").lower(), version.partition("-py")[0]


def _is_editable(direct_url: str, workspace: str) -> bool | None:
    """Return whether a direct_url.json (PEP 610) is that of an editable install.

    Return None if it is not of the workspace.
    """
    try:
        value = json.loads(direct_url)
        path = os.path.realpath(unquote(urlsplit(value["url"]).path))
        if not f"{path}/".startswith(f"{workspace}/"):
            return None
        return bool(value["dir_info"].get("editable"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def dependency_labels(
    before: Mapping[str, Installed],
    after: Mapping[str, Installed],
    workspace: Path,
) -> dict[str, list[str]]:
    """Return labels for what differs in the dependency folders of the start.

    They are such as "+httpx 0.28" or "code of requests changed". Folders without a
    difference are left out.
    """
    labels: dict[str, list[str]] = {}
    for root, old in before.items():
        new = after.get(root)
        if not new:
            labels[root] = [f"{root} removed"]
            continue
        prefix = f"{root}: " if len(before) > 1 else ""
        differences = [
            prefix + difference if difference else f"{root} changed"
            for difference in _differences(old, new, f"{workspace}/{root}")
        ]
        if differences:
            labels[root] = differences
    return {
        root: [printable_path(os.fsencode(label)) for label in lines]
        for root, lines in labels.items()
    }


@dataclass(frozen=True)
class _Owner:
    """The package of a file."""

    name: str
    is_as_installed: bool
    """Whether the file matches the RECORD of the start: it was only reinstalled."""


def _differences(
    old: Installed,
    new: Installed,
    root: str,
) -> list[str]:
    """Return what differs; an empty text stands for the folder as a whole."""
    # An editable install is no change, unless it replaces another package.
    other_versions = old.versions.keys() - {*old.own}
    # The files of these packages need no label.
    named = {*new.own} - new.versions.keys() - other_versions
    labels: list[str] = []
    for name in sorted((old.versions.keys() | new.versions.keys()) - named):
        changes = _version_changes(
            name,
            old.versions.get(name, []),
            new.versions.get(name, []),
        )
        if changes:
            labels += changes
            named.add(name)
    for path, owner in _changed_files(old, new, root):
        if owner is None:
            labels.append(_file_label(path, old, new))
        elif owner.name not in named and not owner.is_as_installed:
            labels.append(f"code of {owner.name} changed")
            named.add(owner.name)
    return labels


def _version_changes(
    name: str,
    old: Sequence[str],
    new: Sequence[str],
) -> list[str]:
    """Return what differs in the versions of a package."""
    removed = [version for version in old if version not in new]
    added = [version for version in new if version not in old]
    if len(removed) == len(added) == 1:
        return [f"{name} {removed[0]} → {added[0]}"]
    labels = [f"-{name} {version}".rstrip() for version in removed]
    labels += [f"+{name} {version}".rstrip() for version in added]
    return labels


def _changed_files(
    old: Installed,
    new: Installed,
    root: str,
) -> Iterator[tuple[str, _Owner | None]]:
    """Yield the files that differ, sorted, each with its owner, None without one."""
    different = {path for path, _ in old.files.items() ^ new.files.items()}
    installed = {
        path
        for path in different
        if _is_installed_again(old.files.get(path, ""), new.files.get(path, ""))
    }
    # Without RECORDs, there is no hash that tells a change from an installation.
    owners = _owners(
        different if new.records else different - installed,
        old,
        new,
        root,
    )
    has_replaced = any(
        new.records.get(folder) != record for folder, record in old.records.items()
    )
    for path in sorted((different - installed) | (owners.keys() & installed)):
        owner = owners.get(path)
        # A file without an owner disappeared with its distribution.
        if owner or not has_replaced or path in new.files:
            yield path, owner


def _file_label(
    path: str,
    old: Installed,
    new: Installed,
) -> str:
    """Return the label of a file without an owner."""
    if not path:
        return ""
    name = re.sub(".*-packages/", "", path)
    if path not in old.files:
        return f"new file {name}"
    return f"file {name} changed" if path in new.files else f"file {name} removed"


def _is_installed_again(old: str, new: str) -> bool:
    """Return whether two values of a file differ only by a new installation.

    A hard link elsewhere changes the same part of a value.
    """
    old_content, _, old_times = old.partition("\0")
    new_content, _, new_times = new.partition("\0")
    # The last word is the time of the package or of the inode.
    is_new = old_times.rpartition(" ")[2] != new_times.rpartition(" ")[2]
    return old_content == new_content and is_new


def _owners(
    changed: Collection[str],
    old: Installed,
    new: Installed,
    root: str,
) -> dict[str, _Owner]:
    """Return the package of each changed file that belongs to one."""
    if not new.records:
        return _node_owners(changed, old.versions.keys() | new.versions.keys())
    owners: dict[str, _Owner] = {}
    paths = {*changed}
    # The workspace's own package comes first, so that another package that lists the
    # file replaces it.
    own_first = sorted(
        new.records,
        key=lambda folder: _distribution(folder)[0] not in new.own,
    )
    for folder in own_first:
        name, _ = _distribution(folder)
        is_same_record = old.records.get(folder) == new.records[folder]
        for row in csv.reader(_text(f"{root}/{folder}/RECORD").splitlines()):
            if len(row) < 2:
                continue
            listed, record_hash, *_ = row
            path = posixpath.join(posixpath.dirname(folder), listed)
            path = posixpath.normpath(path)
            if path not in paths:
                continue
            # Only files that differ are hashed: an environment has thousands.
            is_as_installed = (
                is_same_record and record_hash == f"sha256={_sha256(f'{root}/{path}')}"
            )
            owners[path] = _Owner(name, is_as_installed)
    return owners


def _node_owners(
    changed: Collection[str],
    packages: Collection[str],
) -> dict[str, _Owner]:
    owners: dict[str, _Owner] = {}
    for path in changed:
        match = _PACKAGE.fullmatch(f"node_modules/{path}")
        if match and match[1] in packages:
            owners[path] = _Owner(match[1], is_as_installed=False)
    return owners


def _files(root: str, skip: Iterable[str] = ()) -> Iterator[_File]:
    """Yield the files and links below a folder; caches and `skip` are left out."""
    closed = _CACHE_FOLDERS.union(skip)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        # A folder may vanish while the others are read.
        with (
            contextlib.suppress(OSError),
            os.scandir(f"{root}/{folder}") as entries,
        ):
            for entry in entries:
                if entry.name in closed:
                    continue
                name = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                else:
                    info = entry.stat(follow_symlinks=False)
                    yield _File(name, entry.path, info)


def _stamp(path: str, info: os.stat_result) -> str:
    """Return what changes with a file: its size and times, or the target of a link."""
    if stat.S_ISLNK(info.st_mode):
        return f"-> {os.readlink(path)}"
    # A new hard link sets the ctime of the others.
    ctime = str(info.st_ctime_ns) if info.st_nlink == 1 else ""
    return f"{info.st_size} {info.st_mtime_ns} {ctime}"


def _mtime(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _digest(lines: Iterable[str]) -> str:
    text = "\0".join(sorted(lines))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _sha256(path: str) -> str:
    """Return a file's hash as RECORD writes it; empty if it cannot be read."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _text(path: str) -> str:
    return content(path).decode(errors="surrogateescape")


def build_state(workspace: Path, paths: Sequence[str]) -> str:
    """Return a hash over names, sizes and times of build output, without caches.

    Validators see build output, so it is a part of what they checked.
    """
    caches = Patterns(CACHES, builtin=True)
    rows: list[tuple[str, str]] = []
    for path in paths:
        if not (caches.match(path) or caches.match(f"{path}/x")):
            rows.append((path, state_of(f"{workspace}/{path}")))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def bytecode_in(workspace: Path, root: str) -> Iterator[str]:
    """Yield the folders of Python bytecode in a dependency folder.

    They are left out of the result of `inspect`.
    """
    path = f"{workspace}/{root}"
    if os.path.basename(root) == "node_modules" or os.path.islink(path):
        return
    for folder, folders, _ in os.walk(path):
        if "__pycache__" in folders:
            # It need not be walked.
            folders.remove("__pycache__")
            yield os.path.relpath(f"{folder}/__pycache__", workspace)


def written_since(folder: str, began: int) -> bool:
    """Return whether a folder or an entry was changed after `began` (ns).

    The ctime decides, because no program can set it.
    """
    try:
        paths = [folder, *(entry.path for entry in os.scandir(folder))]
        return any(os.lstat(path).st_ctime_ns > began for path in paths)
    except OSError:
        return True
