"""The keys of a goal file are the fields of the goal, and what is not built yet is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import AgentConfig, Expectation, Goal, JudgeConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.goalfile import load_goal_text
from goalrunner.goalfile.layers import OPTIONS, SECTIONS

GOAL = 'objective = "x"\nmodel = "a/b"\n'


def test_options_are_named_for_keys_that_exist() -> None:
    keys = {*Goal.model_fields, *(f"{table}.{key}" for table, model in SECTIONS.items() for key in model.model_fields)}
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
