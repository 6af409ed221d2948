"""The classes of what git ignores: dependencies, build output and everything else.

Marker files decide the class of a folder before names do. Folders of dependencies and
of build output are not entered; the folder `.git` of a repository inside of an ignored
folder is left out.
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

from goalrunner.snapshots.patterns import CACHES, Patterns

Stat = tuple[int, int, int, int, int]
"""The size, mtime, ctime, inode and mode by which a file or link is still the same.

It is a plain tuple because there are many, and tuples are made fastest.
"""
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
        ".package-lock.json", ".bin", ".modules.yaml", ".yarn-state.yml",
        ".yarn-integrity", ".pnpm",
    ),
    "vendor": ("modules.txt", "autoload.php"),
}  # fmt: skip
"""Dependencies are folders of this name with one of these files in them."""
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
"""Folders of this name have this class if one of these files lies beside them."""
_CACHE_FOLDERS = [
    name[:-1] for name in CACHES if name.endswith("/") and "/" not in name[:-1]
]
_NAMES: Mapping[Class, frozenset[str]] = {
    "dependencies": frozenset((
        "__pypackages__", "site-packages", ".pnpm-store", ".eggs", "bower_components",
        ".terraform", ".yarn/cache", ".yarn/unplugged", "vendor/bundle",
    )),
    "build": frozenset((
        *_CACHE_FOLDERS, ".next", ".nuxt", ".svelte-kit", ".astro", ".angular",
        ".docusaurus", ".vite", ".swc", ".expo", ".sass-cache", ".benchmarks",
        ".stack-work", "dist-newstyle", ".zig-cache", "zig-out", "pip-wheel-metadata",
        "storybook-static", "playwright-report", "cmake-build-debug",
        "cmake-build-release",
    )),
}  # fmt: skip
_COMMON = frozenset({"build", "dist", "out", "_build", "coverage"})
"""Names of build output that source folders have as well.

