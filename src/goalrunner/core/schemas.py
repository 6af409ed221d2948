"""The JSON Schemas of what a run reads and writes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from goalrunner.core.errors import UsageError
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState

_MODELS: dict[str, Any] = {
    "goal": Goal,
    "outcome": GoalOutcome,
    "state": RunState,
    "events": Record,
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of goal files, outcomes, states or log records.

    Raise UsageError for another name.

    >>> from goalrunner import json_schema
    >>> json_schema("goal")["title"]
    'goal: goal'
    """
    if name not in _MODELS:
        known_names = ", ".join(_MODELS)
        raise UsageError(f"there is no schema {name!r:.40}", f"known: {known_names}")
    adapter = TypeAdapter(_MODELS[name])
    # People write goals, with short forms; the runner writes the other records.
    is_written_by_people = name == "goal"
    schema = adapter.json_schema(
        mode="validation" if is_written_by_people else "serialization"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"goal: {name}",
    }
