"""The JSON schema of a goal describes goal files: it accepts the documented ones, and refuses those with wrong values."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    text
    for page in PAGES
    for text in re.findall(r"(?ms)^```toml\n(.*?)^```$", page.read_text())
]
TABLES = [tomllib.loads(text) for text in BLOCKS]
PRESETS = [table for table in TABLES if "argv" in table]
FRAGMENTS = [table for table in TABLES if "argv" not in table]
FILES = [
    ROOT / "src/goalrunner/quickstart/goal.toml",
    *sorted((ROOT / "goals").rglob("*.toml")),
]
HEAD = {"objective": "x", "validator": "y"}
# Made once: it takes long.
GOAL_SCHEMA = jsonschema.Draft202012Validator(Goal.model_json_schema())
PRESET_SCHEMA = jsonschema.Draft202012Validator(Preset.model_json_schema())


def as_json(value: Any) -> Any:
    """Return a value of TOML as JSON, which has no inf and writes null."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def is_valid(table: dict[str, Any], schema: Any = GOAL_SCHEMA) -> bool:
    return bool(schema.is_valid(as_json(table)))


@pytest.mark.parametrize("table", FRAGMENTS, ids=lambda table: ",".join(table))
def test_the_schema_accepts_the_documented_goal_files(table: dict[str, Any]) -> None:
    assert is_valid(
        {**({} if "validators" in table else HEAD), "objective": "x", **table}
    )


@pytest.mark.parametrize("table", PRESETS, ids=lambda table: ",".join(table))
def test_the_schema_accepts_the_documented_agent_presets(table: dict[str, Any]) -> None:
    assert is_valid(table, PRESET_SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_schema_accepts_the_goal_files_of_the_examples(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    assert is_valid(table) == ("objective" in table)


@pytest.mark.parametrize(
    "text",
    ["wait = 0", "wait = inf",
     "timeout = inf", "timeout = 90", "timeout = '1h 30m'", "max_iterations = inf", "budget.cost_usd = 0.5", "agent = 'claude'",
     "validator = ['a', 'b']", "agent.command = 'x'", "agent.command = ['x']", "judge = 'agent'", "judge.params.x.y = [1]"],
)  # fmt: skip
def test_the_schema_accepts_each_form_of_a_value(text: str) -> None:
    assert is_valid({**HEAD, **tomllib.loads(text)})


@pytest.mark.parametrize(
    "text",
    ["wait = -1", "wait = 'soon'",
     "timeout = 0", "timeout = 'soon'", "timeout = ''", "max_iterations = 0", "max_iterations = 2.5", "stall_rounds = '3'",
     "owner = 3",
     "risk_class = 'hihg'", "success_criteria = ['']", "objectiv = 'x'", "agent.max_step = 3", "judge.minimum_score = 2",
     "budget.cost_usd = 0", "validator = 5", "validators = ['x']", "validators = [{ run = '' }]", "agents.x.argv = 'x'"],
)  # fmt: skip
def test_the_schema_refuses_wrong_values(text: str) -> None:
    assert not is_valid({**HEAD, **tomllib.loads(text)})
