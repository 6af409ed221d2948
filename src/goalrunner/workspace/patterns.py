"""Patterns of paths, written as in a .gitignore. Owns the matching that `protect`, `allow`, `outputs` and caches share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalrunner.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """An ordered list of patterns; the last one that matches decides, `!` takes a path out again.

    `tests/**` is everything below `tests`, `build/` the folder of that name anywhere, `/setup.py` the one at the root.
    Paths are relative, with forward slashes, in the form of `names.shown`. Case counts, on every system.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """Raises UsageError naming a pattern that cannot be read."""
        self.lines = tuple(lines)
        self._specs = _compiled(self.lines)

    def rule(self, path: str) -> str | None:
        """The line that covers the path; None when none does, or when a later one takes it out again."""
        if not self.lines:
            return None
        result = self._specs.check_file(path)
        return self.lines[result.index] if result.include and result.index is not None else None

    def match(self, path: str) -> bool:
        """Whether the path is covered."""
        return self.rule(path) is not None


def _compiled(lines: Sequence[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # many commands never match a pattern

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError as error:
            raise UsageError(f"{line!r} is no pattern of paths: {error}", "write it as in a .gitignore") from error
    return GitIgnoreSpec.from_lines(lines)
