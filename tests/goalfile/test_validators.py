"""Validators: short and long forms, and the names they get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import Goal, ValidatorSpec
from goalrunner.goalfile import load_goal_text


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
    with pytest.raises(GoalFileError, match=r'5:11 .*"HOME" is unknown; valid: .*GOAL_RESPONSE_FILE'):
        load_goal_text(text.replace("GOAL_ITERATION", "HOME"), "goal.toml", {}, {})
