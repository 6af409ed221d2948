"""A check that is run again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.shell_validator import build_validators
from tests.support.agents import validation

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
async def test_a_red_is_run_again(tmp_path: Path, needed: int, passed: bool, summary: str) -> None:
    (tmp_path / "ws").mkdir()
    spec = ValidatorSpec(name="t", run=FLAKY.format(needed), retries=2, serial=True, hidden=True)
    (validator,) = build_validators([spec], ProcessLauncher(), {"PATH": os.environ["PATH"]})
    assert (validator.name, validator.command, validator.serial, validator.hidden) == ("t", spec.run, True, True)
    result, output = await validator.validate(validation(tmp_path / "ws", tmp_path))
    assert (result.passed, result.summary, result.hidden) == (passed, summary, True)
    assert output is not None
    assert output.read_text() == "try\n"
    assert [path.suffix for path in tmp_path.iterdir() if path.is_file()] == [".out"]


async def test_what_no_try_can_change_is_not_tried_again(tmp_path: Path) -> None:
    spec = ValidatorSpec(run="no-such-program", retries=5)
    (validator,) = build_validators([spec], ProcessLauncher(), {"PATH": os.environ["PATH"]})
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (result.reason, "tries" in result.summary) == ("not_found", False)
