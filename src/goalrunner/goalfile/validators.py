"""Validators as a goal file names them, long and short, and the names they get. Owns no running of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import get_args

from goalrunner.goalfile.problems import Spot
from goalrunner.goalfile.readers import WRONG, Reader, duration_limit, each, line, one_of, text, truth, whole
from goalrunner.goalfile.strings import callable_name, inner_folder, pattern
from goalrunner.goalfile.tables import read_keys, variables
from goalrunner.goalfile.wording import kind, quoted
from goalrunner.model.goal import RunVariable
from goalrunner.shell import label


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
