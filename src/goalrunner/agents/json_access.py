"""Access to JSON values of unknown shape. No function raises."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 10**15
"""No plausible number of tokens or dollars is larger."""


def at(value: Any, *path: str) -> Any:
    """Return what is at a path of keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def first(value: Any, *paths: str) -> Any:
    """Return the first value that is not None at one of the paths, which are keys joined by dots."""
    return next((found for path in paths if (found := at(value, *path.split("."))) is not None), None)


def items(value: Any) -> list[Any]:
    """Return a list as it is, and an empty list for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string that can be encoded; empty for anything else."""
    return clean(value) if isinstance(value, str) else ""


def as_text(value: Any) -> str:
    """Return a string as it is, the text of content blocks, other values as JSON, and an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(at(block, "text"), str) for block in value):
        value = "\n".join(block["text"] for block in value)
    return text(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Return the value as JSON; empty if it is nested too deep."""
    try:
        return clean(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return ""


def clean(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    # Searched, not encoded and decoded: a text may have 64 MB.
    return text if text.isascii() or _SURROGATE.search(text) is None else _SURROGATE.sub("?", text)


def one_line(value: str, longest: int = 200) -> str:
    """Return the text on one line, truncated."""
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def object_in(line: str | None) -> dict[str, Any] | None:
    """Return the JSON object that a line holds; None for anything else."""
    try:
        value = json.loads(line or "", strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def number(value: Any) -> float | None:
    """Return a number that is not negative and finite; None for anything else."""
    plausible = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST
    return value if plausible else None


def count(value: Any) -> int | None:
    """Return a whole number that is not negative; None for anything else."""
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def exit_code(value: Any) -> int | None:
    """Return an exit code; None for anything else."""
    return value if type(value) is int and -1_000 < value < 2**32 else None


def is_failure(value: Any) -> bool:
    """Return whether a flag or a status says that something failed."""
    if isinstance(value, str):
        return value.lower() in ("true", "error", "failed", "failure", "cancelled", "canceled")
    return bool(value)
