"""Whether two versions of a test differ in their formatting alone.

A formatter changes lines, quotes and brackets; a test with the same syntax tree and the
same comments checks the same.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator

_MOST_BYTES = 1_000_000
# A formatter adds and removes these.
_BRACKETS = frozenset("(),")
_COUNTED = frozenset({tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP})


def is_python_code(path: str) -> bool:
    """Return whether the versions of a path can be compared by their syntax trees."""
    return path.endswith(".py")


def is_reformatted(old: bytes | None, new: bytes | None) -> bool:
    """Return whether two contents in Python are the same but for their formatting."""
    if old is None or new is None or max(len(old), len(new)) > _MOST_BYTES:
        return False
    try:
        has_same_tree = _tree(old) == _tree(new)
        return has_same_tree and list(_comments(old)) == list(_comments(new))
    # The version of Python may be another one, or the content no Python at all.
    except (
        SyntaxError,
        tokenize.TokenError,
        ValueError,
        RecursionError,
        MemoryError,
    ):
        return False


def _tree(content: bytes) -> str:
    """Return the syntax tree without places."""
    with warnings.catch_warnings():
        # "\d" without r is the matter of the project.
        warnings.simplefilter("ignore")
        return ast.dump(ast.parse(content))


def _comments(content: bytes) -> Iterator[tuple[str, int, bool]]:
    """Yield each comment, the number of tokens before it, and if its line has code.

    `# noqa` on another line would turn off another finding.
    """
    tokens_before = 0
    for token in tokenize.tokenize(io.BytesIO(content).readline):
        if token.type == tokenize.COMMENT:
            has_code = bool(token.line[: token.start[1]].strip())
            yield token.string, tokens_before, has_code
        elif token.type in _COUNTED and token.string not in _BRACKETS:
            tokens_before += 1
