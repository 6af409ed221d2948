"""What tests mean for a result: suites without a test, thresholds, and exit codes that tests explain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.runner_output import Output
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

CARGO = "test result: ok. {} passed; 0 failed; {} ignored; 0 measured; 0 filtered out; finished in 0.00s\\n"
GO_SKIPPED = "=== RUN   TestA\\n--- SKIP: TestA (0.00s)\\nPASS\\nok  \\tx/y\\t0.01s\\n"


async def check(
    tmp_path: Path, line: str, output: str, code: int = 0, **spec: object
) -> ValidatorResult:
    """Run a line whose programs print an output and end with a code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (
        "go",
        "cargo",
        "npx",
        "npm",
        "node",
        "python",
        "make",
        "pytest",
        "coverage",
        "pnpm",
    ):
        (folder / name).write_text(f"#!/bin/sh\nprintf '{output}'\nexit {code}\n")
        (folder / name).chmod(0o755)
    (tmp_path / "ws").mkdir()
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    validator = ShellValidator(
        ValidatorSpec.model_validate({"run": line, **spec}), ProcessLauncher(), env
    )
    return (await validator.validate(validation(tmp_path / "ws", tmp_path)))[0]


@pytest.mark.parametrize(
    ("line", "output", "says"),
    [
        (
            "npx vitest run --passWithNoTests",
            "No test files found, exiting with code 0\\n",
            "no test ran",
        ),
        ("npm test", "No test files found, exiting with code 0\\n", "no test ran"),
        (
            "npx jest --passWithNoTests",
            "No tests found, exiting with code 0\\n",
            "no test ran",
        ),
        (
            "npx jest",
            "Test Suites: 1 skipped, 0 of 1 total\\nTests:       3 skipped, 3 total\\n",
            "no test ran (3 skipped)",
        ),
        (
            "go test ./...",
            "?   \\tx/y\\t[no test files]\\n?   \\tx/z\\t[no test files]\\n",
            "no test ran",
        ),
        ("go vet ./... && go test ./...", GO_SKIPPED, "no test ran (1 skipped)"),
        ("cargo test", CARGO.format(0, 0) * 2, "no test ran"),
        ("make test", CARGO.format(0, 3), "no test ran (3 skipped)"),
        (
            "node --test",
            "# tests 0\\n# pass 0\\n# fail 0\\n# cancelled 0\\n# skipped 0\\n",
            "no test ran",
        ),
        ("python -m unittest", "Ran 0 tests in 0.000s\\n\\nOK\\n", "no test ran"),
        (
            "python -m unittest",
            "Ran 2 tests in 0.000s\\n\\nOK (skipped=2)\\n",
            "no test ran (2 skipped)",
        ),
        ("npx mocha", "  0 passing (1ms)\\n  2 pending\\n", "no test ran (2 skipped)"),
        ("make test", "===== 3 skipped in 0.01s =====\\n", "no test ran (3 skipped)"),
    ],
)
async def test_a_suite_that_runs_no_test_is_red(
    tmp_path: Path, line: str, output: str, says: str
) -> None:
    result = await check(tmp_path, line, output)
    assert (result.passed, result.summary) == (False, f"exit 0, but {says}")
    assert 'tests = "optional"' in result.feedback


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("go test ./...", "?   \\tx/y\\t[no test files]\\nok  \\tx/z\\t0.01s\\n"),
        ("cargo test", CARGO.format(0, 0) + CARGO.format(2, 0)),
        ("cargo bench", CARGO.format(0, 4).replace("0 measured", "2 measured")),
        ("make all-tests", CARGO.format(0, 0) + "===== 3 passed in 0.01s =====\\n"),
        ("npm test", "Tests were fine\\n"),
        ("make test", "===== 2 xfailed in 0.01s =====\\n"),
        ("pytest --collect-only", "3 tests collected in 0.01s\\n"),
        ("python -m unittest", "sss\\nRan 1 test in 0.000s\\n\\nOK (skipped=3)\\n"),
    ],
)
async def test_a_suite_that_runs_some_test_is_green(
    tmp_path: Path, line: str, output: str
) -> None:
    assert (await check(tmp_path, line, output)).passed


@pytest.mark.parametrize(
    ("line", "output", "code"),
    [
        ("cargo test", CARGO.format(0, 0), 0),
        ("make test", "No test files found, exiting with code 0\\n", 0),
        ("python -m unittest", "Ran 0 tests in 0.000s\\n\\nNO TESTS RAN\\n", 5),
        ("pytest", "no tests ran in 0.01s\\n", 5),
    ],
)
async def test_tests_may_be_optional(
    tmp_path: Path, line: str, output: str, code: int
) -> None:
    assert (await check(tmp_path, line, output, code, tests="optional")).passed


