"""Suites that are red for other reasons."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import CollectedTests, Ending, SuiteRecord, ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.known_failures import judged, judged_at_start
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

FIXES = ("tests/test_a.py::test_new",)


def spec(**given: Any) -> ValidatorSpec:
    return ValidatorSpec.model_validate(
        {"run": "pytest -q", "known_failures": "baseline", **given}
    )


def result(
    code: int = 1, whole: bool = True, *, proves: bool = True, **endings: Ending
) -> ValidatorResult:
    tests = {
        f"tests/test_a.py::test_{name}": ending for name, ending in endings.items()
    }
    return ValidatorResult(
        name="tests",
        passed=code == 0,
        reason="red" if code else "passed",
        exit_code=code,
        command="pytest -q",
        summary="2 failed, 3 passed",
        tests_run=len(tests),
        suite=SuiteRecord(proves=proves),
        tests=CollectedTests(endings=tests, whole=whole),
    )


VARIANTS: Any = {"new[1]": "passed", "new[2]": "passed"}
BASE = result(old="failed", new="failed", good="passed")


@pytest.mark.parametrize(
    ("now", "more", "passed"),
    [
        (result(old="failed", new="passed", good="passed"), {"fixes": FIXES}, True),
        (result(old="failed", new="failed", good="passed"), {"fixes": FIXES}, False),
        (result(old="failed", new="failed", good="passed"), {}, True),
        (result(old="failed", new="skipped", good="passed"), {"fixes": FIXES}, False),
        (result(old="failed", good="passed"), {"fixes": FIXES}, False),
        (result(old="failed", new="passed", good="failed"), {"fixes": FIXES}, False),
        (
            result(old="failed", new="passed", good="passed", added="failed"),
            {"fixes": FIXES},
            False,
        ),
        (result(0, old="passed", new="passed", good="passed"), {"fixes": FIXES}, True),
        (
            result(0, old="passed", new="skipped", good="passed"),
            {"fixes": FIXES},
            False,
        ),
        # The exit code must be that of the tests, and all of them must have run.
        (
            result(2, old="failed", new="passed", good="passed", proves=False),
            {"fixes": FIXES},
            False,
        ),
        (
            result(1, False, old="failed", new="passed", good=""),
            {"fixes": FIXES},
            False,
        ),
        (
            result(2, False, old="failed", new="passed", good="passed"),
            {"fixes": FIXES},
            False,
        ),
        # Without known failures, the exit code counts as well.
        (
            result(old="failed", new="passed", good="passed"),
            {"fixes": FIXES, "known_failures": None},
            False,
        ),
        (result(0, new="passed"), {"fixes": FIXES, "known_failures": None}, True),
        # All variants, and all tests of a file.
        (result(0, **VARIANTS), {"fixes": FIXES}, True),
        (result(0, **{**VARIANTS, "new[2]": "skipped"}), {"fixes": FIXES}, False),
        (
            result(old="passed", new="passed", good="failed"),
            {"fixes": ("tests/test_a.py",)},
            False,
        ),
        (result(0, old="passed", new="passed"), {"fixes": ("tests/test_a.py",)}, True),
    ],
)
def test_a_result_is_judged_by_its_tests(
    now: ValidatorResult, more: dict[str, Any], passed: bool
) -> None:
    found = judged(BASE, now, spec(**more))
    assert (found.passed, found.reason) == (passed, "passed" if passed else "red")


def test_a_file_that_could_not_be_collected_hides_no_test() -> None:
    base = result(whole=False, good="passed").model_copy()
    base = base.model_copy(
        update={
            "tests": CollectedTests(endings={"tests/test_b.py": "failed"}, whole=False)
        }
    )
    same = base.model_copy(
        update={
            "tests": CollectedTests(endings={"tests/test_b.py": "failed"}, whole=False)
        }
    )
    assert judged(base, same, spec()).passed
    found = judged(base, result(good="failed"), spec())
    assert (found.passed, found.summary) == (
        False,
        "1 test fails that did not at the baseline: tests/test_a.py::test_good",
    )
    other = base.model_copy(
        update={
            "tests": CollectedTests(endings={"tests/test_c.py": "failed"}, whole=False)
        }
    )
    assert not judged(base, other, spec()).passed


def test_without_the_tests_of_the_baseline_no_failure_is_known() -> None:
    found = judged(None, BASE, spec())
    assert (found.passed, found.summary) == (
        False,
        "the tests of the baseline are not known",
    )


def test_a_failure_is_known_only_if_a_second_run_has_it(tmp_path: Path) -> None:
    again = result(old="failed", new="failed", good="passed", flaky="passed")
    first = result(old="failed", new="failed", good="passed", flaky="failed")
    base = judged_at_start(first, again, spec(), tmp_path)
    assert base.passed
    assert base.tests is not None
    assert base.tests.endings["tests/test_a.py::test_flaky"] == "passed"
    assert not judged(base, first, spec()).passed


@pytest.mark.parametrize(
    ("first", "more", "says"),
    [
        (
            BASE.model_copy(update={"tests": None}),
            {},
            "known_failures needs the names of tests",
        ),
        (result(2, False, old="failed"), {}, "known_failures needs a run of all tests"),
        (
            result(1, False, old="failed", good=""),
            {},
            "known_failures needs a run of all tests",
        ),
        (
            result(2, proves=False, old="failed"),
            {},
            "known_failures needs a command that only runs tests",
        ),
        (
            BASE,
            {"fixes": ("test_a.py::test_new",)},
            'no test is named "test_a.py::test_new"; did you mean "tests/test_a.py',
        ),
        (
            BASE,
            {"fixes": ("test_old",)},
            'no test is named "test_old"; did you mean "tests/test_a.py::test_old"?',
        ),
        (
            BASE,
            {"fixes": ("tests/test_a.py::test_other",)},
            "exists, but this command does not collect it",
        ),
        (BASE, {"fixes": ("tests/test_a.py::test_to_come",)}, ""),
        (BASE, {"fixes": ("tests/test_b.py::test_first",)}, ""),
    ],
)
def test_mistakes_in_the_goal_file_are_found_at_the_baseline(
    tmp_path: Path, first: ValidatorResult, more: dict[str, Any], says: str
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_other(): pass\n")
    found = judged_at_start(first, first, spec(**more), tmp_path)
    assert (found.passed, found.cannot_run) == (False, bool(says))
    assert says in found.summary


SUITE = """
import pathlib, pytest
def test_old(): assert 0
def test_new(): assert pathlib.Path("done").exists()
def test_good(): assert not pathlib.Path("broken").exists()
def test_flaky():
    seen = pathlib.Path("seen")
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert len(seen.read_text()) > 1
"""


async def check(
    workspace: Path, base: ValidatorResult | None, **given: Any
) -> ValidatorResult:
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    line = f"{shlex.quote(sys.executable)} -m pytest -q"
    validator = ShellValidator(spec(run=line, **given), ProcessLauncher(), env, base)
    scratch = workspace.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    context = replace(
        validation(workspace, scratch), iteration=0 if base is None else 1
    )
    return (await validator.validate(context))[0]


async def test_a_red_suite_is_green_when_the_named_test_passes(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "tests").mkdir(parents=True)
    (workspace / "tests/test_a.py").write_text(SUITE)
    base = await check(workspace, None, fixes=FIXES)
    assert (base.passed, base.cannot_run) == (False, False)
    assert (
        base.summary == "1 of 1 tests to fix does not pass: tests/test_a.py::test_new"
    )
    (workspace / "done").write_text("")
    now = await check(workspace, base, fixes=FIXES)
    assert (now.passed, now.summary) == (
        True,
        "1 failed, 3 passed; these failed before round 1, too",
    )
    (workspace / "seen").unlink()
    flaky = await check(workspace, base, fixes=FIXES)
    assert (flaky.passed, flaky.summary) == (
        False,
        "1 test fails that did not at the baseline: tests/test_a.py::test_flaky",
    )
    (workspace / "broken").write_text("")
    worse = await check(workspace, base, fixes=FIXES)
    assert (worse.passed, worse.summary) == (
        False,
        "1 test fails that did not at the baseline: tests/test_a.py::test_good",
    )
    assert "assert not True" in worse.feedback
