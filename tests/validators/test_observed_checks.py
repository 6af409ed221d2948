"""What validators start, and what the results of the baseline show of the checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import (
    CollectedTests,
    RunnerCount,
    SuiteRecord,
    ValidatorResult,
)
from goalrunner.validators.observed_checks import is_test_of_file, observed_checks
from goalrunner.validators.started_checks import StartedChecks, started_checks
from tests.support.workspaces import write


def result(
    *ids: str, whole: bool = True, runner: str = "", **more: Any
) -> ValidatorResult:
    tests = (
        CollectedTests(endings=dict.fromkeys(ids, "passed"), whole=whole)
        if ids or not whole
        else None
    )
    counts = (RunnerCount(runner=runner, ran=1),) if runner else ()
    return ValidatorResult(
        name="v", passed=True, tests=tests, suite=SuiteRecord(counts=counts), **more
    )


def test_files_of_collected_tests_are_observed() -> None:
    seen = observed_checks(
        [
            result(
                "tests/test_a.py::test_a",
                "tests/test_a.py::TestB::test_b",
                "src/check_a.py::check_x",
            )
        ]
    )
    assert seen.test_files == {"tests/test_a.py", "src/check_a.py"}
    assert seen.languages == {"python"}


@pytest.mark.parametrize(
    ("results", "languages"),
    [
        ([result("a.py::test_a", whole=False)], set()),
        ([result(whole=False)], set()),
        ([result("a.py::test_a"), result(whole=False)], set()),
        ([result("a.py::test_a"), result(runner="unittest")], set()),
        ([result("a.py::test_a"), result(runner="jest")], {"python"}),
        ([result("a.py::test_a"), result("x.test.js::a")], {"python", "javascript"}),
        ([result("a.py::test_a", runner="vitest")], {"python"}),
        ([result("go test pkg::TestA")], set()),
        ([result()], set()),
    ],
)
def test_a_language_is_observed_if_all_its_tests_are_known(
    results: list[ValidatorResult], languages: set[str]
) -> None:
    assert observed_checks(results).languages == languages


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/test_a.py::test_a", True),
        ("tests/test_a.py::test_a[x.y-1]", True),
        ("tests/test_a.py::TestA::test_a", True),
        ("test_calc.py::test_calc", True),
        ("src/calc.py::calc.add", False),  # doctests
        ("src/calc.py::src.calc.add", False),
        ("src/calc.py::calc", False),
        ("README.md::README.md", False),
        ("src/calc.py::ruff::format", False),
        ("src/calc.py::FLAKE8", False),
        ("src/calc.py::mypy", False),
        ("src/a.test.ts::adds", True),
        ("src/lib.rs::tests::adds", False),
        ("nb.ipynb::Cell 0", False),
    ],
)
def test_which_tests_make_a_file_of_tests(test: str, *, expected: bool) -> None:
    path, _, name = test.partition("::")
    assert is_test_of_file(path, name) is expected


@pytest.mark.parametrize(
    ("run", "files", "tools", "runs_tests"),
    [
        ("pytest -q", {}, "pytest", True),
        ("pytest --mypy", {}, "pytest mypy", True),
        ("ruff check . && mypy src", {}, "ruff mypy", False),
        ("cd src && npx eslint .", {}, "npx eslint", False),
        ("cargo clippy", {}, "cargo clippy", False),
        ("cargo test", {}, "cargo", True),
        ("python -m mypy .", {}, "mypy", False),
        ("basedpyright", {}, "basedpyright pyright", False),
        (
            "make lint",
            {"Makefile": "lint:\n\t.venv/bin/ruff check .\n"},
            "make ruff",
            False,
        ),
        ("make all", {"Makefile": "all:\n\tpytest\n"}, "make pytest", True),
        ("sh check.sh", {"check.sh": "mypy .\npytest\n"}, "mypy pytest", True),
        (
            "npm test",
            {"package.json": '{"scripts": {"test": "vitest run"}}'},
            "npm vitest",
            True,
        ),
        ("tox", {"tox.ini": "[testenv]\ncommands = pytest\n"}, "tox pytest", True),
        ("nox", {"noxfile.py": "session.run('ruff', 'check')"}, "nox ruff", True),
        (
            "pre-commit run -a",
            {".pre-commit-config.yaml": "hooks: [id: ruff-check]"},
            "pre-commit ruff",
            False,
        ),
        (
            "pre-commit run -a",
            {".pre-commit-config.yaml": "entry: pytest"},
            "pre-commit pytest",
            True,
        ),
        (
            "pytest",
            {"pytest.ini": "[pytest]\naddopts = --ruff --cov\n"},
            "pytest ruff",
            True,
        ),
        ("./main.py", {}, "", True),
        (
            "docker compose run app",
            {"compose.yaml": "command: pytest"},
            "docker pytest",
            True,
        ),
        ("python tools/check.py", {"tools/check.py": "run(['mypy'])"}, "mypy", True),
        ("((broken", {}, "", True),
    ],
)
def test_programs_that_validators_start(
    tmp_path: Path, run: str, files: Mapping[str, str], tools: str, *, runs_tests: bool
) -> None:
    workspace, record = tmp_path / "ws", tmp_path / "record.json"
    workspace.mkdir()
    write(workspace, files)
    found = started_checks([ValidatorSpec(name="v", run=run)], workspace, record)
    assert (found.tools, found.runs_tests) == (frozenset(tools.split()), runs_tests)
    assert (
        started_checks([ValidatorSpec(name="v", run=run)], workspace, record) == found
    )


def test_a_runner_that_reported_runs_tests() -> None:
    lint = StartedChecks(runs_tests=False, tools=frozenset({"ruff"}))
    assert not observed_checks([result()], lint).runs_tests
    assert observed_checks([result("a.py::test_a")], lint).runs_tests
    assert observed_checks([result(runner="jest")], lint).runs_tests
    assert observed_checks([], lint).tools == frozenset({"ruff"})
    assert observed_checks([result("a.py::test_a")], lint).tools == frozenset(
        {"ruff", "pytest"}
    )
    assert observed_checks([result(runner="jest")], lint).tools == frozenset(
        {"ruff", "jest"}
    )


@pytest.mark.parametrize(
    ("run", "outside"),
    [
        ("sh ../ci/check.sh", ("../ci/check.sh",)),
        ("pytest -q ../tests --rootdir=..", ("../tests",)),
        ("cd ../ci && ./check.sh", ("../ci", "../ci/check.sh")),
        ("pytest ../gone ../", ()),
        ("pytest tests", ()),
    ],
)
def test_checks_outside_of_the_workspace(
    tmp_path: Path, run: str, outside: tuple[str, ...]
) -> None:
    write(tmp_path, {"ws/tests/a": "", "tests/test_a.py": "", "ci/check.sh": ""})
    assert (
        started_checks([ValidatorSpec(name="v", run=run)], tmp_path / "ws").outside
        == outside
    )
