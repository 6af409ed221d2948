"""Access to JSON values of unknown structure."""

from __future__ import annotations

import re
from typing import Any, Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def at(value: Any, *path: str) -> Any:
    """Return what is at a path of keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def items(value: Any) -> list[Any]:
    """Return a list as it is, and an empty list for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string that can be encoded; empty for anything else."""
    return clean(value) if isinstance(value, str) else ""


def clean(value: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return value if value.isascii() or _SURROGATE.search(value) is None else _SURROGATE.sub("?", value)
