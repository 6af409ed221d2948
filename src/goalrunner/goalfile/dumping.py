"""A goal as TOML, every value spelled out, so that later defaults cannot change a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.goalfile.agent_checks import CHAT_KEYS


def dump_goal(goal: Goal, redact: Callable[[str], str] = str) -> str:
    """The goal as the text of a goal file, in the long form; loading it gives the same goal.

    A limit that is lifted is written as `inf`. It holds no secret but what the goal itself holds: keys are named by
    their variables. `redact` replaces secrets in every value; what `[redact]` says is kept as it is, for a resumed run is
    to keep to it. Raises UsageError for a parameter that TOML cannot express, which only a caller in Python can give.
    """
    import tomli_w

    try:
        return tomli_w.dumps({**_clean(_table(goal), redact), **_redact_table(goal)})
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the goal cannot be written as TOML: {error}", "params may hold what JSON can say") from error


def _table(goal: Goal) -> dict[str, Any]:
    table = goal.model_dump()
    budget = table["budget"]
    for limits, names in ((table, ("max_iterations", "stall_rounds", "timeout")), (budget, ("tokens", "cost_usd"))):
        for name in names:
            limits[name] = _limit(limits[name])
    for validator in table["validators"]:
        validator["timeout"] = _limit(validator["timeout"])
        validator["expect"] = _said(validator["expect"]) if validator["run"] is not None else None
    table["validators"] = [_said(validator) for validator in table["validators"]]
    table["agent"] = _agent(goal)
    table["agents"] = {name: _said(preset.model_dump()) for name, preset in goal.agents.items()}
    table["judge"] = (
        _said({**table["judge"], "params": _without_none(table["judge"]["params"])}) if goal.has_judge else None
    )
    for name in ("budget", "workspace", "redact", "memory"):
        table[name] = _said(table[name])
    table["approvals"] = _said({**table["approvals"], "expires": _limit(table["approvals"]["expires"])})
    return _said(table)


def _agent(goal: Goal) -> dict[str, Any]:
    """An external agent has no use for what steers the built-in one, and its table takes none of it."""
    table = goal.agent.model_dump()
    table["params"] = _without_none(table["params"])
    if len(goal.agent.command) == 1:
        table["command"] = goal.agent.command[0]
    return _said({key: item for key, item in table.items() if not (goal.agent.external and key in CHAT_KEYS)})


def _redact_table(goal: Goal) -> dict[str, Any]:
    said = _said(goal.redact.model_dump())
    return {"redact": said} if said else {}


def _clean(value: Any, redact: Callable[[str], str]) -> Any:
    """Every string in a value redacted; keys are names, and stay."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {key: _clean(item, redact) for key, item in value.items()}
        case list() | tuple():
            return [_clean(item, redact) for item in value]
        case _:
            return value


def _limit(value: float | None) -> float:
    return math.inf if value is None else value


def _said(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None or empty, which is how a goal file says nothing; what lies deeper is kept as it is."""
    return {key: item for key, item in table.items() if item is not None and item not in ("", (), [], {})}


def _without_none(value: Any) -> Any:
    """TOML has no null; a parameter that is None says as much as one that is missing."""
    match value:
        case Mapping():
            return {key: _without_none(item) for key, item in value.items() if item is not None}
        case list() | tuple():
            return [_without_none(item) for item in value]
        case _:
            return value
