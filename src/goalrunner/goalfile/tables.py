"""Readers of tables: lists of known keys, with what is unknown or not built yet refused by name. Owns no key itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time

from goalrunner.goalfile.problems import Spot
from goalrunner.goalfile.readers import WRONG, Reader, line, string, text
from goalrunner.goalfile.strings import VARIABLE
from goalrunner.goalfile.wording import kind, nearest, quoted, shown

OWNED_PARAMETERS: dict[str, str] = {
    "model": 'write model = "..." in [{table}]',
    "api_key": 'write api_key_env = "..." in [{table}], the name of the variable that holds it',
    "api_base": 'write api_base = "..." in [{table}]',
    "base_url": 'write api_base = "..." in [{table}]',
    **dict.fromkeys(
        (
            "messages",
            "stream",
            "stream_options",
            "tools",
            "functions",
            "response_format",
            "n",
            "max_retries",
            "num_retries",
        ),
        "it is the runner's own; remove it",
    ),
}
"""Arguments of a model call that are not for `params`, and what to do instead."""

_DEEPEST = 20
"""Levels of tables and lists that a parameter may have."""


def read_keys(
    table: Mapping[str, object],
    spot: Spot,
    readers: Mapping[str, Reader],
    elsewhere: Mapping[str, str],
    unavailable: Mapping[str, str],
) -> dict[str, object]:
    """Read every key of a table; what does not hold is said and left out.

    `elsewhere` maps keys of other tables to where they belong; `unavailable` holds keys that this version does not have,
    with what to write instead.
    """
    read: dict[str, object] = {}
    for key, value in table.items():
        here = spot.item(key)
        if key in unavailable:
            here.wrong_key(f"{here.label} {unavailable[key]}")
        elif key in readers:
            found = readers[key](value, here)
            if found is not WRONG:
                read[key] = found
        else:
            _unknown(key, here, spot, readers, elsewhere)
    return read


def _unknown(key: str, here: Spot, table: Spot, readers: Mapping[str, Reader], elsewhere: Mapping[str, str]) -> None:
    where = f" in {_bracketed(table)}" if table.path else ""
    near = None if here.problems.full else nearest(key, readers)
    if key in elsewhere:
        remedy = f"it belongs {elsewhere[key]}"
    elif near:
        remedy = f"did you mean {quoted(near)}?"
        table.problems.excused.add((*table.path, near))
    else:
        remedy = f"valid: {', '.join(sorted(readers))}"
    here.wrong_key(f"unknown key {quoted(key)}{where}; {remedy}")


def _bracketed(table: Spot) -> str:
    """A table as its header is written."""
    return f"[[{table.label}]]" if isinstance(table.path[-1], int) else f"[{table.label}]"


def variables(value: object, spot: Spot) -> object:
    """A table of environment variables."""
    if not isinstance(value, Mapping):
        spot.wrong(f'must be a table of strings, such as {{ NAME = "value" }}, not {kind(value)}')
        return WRONG
    read: dict[str, object] = {}
    for name, content in value.items():
        here = spot.item(name)
        if not VARIABLE.fullmatch(str(name)):
            here.wrong_key(f"{quoted(str(name))} in {_bracketed(spot)} is no name of an environment variable")
        elif isinstance(content, bool | int | float):
            here.wrong(f'must be a string, not {kind(content)}; write "{shown(content)}"')
        else:
            read[name] = string(content, here)
    return read


def hints(value: object, spot: Spot) -> object:
    """Texts of failures, and what to type after each."""
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table of strings, not {kind(value)}")
        return WRONG
    return {text(name, spot.item(name)): line(content, spot.item(name)) for name, content in value.items()}


def parameters(value: object, spot: Spot) -> object:
    """A table that is passed on to the model: anything that JSON can say, but what the runner itself sends."""
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, not {kind(value)}")
        return WRONG
    read: dict[str, object] = {}
    for key, item in value.items():
        here = spot.item(key)
        if key in OWNED_PARAMETERS:
            table = ".".join(str(part) for part in spot.path[:-1])
            here.wrong_key(f"{here.label} is not for params; {OWNED_PARAMETERS[key].format(table=table)}")
        else:
            read[key] = _parameter(item, here, depth=1)
    return read


def _parameter(value: object, spot: Spot, depth: int) -> object:
    if depth > _DEEPEST:
        spot.wrong(f"is nested more than {_DEEPEST} levels deep")
        return WRONG
    match value:
        case date() | time():
            spot.wrong("must not be a date or time; write it as a string")
            return WRONG
        case float() if not math.isfinite(value):
            spot.wrong(f"must be a finite number, not {shown(value)}")
            return WRONG
        case str():
            return string(value, spot)
        case Mapping():
            return {key: _parameter(item, spot.item(key), depth + 1) for key, item in value.items()}
        case list():
            return [_parameter(item, spot.item(index), depth + 1) for index, item in enumerate(value)]
        case _:
            return value
