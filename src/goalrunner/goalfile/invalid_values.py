"""Messages for values and keys that the model of a goal rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from goalrunner.core.constructors import expected_type, invalid_value
from goalrunner.core.errors import nearest, quoted
from goalrunner.core.field_types import InnerError
from goalrunner.core.goal import SHORT_KEYS, SHORT_TABLES, Goal
from goalrunner.goalfile.layers import written_keys
from goalrunner.goalfile.problems import Spot
from goalrunner.goalfile.toml_text import Key


def report_invalid(
    error: ValidationError, model: type[BaseModel], spot_of: Callable[[Key], Spot]
) -> None:
    """Report all problems of a validation except a missing objective.

    `spot_of` returns the spot of a model's path.
    """
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        # Without an objective, the message names the option as well.
        if path == ("objective",) and detail["type"] == "missing":
            continue
        reason = detail.get("ctx", {}).get("error")
        # pydantic adds this step to the path of a wrong key.
        is_key = path[-1:] == ("[key]",)
        spot = spot_of(path[:-1] if is_key else path)
        if isinstance(reason, InnerError):
            _report_inner(spot_of((*path, *reason.path)), reason)
        elif is_key and reason is not None:
            table = Spot(spot.source, spot.path[:-1])
            spot.wrong_key(f"{quoted(str(spot.path[-1]))} in {table.header} {reason}")
        elif is_key or detail["type"] == "extra_forbidden":
            _report_unknown(spot, spot_of(path[:-2] if is_key else path[:-1]), model)
        elif detail["type"] == "value_error":
            spot.wrong(str(reason))
        else:
            spot.wrong(_reason(detail, spot.path))


def _report_inner(spot: Spot, error: InnerError) -> None:
    """Report an error inside of a value; `spot` is the place of the error."""
    if not error.key:
        spot.wrong(error.reason)
    elif error.whole:
        spot.wrong_key(error.reason)
    else:
        spot.wrong_key(f"{spot.label} {error.reason}".lstrip())


def _reason(detail: Any, path: Key) -> str:
    """Return the message for the value at `path`, with what to write in a file."""
    expected, hint = expected_type(detail), ""
    if path in (("validator",), ("agent", "command")) and expected is not None:
        expected = "a string or a list of strings"
    if path[0] == "validator" and isinstance(detail["input"], dict):
        hint = "; write [[validators]]"
    elif expected == "a table" and len(path) == 1:
        if path[0] in SHORT_TABLES:
            expected = "a string or a table"
        hint = f"; write [{path[0]}]"
    return invalid_value({**detail, "loc": path}, expected, hint)


_PARSER_KEY = (
    'was removed; write stream = "claude", or the name of another agent whose parser'
    " reads the output"
)
_TRIAL_KEY = (
    "was removed: goal agents --try runs one real round with the agent's own provider;"
    " remove it"
)
_REMOVED = {
    "clean_proof": (
        'was removed; write [workspace] check = "in-place" to run validators in the'
        " workspace itself"
    ),
    "link": (
        'was removed; name folders of installed packages with dependencies = ["..."]'
    ),
    "jailed_env": "was renamed; write sandbox_env",
    "replay": (
        "was removed; remove it: a command counts if nothing changed after it was"
        " started"
    ),
    **dict.fromkeys(("rules", "session_after"), _PARSER_KEY),
    **dict.fromkeys(("wire", "server", "server_args", "server_files"), _TRIAL_KEY),
}
"""Keys of earlier versions, with what to write instead."""


def _report_unknown(spot: Spot, table: Spot, model: type[BaseModel]) -> None:
    """Report an unknown key of `table`, with the nearest key or its right table."""
    key, valid_keys = str(spot.path[-1]), _keys(model, table.path)
    if key in _REMOVED:
        spot.wrong_key(f"{spot.label} {_REMOVED[key]}")
        return
    homes = [header for header, path in _tables(model) if key in _keys(model, path)]
    near = None if homes else nearest(key, valid_keys)
    if homes:
        remedy = f"it belongs {' or '.join(homes)}"
    elif near:
        remedy = f"did you mean {quoted(near)}?"
        # The key is not missing, only misspelled.
        spot.source.problems.excused.add((*table.path, near))
    elif valid_keys:
        remedy = f"valid: {', '.join(sorted(valid_keys))}"
    else:
        remedy = "its keys are whole numbers"
    place = f" in {table.header}" if table.path else ""
    spot.wrong_key(f"unknown key {quoted(key)}{place}; {remedy}")


def _tables(model: type[BaseModel]) -> Iterator[tuple[str, Key]]:
    """Yield each table that may hold a misplaced key, in words, and its path."""
    yield "at the top of the file, before the first table", ()
    for name in model.model_fields:
        yield f"in [{name}]", (name,)
        yield f"in [[{name}]]", (name, 0)


def _keys(model: type[BaseModel], path: Key) -> set[str]:
    """Return the keys of the table at `path`."""
    node: Any = model
    for step in path:
        node = _type_at(node, step)
    if _is_model(node):
        return {*written_keys(node), *(SHORT_KEYS if node is Goal else ())}
    if get_origin(node) is not dict:
        return set()
    # The keys of the table may be literals.
    choices = get_args(get_args(node)[0])
    return {choice for choice in choices if isinstance(choice, str)}


def _type_at(node: Any, step: str | int) -> Any:
    """Return the type of a field or an element of a type; None if it has none."""
    if _is_model(node):
        field = node.model_fields.get(str(step))
        return field.annotation if field else None
    # An element of a list, or a value of a table with free keys.
    arguments = [argument for argument in get_args(node) if argument is not ...]
    is_tuple = get_origin(node) is tuple
    if not arguments or isinstance(step, int) != is_tuple:
        return None
    return arguments[-1]


def _is_model(node: Any) -> bool:
    return isinstance(node, type) and issubclass(node, BaseModel)
