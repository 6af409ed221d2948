"""Patterns of paths, written as in a .gitignore. Owns the matching that `protect`, `allow`, `outputs` and caches share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from goalrunner.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """An ordered list of patterns; the last one that matches decides, `!` takes a path out again.

    `tests/**` is everything below `tests`, `build/` the folder of that name anywhere, `/setup.py` the one at the root.
    Paths are relative, with forward slashes, in the form of `names.shown`. Case counts, on every system.
    """

    def __init__(self, lines: Sequence[str], *, own: bool = False) -> None:
        """Raises UsageError naming a pattern that cannot be read.

        `own` are lines that this program itself has made: they are read when they are asked for, and many never are.
        """
        self.lines = tuple(lines)
        if self.lines and not own:
            _compiled(self.lines)

    def rule(self, path: str) -> str | None:
        """The line that covers the path; None when none does, or when a later one takes it out again."""
        if not self.lines:
            return None
        result = _compiled(self.lines).check_file(path)
        return self.lines[result.index] if result.include and result.index is not None else None

    def match(self, path: str) -> bool:
        """Whether the path is covered."""
        return self.rule(path) is not None


@lru_cache(maxsize=64)
def _compiled(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """A run has a few lists, and makes rules of the same ones in each round."""
    from pathspec import GitIgnoreSpec  # many commands never match a pattern

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        line, error = next((line, error) for line in lines if (error := _problem(line)))
        raise UsageError(f"{line!r} is no pattern of paths: {error}", "write it as in a .gitignore") from error


def _problem(line: str) -> ValueError | None:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError as error:
        return error
    return None