async def test_another_exit_5_is_red_even_if_tests_are_optional(tmp_path: Path) -> None:
    assert not (await check(tmp_path, "make x", "broken", 5, tests="optional")).passed


@pytest.mark.parametrize(
    ("output", "code", "below"),
    [
        (
            "FAIL Required test coverage of 90% not reached. Total coverage: 50.00%\\n2 passed in 0.1s\\n",
            1,
            True,
        ),
        ("Coverage failure: total of 50 is less than fail-under=90\\n", 2, True),
        (
            'Jest: "global" coverage threshold for lines (90%%) not met: 50%%\\n',
            1,
            True,
        ),
        (
            "ERROR: Coverage for lines (50%%) does not meet global threshold (90%%)\\n",
            1,
            True,
        ),
        (
            "FAIL Required test coverage of 90%% not reached. Total coverage: 50.00%%\\n1 failed in 0.1s\\n",
            1,
            False,
        ),
        ("2 failed in 0.1s\\n", 1, False),
        (
            "Required test coverage of 90%% reached. Total coverage: 95.00%%\\n2 passed in 0.1s\\n",
            0,
            False,
        ),
    ],
)
async def test_a_threshold_that_is_not_reached_is_known(
    tmp_path: Path, output: str, code: int, below: bool
) -> None:
    result = await check(
        tmp_path, "make test", output.replace("%", "%%").replace("%%%%", "%%"), code
    )
    assert result.suite.below_threshold is below


GO = "=== RUN   TestA\\n--- {0}: TestA (0.00s)\\n{1}\\n{2}\\tx/y\\t0.01s\\n"
GREEN, RED = (
    GO.format("PASS", "PASS", "ok  "),
    GO.format("FAIL", "FAIL", "FAIL") + "FAIL\\n",
)


@pytest.mark.parametrize(
    ("line", "output", "code", "proves"),
    [
        ("go test -v ./...", GREEN, 0, True),
        ("go test -v ./...", RED, 1, True),
        ("cd . && go test -v ./...", GREEN, 0, True),
        ("go test -v ./... && true", GREEN, 0, False),
        ("go test -v ./... && true", RED, 1, True),
        ("go test -v ./... && false", GREEN, 0, False),
        ("go test -v ./... | cat", GREEN, 0, False),
        ("make test", GREEN, 0, False),
        ("npx jest", "Tests:       1 passed, 1 total\\n", 0, False),
    ],
)
async def test_tests_prove_the_exit_code_of_their_own_runner(
    tmp_path: Path, line: str, output: str, code: int, proves: bool
) -> None:
    assert (await check(tmp_path, line, output, code)).suite.proves is proves


PNPM = """\
Scope: 2 of 3 workspace projects
packages/a test$ node --test
packages/b test$ vitest run
packages/a test: # tests 2
packages/b test:  Test Files  1 passed (1)
packages/a test: # pass 2
packages/a test: # fail 0
packages/b test:       Tests  3 passed (3)
packages/a test: # cancelled 0
packages/a test: Done
packages/b test: Done
"""


def test_the_lines_of_scripts_of_pnpm_are_read_without_their_prefix() -> None:
    output = Output(PNPM)
    assert [summary.ran for summary in output.summaries["node --test"]] == [2]
    assert [summary.ran for summary in output.summaries["vitest"]] == [3]


def test_the_lines_of_tasks_of_turbo_are_read_without_their_prefix() -> None:
    output = Output(
        "@x/a:test: # tests 2\n@x/a:test: # pass 2\n@x/a:test: # fail 0\n@x/a:test: # cancelled 0\n"
    )
    assert [summary.ran for summary in output.summaries["node --test"]] == [2]


@pytest.mark.parametrize(
    ("output", "ran", "skipped"),
    [
        ("..s\n----\nRan 3 tests in 0.001s\n\nOK (skipped=1)\n", 2, 1),
        # Each of the three subtests of one test is skipped.
        (".sss\n----\nRan 2 tests in 0.001s\n\nOK (skipped=3)\n", 2, 0),
        ("Ran 2 tests in 0.001s\n\nOK (skipped=3)\n", 2, 0),
        ("..x\n----\nRan 3 tests in 0.001s\n\nOK (expected failures=1)\n", 2, 1),
    ],
)
def test_a_test_whose_subtests_are_skipped_has_run(
    output: str, ran: int, skipped: int
) -> None:
    [summary] = Output(output).summaries["unittest"]
    assert (summary.ran, summary.skipped) == (ran, skipped)
