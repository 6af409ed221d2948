"""Exit code 0 beside a summary that reports failures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import Expectation, ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

JEST = r"""printf '\033[1mTest Suites: \033[22m\033[31m1 failed\033[39m, 1 total\nTests:       1 failed, 1 passed, 2 total\n'
printf 'Snapshots:   0 total\nTime:        0.7 s\nRan all test suites.\n'
exit ${1:-1}"""
GO = r"""printf 'FAIL\texample.com/demo\t0.1s\nFAIL\n'; exit 1"""
UNITTEST = "printf 'Ran %s in 0.1s\\n\\nOK\\n' '0 tests'"


async def check(
    tmp_path: Path, line: str, expect: Expectation | None = None, go: str = GO
) -> ValidatorResult:
    """A line beside programs that say what the real ones would say."""
    folder = tmp_path / "bin"
    workspace = tmp_path / "ws"
    folder.mkdir()
    workspace.mkdir()
    programs = {"jest": JEST, "go": go, "python": UNITTEST, "run-tests": JEST}
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    validator = ShellValidator(
        ValidatorSpec(run=line, expect=expect or Expectation()), ProcessLauncher(), env
    )
    return (await validator.validate(validation(workspace, tmp_path)))[0]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("jest || true", "its summary reports 1 failed"),
        ("jest || exit 0; true", "its summary reports 1 failed"),
        ("jest; echo finished", "its summary reports 1 failed"),
        ("jest | cat", "its summary reports 1 failed"),
        ("jest 0", "its summary reports 1 failed"),
        ("go test ./... || echo ignored", "its summary reports FAIL example.com/demo"),
        ("run-tests 0", "its summary reports 1 failed"),
        ("echo '2 failed, 1 passed in 0.10s'", "its summary reports 2 failed"),
    ],
)
async def test_a_summary_that_reports_failures_is_red(
    tmp_path: Path, line: str, says: str
) -> None:
    result = await check(tmp_path, line)
    assert (result.passed, result.reason, result.exit_code) == (False, "red", 0)
    assert result.summary == f"exit 0, but {says}"
    assert result.feedback.startswith(
        f"exit 0, but {says}.\nA validator whose test runner reports failures fails"
    )
    assert "expect = { exit_code = 1 }" in result.feedback


@pytest.mark.parametrize(
    "line", ["python -m unittest", "cd . && go test -run Nothing ./..."]
)
async def test_a_direct_call_that_runs_no_test_is_red(
    tmp_path: Path, line: str
) -> None:
    result = await check(
        tmp_path, line, go=r"printf 'ok  \texample.com/demo\t0.1s [no tests to run]\n'"
    )
    assert (result.passed, result.summary) == (False, "exit 0, but no test ran")
    assert "its command selects none" in result.feedback


@pytest.mark.parametrize(
    "line",
    [
        "echo '2 failed, 1 passed in 0.10s'; echo as expected",
        "run-tests 0; echo three known failures, none new",
        "! jest",
        "echo 'INFO: 2 failed in 0.1s before, retried'; echo '3 passed in 0.20s'",
        "jest 0 && run-tests 0 && echo all mutants killed",
        "true",
    ],
)
async def test_an_honest_line_stays_green(tmp_path: Path, line: str) -> None:
    result = await check(tmp_path, line)
    assert (result.passed, result.reason) == (True, "passed"), result.summary


async def test_failures_that_the_goal_wants_are_green(tmp_path: Path) -> None:
    assert (await check(tmp_path, "jest", Expectation(exit_code=1))).passed
