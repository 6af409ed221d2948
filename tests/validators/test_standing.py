"""Red, or cannot run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.model.goal import ValidatorSpec
from goalrunner.model.validation import ValidatorResult
from goalrunner.process import ProcessLauncher
from goalrunner.validators import PythonValidator, ShellValidator
from goalrunner.validators.standing import standing
from tests.support.agents import validation
from tests.support.shellless import Shellless


@pytest.mark.parametrize(
    ("line", "stands"),
    [
        ("true", "green"),
        ("false", "red"),
        ("exit 127", "red"),
        ("no-such-program --all", "cannot_run"),
        ("true && no-such-program", "cannot_run"),
        ("env A=1 no-such-program", "cannot_run"),
        ("timeout 5 no-such-program", "cannot_run"),
        ("/no/such/program", "cannot_run"),
        ("../no-such-program", "cannot_run"),
        ("./not-yet.sh", "red"),
        ("bin/no-such-program", "red"),
        ("sh not-yet.sh", "red"),
        ("./needs.sh", "red"),
        ("./plain", "red"),
        ("python3 not_yet.py", "red"),
    ],
)
async def test_a_missing_program_is_no_red_check(tmp_path: Path, line: str, stands: str) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "needs.sh").write_text("#!/bin/sh\nno-such-program\n")
    (workspace / "needs.sh").chmod(0o755)
    (workspace / "plain").write_text("true\n")
    validator = ShellValidator(ValidatorSpec(run=line), ProcessLauncher(), {"PATH": os.environ["PATH"], "LC_ALL": "C"})
    result, _ = await validator.validate(validation(workspace, tmp_path))
    assert standing(result, workspace) == stands
    assert result.cannot_run == (stands == "cannot_run")


async def test_a_missing_shell_cannot_run(tmp_path: Path) -> None:
    validator = ShellValidator(ValidatorSpec(run="true"), Shellless(), {"PATH": "/nonexistent"})
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (standing(result, tmp_path), result.cannot_run) == ("cannot_run", True)


async def test_a_module_or_folder_that_is_not_there_yet_is_red(tmp_path: Path) -> None:
    validator = PythonValidator(ValidatorSpec(python="notyet:done"), ProcessLauncher(), {"PATH": os.environ["PATH"]})
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (result.reason, standing(result, tmp_path)) == ("not_found", "red")
    shell = ShellValidator(ValidatorSpec(run="true", cwd="notyet"), ProcessLauncher(), {"PATH": os.environ["PATH"]})
    result, _ = await shell.validate(validation(tmp_path, tmp_path))
    assert (result.reason, standing(result, tmp_path)) == ("not_found", "red")


def test_a_longer_word_is_the_one_that_was_meant(tmp_path: Path) -> None:
    result = ValidatorResult(
        name="t",
        passed=False,
        reason="not_found",
        exit_code=127,
        command="pytest; ./pytest",
        summary="sh: 1: ./pytest: not found",
    )
    assert standing(result, tmp_path) == "red"
