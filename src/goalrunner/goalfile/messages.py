"""Messages for what a model rejects: each names the key, the place, the reason and the replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from goalrunner.core.agent_preset import PARSERS
from goalrunner.core.field_types import InnerError
from goalrunner.core.wording import kind, listed, nearest, quoted, shown
from goalrunner.goalfile.positions import Key
from goalrunner.goalfile.problems import Spot
from goalrunner.goalfile.schema import Schema

_CLEAN_PROOF = (
    "was removed: validators run in the check environment in each round; remove it, or write "
    '[workspace] check = "in-place" to run them in the workspace itself'
)

REMOVED: dict[Key, str] = {
    ("critic",): "is not available in this version; remove it",
    ("clean_proof",): _CLEAN_PROOF,
    ("workspace", "clean_proof"): _CLEAN_PROOF,
    ("workspace", "link"): (
        "was removed: validators see .venv, node_modules and other ignored folders as they are; remove it, or "
        'name folders of installed packages with dependencies = ["..."]'
    ),
}
"""Keys that this version does not have, with what to write instead."""

_TRIAL = "was removed: goal doctor --try runs one real round with the agent's own provider; remove it"

REMOVED_FROM_AGENTS: dict[str, str] = {
    **dict.fromkeys(("wire", "server", "server_args", "server_files"), _TRIAL),
    **dict.fromkeys(("rules", "session_after"), f"was removed; {PARSERS}"),
}
"""The same for the keys of an agent in [agents.NAME], or in a file of its own."""


def report(error: ValidationError, schema: Schema, spot_of: Callable[[Key], Spot]) -> None:
    """Note every problem of a validation but a missing objective; `spot_of` finds the spot of a value's path in the model."""
    for detail in error.errors(include_url=False):
        path, reason = detail["loc"], detail.get("ctx", {}).get("error")
        if path == ("objective",) and detail["type"] == "missing":
            continue
        if isinstance(reason, InnerError):
            _report_inner(spot_of((*path, *reason.path)), reason)
        elif path and path[-1] == "[key]" and reason is not None:
            _report_name(spot_of(path[:-1]), reason)
        elif path and path[-1] == "[key]":
            _report_unknown(spot_of(path[:-1]), spot_of(path[:-2]), schema)
        elif detail["type"] == "extra_forbidden":
            _report_unknown(spot_of(path), spot_of(path[:-1]), schema)
        else:
            _report_value(spot_of(path), detail, schema)


def _report_name(spot: Spot, reason: Exception) -> None:
    """Report a name that a key of the user's own must not have."""
    spot.wrong_key(f"{quoted(str(spot.path[-1]))} in {_header(spot.parent)} {reason}")


def _report_unknown(spot: Spot, table: Spot, schema: Schema) -> None:
    key = str(spot.path[-1])
    is_agent = "argv" in schema.keys(table.path)
    if removed := REMOVED_FROM_AGENTS.get(key) if is_agent else REMOVED.get(spot.path):
        spot.wrong_key(f"{spot.label} {removed}")
        return
    valid, homes = schema.keys(table.path), schema.homes(key)
    near = None if homes or spot.problems.full else nearest(key, valid)
    if homes:
        remedy = f"it belongs {' or '.join(homes).replace(' or in ', ' or ')}"
    elif near:
        remedy = f"did you mean {quoted(near)}?"
        spot.problems.excused.add((*table.path, near))
    else:
        remedy = f"valid: {', '.join(sorted(valid))}"
    where = f" in {_header(table)}" if table.path else ""
    spot.wrong_key(f"unknown key {quoted(key)}{where}; {remedy}")


def _report_value(spot: Spot, detail: Any, schema: Schema) -> None:
    value, path = detail["input"], spot.path
    match detail["type"]:
        case "value_error":
            spot.wrong(str(detail["ctx"]["error"]))
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal" | "finite_number":
            limits = detail.get("ctx", {})
            why = "is not above zero" if limits.get("gt") == 0 or limits.get("ge") == 1 else "is out of range"
            spot.wrong(f"{shown(value)} {why}; {schema.remedy(path)}")
        case "literal_error" if isinstance(value, str):
            choices = schema.choices(path)
            near = nearest(value, choices)
            guess = f"; did you mean {quoted(near)}?" if near else ";"
            spot.wrong(f"{quoted(value)} is unknown{guess} valid: {listed(choices)}")
        case _:
            wanted = schema.wanted(path)
            is_scalar = wanted == "a string" and isinstance(value, bool | int | float)
            replacement = f"; write {quoted(shown(value))}" if is_scalar else ""
            spot.wrong(f"must be {wanted}, not {kind(value)}{replacement}")


def _report_inner(spot: Spot, error: InnerError) -> None:
    if error.key:
        spot.wrong_key(error.reason if error.whole else f"{spot.label} {error.reason}".lstrip())
    else:
        spot.wrong(error.reason)


def _header(table: Spot) -> str:
    """Return the name of a table as its header is written."""
    return f"[[{table.label}]]" if table.path and isinstance(table.path[-1], int) else f"[{table.label}]"
