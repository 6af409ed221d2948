"""The keys of a goal file are the fields of the goal, and what is not built yet is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from goalrunner.core.agent_preset import Preset, StreamRule
from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import AgentConfig, Budget, Expectation, Goal, JudgeConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.goalfile import load_goal_text
from goalrunner.goalfile.keys import KEYS, SECTIONS, SHORT_KEYS
from goalrunner.goalfile.layers import OPTIONS
from goalrunner.goalfile.presets import PRESET_KEYS
from goalrunner.goalfile.stream_rules import RULE_KEYS
from goalrunner.goalfile.tables import EXPECT_KEYS, VALIDATOR_KEYS

GOAL = 'objective = "x"\nmodel = "a/b"\n'


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        (set(KEYS) - set(SHORT_KEYS), Goal),
        (set(SECTIONS["agent"]), AgentConfig),
        (set(PRESET_KEYS), Preset),
        (set(RULE_KEYS), StreamRule),
        (set(SECTIONS["judge"]), JudgeConfig),
        (set(SECTIONS["budget"]), Budget),
        (set(SECTIONS["workspace"]), WorkspaceConfig),
        (set(VALIDATOR_KEYS), ValidatorSpec),
        (set(EXPECT_KEYS), Expectation),
    ],
)
def test_a_table_has_exactly_the_fields_of_its_model(keys: set[str], model: type[BaseModel]) -> None:
    assert keys == set(model.model_fields)


def test_options_are_named_for_keys_that_exist() -> None:
    keys = {*KEYS, *(f"{table}.{key}" for table, keys in SECTIONS.items() for key in keys)}
    assert set(OPTIONS) <= keys


@pytest.mark.parametrize(
    ("line", "key", "place"),
    [
        ("critic.model = 'x/y'", "critic", "3:1"),
        ("[critic]", "critic", "3:2"),
    ],
)
def test_a_key_whose_feature_is_not_built_is_refused_by_name(line: str, key: str, place: str) -> None:
    more = "judge = 'agent'\n"
    with pytest.raises(GoalFileError) as caught:
        load_goal_text(more + GOAL + line, "goal.toml", {}, {})
    line_number, column = place.split(":")
    where = f"{int(line_number) + bool(more)}:{column}"
    assert str(caught.value) == f"goal.toml:{where}  {key} is not available in this version; remove it"


def test_every_key_that_is_built_is_taken(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    goal = load_goal_text(EVERYTHING, "goal.toml", {}, {}, base=tmp_path)
    assert goal == Goal(
        objective="Make it so.",
        success_criteria=("a", "b"),
        constraints=("c",),
        owner="me",
        risk_class="critical",
        deliverable="response",
        preserve_context=False,
        resume_prompt="{{x}} {feedback} {iteration} {missing} {objective}",
        max_iterations=3,
        timeout=90.0,
        agent=AgentConfig(
            model="a/b",
            max_steps=7,
            system_prompt="s",
            params={"temperature": 0.5, "stop": ["", {"x": {}}], "deep": {"on": True}},
            env={"A_1": "", "path": "x"},
            api_base="http://localhost:1/v1",
            api_key_env="MY_KEY",
        ),
        judge=JudgeConfig(
            model=f"scripted/{tmp_path.resolve()}/j.jsonl",
            system_prompt="t",
            minimum_score=1,
            params={"seed": 1},
            api_base="https://x",
            api_key_env="K",
        ),
        budget={"tokens": 1_000_000, "cost_usd": 2.0},
        workspace=WorkspaceConfig(path=str((tmp_path / "ws").resolve())),
        validators=(
            ValidatorSpec(
                name="tests", run="pytest -q", timeout=None, cwd="sub/dir", env={"B": "1"}, serial=True,
                expect=Expectation(exit_code=5, output=r"^\d+ passed"),
            ),
            ValidatorSpec(name="check", python="pkg.mod:check", timeout=0.5),
        ),
    )  # fmt: skip


EVERYTHING = r"""
objective = "Make it so."
success_criteria = ["a", "b"]
constraints = ["c"]
owner = "me"
risk_class = "critical"
deliverable = "response"
preserve_context = false
resume_prompt = "{{x}} {feedback} {iteration} {missing} {objective}"
max_iterations = 3
timeout = "90s"
[agent]
use = "chat"
model = "a/b"
max_steps = 7
system_prompt = "s"
params = { temperature = 0.5, stop = ["", {x = {}}], deep.on = true }
env = { A_1 = "", path = "x" }
api_base = "http://localhost:1/v1"
api_key_env = "MY_KEY"
[judge]
model = "scripted/j.jsonl"
system_prompt = "t"
minimum_score = 1
params.seed = 1
api_base = "https://x"
api_key_env = "K"
[budget]
tokens = 1_000_000
cost_usd = 2
[workspace]
path = "ws"
[[validators]]
name = "tests"
run = "pytest -q"
timeout = inf
cwd = "sub/dir"
env.B = "1"
serial = true
expect = { exit_code = 5, output = '^\d+ passed' }
[[validators]]
python = "pkg.mod:check"
timeout = "500ms"
"""
