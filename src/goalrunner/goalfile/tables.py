"""Readers of tables, and of validators in their long and short forms."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import get_args

from goalrunner.core.goal import RunVariable
from goalrunner.goalfile.problems import Spot, kind, nearest, quoted, shown
from goalrunner.goalfile.readers import WRONG, Reader, duration_limit, each, line, one_of, string, text, truth, whole
from goalrunner.goalfile.strings import VARIABLE, callable_name, inner_folder, pattern
from goalrunner.shell import label

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


def commands(value: object, spot: Spot) -> object:
    """The short form: one command, or a list of them; gives validators in the long form."""
    if isinstance(value, str):
        command = text(value, spot)
        return WRONG if command is WRONG else [{"run": command}]
    if not isinstance(value, list | tuple):
        spot.wrong(f"must be a command or a list of commands, not {kind(value)}")
        return WRONG
    return [{"run": text(item, spot.item(index))} for index, item in enumerate(value)]


def validator_tables(value: object, spot: Spot) -> object:
    """The long form, `[[validators]]`."""
    if isinstance(value, str) or (isinstance(value, list) and value and all(isinstance(item, str) for item in value)):
        spot.wrong_key('validators are tables; write [[validators]] with run = "...", or validator = "..."')
        return WRONG
    if not isinstance(value, list | tuple):
        spot.wrong_key(f'validators must be a list of tables, not {kind(value)}; write [[validators]] with run = "..."')
        return WRONG
    read = [_validator(item, spot.item(index)) for index, item in enumerate(value)]
    _check_names(value, spot)
    return read


def _validator(value: object, spot: Spot) -> object:
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, not {kind(value)}")
        return WRONG
    read = read_keys(value, spot, VALIDATOR_KEYS, _ELSEWHERE, {})
    ways = [key for key in ("run", "python") if key in value]
    if len(ways) == 2:
        spot.wrong_key("a validator has run or python, not both; write two [[validators]]")
    elif not ways and not {(*spot.path, "run"), (*spot.path, "python")} & spot.problems.excused:
        spot.wrong_key('a validator needs run = "command" or python = "package.module:function"')
    if ways == ["python"] and "expect" in value:
        spot.item("expect").wrong_key("expect is for run alone; a Python callable says itself whether it passed")
    return read


def _expectation(value: object, spot: Spot) -> object:
    if not isinstance(value, Mapping):
        spot.wrong(f"must be a table, such as {{ exit_code = 0 }}, not {kind(value)}")
        return WRONG
    return read_keys(value, spot, EXPECT_KEYS, {}, {})


def _check_names(validators: Sequence[object], spot: Spot) -> None:
    taken: set[str] = set()
    for index, validator in enumerate(validators):
        name = validator.get("name") if isinstance(validator, Mapping) else None
        if not isinstance(name, str):
            continue
        if name in taken:
            spot.item(index).item("name").wrong(
                f"{quoted(name)} is taken by another validator; give it a name of its own"
            )
        taken.add(name)


EXPECT_KEYS: dict[str, Reader] = {"exit_code": whole(at_least=0, at_most=255), "output": pattern}

VALIDATOR_KEYS: dict[str, Reader] = {
    "name": line,
    "run": text,
    "python": callable_name,
    "timeout": duration_limit,
    "cwd": inner_folder,
    "env": variables,
    "pass_env": each(one_of(*get_args(RunVariable))),
    "serial": truth,
    "hidden": truth,
    "retries": whole(at_least=0, at_most=100),
    "expect": _expectation,
}

_ELSEWHERE = dict.fromkeys(EXPECT_KEYS, "in its table expect")


def named(validators: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """The same validators, each with a name of its own: "pytest", "ruff", then "pytest-2"."""
    given = {validator["name"] for validator in validators if "name" in validator}
    used: dict[str, int] = {}
    result = []
    for validator in validators:
        name = validator.get("name") or _free(_name_of(validator), given, used)
        result.append({**validator, "name": name})
    return result


def _free(name: str, given: set[object], used: dict[str, int]) -> str:
    """The name, or the next free one with a number; `used` counts how far the numbers have come."""
    while True:
        used[name] = number = used.get(name, 0) + 1
        candidate = name if number == 1 else f"{name}-{number}"
        if candidate not in given:
            given.add(candidate)
            return candidate


def _name_of(validator: Mapping[str, object]) -> str:
    """What a validator is called after: the function, or the program that its command runs."""
    if "python" in validator:
        return str(validator["python"]).rpartition(":")[2]
    return _word(label(str(validator["run"])))


def _word(word: str) -> str:
    """A word fit for a name: letters, digits, dot, dash and underscore, at most 30 of them."""
    return re.sub(r"[^\w.-]+", "-", word)[:30].strip("-.") or "check"
