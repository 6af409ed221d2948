"""A frozen goal is the goal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from goalrunner.core.field_types import OWNED_PARAMETERS
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AgentConfig,
    Budget,
    Expectation,
    JudgeConfig,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal_text


def test_every_value_is_spelled_out() -> None:
    goal = Goal(
        objective='Say "hi"\n\tand stop.',
        agent=AgentConfig(
            model="a/b", params={"stop": [""], "none": None, "empty": {}}, env={"A": ""}
        ),
        judge=JudgeConfig(model="agent"),
        budget=Budget(cost_usd=0.5),
        workspace=WorkspaceConfig(path="/"),
        validators=(
            ValidatorSpec(name="pytest", run="pytest -q", timeout=None),
            ValidatorSpec(name="ok", python="pkg:ok"),
        ),
    )
    assert dump_goal(goal) == FROZEN


FROZEN = r"""objective = "Say \"hi\"\n	and stop."
risk_class = "low"
deliverable = "workspace"
preserve_context = true
baseline = "any"
stall_rounds = 3
max_iterations = 10
timeout = inf
wait = 0.0

[agent]
use = "builtin"
model = "a/b"
max_steps = 100
turn_timeout = inf

[agent.params]
stop = [
    "",
]

[agent.params.empty]

[agent.env]
A = ""

[judge]
model = "agent"
minimum_score = 0.0
require = "any"
max_tokens = 12000

[budget]
tokens = inf
cost_usd = 0.5

[workspace]
path = "/"
sandbox = "none"
isolate = false
network = true

[approvals]
expires = 86400.0
on_deny = "stop"

[memory]
recall = false

[notify]
bell = true

[[validators]]
name = "pytest"
run = "pytest -q"
timeout = inf
serial = false
hidden = false

[validators.expect]
exit_code = 0

[[validators]]
name = "ok"
python = "pkg:ok"
timeout = 600.0
serial = false
hidden = false
"""

ANY = st.characters(exclude_characters="\0", codec="utf-8")
TEXTS = st.text(ANY, min_size=1, max_size=30).filter(str.strip)
LINES = TEXTS.filter(str.isprintable)
MODELS = st.one_of(
    st.just("agent"),
    LINES.map(str.strip).filter(lambda text: text and not text.startswith("scripted/")),
)
# A judge's model without a provider may be read as the misspelt name of an agent.
JUDGES = MODELS.map(lambda model: model if model == "agent" else f"provider/{model}")
SECONDS = st.one_of(st.none(), st.floats(1e-6, 1e9))
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
ENV = st.dictionaries(NAMES, st.text(ANY, max_size=8), max_size=3)
PARAMS = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name not in OWNED_PARAMETERS),
    st.recursive(
        st.one_of(
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
            LINES,
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(st.text(max_size=3), inner, max_size=2),
        ),
        max_leaves=5,
    ),
    max_size=3,
)
COUNTS = st.integers(1, 2**63 - 1)
LIMITS = st.one_of(st.none(), COUNTS)
COMMON: dict[str, st.SearchStrategy[Any]] = {
    "system_prompt": st.one_of(st.none(), TEXTS),
    "params": PARAMS,
    "api_base": st.sampled_from([None, "http://localhost:1", "https://x/v1"]),
    "api_key_env": st.one_of(st.none(), NAMES),
}
SHELL = st.builds(
    ValidatorSpec,
    run=TEXTS,
    timeout=SECONDS,
    cwd=st.sampled_from(["", "a", "a/../b", "."]),
    env=ENV,
    serial=st.booleans(),
    expect=st.builds(
        Expectation,
        exit_code=st.integers(0, 255),
        output=st.sampled_from([None, "x+", "^a$", "\\d"]),
    ),
)
PYTHON = st.builds(
    ValidatorSpec,
    python=st.sampled_from(["a:b", "a.b:c.d", "é_1:f"]),
    timeout=SECONDS,
    env=ENV,
    serial=st.booleans(),
)
GOALS = st.builds(
    Goal,
    objective=TEXTS,
    success_criteria=st.lists(TEXTS, max_size=2),
    constraints=st.lists(TEXTS, max_size=2),
    owner=st.one_of(st.just(""), TEXTS),
    risk_class=st.sampled_from(["low", "medium", "high", "critical"]),
    deliverable=st.sampled_from(["workspace", "response"]),
    preserve_context=st.booleans(),
    resume_prompt=st.sampled_from([None, "{feedback}{{}}", "go on"]),
    max_iterations=LIMITS,
    timeout=SECONDS,
    agent=st.builds(AgentConfig, model=MODELS, max_steps=COUNTS, env=ENV, **COMMON),
    judge=st.builds(JudgeConfig, model=JUDGES, minimum_score=st.floats(0, 1), **COMMON),
    budget=st.builds(
        Budget, tokens=LIMITS, cost_usd=st.one_of(st.none(), st.floats(1e-6, 1e9))
    ),
    workspace=st.just(WorkspaceConfig(path=str(Path.cwd().resolve()))),
    validators=st.lists(st.one_of(SHELL, PYTHON), max_size=3).map(
        lambda specs: [
            spec.model_copy(update={"name": f"check {index}"})
            for index, spec in enumerate(specs)
        ]
    ),
)


@settings(deadline=None)
@given(GOALS)
def test_loading_what_was_frozen_gives_the_same_goal(goal: Goal) -> None:
    frozen = dump_goal(goal)
    assert load_goal_text(frozen, "goal.toml", {}, {}) == goal
    assert dump_goal(load_goal_text(frozen, "goal.toml", {}, {})) == frozen


def test_names_that_were_made_and_paths_that_were_completed_stay_as_they_are(
    tmp_path: Path,
) -> None:
    text = "objective='x'\nmodel='scripted/a.jsonl'\nvalidator=['pytest','pytest -x']\nworkspace.path='.'"
    goal = load_goal_text(text, "goal.toml", {"timeout": "inf"}, {}, base=tmp_path)
    again = load_goal_text(dump_goal(goal), "frozen", {}, {}, base=Path("/elsewhere"))
    assert again == goal
    assert [validator.name for validator in again.validators] == ["pytest", "pytest-2"]
    assert again.agent.model == f"scripted/{tmp_path.resolve()}/a.jsonl"


def test_a_key_named_by_its_variable_is_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret")
    text = "objective='x'\nmodel='a/b'\nvalidator='y'\nagent.api_key_env='MY_KEY'"
    frozen = dump_goal(load_goal_text(text, "goal.toml"))
    assert 'api_key_env = "MY_KEY"' in frozen
    assert "sk-secret" not in frozen


def test_a_parameter_that_is_no_json_is_refused() -> None:
    with pytest.raises(
        ValidationError, match="f must hold only strings, finite numbers"
    ):
        AgentConfig(params={"f": math.sin})
