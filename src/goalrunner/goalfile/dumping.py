"""From a goal to the text of a goal file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Unlimited
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import TelemetryConfig
from goalrunner.goalfile.agent_checks import CHAT_KEYS, PROGRAM_KEYS


def dump_goal(goal: Goal, redact: Callable[[str], str] = str) -> str:
    """Return the goal as the text of a goal file in the long form.

    Loading it gives the same goal. A lifted limit is written as `inf`. `redact`
    replaces secrets in every value but those of `[redact]`, which a resumed run needs.
    Raise UsageError for a parameter that TOML cannot express.
    """
    import tomli_w

    table = _table(goal, redact)
    # A table of the judge without a model is an error in a goal file.
    if not goal.has_judge:
        table.pop("judge")
    for account, config in goal.model_tables.items():
        if account != "agent" and config == type(config)():
            table.pop(account, None)
    if goal.telemetry == TelemetryConfig():
        table.pop("telemetry")
    _rewrite_agent(table["agent"], goal)
    for validator in table.get("validators", ()):
        # The field has a default, but the key is for commands.
        if "python" in validator:
            validator.pop("expect")
    try:
        return tomli_w.dumps(table)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the goal cannot be written as TOML: {error}",
            "params may contain only JSON values",
        ) from error


def _rewrite_agent(table: dict[str, Any], goal: Goal) -> None:
    """Change the table of the agent to what a goal file may contain."""
    if table.pop("fallbacks", None):
        table["use"] = list(goal.agent.names)
    # The other kind of agent rejects these keys, also with their defaults.
    for key in CHAT_KEYS if goal.agent.external else PROGRAM_KEYS:
        table.pop(key, None)
    # A single word is run through the shell, a list of one is a program.
    if len(goal.agent.command) == 1:
        table["command"] = goal.agent.command[0]


def _table(model: BaseModel, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the fields of a model as a table of a goal file.

    Fields that are None or empty are left out.
    """
    table = {}
    for name, field in type(model).model_fields.items():
        value = _plain(getattr(model, name), str if name == "redact" else redact)
        if value is None and Unlimited in field.metadata:
            value = math.inf
        if value is not None and value not in ("", [], {}):
            table[name] = value
    return table


def _plain(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value as tables, lists and redacted strings.

    In a table, None is the same as a missing key.
    """
    match value:
        case BaseModel():
            return _table(value, redact)
        case Mapping():
            return {
                str(key): _plain(item, redact)
                for key, item in value.items()
                if item is not None
            }
        case list() | tuple():
            return [_plain(item, redact) for item in value]
        case str():
            return redact(value)
        case _:
            return value