They count only for a folder in which git ignores everything.
"""
_KEEPERS = frozenset({".gitignore", ".gitkeep", ".keep"})
"""Files that only keep a folder in git."""
_LINKS = frozenset(
    {".venv", "venv", "env", "node_modules", "vendor", *_NAMES["dependencies"]}
)
_LISTED: Mark = ("dependencies", "named in the goal file")
_DEPENDENCY_FILES = frozenset({".pnp.cjs", ".pnp.loader.mjs"})
_BUILD_PATTERNS = (
    *(pattern for pattern in CACHES if not pattern.endswith("/")),
    "coverage.xml", "coverage.json", "coverage.lcov", "lcov.info",
    "*.o", "*.obj", "*.lo", "*.class", "*.gcda", "*.gcno", "*.gcov", "*.rlib",
    "*.rmeta", "*.hi", "*.beam",
)  # fmt: skip
_BUILD_FILES = re.compile("|".join(map(translate, _BUILD_PATTERNS)))


@dataclass(
    frozen=True,
    slots=True,
)
class Ignored:
    """A path that git ignores."""

    path: str
    """Relative, with forward slashes, as `os.fsdecode` gives it."""
    kind: Class
    why: str
    """The marker or name that decided the class."""
    root: str = ""
    """The folder of dependencies or build output that the path is, or lies in.

    It is empty for other content.
    """


class Classifier:
    """A classification of what `git ls-files --others --ignored --directory` named.

    What matches a pattern of `dependencies` is dependencies. Other folders are entered;
    `home` is left out. The folders in `start_marks` have the class that they had at the
    start of the run.
    """

    def __init__(
        self,
        workspace: Path,
        names: Iterable[str],
        dependencies: Sequence[str] = (),
        start_marks: Mapping[str, Mark] | None = None,
        *,
        home: Path | None = None,
    ) -> None:
        self.classified: list[Ignored] = []
        """Dependencies, build output, and folders that cannot be read."""
        self.others: dict[str, Stat] = {}
        """Other files and links."""
        self.folders: set[str] = set()
        """Folders of other content that git ignores as a whole."""
        self._root = os.fspath(workspace)
        self._home = os.path.relpath(home, workspace) if home else ""
        self._patterns = Patterns(dependencies)
        has_exception = any(line.startswith("!") for line in dependencies)
        # With an exception in it, a folder has to be entered to find what it excludes.
        self._folder_patterns = Patterns(() if has_exception else dependencies)
        self._lines = [
            line.lstrip("/") for line in dependencies if not line.startswith("!")
        ]
        self._marks = dict(start_marks or {})
        # Folders are listed once: neighbours ask for the same ones.
        self._list = cache(self._names)
        self._around = cache(self._topmost)
        self._whole: set[str] = set()
        """The folders that git ignores as a whole."""
        self._ignored: set[str] = set()
        """All paths that git named, without a slash at the end."""
        for name in names:
            path = name.removesuffix("/")
            self._ignored.add(path)
            if path != name:
                self._whole.add(path)
        for path in self._ignored:
            self._classify(path)
        self.classified.sort(key=lambda entry: entry.path)

    @property
    def dependencies(self) -> set[str]:
        """Return the folders, links and files that are dependencies as a whole."""
        return {entry.root for entry in self.classified if entry.kind == "dependencies"}

    def _classify(self, path: str) -> None:
        """Classify a path that git named."""
        above = folders_above(path)
        if not self._whole.isdisjoint(above) or self._home in (path, *above):
            return
        parent, _, name = path.rpartition("/")
        if around := self._around(parent):
            folder, mark = around
            self._add(path, mark, root=folder)
        elif path in self._whole:
            self._enter(path)
        else:
            self._classify_file(path, name, stat_of(f"{self._root}/{path}"))

    def _enter(self, top: str) -> None:
        """Classify a folder that is ignored as a whole, and what is in it."""
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if folder == self._home:
                continue
            try:
                with os.scandir(f"{self._root}/{folder}") as entries:
                    waiting += self._classify_folder(folder, entries)
            except (FileNotFoundError, NotADirectoryError):
                # It vanished while the others were read.
                continue
            except OSError:
                self.folders.add(folder)
                self._add(folder, ("other", "cannot be read"))

    def _classify_folder(
        self,
        folder: str,
        entries: Iterable[os.DirEntry[str]],
    ) -> list[str]:
        """Classify a folder and the files in it; return the folders to enter."""
        mark = self._mark(folder, whole=True)
        if mark and not self._has_listed_parts(folder, mark):
            self._add(folder, mark)
            return []
        self.folders.add(folder)
        folders: list[str] = []
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                try:
                    info = _stat(entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue
                self._classify_file(path, entry.name, info, mark)
            elif entry.name != ".git":
                # The data of a repository inside is left out.
                if mark:
                    is_listed = self._patterns.match(f"{path}/x")
                    self._marks[path] = _LISTED if is_listed else mark
                folders.append(path)
        return folders

    def _has_listed_parts(self, folder: str, mark: Mark) -> bool:
        """Return whether build output has dependencies in it: `.tox/py/lib`."""
        kind, _ = mark
        return kind == "build" and any(
            line.startswith(f"{folder}/") for line in self._lines
        )

    def _classify_file(
        self,
        path: str,
        name: str,
        info: Stat | None,
        mark: Mark | None = None,
    ) -> None:
        """Classify a file or link; `mark` is that of the build output around it."""
        is_link = info is not None and stat.S_ISLNK(info[MODE])
        if self._lines and self._patterns.match(path):
            self._add(path, _LISTED)
        elif mark:
            self._add(path, mark)
        elif name in _DEPENDENCY_FILES or (is_link and name in _LINKS):
            self._add(path, ("dependencies", name))
        elif _BUILD_FILES.match(name):
            self._add(path, ("build", name))
        elif info is not None:
            self.others[path] = info

    def _add(
        self,
        path: str,
        mark: Mark,
        root: str = "",
    ) -> None:
        kind, why = mark
        entry_root = "" if kind == "other" else root or path
        self.classified.append(Ignored(path, kind, why, entry_root))

    def _topmost(self, folder: str) -> tuple[str, Mark] | None:
        """Return the topmost folder with a mark among a folder and those above it."""
        if not folder:
            return None
        if above := self._around(folder.rpartition("/")[0]):
            return above
        # All its entries are ignored, except files that only keep the folder in git.
        whole = all(
            name in _KEEPERS or f"{folder}/{name}" in self._ignored
            for name in self._list(folder)
        )
        mark = self._mark(folder, whole=whole)
        if mark is None:
            return None
        return folder, mark

    def _mark(self, folder: str, *, whole: bool) -> Mark | None:
        """Return the mark of a folder; None for one of other content.

        `whole` tells whether git ignores everything in the folder.
        """
        if self._folder_patterns.match(f"{folder}/x"):
            return _LISTED
        # The class does not change if the agent removes a marker.
        if folder in self._marks:
            return self._marks[folder]
        if why := self._why_dependencies(folder):
            return "dependencies", why
        if why := self._why_build(folder, whole=whole):
            return "build", why
        return None

    def _why_dependencies(self, folder: str) -> str:
        """Return what shows that a folder has dependencies; empty if nothing does."""
        above, _, name = folder.rpartition("/")
        names = self._list(folder)
        # Markers come first: a source folder may have any name.
        for marker in (*_MARKERS["dependencies"], *_MEMBERS.get(name, ())):
            if marker in names:
                return marker
        # Packages of npm's workspaces are installed beside a manifest further up.
        is_below_manifest = any(
            "package.json" in self._list(place) for place in ("", *folders_above(above))
        )
        if name == "node_modules" and is_below_manifest and self._has_package(folder):
            return "package.json above it"
        if why := self._beside("dependencies", name, above):
            return why
        # Some names have two parts: vendor/bundle.
        two_names = f"{os.path.basename(above)}/{name}"
        if _NAMES["dependencies"].isdisjoint((name, two_names)):
            return ""
        return name

    def _why_build(self, folder: str, *, whole: bool) -> str:
        """Return what shows that a folder is build output; empty if nothing does."""
        above, _, name = folder.rpartition("/")
        # If git tracks files in it, it is a folder of sources with output in it.
        if whole:
            names = self._list(folder)
            for marker in _MARKERS["build"]:
                if marker in names:
                    return marker
        if why := self._beside("build", name, above):
            return why
        if name in _NAMES["build"] or (whole and name in _COMMON):
            return name
        return ""

    def _has_package(self, folder: str) -> bool:
        """Return whether a package is installed in a `node_modules`.

        A folder of that name in a fixture may have none.
        """
        for name in self._list(folder):
            packages = [name]
            if name.startswith("@"):
                packages = [
                    f"{name}/{inner}" for inner in self._list(f"{folder}/{name}")
                ]
            for package in packages:
                if "package.json" in self._list(f"{folder}/{package}"):
                    return True
        return False

    def _beside(
        self,
        kind: Class,
        name: str,
        above: str,
    ) -> str:
        """Return the marker that lies beside a folder; empty if none does."""
        markers = _BESIDE[kind].get(name)
        if markers is None:
            return ""
        # Sorted, so that the reason is the same in each run.
        for neighbour in sorted(self._list(above)):
            if neighbour.endswith(markers):
                return f"{neighbour} beside it"
        return ""

    def _names(self, folder: str) -> frozenset[str]:
        try:
            return frozenset(os.listdir(f"{self._root}/{folder}"))
        except OSError:
            return frozenset()


def folders_above(path: str) -> list[str]:
    """Return the folders that a path lies in, topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


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
