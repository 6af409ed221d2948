"""Red, or cannot run: what only a person can correct in a validator's own command line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.shell_validator import ShellValidator
from goalrunner.validators.suites import is_environmental, without_space
from tests.support.agents import validation
from tests.support.shellless import Shellless

VARIABLES = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PLACE": "/nonexistent"}


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
        ("$PLACE/no-such-program", "cannot_run"),
        ("../outside", "cannot_run"),
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
    (tmp_path / "outside").write_text("true\n")
    validator = ShellValidator(ValidatorSpec(run=line), ProcessLauncher(), VARIABLES)
    result, _ = await validator.validate(validation(workspace, tmp_path))
    assert ("green" if result.passed else "cannot_run" if result.cannot_run else "red") == stands


async def test_a_missing_shell_cannot_run(tmp_path: Path) -> None:
    validator = ShellValidator(ValidatorSpec(run="true"), Shellless(), {"PATH": "/nonexistent"})
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert result.cannot_run


async def test_a_module_or_folder_that_is_not_there_yet_is_red(tmp_path: Path) -> None:
    validator = PythonValidator(ValidatorSpec(python="notyet:done"), ProcessLauncher(), {"PATH": os.environ["PATH"]})
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (result.reason, result.cannot_run) == ("not_found", False)
    shell = ShellValidator(ValidatorSpec(run="true", cwd="notyet"), ProcessLauncher(), {"PATH": os.environ["PATH"]})
    result, _ = await shell.validate(validation(tmp_path, tmp_path))
    assert (result.reason, result.cannot_run) == ("not_found", False)


def _red(command: str, feedback: str, exit_code: int, **more: object) -> ValidatorResult:
    fields = {"name": "t", "passed": False, "exit_code": exit_code, "command": command, "feedback": feedback, **more}
    return ValidatorResult.model_validate(fields)


@pytest.mark.parametrize(
    ("feedback", "suspicious"),
    [
        ("OSError: [Errno 18] Invalid cross-device link", True),
        ("unshare: unshare failed: Operation not permitted", True),
        ("OSError: [Errno 30] Read-only file system: 'x'", True),
        ("AssertionError: 1 != 2", False),
    ],
)
def test_what_the_kernel_refuses_is_tried_in_the_workspace_itself(feedback: str, *, suspicious: bool) -> None:
    assert is_environmental(_red("./check", feedback, 1), incomplete=False) is suspicious


def test_a_message_about_a_full_disk_counts_only_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [_red("./check", "OSError: [Errno 28] No space left on device", 1)]
    assert without_space(results, tmp_path) == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert without_space(results, tmp_path) == f"no space left in {tmp_path}"
    assert without_space([_red("./check", "1 failed", 1)], tmp_path) == ""
