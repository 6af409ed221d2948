"""The files of a workspace, and which of them a copy shares with the live tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import EnvironmentFailed
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.patterns import CACHES, Patterns

_GIT_SECONDS = 120.0
"""Seconds for git to list the ignored paths; a cold disk with many folders is slow."""
_OBJECTS = "objects"


@dataclass
class LiveTree:
    """What `read_live_tree` has found below `root`.

    All paths are relative to it, in the form of `os.fsdecode`.
    """

    root: Path
    files: dict[str, os.stat_result] = field(default_factory=dict)
    """Regular files and symbolic links that git does not ignore, and the files of
    repositories but their objects.
    """
    folders: dict[str, os.stat_result] = field(default_factory=dict)
    """The folders of these files, and empty ones; the root is ""."""
    shared_folders: set[str] = field(default_factory=set)
    """Folders in which something ignored lies at any depth: their ignored content stays
    that of the live tree.
    """
    shared: list[str] = field(default_factory=list)
    """The ignored paths that stay live; a folder ends with a slash.

    Caches are left out.
    """
    object_folders: list[str] = field(default_factory=list)
    """The folders with the objects of repositories, which are read and never written.
    """

    def manifest(self) -> bytes:
        """Return a text that is the same as long as nothing in the tree changes.

        Each line has a path and, after the last null character, what is known of it. A
        line feed in a path is written as a null character, which no path has.
        """
        rows = [
            f"{_in_line(path)}\0{info.st_mode:o} {info.st_size} {info.st_ino} "
            f"{info.st_mtime_ns} {info.st_ctime_ns}"
            for path, info in self.files.items()
        ]
        for path, info in self.folders.items():
            is_shared = path in self.shared_folders
            name = _in_line(path) or "."
            rows.append(f"{name}/\0{info.st_mode:o} {is_shared:d}")
        return b"\n".join(sorted(map(os.fsencode, rows)))


def rows_of(manifest: bytes) -> dict[str, str]:
    """Return the rows of a manifest by path."""
    rows = {}
    for line in os.fsdecode(manifest).split("\n"):
        path, _, facts = line.rpartition("\0")
        rows[path.replace("\0", "\n")] = facts
    return rows


def _in_line(path: str) -> str:
    return path.replace("\n", "\0")


def read_live_tree(root: Path, environ: Mapping[str, str], rules: Path) -> LiveTree:
    """Read the tree at `root`, a folder without links in its path.

    Raise EnvironmentFailed if git fails or a folder is closed, and FileNotFoundError if
    something vanishes meanwhile.

    `rules` is a folder for an empty repository, with which git reads the ignore files
    of a tree without one.
    """
    tree = LiveTree(root)
    _Reader(tree, environ, rules).read()
    # Mount points of objects are numbered: the order must not depend on the disk.
    tree.object_folders.sort()
    tree.shared.sort()
    return tree


class _Reader:
    """Reads a tree into a LiveTree, folder by folder."""

    def __init__(self, tree: LiveTree, environ: Mapping[str, str], rules: Path) -> None:
        self._tree = tree
        self._environ = environ
        self._rules = rules
        self._ignored: set[str] = set()
        self._caches = Patterns(CACHES)

    def read(self) -> None:
        root = self._tree.root
        self._tree.folders[""] = os.lstat(root)
        if (root / ".git" / "HEAD").exists() or (root / ".git").is_file():
            self._note_ignored("")
        elif _is_git_folder(root):
            self._read_git_folder("")
            return
        else:
            self._note_ignored_without_repository()
        self._read_folder("")

    def _read_folder(self, folder: str) -> None:
        """Read a folder of the work tree; the paths in `_ignored` are shared or left
        out.
        """
        for entry in self._entries(folder):
            path = folder + entry.name
            info = entry.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(info.st_mode)
            # Before the ignored paths: a rule such as `.*` does not hide it from git.
            if entry.name == ".git" and is_folder:
                self._tree.folders[path] = info
                self._read_git_folder(f"{path}/")
            elif path in self._ignored or f"{path}/" in self._ignored:
                # Git writes a slash after the name of a folder.
                self._share(f"{path}/" if is_folder else path)
            elif is_folder:
                self._tree.folders[path] = info
                if os.path.lexists(os.path.join(self._tree.root, path, ".git")):
                    self._note_ignored(f"{path}/")
                self._read_folder(f"{path}/")
            elif stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                # Sockets, pipes and devices are left out: to open one can block.
                self._tree.files[path] = info

    def _read_git_folder(self, folder: str) -> None:
        """Read the folder of a repository: everything but objects is copied."""
        for entry in self._entries(folder):
            path = folder + entry.name
            info = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                    self._tree.files[path] = info
                continue
            self._tree.folders[path] = info
            holds_objects = entry.name == _OBJECTS and _is_git_folder(
                Path(self._tree.root, folder)
            )
            if holds_objects:
                self._tree.object_folders.append(path)
            else:
                self._read_git_folder(f"{path}/")

    def _share(self, path: str) -> None:
        if self._caches.match(path):
            return
        self._tree.shared.append(path)
        folder = path.rstrip("/")
        while folder:
            folder = os.path.dirname(folder)
            self._tree.shared_folders.add(folder)

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        place = os.path.join(self._tree.root, folder)
        try:
            with os.scandir(place) as entries:
                yield from entries
        except FileNotFoundError:
            # Someone works in the tree, which can be read again.
            raise
        except OSError as error:
            raise EnvironmentFailed(
                f"a copy of {self._tree.root} is not possible: {place} cannot be read "
                f"({(error.strerror or str(error)).lower()})",
                "check its owner and permissions, or run without --isolate",
            ) from error

    def _note_ignored(self, folder: str) -> None:
        """Note what the rules of the repository of `folder` ignore, unless it is
        tracked.
        """
        self._ask(folder, (), Path(self._tree.root, folder))

    def _note_ignored_without_repository(self) -> None:
        if not (self._rules / "HEAD").exists():
            self._git(self._rules.parent, "init", "--quiet", "--bare", str(self._rules))
        options = (f"--git-dir={self._rules}", f"--work-tree={self._tree.root}")
        self._ask("", options, self._tree.root)

    def _ask(self, prefix: str, options: tuple[str, ...], place: Path) -> None:
        # With --directory, git names an ignored folder and does not list it: a
        # node_modules can have a hundred thousand files.
        command = "ls-files --others --ignored --directory --exclude-standard -z"
        output = self._git(place, *options, *command.split())
        for name in os.fsdecode(output).split("\0")[:-1]:
            self._ignored.add(prefix + name)

    def _git(self, folder: Path, *arguments: str) -> bytes:
        code, output, errors = ask_git(
            folder, *arguments, environ=self._environ, timeout=_GIT_SECONDS
        )
        if code == 0:
            return output
        words = errors.decode(errors="replace").strip() or f"exit code {code}"
        raise EnvironmentFailed(
            f"a copy of {self._tree.root} is not possible: "
            f"git failed in {folder}: {words}",
            "run without --isolate",
        )


def _is_git_folder(folder: Path) -> bool:
    """Return whether this is the folder of a repository, as git itself decides it."""
    has_objects = (folder / _OBJECTS).is_dir()
    return has_objects and os.path.lexists(folder / "HEAD")
