"""The tests that the runners of one check name, with their ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.verdict import CollectedTests, Ending

RANK: dict[Ending, int] = {"": 0, "skipped": 1, "xfailed": 2, "passed": 3, "failed": 4}
"""The endings of a test; of several endings, the one with the highest rank counts."""


def path_in_workspace(path: str, root: str | Path, workspace: Path) -> str:
    """Return a path relative to the workspace; one outside of it is returned as is."""
    absolute = os.path.join(root, path)  # noqa: PTH118
    # A link within the workspace keeps its name; only then is its target looked at.
    for candidate in (absolute, os.path.realpath(absolute)):
        inside = os.path.relpath(candidate, os.path.realpath(workspace))
        if inside != ".." and not inside.startswith("../"):
            return inside
    return path


def file_of_module(
    holder: str, workspace: Path, folders: Sequence[Path]
) -> tuple[str, str]:
    """Return the file of `package.module.Class` in the workspace, and the class.

    The longest module that exists in one of the folders counts. Without one, `holder`
    itself is returned for the file.
    """
    parts = holder.split(".")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        for folder in folders:
            for name in (f"{path}.py", f"{path}/__init__.py"):
                if (folder / name).is_file():
                    file = path_in_workspace(name, folder, workspace)
                    return file, "::".join(parts[length:])
    return holder, ""


@dataclass
class TestNames:
    """The tests that one runner names, while they are read."""

    __test__ = False  # pytest takes classes with this name for tests
    endings: dict[str, Ending] = field(default_factory=dict)
    skipped_at: dict[str, str] = field(default_factory=dict)
    whole: bool = True

    def add(self, identifier: str, ending: Ending) -> None:
        """Add a test. Of a test that is added twice, the worse ending counts."""
        earlier = self.endings.get(identifier, "")
        self.endings[identifier] = max(earlier, ending, key=RANK.__getitem__)

    @property
    def collected(self) -> CollectedTests:
        # A file that skips itself has no ending of its own.
        places = {
            name: path
            for name, path in self.skipped_at.items()
            if self.endings.get(name, "skipped") == "skipped"
        }
        return CollectedTests(endings=self.endings, skipped_at=places, whole=self.whole)


def together(
    named: Mapping[str, CollectedTests], runners: Collection[str]
) -> CollectedTests | None:
    """Return the tests of all runners; None if no runner names any.

    `named` are the tests by the name of their runner, `runners` those that ran tests:
    if one of them named none, tests are missing.
    """
    if not named:
        return None
    every = TestNames(whole=named.keys() >= set(runners))
    for tests in named.values():
        for identifier, ending in tests.endings.items():
            every.add(identifier, ending)
        every.skipped_at |= tests.skipped_at
        every.whole = every.whole and tests.whole
    return every.collected
