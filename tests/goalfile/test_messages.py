"""Errors of goal files that hold several problems, or are not TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.errors import ExitCode, GoalFileError
from goalrunner.goalfile import load_goal_text

SHORT_AS_WELL = "is also given as a short form above; write it as"
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
objective.toml:5:9  owner must be a string, not the number 3; write "3"
objective.toml:6:14  risk_class "hihg" is unknown; did you mean "high"? valid: "low", "medium", "high", "critical"
objective.toml:7:17  resume_prompt names {feedbak}, which does not exist; did you mean {feedback}? \
valid: {feedback}, {iteration}, {missing}, {objective}
objective.toml:9:11  timeout "soon" is not a valid duration; write seconds, or "90s", "30m", "2h"
objective.toml:10:20  preserve_context must be true or false, not the string "no"
objective.toml:11:26  success_criteria must be a string, not the number 1; write "1"
objective.toml:11:29  success_criteria is empty; write something, or remove it
objective.toml:13:10  budget.tokens -5 is not above zero; write a whole number from 1, or inf to lift the limit
objective.toml:14:12  budget.cost_usd must be a number, not true
objective.toml:15:1  unknown key "deliverable" in [budget]; it belongs at the top of the file, before the first table
objective.toml:17:8  workspace.path "/BASE/nope" does not exist; create the folder, or name another
objective.toml:21:24  validators.expect.exit_code 300 is out of range; write a whole number from 0 to 255
objective.toml:21:38  validators.expect.output "a(" is not a valid regular expression: \
missing ), unterminated subpattern at its character 2
objective.toml:21:44  unknown key "code" in [validators.expect]; did you mean "exit_code"?
objective.toml:23:10  validators.python "nomod" is not a Python callable; write "package.module:function"
objective.toml:26:11  validators.timeout 0 is not above zero; write seconds, or "90s", "30m", "2h", or inf to lift the limit
objective.toml:27:7  validators.cwd "../x" leaves the workspace; write a folder relative to it
objective.toml:28:13  validators.env.A must be a string, not the number 1; write "1"
objective.toml:28:16  "B C" in [validators.env] is not a valid name of an environment variable"""


@pytest.mark.parametrize("written", ["'pytest'", "['pytest']"])
def test_validators_that_are_no_tables_are_told_both_ways_to_write_them(written: str) -> None:
    assert refusal(f"validators = {written}\nobjective = 'x'\nmodel = 'a/b'") == (
        'objective.toml:1:1  validators are tables; write [[validators]] with run = "...", or validator = "..."'
    )


def test_who_names_no_agent_that_can_be_read_is_not_told_to_name_a_model() -> None:
    assert refusal("objective = 'x'\nvalidator = 'y'\n[agent]\nuse = 3") == (
        'objective.toml:4:7  agent.use must be a string, not the number 3; write "3"'
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


def test_a_hundred_problems_are_shown_and_the_rest_is_counted() -> None:
    lines = refusal(HEAD + "".join(f"k{index} = 1\n" for index in range(250))).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "objective.toml  and 150 more problems"


def test_a_wrong_key_name_that_may_be_the_key_itself_is_not_shown() -> None:
    assert "sk-" not in refusal(HEAD + "agent.api_key_env = 'sk-secret'")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("objective = x", "1:13  not valid TOML: invalid value"),
        ("a = 1\nb = [1", "2:7  not valid TOML: unclosed array, at the end of the file"),
        ("[a.b]\n[a.b]", "2:5  not valid TOML: cannot declare [a.b] twice"),
        ("judge = 'x'\n[judge]\nminimum_score = 1", f'2:2  "judge" {SHORT_AS_WELL} model = "..." in [judge]'),
        ("agent = 'chat'\n[agent.params]\nx = 1", f'2:2  "agent" {SHORT_AS_WELL} use = "..." in [agent]'),
        ("a.b" * 100 + " = 1", "1:1  a key has more than 100 parts"),
        ("a" + ".a" * 500_000 + " = 1", "1:1  a key has more than 100 parts"),
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
