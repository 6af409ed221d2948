"""A real pytest that is called directly, and what it reports."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import calls
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.runners import reports_needed
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

GREEN = {
    "tests/test_a.py": "def test_a(): pass\nclass TestX:\n    def test_b(self): pass\n"
}
RED = {**GREEN, "tests/test_r.py": "def test_r(): assert 0\n"}
LEAVES = {
    **GREEN,
    "tests/test_z.py": "def test_z():\n    import leave\n",
    "leave.py": "import os\nos._exit(0)\n",
}
NONE = (
    "no pytest reported to the runner: it was not started, was ended early (os._exit in the code under test?), "
    "or something else ran in its place"
)
BOTH = ("tests/test_a.py::TestX::test_b", "tests/test_a.py::test_a")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("pytest", "python"):
        module = ' -m pytest "$@"' if name == "pytest" else ' "$@"'
        (tmp_path / "bin" / name).write_text(
            f"#!/bin/sh\nexec {shlex.quote(sys.executable)}{module}\n"
        )
        (tmp_path / "bin" / name).chmod(0o755)
    return folder


async def check(
    workspace: Path,
    files: dict[str, str],
    line: str,
    *,
    optional: bool = False,
    **env: str,
) -> ValidatorResult:
    for name, text in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    around = {
        "PATH": f"{workspace.parent / 'bin'}:{os.environ['PATH']}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        # pytest-xdist makes a temporary folder, and with it removes those of old runs of these tests, which takes minutes.
        "PYTEST_DEBUG_TEMPROOT": str(workspace.parent),
        **env,
    }
    scratch = workspace.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    spec = ValidatorSpec(run=line, tests="optional" if optional else None)
    result, _ = await ShellValidator(spec, ProcessLauncher(), around).validate(
        validation(workspace, scratch)
    )
    assert {path.suffix for path in scratch.iterdir()} == {".out"}, (
        "nothing else is left"
    )
    return result


def ran(result: ValidatorResult) -> tuple[str, ...]:
    """Return the tests that passed or failed."""
    assert result.tests is not None
    return tuple(
        sorted(
            name
            for name, ending in result.tests.endings.items()
            if ending in ("passed", "failed")
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "pytest -qq",
        pytest.param("PYTHONPATH=. pytest -q", marks=pytest.mark.slow),
        "PYTHONPATH=.:$PYTHONPATH pytest -q",
        pytest.param("env PYTHONPATH='tests' python -m pytest", marks=pytest.mark.slow),
        pytest.param(
            "pytest -q --junitxml=mine.xml && grep -q test_a mine.xml",
            marks=pytest.mark.slow,
        ),
        pytest.param("cd tests && pytest && cd ..", marks=pytest.mark.slow),
        pytest.param("pytest -p xdist -n 1", marks=pytest.mark.slow),
    ],
)
async def test_an_honest_run_is_green_and_its_tests_are_known(
    workspace: Path, line: str
) -> None:
    result = await check(
        workspace, {**GREEN, "pytest.ini": "[pytest]\nfilterwarnings = error\n"}, line
    )
    assert (result.passed, result.reason) == (True, "passed"), result.feedback
    assert (result.tests_run, result.tests_failed, ran(result)) == (2, 0, BOTH)
    assert sorted(
        path.name for path in workspace.iterdir() if path.name != "mine.xml"
    ) == ["pytest.ini", "tests"]


@pytest.mark.parametrize(
    ("files", "line", "says"),
    [
        (RED, "pytest -qq || true", "its report has 1 failed"),
        pytest.param(RED, "pytest tests/test_r.py; pytest tests/test_a.py", "its report has 1 failed", marks=pytest.mark.slow),
        pytest.param(RED, "pytest -q | tail -n 1", "its report has 1 failed", marks=pytest.mark.slow),
        pytest.param(RED, "PYTHONPATH=. pytest -q | tail -n 1", "its report has 1 failed", marks=pytest.mark.slow),
        (LEAVES, "python -m pytest", NONE),
        pytest.param(LEAVES, "PYTHONPATH=. pytest", NONE, marks=pytest.mark.slow),
        (
            {**GREEN, "pytest.py": "print('2 passed in 0.01s')"},
            "python -m pytest",
            NONE,
        ),
        (
            {**GREEN, "conftest.py": "import pytest\ndef pytest_collection_modifyitems(items):\n"
             "    for item in items: item.add_marker(pytest.mark.skip)\n"},
            "pytest",
            "no test ran (2 skipped)",
        ),
        (
            {**GREEN, "conftest.py": "import pytest\ndef pytest_runtest_teardown(): pytest.exit('enough', returncode=0)\n"},
            "pytest",
            "pytest was stopped before its end: _pytest.outcomes.Exit: enough",
        ),
        (
            {
                **RED,
                "conftest.py": "def pytest_configure(config):\n    manager = config.pluginmanager\n"
                "    for name, plugin in manager.list_name_plugin():\n"
                "        if name.startswith('goal_report'): manager.unregister(plugin)\n",
            },
            "pytest || true",
            NONE,
        ),
        pytest.param({"tests/test_broken.py": "import no_such_module\n"}, "pytest || true", "its report has 1 failed", marks=pytest.mark.slow),
    ],
    ids=["or", "semicolon", "pipe", "own-path", "exit", "exit-option", "shadow", "skipped", "stopped", "unplugged", "broken"],
)  # fmt: skip
async def test_what_exit_0_hides_is_red(
    workspace: Path, files: dict[str, str], line: str, says: str
) -> None:
    result = await check(workspace, files, line)
    assert (result.passed, result.reason, result.exit_code) == (False, "red", 0)
    assert result.summary == f"exit 0, but {says}"


@pytest.mark.parametrize(
    "line",
    [
        "PYTHONPATH=. pytest -q",
        pytest.param("bash -c 'PYTHONPATH=. pytest -q'", marks=pytest.mark.slow),
    ],
)
async def test_the_folder_of_the_plugin_may_have_spaces(
    workspace: Path, line: str
) -> None:
    place = workspace.parent / "my files"
    place.mkdir()
    workspace.rename(place / "ws")
    (workspace.parent / "bin").rename(place / "bin")
    result = await check(place / "ws", GREEN, line)
    assert (result.passed, result.tests_run) == (True, 2), result.feedback


@pytest.mark.parametrize(
    "line",
    ["pytest -q", pytest.param("PYTHONPATH=. pytest -q", marks=pytest.mark.slow)],
)
async def test_a_red_run_counts_its_tests(workspace: Path, line: str) -> None:
    files = {
        **RED,
        "tests/test_x.py": "import pytest\n@pytest.mark.xfail\ndef test_x(): assert 0\n",
    }
    files["tests/test_bad.py"] = "import no_such_module\n"
    result = await check(workspace, files, f"{line} --continue-on-collection-errors")
    assert (result.passed, result.exit_code, result.tests_run, result.tests_failed) == (
        False,
        1,
        5,
        2,
    )
    assert ran(result) == (
        *BOTH,
        "tests/test_bad.py",
        "tests/test_r.py::test_r",
    )


OUTCOMES = """
import pytest, unittest, helper
@pytest.mark.skip
def test_mark(): pass
def test_call(): helper.skip()
def test_import(): helper.needs()
@pytest.fixture
def absent(): pytest.skip("no service")
def test_fixture(absent): pass
@pytest.mark.parametrize("number", [1, 2])
def test_variants(number): assert number == 1
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.mark.xfail
def test_unexpected(): pass
@pytest.fixture
def breaks():
    yield
    raise OSError
