"""A goal as TOML, every value written out, so that later defaults cannot change a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.goalfile.agent_checks import CHAT_KEYS


def dump_goal(goal: Goal, redact: Callable[[str], str] = str) -> str:
    """Return the goal as the text of a goal file in the long form; loading it gives the same goal.

    A lifted limit is written as `inf`. `redact` replaces secrets in every value but those of `[redact]`, which a resumed
    run needs. Raise UsageError for a parameter that TOML cannot express.
    """
    import tomli_w

    table = _table(goal)
    if not goal.has_judge:
        table.pop("judge")
    if goal.agent.external:
        table["agent"] = {key: value for key, value in table["agent"].items() if key not in CHAT_KEYS}
    if len(goal.agent.command) == 1:
        table["agent"]["command"] = goal.agent.command[0]
    for validator in table.get("validators", ()):
        if "python" in validator:
            validator.pop("expect")
    try:
        return tomli_w.dumps({key: value if key == "redact" else _clean(value, redact) for key, value in table.items()})
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the goal cannot be written as TOML: {error}", "params may contain only JSON values"
        ) from error


def _table(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model but those that are None or empty, which are missing in a goal file."""
    table = {}
    for name, field in type(model).model_fields.items():
        value = _plain(getattr(model, name))
        if value is None and "inf: " in (field.description or ""):
            value = math.inf
        if value is not None and value not in ("", [], {}):
            table[name] = value
    return table


def _plain(value: Any) -> Any:
    """Return a value as tables and lists; in a table, None is the same as a missing key."""
    match value:
        case BaseModel():
            return _table(value)
        case Mapping():
            return {key: _plain(item) for key, item in value.items() if item is not None}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _clean(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value with every string in it redacted; keys stay."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {key: _clean(item, redact) for key, item in value.items()}
        case list():
            return [_clean(item, redact) for item in value]
        case _:
            return value
