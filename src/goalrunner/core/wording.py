"""Wording of values in error messages: quoted strings, kinds of values, lists of choices, suggestions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from datetime import date, time

_SHOWN = 60
"""Characters of a string that are shown."""

LONGEST_PATH = 4096
"""Characters of a path that are shown: its end matters most."""

TYPING_ERROR = 0.8
"""Likeness of a misspelt word: {promt} resembles {prompt} so much, {print} does not."""


def quoted(text: str, longest: int = _SHOWN) -> str:
    """Return a string in quotes, on one line, at most `longest` characters of it, without control characters."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    shown = json.dumps(short, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in shown)


def shown(value: object) -> str:
    """Return a value as it is written in TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int() if abs(value) >= 10**30:
            return "of that size"
        case int() | float():
            return str(value)
        case _:
            return kind(value)


def kind(value: object) -> str:
    """Return what a value is, for "must be this, not that"."""
    match value:
        case bool():
            return shown(value)
        case str():
            return f"the string {quoted(value)}"
        case int() | float():
            return f"the number {shown(value)}"
        case Mapping():
            return "a table"
        case list() | tuple():
            return "a list"
        case date() | time():
            return "a date or time"
        case _:
            return f"a value of type {type(value).__name__}"


def listed(choices: Iterable[str]) -> str:
    """Return choices in quotes: `"low", "medium"`."""
    return ", ".join(quoted(choice) for choice in choices)


def braced(names: Iterable[str]) -> str:
    """Return names in braces: `{prompt}, {workspace}`."""
    return ", ".join(f"{{{name}}}" for name in names)


def nearest(word: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the choice that was probably meant, or None."""
    by_shape = {choice.casefold().replace("-", "_"): choice for choice in choices}
    found = difflib.get_close_matches(word[:100].casefold().replace("-", "_"), list(by_shape), n=1, cutoff=likeness)
    return by_shape[found[0]] if found else None
