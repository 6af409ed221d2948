"""JSON for machines. Owns its form: ASCII, so that no reader and no terminal trips over it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goalrunner.model.outcome import GoalOutcome


def json_text(value: Any) -> str:
    """Any JSON value, indented, ending in a newline."""
    return json.dumps(value, indent=2) + "\n"


def outcome_text(outcome: GoalOutcome) -> str:
    """An outcome as JSON text: the fields of `outcome.json`."""
    return json_text(outcome.model_dump(mode="json"))
