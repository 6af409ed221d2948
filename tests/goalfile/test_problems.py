"""Errors of goal files that hold several problems, or are not TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import ExitCode, GoalFileError
from goalrunner.core.field_types import parse_duration
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, Expectation, JudgeConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.goalfile.layers import SECTIONS
from goalrunner.goalfile.loading import OPTIONS, load_goal_text

OVERWRITTEN = (
    "not valid TOML: cannot overwrite a value; a key is given twice, or in its short form beside its table: "
    "remove it, or write it in the table"
)
HEAD = "objective = 'x'\nmodel = 'a/b'\nvalidator = 'y'\n"


def refusal(text: str, base: Path | None = None) -> str:
    with pytest.raises(GoalFileError) as caught:
        load_goal_text(text, "objective.toml", {}, {}, base=base)
    assert caught.value.exit_code is ExitCode.USAGE
    return str(caught.value)


def test_all_problems_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert refusal(MANY, tmp_path).replace(str(tmp_path.resolve()), "/BASE") == MANY_PROBLEMS


MANY = """\
objective = "Make parse() accept empty input."
model = "anthropic/claude-sonnet-4-5"
judge = "agent"
max_iteration = 10
owner = 3
risk_class = "hihg"
resume_prompt = "{feedbak} {iteration!r}"

