"""What a person reads when a goal file does not hold, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.errors import ExitCode, GoalFileError
from goalrunner.goalfile import load_goal_text
from goalrunner.goalfile.problems import listed
from goalrunner.presets import builtin_names

KEY_NAME = 'write api_key_env = "..." in [agent], the name of the variable that holds it'
DURATIONS = 'write seconds, or "90s", "30m", "2h"'
DOLLARS = "write a number of US dollars, or inf to lift the limit"
PLACEHOLDERS = "{feedback}, {iteration}, {missing}, {objective}"
TOP = (
    "agent, agents, approvals, baseline, budget, constraints, deliverable, judge, max_iterations, memory, model, objective, "
    "owner, preserve_context, redact, resume_prompt, risk_class, stall_rounds, success_criteria, timeout, "
    "validator, validators, workspace"
)
AGENTS = listed(("chat", "command", "acp", *builtin_names()))
NO_JUDGE_MODEL = '[judge] has no model; write model = "provider/name" or "agent", give --judge, or set GOAL_JUDGE'
NOT_THE_KEY = 'must be the name of an environment variable, such as "OPENAI_API_KEY", not the key itself'
STRAY_BRACE = "has a stray brace; write {{ or }} for a brace, or one of"
BOTH_FORMS = (
    '"validator" is short for one [[validators]], and there are such as well; '
    "write it as [[validators]] with run, or keep it alone"
)
SHORT_AS_WELL = "stands above as a short form as well; write it as"
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

REMOVE_ONE = "remove one of the two"
MANY_PROBLEMS = """\
objective.toml:4:1  unknown key "max_iteration"; did you mean "max_iterations"?
objective.toml:5:9  owner must be a string, not the number 3
objective.toml:6:14  risk_class "hihg" is unknown; did you mean "high"? valid: "low", "medium", "high", "critical"
objective.toml:7:17  resume_prompt names {feedbak}, which does not exist; did you mean {feedback}? \
valid: {feedback}, {iteration}, {missing}, {objective}
objective.toml:7:17  resume_prompt names {iteration!r}, which does not exist; did you mean {iteration}? \
valid: {feedback}, {iteration}, {missing}, {objective}
objective.toml:9:11  timeout "soon" is not a valid duration; write seconds, or "90s", "30m", "2h"
objective.toml:10:20  preserve_context must be true or false, not the string "no"
objective.toml:11:26  success_criteria must be a string, not the number 1
objective.toml:11:29  success_criteria is empty; write something, or remove it
objective.toml:13:10  budget.tokens -5 is not above zero; write a whole number from 1, or inf to lift the limit
objective.toml:14:12  budget.cost_usd must be a number of US dollars, not true
objective.toml:15:1  unknown key "deliverable" in [budget]; it belongs at the top of the file, before the first table
objective.toml:17:8  workspace.path "/BASE/nope" does not exist; create the folder, or name another
objective.toml:21:24  validators.expect.exit_code 300 is out of range; write a whole number from 0 to 255
objective.toml:21:38  validators.expect.output "a(" is no regular expression: \
missing ), unterminated subpattern at its character 2
objective.toml:21:44  unknown key "code" in [validators.expect]; did you mean "exit_code"?
objective.toml:22:3  a validator has run or python, not both; write two [[validators]]
objective.toml:23:10  validators.python "nomod" is no callable; write "package.module:function"
objective.toml:25:8  validators.name "a" is taken by another validator; give it a name of its own
objective.toml:26:11  validators.timeout 0 is not above zero; write seconds, or "90s", "30m", "2h", or inf to lift the limit
objective.toml:27:7  validators.cwd "../x" leaves the workspace; write a folder relative to it
objective.toml:28:13  validators.env.A must be a string, not the number 1; write "1"
objective.toml:28:16  "B C" in [validators.env] is no name of an environment variable"""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "max_iterations = 0",
            "4:18  max_iterations 0 is not above zero; write a whole number from 1, or inf to lift the limit",
        ),
        (
            'workspace.setup = "make"\nworkspace.check = "overlay"',
            '5:11  workspace.check = "overlay" cannot be combined with setup, which prepares a fresh checkout; '
            + REMOVE_ONE,
        ),
        (
            'workspace.editable = ["a"]\nworkspace.protect = ["b"]',
            "5:11  workspace.protect cannot be combined with editable, which protects everything that it does not name; "
            + REMOVE_ONE,
        ),
        ("max_iterations = true", "4:18  max_iterations must be a whole number, not true"),
        ("max_iterations = 2.0", "4:18  max_iterations must be a whole number, not the number 2.0"),
        ("max_iterations = -inf", "4:18  max_iterations must be a whole number, not the number -inf"),
        ('max_iterations = "10"', '4:18  max_iterations must be a whole number, not the string "10"'),
        ("max_iterations = 2026-01-01", "4:18  max_iterations must be a whole number, not a date or time"),
        ("timeout = nan", f"4:11  timeout nan is not a valid duration; {DURATIONS}"),
        ("timeout = true", f"4:11  timeout true is not a valid duration; {DURATIONS}"),
        ('timeout = "90"', f'4:11  timeout "90" is not a valid duration; {DURATIONS}'),
        ("timeout = []", f"4:11  timeout a list is not a valid duration; {DURATIONS}"),
        ("timeout = -1", f"4:11  timeout -1 is not above zero; {DURATIONS}, or inf to lift the limit"),
        ('timeout = "0s"', f'4:11  timeout "0s" is not above zero; {DURATIONS}, or inf to lift the limit'),
        ("timeout = 1e300", "4:11  timeout 1e+300 is longer than 30 years; write inf to lift the limit"),
        ("budget.cost_usd = 0", f"4:19  budget.cost_usd 0 is not above zero; {DOLLARS}"),
        ("budget.cost_usd = nan", f"4:19  budget.cost_usd nan is not above zero; {DOLLARS}"),
        ("budget = 5", "4:10  budget must be a table, not the number 5"),
        ("judge = 5", "4:9  judge must be a string or a table, not the number 5"),
        ('judge = ""', "4:9  judge is empty; write something, or remove it"),
        ("judge = {}", f"4:1  {NO_JUDGE_MODEL}"),
        (
            "judge = {model = 'x', minimum_score = 1.5}",
            "4:39  judge.minimum_score 1.5 is out of range; write a number from 0 to 1",
        ),
        ('judge = "scripted/"', '4:9  judge "scripted/" names no file; write "scripted/replies.jsonl"'),
        ("agent.api_key_env = 'sk-12'", f"4:21  agent.api_key_env {NOT_THE_KEY}"),
        ("agent.api_base = 'local'", '4:18  agent.api_base "local" is no address; write "http://..." or "https://..."'),
        (
            "agent.params.api_key = 'sk-1'",
            f"4:14  agent.params.api_key is not for params; {KEY_NAME}",
        ),
        (
            "[judge]\nmodel = 'x'\nparams = { model = 'y' }",
            '6:12  judge.params.model is not for params; write model = "..." in [judge]',
        ),
        (
            "agent.params.base_url = 'x'",
            '4:14  agent.params.base_url is not for params; write api_base = "..." in [agent]',
        ),
        (
            "agent.params.stream = false",
            "4:14  agent.params.stream is not for params; it is the runner's own; remove it",
        ),
        ("agent.params.x = [nan]", "4:19  agent.params.x must be a finite number, not nan"),
        ("agent.params.x.y = 07:00:00", "4:20  agent.params.x.y must not be a date or time; write it as a string"),
        (
            "agent.model = 'c/d'",
            '2:1  "model" is short for model in [agent], which is there as well; keep one of the two',
        ),
        ("agent = 'chta'", f'4:9  agent "chta" is unknown; did you mean "chat"? valid: {AGENTS}'),
        ("agent = 'x/y'", f'4:9  agent "x/y" is unknown; valid: {AGENTS}; for a model write model = "x/y"'),
        ("max_steps = 5", '4:1  unknown key "max_steps"; it belongs in [agent]'),
        ("api_base = 5", '4:1  unknown key "api_base"; it belongs in [agent] or [judge]'),
        ("budget.env = 5", '4:8  unknown key "env" in [budget]; it belongs in [agent] or [[validators]]'),
        ('"\\u001b[31m" = 1', f'4:1  unknown key "\\u001b[31m"; valid: {TOP}'),
        ('owner = "a\\u0000"', "4:9  owner holds a NUL character; remove it"),
        ('resume_prompt = "}"', f"4:17  resume_prompt {STRAY_BRACE} {PLACEHOLDERS}"),
        ('resume_prompt = "{}"', f"4:17  resume_prompt names {{}}, which does not exist; valid: {PLACEHOLDERS}"),
        ("[[validators]]\nrun = 'x'", f"3:1  {BOTH_FORMS}"),
    ],
)
def test_one_problem_is_one_line(line: str, problem: str) -> None:
    assert refusal(HEAD + line) == f"objective.toml:{problem}"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "python = 'a:b'\nexpect.exit_code = 1",
            "5:1  expect is for run alone; a Python callable says itself whether it passed",
        ),
        ("name = 'x'", '3:3  a validator needs run = "command" or python = "package.module:function"'),
        ("rum = 'x'", '4:1  unknown key "rum" in [[validators]]; did you mean "run"?'),
        ("run = ''", "4:7  validators.run is empty; write something, or remove it"),
        ("run = 'x'\nexit_code = 1", '5:1  unknown key "exit_code" in [[validators]]; it belongs in its table expect'),
        ("run = 'x'\ncwd = '/tmp'", '5:7  validators.cwd "/tmp" leaves the workspace; write a folder relative to it'),
        (
            "run = 'x'\ncwd = 'a/../../b'",
            '5:7  validators.cwd "a/../../b" leaves the workspace; write a folder relative to it',
        ),
        ("run = 'x'\nname = 'a\\nb'\nserial = 1", "6:10  validators.serial must be true or false, not the number 1"),
    ],
)
def test_one_problem_of_a_validator_is_one_line(body: str, problem: str) -> None:
    assert refusal(f"objective = 'x'\nmodel = 'a/b'\n[[validators]]\n{body}") == f"objective.toml:{problem}"


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
        "objective.toml  nothing checks this goal; "
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
        ("a = " + "[" * 100_000, "  is no valid TOML: nested too deep"),
        ("a = " + "9" * 5000, "  is no valid TOML: a number has too many digits"),
    ],
)  # fmt: skip
def test_bad_toml_is_said_with_its_place(text: str, problem: str) -> None:
    assert refusal(text) == f"objective.toml{'' if problem.startswith(' ') else ':'}{problem}"


def test_an_objective_cannot_be_left_out() -> None:
    with pytest.raises(GoalFileError) as refused:
        load_goal_text('objective = " "\nmodel = "a/b"\nvalidator = "true"\n', "goal.toml", environ={})
    assert str(refused.value) == "goal.toml:1:13  objective is empty; write something"
