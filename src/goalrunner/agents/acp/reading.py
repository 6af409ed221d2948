"""Looking into what an agent sent. Owns that nothing in it can do harm: what is not as expected is as if it were not there."""

from __future__ import annotations

import json
from typing import Any

from goalrunner.agents.external.lookup import clean


def at(value: Any, *path: str) -> Any:
    """What stands at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(value: Any) -> str:
    """A string that can be written anywhere; empty for what is none."""
    return clean(value) if isinstance(value, str) else ""


def items(value: Any) -> list[Any]:
    """A list; empty for what is none."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A number of things; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def as_text(value: Any) -> str:
    """A string as it is, anything else as JSON; empty for nothing, and for what is nested too deep to be written."""
    if value is None or isinstance(value, str):
        return text(value)
    try:
        return json.dumps(value, ensure_ascii=True, indent=1)
    except RecursionError:
        return ""


def one_line(value: str, longest: int = 200) -> str:
    """For people."""
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