timeout = "soon"
preserve_context = "no"
success_criteria = ["a", 1, " "]
[budget]
tokens = -5
cost_usd = true
deliverable = "response"
[workspace]
path = "nope"
[[validators]]
name = "a"
run = "x"
expect = { exit_code = 300, output = "a(", code = 1 }
[[validators]]
python = "nomod"
run = "x"
name = "a"
timeout = 0
cwd = "../x"
env = { A = 1, "B C" = "x" }
"""

MANY_PROBLEMS = """\
objective.toml:4:1  unknown key "max_iteration"; did you mean "max_iterations"?
objective.toml:5:9  owner must be a string, not the number 3
objective.toml:6:14  risk_class must be 'low', 'medium', 'high' or 'critical', not "hihg"
objective.toml:7:17  resume_prompt names {feedbak}, which does not exist; \
valid: {feedback}, {iteration}, {missing}, {objective}
objective.toml:9:11  timeout "soon" is not a valid duration; write seconds, or "90s", "30m", "2h"
objective.toml:10:20  preserve_context must be true or false, not the string "no"
objective.toml:11:26  success_criteria must be a string, not the number 1
objective.toml:11:29  success_criteria is empty; write something, or remove it
objective.toml:13:10  budget.tokens must be greater than or equal to 1, not -5; write inf to lift the limit
objective.toml:14:12  budget.cost_usd must be a number, not true
objective.toml:15:1  unknown key "deliverable" in [budget]; it belongs at the top of the file, before the first table
objective.toml:17:8  workspace.path "/BASE/nope" does not exist; create the folder, or name another
objective.toml:21:1  unknown key "code" in [validators.expect]; did you mean "exit_code"?
objective.toml:21:10  validators.expect.exit_code must be less than or equal to 255, not 300
objective.toml:21:10  validators.expect.output "a(" is not a valid regular expression: \
missing ), unterminated subpattern at position 1
objective.toml:23:10  validators.python "nomod" is not a Python callable; write "package.module:function"
objective.toml:26:11  validators.timeout 0 is not above zero; write seconds, or "90s", "30m", "2h", or inf to lift the limit
objective.toml:27:7  validators.cwd "../x" leaves the workspace; write a folder relative to it
objective.toml:28:1  "B C" in [validators.env] is not a valid name of an environment variable
objective.toml:28:7  validators.env.A must be a string, not the number 1"""


@pytest.mark.parametrize("written", ["'pytest'", "['pytest']"])
def test_validators_that_are_no_tables_are_told_both_ways_to_write_them(written: str) -> None:
    assert refusal(f"validators = {written}\nobjective = 'x'\nmodel = 'a/b'") == (
        'objective.toml:1:1  validators are tables; write [[validators]] with run = "...", or validator = "..."'
    )


def test_who_names_no_agent_that_can_be_read_is_not_told_to_name_a_model() -> None:
    assert refusal("objective = 'x'\nvalidator = 'y'\n[agent]\nuse = 3") == (
        "objective.toml:4:7  agent.use must be a string, not the number 3"
    )


def test_an_empty_file_is_told_all_that_a_goal_needs() -> None:
    assert refusal("") == (
        'objective.toml  objective is missing; write objective = "...", or give --objective\n'
        'objective.toml  the agent has no model; write model = "provider/name", give --model, or set GOAL_MODEL or LLM_MODEL\n'
        "objective.toml  the goal has neither a validator nor a judge; "
        'write validator = "pytest -q" (or give --validator), or judge = "agent" (or give --judge)'
    )


def test_a_misspelt_key_is_not_missed_a_second_time() -> None:
    assert refusal("objectiv = 'x'\nmodle = 'a/b'\njugde = 'agent'") == (
        'objective.toml:1:1  unknown key "objectiv"; did you mean "objective"?\n'
        'objective.toml:2:1  unknown key "modle"; did you mean "model"?\n'
        'objective.toml:3:1  unknown key "jugde"; did you mean "judge"?'
    )


def test_a_wrong_key_name_that_may_be_the_key_itself_is_not_shown() -> None:
    assert "sk-" not in refusal(HEAD + "agent.api_key_env = 'sk-secret'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("objective = x", "1:13  not valid TOML: invalid value; write text in quotes: key = \"text\""),
        ("a = 1\nb = [1", "2:7  not valid TOML: unclosed array, at the end of the file"),
        ("[a.b]\n[a.b]", "2:5  not valid TOML: cannot declare ('a', 'b') twice"),
        ("judge = 'x'\n[judge]\nminimum_score = 1", f"2:7  {OVERWRITTEN}"),
        ("agent = 'chat'\n[agent.params]\nx = 1", f"2:14  {OVERWRITTEN}"),
        ("validator = 'x'\n[[validator]]\nrun = 'y'", f"2:12  {OVERWRITTEN}"),
        ("budget = 1\n[budget]\ntokens = 1", f"2:8  {OVERWRITTEN}"),
        ("a = " + "[" * 100_000, "  is not valid TOML: nested too deep"),
        ("a = " + "9" * 5000, "  is not valid TOML: a number has too many digits"),
    ],
)  # fmt: skip
def test_bad_toml_is_said_with_its_place(text: str, problem: str) -> None:
    assert refusal(text) == f"objective.toml{'' if problem.startswith(' ') else ':'}{problem}"


def test_an_objective_cannot_be_left_out() -> None:
    with pytest.raises(GoalFileError) as refused:
        load_goal_text('objective = " "\nmodel = "a/b"\nvalidator = "true"\n', "goal.toml", environ={})
    assert str(refused.value) == "goal.toml:1:13  objective is empty; write something"


GOAL = 'objective = "x"\nmodel = "a/b"\n'


def test_options_are_named_for_keys_that_exist() -> None:
    keys = {*Goal.model_fields, *(f"{table}.{key}" for table, model in SECTIONS.items() for key in model.model_fields)}
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
def test_a_validator_is_called_after_the_program_it_runs(command: str, name: str) -> None:
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
    assert [validator.name for validator in goal.validators] == ["pytest", "pytest-3", "pytest-2", "pytest-4"]


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1).filter(str.strip), max_size=5),
    st.lists(st.sampled_from(["a", "a-2", "check"]), unique=True),
)
def test_any_commands_get_names_of_their_own(commands: list[str], given_names: list[str]) -> None:
    validators = [ValidatorSpec(run=command) for command in commands]
    validators += [ValidatorSpec(run="a", name=name) for name in given_names]
    names = [validator.name for validator in Goal(objective="x", validators=validators).validators]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and name for name in names)


@pytest.mark.parametrize("written", ["'pytest -q'", "['pytest -q', 'ruff check']"])
def test_the_short_form_gives_one_validator_for_each_command(written: str) -> None:
    goal = load_goal_text(f"objective='x'\nmodel='a/b'\nvalidator={written}", "goal.toml", {}, {})
    assert [validator.run for validator in goal.validators] == ["pytest -q", "ruff check"][: written.count("'") // 2]
    assert all(validator.timeout == 600 for validator in goal.validators)


def test_pass_env_names_variables_of_the_run() -> None:
    text = "objective='x'\nmodel='a/b'\n[[validators]]\nrun='./check'\npass_env=['GOAL_ITERATION']\n"
    (validator,) = load_goal_text(text, "goal.toml", {}, {}).validators
    assert validator.pass_env == ("GOAL_ITERATION",)
    with pytest.raises(GoalFileError, match=r"5:11 .*must be .*'GOAL_RESPONSE_FILE', not \"HOME\""):
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
