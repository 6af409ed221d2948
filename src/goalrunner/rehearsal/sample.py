"""The least JSON value that a JSON schema accepts, as far as programs use schemas. Validates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN: dict[str, Any] = {"string": "rehearsal", "boolean": False, "integer": 1, "number": 1, "null": None}


def sample(schema: Mapping[str, Any]) -> Any:
    """Such a value. Only required properties are given; what is not understood gives a string."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return sample(schema[name][0])
    kind = kind_of(schema)
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        return {name: sample(properties.get(name) or {}) for name in schema.get("required") or ()}
    if kind == "array":
        return [sample(schema.get("items") or {})] if schema.get("minItems") else []
    return _PLAIN.get(kind, "rehearsal")


def kind_of(schema: Mapping[str, Any]) -> str:
    """The schema's type in lower case (Gemini writes "STRING"); of several the first."""
    kind = schema.get("type") or ""
    return str(kind[0] if isinstance(kind, list) and kind else kind).lower()
