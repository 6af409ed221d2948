"""Errors of goal files that hold several problems, or are not TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import ExitCode, GoalFileError
from goalrunner.core.field_types import parse_duration
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AgentConfig,
    Expectation,
    JudgeConfig,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.goalfile.layers import SECTIONS
from goalrunner.goalfile.loading import OPTIONS, load_goal_text

HEAD = "objective = 'x'\nmodel = 'a/b'\nvalidator = 'y'\n"


def refusal(text: str) -> str:
    with pytest.raises(GoalFileError) as caught:
        load_goal_text(text, "objective.toml", {}, {})
    assert caught.value.exit_code is ExitCode.USAGE
    return str(caught.value)


def test_a_wrong_key_name_that_may_be_the_key_itself_is_not_shown() -> None:
    assert "sk-" not in refusal(HEAD + "agent.api_key_env = 'sk-secret'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[" * 100_000, "nested too deep"), ("9" * 5000, "a number has too many digits")],
)
def test_a_value_that_no_parser_can_read_is_said(text: str, problem: str) -> None:
    assert refusal(f"a = {text}") == f"objective.toml  is not valid TOML: {problem}"


GOAL = 'objective = "x"\nmodel = "a/b"\n'


def test_options_are_named_for_keys_that_exist() -> None:
    keys = {
        *Goal.model_fields,
        *(
            f"{table}.{key}"
            for table, model in SECTIONS.items()
            for key in model.model_fields
        ),
    }
    assert set(OPTIONS) <= keys


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
use = "builtin"
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


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("pytest -q", "pytest"),
        ("/usr/bin/ruff check .", "ruff"),
        ("python -m pytest -q", "pytest"),
        ("python3.12 -m mypy", "mypy"),
        ("python check.py", "python"),
        ("uv run pytest", "pytest"),
        ("poetry run python -m pytest", "pytest"),
        ("CI=1 DEBUG= make test", "make"),
        ("env A=b npm test", "npm"),
        ("! grep -r TODO src", "grep"),
        ("cd sub && make", "make"),
        ("test -f 'a b'", "test"),
        ("echo 'unclosed", "echo"),
        ("A=b", "check"),
        ("'my tool' --x", "my-tool"),
    ],
)
def test_a_validator_is_called_after_the_program_it_runs(
    command: str, name: str
) -> None:
    assert Goal(objective="x", validator=command).validators[0].name == name


def test_names_are_numbered_and_never_those_that_were_given() -> None:
    goal = load_goal_text(
        "objective='x'\nmodel='a/b'\n"
        "[[validators]]\nrun='pytest a'\n[[validators]]\nrun='pytest b'\n[[validators]]\nrun='x'\nname='pytest-2'\n"
        "[[validators]]\npython='pkg:pytest'\n",
        "goal.toml",
        {},
        {},
    )
    assert [validator.name for validator in goal.validators] == [
        "pytest",
        "pytest-3",
        "pytest-2",
        "pytest-4",
    ]


@given(
    st.lists(
        st.text(
            st.characters(exclude_characters="\0", codec="utf-8"), min_size=1
        ).filter(str.strip),
        max_size=5,
    ),
    st.lists(st.sampled_from(["a", "a-2", "check"]), unique=True),
)
def test_any_commands_get_names_of_their_own(
    commands: list[str], given_names: list[str]
) -> None:
    validators = [ValidatorSpec(run=command) for command in commands]
    validators += [ValidatorSpec(run="a", name=name) for name in given_names]
    names = [
        validator.name
        for validator in Goal(objective="x", validators=validators).validators
    ]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and name for name in names)


@pytest.mark.parametrize("written", ["'pytest -q'", "['pytest -q', 'ruff check']"])
def test_the_short_form_gives_one_validator_for_each_command(written: str) -> None:
    goal = load_goal_text(
        f"objective='x'\nmodel='a/b'\nvalidator={written}", "goal.toml", {}, {}
    )
    assert [validator.run for validator in goal.validators] == [
        "pytest -q",
        "ruff check",
    ][: written.count("'") // 2]
    assert all(validator.timeout == 600 for validator in goal.validators)


def test_pass_env_names_variables_of_the_run() -> None:
    text = "objective='x'\nmodel='a/b'\n[[validators]]\nrun='./check'\npass_env=['GOAL_ITERATION']\n"
    (validator,) = load_goal_text(text, "goal.toml", {}, {}).validators
    assert validator.pass_env == ("GOAL_ITERATION",)
    with pytest.raises(
        GoalFileError, match=r"5:11 .*must be .*'GOAL_RESPONSE_FILE', not \"HOME\""
    ):
        load_goal_text(text.replace("GOAL_ITERATION", "HOME"), "goal.toml", {}, {})


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("500ms", 0.5), ("1h30m", 5400), ("1.5h", 5400),
        ("1h 30m 5s", 5405), (" 2 h ", 7200), ("0s", 0), ("1d2h3m4s5ms", 93784.005), ("90m", 5400),
    ],
)  # fmt: skip
def test_units_add_up(written: str, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        "soon",
        "",
        " ",
        "90",
        "1.5",
        "-5s",
        "+5s",
        "5 minutes",
        "30M",
        "1m1h",
        "1s1s",
        "s",
        ".5s",
        "1.s",
        "1e3s",
        "٣s",
        "5s;",
        "inf",
        "nan",
    ],
)
def test_anything_else_is_no_duration(written: str) -> None:
    assert parse_duration(written) is None


@given(st.text(alphabet="0123456789.hmsd -", max_size=12))
def test_any_text_is_a_duration_of_at_least_zero_or_none(written: str) -> None:
    seconds = parse_duration(written)
    assert seconds is None or seconds >= 0
