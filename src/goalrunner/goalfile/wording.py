"""How values and choices are shown in a message. Owns words, no rules."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from datetime import date, time

_SHOWN = 60
"""Characters of a string that are shown."""

LONGEST_PATH = 4096
"""Characters of a path that are shown: its end matters most."""


def quoted(text: str, longest: int = _SHOWN) -> str:
    """A string in quotes, on one line, shortened to `longest` characters, with nothing that could act on a terminal."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    shown = json.dumps(short, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in shown)


def shown(value: object) -> str:
    """A value as a person would write it in TOML."""
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
    """What a value is, for "must be this, not that"."""
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
    """Choices in quotes: `"low", "medium"`."""
    return ", ".join(quoted(choice) for choice in choices)


SURE = 0.8
"""Likeness of what can be nothing but a slip: {promt} is one, {print} is none."""


def nearest(word: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """The choice that was probably meant, or None."""
    by_shape = {choice.casefold().replace("-", "_"): choice for choice in choices}
    found = difflib.get_close_matches(word[:100].casefold().replace("-", "_"), list(by_shape), n=1, cutoff=likeness)
    return by_shape[found[0]] if found else None
