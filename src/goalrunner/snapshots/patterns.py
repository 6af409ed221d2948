"""Patterns of paths in the form of .gitignore, such as those of caches."""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Patterns:
    """An ordered list of patterns; the last one that matches decides.

    `!` excludes a path. `tests/**` is everything below `tests`, `build/` the folder of
    that name anywhere, `/setup.py` the one at the root. Paths are relative, with
    forward slashes, in the form of `objects.printable_path`. Case matters on every
    system.
    """

    def __init__(self, lines: Sequence[str], *, builtin: bool = False) -> None:
        """Raise UsageError for an invalid pattern.

        `builtin` patterns, made by this program, are compiled at their first use.
        """
        self.lines = tuple(lines)
        if self.lines and not builtin:
            _compiled(self.lines)

    def rule(self, path: str) -> str | None:
        """Return the line that matches the path.

        Return None if none does, or a later one excludes it.
        """
        if not self.lines:
            return None
        compiled = _compiled(self.lines)
        if not compiled.may_match(_without_prefix(path)):
            return None
        result = compiled.spec.check_file(path)
        if not result.include or result.index is None:
            return None
        return self.lines[result.index]

    def match(self, path: str) -> bool:
        """Return whether a pattern matches the path."""
        return any(self.matches([path]))

    def matches(self, paths: Iterable[str]) -> Iterator[bool]:
        """Return for each path whether a pattern matches it."""
        if not self.lines:
            return (False for _ in paths)
        compiled = _compiled(self.lines)
        normal_paths = map(_without_prefix, paths)
        if compiled.excludes:
            # One expression cannot tell that a later pattern excludes the path.
            return (
                bool(compiled.may_match(path)) and self.rule(path) is not None
                for path in normal_paths
            )
        return (compiled.may_match(path) is not None for path in normal_paths)


def _without_prefix(path: str) -> str:
    return path.removeprefix("./").removeprefix("/")


@dataclass(frozen=True)
class _Compiled:
    """A list of patterns in two forms."""

    spec: GitIgnoreSpec
    may_match: Callable[[str], object]
    """Match if one of the patterns that do not begin with `!` does.

    It is one regular expression, some ten times faster than `spec`.
    """
    excludes: bool
    """Whether a pattern begins with `!`."""


_ANYWHERE = "^(?:.+/)?"
"""The beginning of the expression of a pattern that matches in every folder."""


@lru_cache(maxsize=64)
def _compiled(lines: tuple[str, ...]) -> _Compiled:
    """Return the compiled patterns; a run uses the same few lists in each round."""
    # Many commands never match a pattern, and the import takes its time.
    from pathspec import GitIgnoreSpec

    patterns: list[Any] = []
    for line in lines:
        try:
            patterns += GitIgnoreSpec.from_lines([line]).patterns
        except ValueError as error:
            message = f"{line!r} is not a valid pattern of paths: {error}"
            raise UsageError(message, "write it as in a .gitignore") from error
    anywhere: list[str] = []
    alternatives: list[str] = []
    excludes = False
    for pattern in patterns:
        excludes = excludes or pattern.include is False
        if not pattern.include:
            continue
        # A name of a group may occur only once in an expression.
        expression = re.sub(r"\(\?P<\w+>", "(?:", pattern.regex.pattern)
        if expression.startswith(_ANYWHERE):
            anywhere.append(expression.removeprefix(_ANYWHERE))
        else:
            alternatives.append(expression)
    # Their common beginning is tried once for all of them.
    if anywhere:
        alternatives.append(f"{_ANYWHERE}(?:{'|'.join(anywhere)})")
    combined = re.compile("|".join(alternatives) or "(?!)")
    return _Compiled(GitIgnoreSpec(patterns), combined.search, excludes)


CACHES: tuple[str, ...] = (
    "__pycache__/", ".pytest_cache/", ".hypothesis/", ".testmondata*", ".mypy_cache/",
    ".dmypy.json", ".pytype/", ".pyre/", ".ruff_cache/", ".import_linter_cache/",
    ".tox/", ".nox/", ".ipynb_checkpoints/", ".coverage", ".coverage.*", "htmlcov/",
    ".nyc_output/", "node_modules/.cache/", "node_modules/.vite/",
    "node_modules/.vitest/", ".eslintcache", ".stylelintcache", ".parcel-cache/",
    ".turbo/", "*.tsbuildinfo", ".gradle/", ".DS_Store", "Thumbs.db",
)  # fmt: skip
"""Caches of test runners, compilers and linters, and measurements of coverage."""
