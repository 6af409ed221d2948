"""What Python finds before a protected module. Owns the order of Python's own search; decides about planted files alone.

In one folder Python takes a package (a folder with an `__init__`) before an extension module, that before `name.py`, that
before `name.pyc`, and a folder without an `__init__` last (importlib.machinery.FileFinder).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator

_PACKAGE = re.compile(r"__init__(?:\.pyc?|(?:\.[\w-]+)?\.(?:so|pyd))")
_EXTENSION = re.compile(r"(?P<stem>\w+)(?:\.[\w-]+)?\.(?:so|pyd)")
_SOURCE = re.compile(r"(?P<stem>\w+)\.pyc?")


class Precedence:
    """What may stand before the modules of the base. Paths are compared in the spelling that `same` gives them.

    `named` says which paths are protected, `always` which of them a validator or the goal names itself.
    """

    def __init__(
        self,
        base: Collection[str],
        named: Callable[[str], bool],
        always: Collection[str],
        same: Callable[[str], str],
    ) -> None:
        self._same = same
        self._modules: dict[str, str] = {}
        """A module without its `.py` -> the module."""
        self._folders: dict[str, str] = {}
        """A folder without an `__init__` that protected modules are imported through -> the folder."""
        self._unmixed: set[str] = set()
        """Those of them in which an `__init__` is nobody's honest work."""
        packages = {same(posixpath.dirname(path)) for path in base if posixpath.basename(path) == "__init__.py"}
        modules = [path for path in base if path.endswith(".py")]
        free = {same(folder) for path in modules if not named(path) for folder in _above(path)}
        for path in modules:
            if not named(path):
                continue
            stem = same(path.removesuffix(".py"))
            if stem not in packages:
                self._modules[stem] = path
            for folder in _above(path):
                key = same(folder)
                if key not in packages:
                    self._folders[key] = f"the folder {folder}/"
                    if path in always or key not in free:
                        self._unmixed.add(key)

    def before(self, path: str, *, is_link: bool) -> str | None:
        """What of the base a new file at `path` is found before ("tools/check.py", "the folder tests/"); None: nothing."""
        folder, _, name = self._same(path).rpartition("/")
        if is_link and "." not in name:
            return self._modules.get(self._same(path))
        if _PACKAGE.fullmatch(name):
            before = self._modules.get(folder)
            if before is None and folder in self._unmixed:
                before = self._folders[folder]
            if before is not None:
                return before
        extension, source = _EXTENSION.fullmatch(name), _SOURCE.fullmatch(name)
        if extension:
            stem = posixpath.join(folder, extension["stem"])
            return self._modules.get(stem) or self._folders.get(stem)
        return self._folders.get(posixpath.join(folder, source["stem"])) if source else None


def script_folders(always: Collection[str], executable: Collection[str]) -> frozenset[str]:
    """The folders that Python puts first for the scripts and modules that a check names: all modules are sought there.

    A script's is its own folder. A module of a package is found from the folder above the package; it is told by its
    `__init__.py`, which a check then names as well; without one, only the command line tells. Of the files without an
    ending the `executable` ones may be Python.
    """
    found = set()
    for path in always:
        folder, _, name = path.rpartition("/")
        if not name.endswith(".py") and ("." in name or path not in executable):
            continue
        while f"{folder}/__init__.py" in always:
            folder = posixpath.dirname(folder)
        found.add(folder)
    return frozenset(found)


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
