"""Whether `python -m unittest` came to its end."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

PYTHON = shlex.quote(sys.executable)
GREEN = "import unittest\n\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        pass\n"
FORGED = "import os\nos.write(2, b'Ran 1 test in 0.000s\\n\\nOK\\n')\nos._exit(0)\n"


async def check(folder: Path, line: str, test: str, **env: str) -> ValidatorResult:
    workspace = folder / "ws"
    workspace.mkdir()
    (workspace / "test_a.py").write_text(test)
    spec = ValidatorSpec(run=line)
    return (
        await ShellValidator(
            spec, ProcessLauncher(), {"PATH": "/usr/bin:/bin", **env}
        ).validate(validation(workspace, folder))
    )[0]


@pytest.mark.parametrize(
    "line",
    [
        "{} -m unittest",
        "{} -m unittest discover -s .",
        "PYTHONPATH=src {} -m unittest test_a",
    ],
)
@pytest.mark.parametrize(
    "test",
    [FORGED, GREEN.replace("pass", "__import__('os')._exit(0)")],
    ids=["import", "test"],
)
async def test_a_unittest_that_ends_early_is_red(
    tmp_path: Path, line: str, test: str
) -> None:
    result = await check(tmp_path, line.format(PYTHON), test)
    assert (result.passed, result.exit_code) == (False, 0)


@pytest.mark.parametrize(
    "line",
    ["{} -m unittest", "{0} -m unittest && {0} -m unittest", "{} -m unittest -v"],
)
async def test_one_that_comes_to_its_end_is_green(tmp_path: Path, line: str) -> None:
    result = await check(tmp_path, line.format(PYTHON), GREEN)
    assert result.passed, result


async def test_a_unittest_within_a_test_may_end_early(tmp_path: Path) -> None:
    inner = "import os, subprocess, sys\n        subprocess.run([sys.executable, '-m', 'unittest', 'no_such'], check=False)"
    inner += "\n        assert 'PYTHONPATH' not in os.environ, os.environ['PYTHONPATH']"
    result = await check(
        tmp_path, f"{PYTHON} -m unittest", GREEN.replace("pass", inner)
    )
    assert result.passed, result


async def test_the_sitecustomize_of_the_path_is_imported(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/sitecustomize.py").write_text(
        "import builtins\nbuiltins.customized = True\n"
    )
    test = GREEN.replace("pass", "assert customized")
    assert (
        await check(
            tmp_path, f"{PYTHON} -m unittest", test, PYTHONPATH=str(tmp_path / "lib")
        )
    ).passed
