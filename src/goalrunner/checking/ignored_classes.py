"""The classes of what git ignores: dependencies, build output and everything else.

Marker files decide the class of a folder before names do. Folders of dependencies and of build output are not entered;
the folder `.git` of a repository inside of an ignored folder is left out.
"""

# A hundred thousand paths are listed here; pathlib is several times slower.

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Literal

from goalrunner.snapshots.diff import CACHES, Patterns

Stat = tuple[int, int, int, int, int]
"""What tells that a file or link is still the same: size, mtime, ctime, inode and mode. Plain tuples are made fastest."""
SIZE, CTIME, MODE = 0, 2, 4
"""Positions in a `Stat`."""

Class = Literal["dependencies", "build", "other"]
Mark = tuple[Class, str]
"""A class, and the marker or name that decided it."""
_MARKERS: Mapping[Class, tuple[str, ...]] = {
    "dependencies": ("pyvenv.cfg", "conda-meta"),
    "build": ("CACHEDIR.TAG", "CMakeCache.txt", "meson-private"),
}
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "node_modules": (
        ".package-lock.json",
        ".bin",
        ".modules.yaml",
        ".yarn-state.yml",
        ".yarn-integrity",
        ".pnpm",
    ),
    "vendor": ("modules.txt", "autoload.php"),
}
"""Dependencies are folders of this name with one of these files in them, or beside them (below)."""
_BESIDE: Mapping[Class, Mapping[str, tuple[str, ...]]] = {
    "dependencies": {
        "node_modules": ("package.json",),
        "vendor": ("Cargo.toml",),
        "deps": ("mix.exs",),
        "Pods": ("Podfile",),
        ".dart_tool": ("pubspec.yaml",),
    },
    "build": {
        "target": ("Cargo.toml", "pom.xml", "build.sbt", "project.clj"),
        "bin": (".csproj", ".fsproj", ".vbproj"),
        "obj": (".csproj", ".fsproj", ".vbproj"),
        "site": ("mkdocs.yml", "mkdocs.yaml"),
        ".build": ("Package.swift",),
    },
}
_NAMES: Mapping[Class, frozenset[str]] = {
    "dependencies": frozenset(
        {
            "__pypackages__",
            "site-packages",
            ".pnpm-store",
            ".eggs",
            "bower_components",
            ".terraform",
        }
        | {".yarn/cache", ".yarn/unplugged", "vendor/bundle"}
    ),
    "build": frozenset(
        name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1]
    )
    | {
        ".next",
        ".nuxt",
        ".svelte-kit",
        ".astro",
        ".angular",
        ".docusaurus",
        ".vite",
        ".swc",
        ".expo",
        ".sass-cache",
    }
    | {
        ".benchmarks",
        ".stack-work",
        "dist-newstyle",
        ".zig-cache",
        "zig-out",
        "pip-wheel-metadata",
    }
    | {
        "storybook-static",
        "playwright-report",
        "cmake-build-debug",
        "cmake-build-release",
    },
}
_COMMON = frozenset({"build", "dist", "out", "_build", "coverage"})
"""Build output, but source folders have these names as well: git must ignore all that is in them."""
_KEEPERS = frozenset({".gitignore", ".gitkeep", ".keep"})
_LINKS = frozenset(
    {".venv", "venv", "env", "node_modules", "vendor", *_NAMES["dependencies"]}
)
_LISTED: Mark = ("dependencies", "named in the goal file")
_DEPENDENCY_FILES = frozenset({".pnp.cjs", ".pnp.loader.mjs"})
_BUILD_FILES = re.compile(
    "|".join(
        translate(pattern)
        for pattern in (
            *(pattern for pattern in CACHES if not pattern.endswith("/")),
            *("coverage.xml", "coverage.json", "coverage.lcov", "lcov.info"),
            *(
                "*.o",
                "*.obj",
                "*.lo",
                "*.class",
                "*.gcda",
                "*.gcno",
                "*.gcov",
                "*.rlib",
                "*.rmeta",
                "*.hi",
                "*.beam",
            ),
        )
    )
)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A path that git ignores.

    `path` is relative, with forward slashes, as `os.fsdecode` gives it. `why` is the marker or name that decided.
    `root` is the folder of dependencies or build output that the path is, or lies in; empty for other content.
    """

    path: str
    kind: Class
    why: str
    root: str = ""


class Classifier:
    """A classification of what `git ls-files --others --ignored --directory` named.

    What matches a pattern of `dependencies` is dependencies. Other folders are entered; `home` is left out. `known` are
    folders whose class is known from the start of the run.
    """

    def __init__(
        self,
        workspace: Path,
        names: Iterable[str],
        dependencies: Sequence[str] = (),
        known: Mapping[str, Mark] | None = None,
        *,
        home: Path | None = None,
    ) -> None:
        self.found: list[Ignored] = []
        """Dependencies, build output, and folders that cannot be read."""
        self.others: dict[str, Stat] = {}
        """Other files and links."""
        self.folders: set[str] = set()
        """Folders of other content that git ignores as a whole."""
        self._root = os.fspath(workspace)
        self._home = os.path.relpath(home, workspace) if home else ""
        self._patterns = Patterns(dependencies)
        self._folder_patterns = Patterns(
            () if any(line.startswith("!") for line in dependencies) else dependencies
        )
        self._lines = [
            line.lstrip("/") for line in dependencies if not line.startswith("!")
        ]
        self._known = dict(known or {})
        self._list = cache(self._names)
        self._around = cache(self._topmost)
        listed = set(names)
        whole = {name[:-1] for name in listed if name.endswith("/")}
        self._named = whole | {name for name in listed if not name.endswith("/")}
        for path in self._named:
            above = folders_above(path)
            if not whole.isdisjoint(above) or self._home in (path, *above):
                continue
            if around := self._around(path.rpartition("/")[0]):
                self._add(path, around[1], root=around[0])
            elif path in whole:
                self._enter(path)
            else:
                self._file(
                    path, path.rpartition("/")[2], stat_of(f"{self._root}/{path}")
                )
        self.found.sort(key=lambda entry: entry.path)

    @property
    def dependencies(self) -> set[str]:
        """Return the folders, links and files that are dependencies as a whole."""
        return {entry.root for entry in self.found if entry.kind == "dependencies"}

    def _enter(self, top: str) -> None:
        """Classify a folder that is ignored as a whole, and what is in it."""
        waiting = [top]
        while waiting:
            here = waiting.pop()
            if here == self._home:
                continue
            try:
                with os.scandir(f"{self._root}/{here}") as entries:
                    waiting += self._classified(here, entries)
            except (FileNotFoundError, NotADirectoryError):  # it vanished
                continue
            except OSError:
                self.folders.add(here)
                self._add(here, ("other", "cannot be read"))

    def _classified(self, here: str, entries: Iterable[os.DirEntry[str]]) -> list[str]:
        """Classify a folder and the files in it; return the folders to enter."""
        mark = self._mark(here, whole=True)
        inner = (
            mark is not None
            and mark[0] == "build"
            and any(line.startswith(f"{here}/") for line in self._lines)
        )
        if mark and not inner:
            self._add(here, mark)
            return []
        self.folders.add(here)
        folders = []
        for entry in entries:
            path = f"{here}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                try:
                    self._file(
                        path, entry.name, _stat(entry.stat(follow_symlinks=False)), mark
                    )
                except FileNotFoundError:
                    continue
            elif entry.name != ".git":
                if mark:
                    self._known[path] = (
                        _LISTED if self._patterns.match(f"{path}/x") else mark
                    )
                folders.append(path)
        return folders

    def _file(
        self, path: str, name: str, info: Stat | None, mark: Mark | None = None
    ) -> None:
        """Classify a file or link; `mark` is the class of the build output that it lies in."""
        if self._lines and self._patterns.match(path):
            self._add(path, _LISTED)
        elif mark:
            self._add(path, mark)
        elif name in _DEPENDENCY_FILES or (
            name in _LINKS and info and stat.S_ISLNK(info[MODE])
        ):
            self._add(path, ("dependencies", name))
        elif _BUILD_FILES.match(name):
            self._add(path, ("build", name))
        elif info is not None:
            self.others[path] = info

    def _add(self, path: str, mark: Mark, root: str = "") -> None:
        kind, why = mark
        self.found.append(
            Ignored(path, kind, why, "" if kind == "other" else root or path)
        )

    def _topmost(self, folder: str) -> tuple[str, Mark] | None:
        """Return the topmost folder of dependencies or build output among a folder and those above it, and its mark."""
        if not folder:
            return None
        if above := self._around(folder.rpartition("/")[0]):
            return above
        # All its entries are ignored, except files that only keep the folder in git.
        whole = all(
            name in _KEEPERS or f"{folder}/{name}" in self._named
            for name in self._list(folder)
        )
        mark = self._mark(folder, whole=whole)
        return (folder, mark) if mark else None

    def _mark(self, folder: str, *, whole: bool) -> Mark | None:
        """Return the class of a folder of dependencies or build output, and what shows it; None for another folder."""
        if self._folder_patterns.match(f"{folder}/x"):
            return _LISTED
        if folder in self._known:
            return self._known[folder]
        above, _, name = folder.rpartition("/")
        inside = self._list(folder)
        if marker := next(
            (
                one
                for one in (*_MARKERS["dependencies"], *_MEMBERS.get(name, ()))
                if one in inside
            ),
            "",
        ):
            return "dependencies", marker
        below_manifest = any(
            "package.json" in self._list(place) for place in ("", *folders_above(above))
        )
        if name == "node_modules" and below_manifest and self._has_package(folder):
            return "dependencies", "package.json above it"
        if why := self._beside("dependencies", name, above):
            return "dependencies", why
        if (
            name in _NAMES["dependencies"]
            or f"{os.path.basename(above)}/{name}" in _NAMES["dependencies"]
        ):
            return "dependencies", name
        if marker := next(
            (one for one in _MARKERS["build"] if whole and one in inside), ""
        ):
            return "build", marker
        if why := self._beside("build", name, above):
            return "build", why
        return (
            ("build", name)
            if name in _NAMES["build"] or (whole and name in _COMMON)
            else None
        )

    def _has_package(self, folder: str) -> bool:
        """Return whether a package is installed in a folder of that name; one of a fixture may have none."""
        for name in self._list(folder):
            names = (
                [f"{name}/{one}" for one in self._list(f"{folder}/{name}")]
                if name.startswith("@")
                else [name]
            )
            if any("package.json" in self._list(f"{folder}/{one}") for one in names):
                return True
        return False

    def _beside(self, kind: Class, name: str, above: str) -> str:
        markers = _BESIDE[kind].get(name)
        found = (
            one
            for one in sorted(self._list(above))
            if markers and one.endswith(markers)
        )
        return next((f"{one} beside it" for one in found), "")

    def _names(self, folder: str) -> frozenset[str]:
        try:
            return frozenset(os.listdir(f"{self._root}/{folder}"))
        except OSError:
            return frozenset()


def folders_above(path: str) -> list[str]:
    """Return the folders that a path lies in, topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def stat_of(path: str) -> Stat | None:
    """Return the stat of a file or link; None for anything else."""
    try:
        return _stat(os.lstat(path))
    except OSError:
        return None


def _stat(info: os.stat_result) -> Stat | None:
    mode = info.st_mode
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, mode
    return None
