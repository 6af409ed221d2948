"""The tests that the runners of one check collected, put together from what each of them names."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.verdict import CollectedTests, Ending

RANK: dict[Ending, int] = {"": 0, "skipped": 1, "xfailed": 2, "passed": 3, "failed": 4}
"""The endings of a test; of several endings, the last one counts."""


def path_in_workspace(path: str, root: str | Path, workspace: Path) -> str:
    """Return a path relative to the workspace; a path outside of it is returned as it is."""
    whole = os.path.join(root, path)  # noqa: PTH118
    for candidate in (whole, os.path.realpath(whole)):
        inside = os.path.relpath(candidate, os.path.realpath(workspace))
        if inside != ".." and not inside.startswith("../"):
            return inside
    return path


@dataclass
class TestNames:
    """The tests that one runner names, while they are read."""

    __test__ = False
    endings: dict[str, Ending] = field(default_factory=dict)
    skipped_at: dict[str, str] = field(default_factory=dict)
    whole: bool = True

    def add(self, identifier: str, ending: Ending) -> None:
        """Add a test. Of a test that is added twice, the worse ending counts."""
        known = self.endings.get(identifier, "")
        self.endings[identifier] = max(known, ending, key=RANK.__getitem__)

    @property
    def collected(self) -> CollectedTests:
        places = {
            name: path
            for name, path in self.skipped_at.items()
            if self.endings.get(name, "skipped") == "skipped"
        }
        return CollectedTests(endings=self.endings, skipped_at=places, whole=self.whole)


def together(
    named: Mapping[str, CollectedTests], seen: Collection[str]
) -> CollectedTests | None:
    """Return the tests of all runners; None if no runner names any.

    `named` are the tests by the name of their runner, `seen` the runners that tests were counted of.
    """
    if not named:
        return None
    every = TestNames(whole=named.keys() >= set(seen))
    for tests in named.values():
        for identifier, ending in tests.endings.items():
            every.add(identifier, ending)
        every.skipped_at |= tests.skipped_at
        every.whole = every.whole and tests.whole
    return every.collected
