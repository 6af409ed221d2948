"""The JSON Schemas of a judge's answers, for models with structured output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object for OpenAI's strict mode.

    All keys are required, and there are no others.
    """
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text_schema(description: str = "") -> dict[str, Any]:
    """Return the schema of a text."""
    return _described({"type": "string"}, description)


def list_schema(element: Mapping[str, Any], description: str = "") -> dict[str, Any]:
    """Return the schema of a list of elements."""
    return _described({"type": "array", "items": element}, description)


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description} if description else schema


_OBSERVATION = text_schema('the id of an observation, such as "o12"')
# Strict mode has no optional keys, so the two forms are two schemas.
_QUOTE_CITATION = object_schema(
    observation=_OBSERVATION,
    quote=text_schema("words copied verbatim from its output"),
)
_FACT_CITATION = object_schema(
    observation=_OBSERVATION,
    fact=text_schema('a fact from its heading, such as "exit 0"'),
)
_CRITERION = object_schema(
    criterion=text_schema("the criterion or constraint, word for word"),
    satisfied={"type": "boolean"},
    evidence=list_schema({"anyOf": [_QUOTE_CITATION, _FACT_CITATION]}),
    missing=text_schema("what evidence is missing; empty where satisfied"),
)
JUDGE_OUTCOME_SCHEMA = object_schema(
    criteria=list_schema(_CRITERION),
    score={
        "type": "number",
        "description": (
            "from 0 to 1: probability that the whole objective is provably done"
        ),
    },
    complete={"type": "boolean"},
    missing=text_schema("what remains; empty when complete"),
    need=list_schema(
        text_schema(),
        "ids of observations that must be read whole before a verdict; empty when none",
    ),
    blocked=text_schema(
        "why the goal cannot be reached, or needs a person; empty when it can go on"
    ),
    questions=list_schema(
        text_schema(),
        "facts that are needed and that only a person can give, as questions;"
        " empty when none",
    ),
)
"""The schema of a JudgeOutcome."""

OPINION_SCHEMA = object_schema(
    confirmed={"type": "boolean"},
    reason=text_schema("why or why not, in a sentence or two"),
)