def test_teardown(breaks): pass
class TestU(unittest.TestCase):
    def test_skip(self): self.skipTest("x")
    def test_parts(self):
        with self.subTest(part=1): self.skipTest("x")
"""
HELPER = """
import pytest
def skip(): pytest.skip("here")
def needs(): pytest.importorskip("no_such_module")
"""
ENDINGS = {
    "mark": "skipped", "call": "skipped", "import": "skipped", "fixture": "skipped", "variants[1]": "passed",
    "variants[2]": "failed", "expected": "xfailed", "unexpected": "passed", "teardown": "failed",
}  # fmt: skip
FILES = {
    **GREEN,
    "tests/test_b.py": OUTCOMES,
    "tests/helper.py": HELPER,
    "tests/test_c.py": "import pytest\npytest.importorskip('no_such_module')\ndef test_c(): pass\n",
}


@pytest.mark.parametrize(
    "line",
    ["pytest -q", pytest.param("pytest -q -p xdist -n 2", marks=pytest.mark.slow)],
)
async def test_each_collected_test_has_an_ending(workspace: Path, line: str) -> None:
    tests = (
        await check(workspace, FILES, f"{line} --deselect tests/test_a.py::TestX")
    ).tests
    assert tests is not None
    assert tests.endings == {
        "tests/test_a.py::test_a": "passed",
        **{f"tests/test_b.py::test_{name}": ending for name, ending in ENDINGS.items()},
        "tests/test_b.py::TestU::test_skip": "skipped",
        "tests/test_b.py::TestU::test_parts": "passed",
    }
    assert tests.skipped_at == {
        "tests/test_b.py::test_mark": "tests/test_b.py",
        "tests/test_b.py::test_call": "tests/helper.py",
        "tests/test_b.py::test_import": "tests/helper.py",
        "tests/test_b.py::test_fixture": "tests/test_b.py",
        "tests/test_b.py::TestU::test_skip": "tests/test_b.py",
        "tests/test_c.py": "tests/test_c.py",
    }
    assert tests.whole


@pytest.mark.parametrize(
    ("files", "line", "endings"),
    [
        (
            RED,
            "pytest -x tests/test_r.py tests/test_a.py",
            {"test_r.py::test_r": "failed"},
        ),
        (
            {**RED, "tests/test_bad.py": "import no_such_module\n"},
            "pytest",
            {"test_bad.py": "failed"},
        ),
        (
            {
                **RED,
                "tests/conftest.py": "import pytest\ndef pytest_runtest_call(): raise KeyboardInterrupt\n",
            },
            "pytest",
            {},
        ),
    ],
    ids=["first-failure", "import-error", "interrupted"],
)
async def test_tests_that_did_not_run_are_known_and_not_whole(
    workspace: Path, files: dict[str, str], line: str, endings: dict[str, str]
) -> None:
    tests = (await check(workspace, files, line)).tests
    assert tests is not None
    assert not tests.whole
    ran = {
        name.removeprefix("tests/"): ending
        for name, ending in tests.endings.items()
        if ending
    }
    assert ran == endings


@pytest.mark.parametrize(
    "line", [pytest.param("make -s test", marks=pytest.mark.slow), "sh check.sh"]
)
async def test_a_pytest_that_a_script_starts_names_its_tests(
    workspace: Path, line: str
) -> None:
    files = {**RED, "Makefile": "test:\n\tpytest -q\n", "check.sh": "pytest -q\n"}
    result = await check(workspace, files, line)
    assert result.tests is not None
    assert result.tests.endings == {
        **dict.fromkeys(BOTH, "passed"),
        "tests/test_r.py::test_r": "failed",
    }
    assert (result.tests.whole, result.suite.proves) == (True, False)


async def test_a_pytest_that_selects_no_test_passes_only_if_tests_are_optional(
    workspace: Path,
) -> None:
    assert not (await check(workspace, GREEN, "pytest -q -k nothing")).passed
    assert (await check(workspace, GREEN, "pytest -q -k nothing", optional=True)).passed
    assert not (
        await check(workspace, RED, "pytest -q -k test_r", optional=True)
    ).passed


async def test_a_pytest_of_a_script_that_is_ended_early_is_red(workspace: Path) -> None:
    result = await check(
        workspace,
        {**LEAVES, "check.sh": "python -m pytest -q; pytest tests/test_a.py\n"},
        "sh check.sh",
    )
    assert (result.passed, result.summary) == (
        False,
        "exit 0, but a pytest began and did not report its end (os._exit in the code under test?)",
    )
    assert result.tests is not None
    assert not result.tests.whole


async def test_a_script_may_want_a_failure(workspace: Path) -> None:
    script = "! pytest -q tests/test_r.py && pytest -q tests/test_a.py\n"
    assert (await check(workspace, {**RED, "check.sh": script}, "sh check.sh")).passed


async def test_the_tests_of_another_runner_are_missing(workspace: Path) -> None:
    files = {
        "tests/test_a.py": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    }
    tests = (
        await check(
            workspace, files, "pytest -q && python -m unittest discover -s tests"
        )
    ).tests
    assert tests is not None
    assert (dict(tests.endings), tests.whole) == (
        {"tests/test_a.py::T::test_a": "passed"},
        False,
    )


@pytest.mark.slow
async def test_a_pytest_within_the_tests_is_not_watched(workspace: Path) -> None:
    inner = (
        "import os, subprocess, sys, pytest\n"
        "def test_inner(tmp_path):\n"
        "    (tmp_path / 'test_i.py').write_text('def test_i(): assert 0')\n"
        "    assert subprocess.run([sys.executable, '-m', 'pytest', str(tmp_path)]).returncode == 1\n"
        "    assert pytest.main([str(tmp_path)]) == 1\n"
        "    assert 'PYTEST_PLUGINS' not in os.environ and 'PYTHONPATH' not in os.environ\n"
    )
    result = await check(workspace, {"test_o.py": inner}, "pytest -q")
    assert (result.passed, ran(result)) == (True, ("test_o.py::test_inner",)), (
        result.feedback
    )


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "python -I -m pytest",
        pytest.param(
            "python -m coverage run --data-file=../data -m pytest",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_pytest_that_cannot_load_the_plugin_is_counted_by_its_summary(
    workspace: Path, line: str
) -> None:
    wrapper = workspace.parent / "bin" / "pytest"
    wrapper.write_text(
        f'#!/bin/sh\nunset PYTHONPATH\nexec {shlex.quote(sys.executable)} -m pytest "$@"\n'
    )
    result = await check(workspace, GREEN, line)
    assert (result.passed, result.tests_run, result.suite.counts[0].ran) == (
        True,
        None,
        2,
    ), result.feedback


async def test_what_is_not_a_certain_run_needs_no_report(workspace: Path) -> None:
    assert (await check(workspace, GREEN, "true || pytest")).passed
    assert (await check(workspace, GREEN, "if false; then pytest; fi")).passed
    assert (await check(workspace, RED, "! pytest tests/test_r.py")).passed


@pytest.mark.parametrize(
    ("line", "env", "expected"),
    [
        ("pytest", {}, 1),
        ("pytest && pytest x || pytest y", {}, 2),
        ("PYTHONPATH=src pytest", {}, 1),
        ("true || PYTHONPATH=src pytest", {}, 0),
        ("coverage run -m pytest", {}, None),
        ("pytest", {"COVERAGE_PROCESS_START": "x"}, None),
        ("python -I -m pytest", {}, None),
        ("pytest --collect-only", {}, None),
        ("env -i pytest", {}, None),
        ("! pytest", {}, None),
        ("make test", {}, None),
    ],
)
def test_the_number_of_reports_follows_from_the_command_line(
    line: str, env: dict[str, str], expected: int | None
) -> None:
    assert reports_needed(calls(line), env) == expected
