"""From a goal's specs to validators, and their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.python_validators import CallableValidator
from goalrunner.validators.shell_validator import build_validators
from goalrunner.validators.spec_validator import name_of
from tests.support.agents import validation


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("pytest -q", "pytest"),
        ("python -m pytest -q", "pytest"),
        ("uv run pytest", "pytest"),
        ("PYTHONPATH=src python3 -m unittest discover", "unittest"),
        ("cd sub && make check", "make"),
        ("./scripts/check.sh --all", "check.sh"),
        ("python -c 'print(1)'", "python"),
        ("echo 'unclosed", "echo"),
        ("npm run test", "npm"),
        ("A=1", "check"),
    ],
)
def test_a_command_gives_a_short_name(line: str, name: str) -> None:
    assert name_of(ValidatorSpec(run=line)) == name


def test_each_spec_becomes_a_validator_with_a_name_of_its_own() -> None:
    specs = (
        ValidatorSpec(run="pytest -q"),
        ValidatorSpec(run="pytest tests/slow", serial=True),
        ValidatorSpec(python="checks:covers"),
        ValidatorSpec(name="tests", run="make test"),
    )
    validators = build_validators(specs, ProcessLauncher(), {})
    assert [
        (type(item).__name__, item.name, item.command, item.serial)
        for item in validators
    ] == [
        ("ShellValidator", "pytest", "pytest -q", False),
        ("ShellValidator", "pytest-2", "pytest tests/slow", True),
        ("PythonValidator", "covers", "checks:covers", False),
        ("ShellValidator", "tests", "make test", False),
    ]


async def test_a_hidden_check_says_so_however_it_ends(tmp_path: Path) -> None:
    specs = [
        ValidatorSpec(run=line, hidden=True, timeout=0.2)
        for line in ("true", "false", "sleep 5", "no-such-program")
    ]
    specs += [
        ValidatorSpec(python="nowhere:check", hidden=True),
        ValidatorSpec(run="true", hidden=True, cwd="nowhere"),
    ]
    made = build_validators(specs, ProcessLauncher(), {"PATH": os.environ["PATH"]})
    everyone = [*made, CallableValidator(lambda response, agent: True, hidden=True)]
    results = [
        (await validator.validate(validation(tmp_path, tmp_path)))[0]
        for validator in everyone
    ]
    assert all(validator.hidden for validator in everyone)
    assert [result.hidden for result in results] == [True] * 7
    open_one = build_validators(
        [ValidatorSpec(run="true")], ProcessLauncher(), {"PATH": os.environ["PATH"]}
    )[0]
    assert (
        open_one.hidden,
        (await open_one.validate(validation(tmp_path, tmp_path)))[0].hidden,
    ) == (False, False)


FLAKY = "echo x >> tries; echo try; test $(wc -l < tries) -ge {}"


@pytest.mark.parametrize(
    ("needed", "passed", "summary"),
    [
        (1, True, "exit 0"),
        (2, True, "exit 0, passed at try 2 of 3"),
        (3, True, "exit 0, passed at try 3 of 3"),
        (4, False, "exit 1, failed 3 times"),
    ],
)
async def test_a_red_is_run_again(
    tmp_path: Path, needed: int, passed: bool, summary: str
) -> None:
    (tmp_path / "ws").mkdir()
    spec = ValidatorSpec(
        name="t", run=FLAKY.format(needed), retries=2, serial=True, hidden=True
    )
    (validator,) = build_validators(
        [spec], ProcessLauncher(), {"PATH": os.environ["PATH"]}
    )
    assert (validator.name, validator.command, validator.serial, validator.hidden) == (
        "t",
        spec.run,
        True,
        True,
    )
    result, output = await validator.validate(validation(tmp_path / "ws", tmp_path))
    assert (result.passed, result.summary, result.hidden) == (passed, summary, True)
    assert output is not None
    assert output.read_text() == "try\n"
    assert [path.suffix for path in tmp_path.iterdir() if path.is_file()] == [".out"]


async def test_what_no_try_can_change_is_not_tried_again(tmp_path: Path) -> None:
    spec = ValidatorSpec(run="no-such-program", retries=5)
    (validator,) = build_validators(
        [spec], ProcessLauncher(), {"PATH": os.environ["PATH"]}
    )
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (result.reason, "tries" in result.summary) == ("not_found", False)
