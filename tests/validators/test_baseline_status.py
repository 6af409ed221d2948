"""Red, or cannot run: what only a person can correct in a validator's own command line."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.absent_programs import Place
from goalrunner.validators.baseline_status import is_environmental, obstacle, without_space
from goalrunner.validators.kinds import PythonValidator, ShellValidator
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


def test_a_longer_word_is_the_one_that_was_meant(place: Place) -> None:
    result = _red("pytest; ./pytest", "", 127, reason="not_found", summary="sh: 1: ./pytest: not found")
    assert obstacle(result, place) == ""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine that has make and a Python without tools."""
    programs, workspace = tmp_path / "bin", tmp_path / "ws"
    (workspace / "x").mkdir(parents=True)
    programs.mkdir()
    for name in ("python", "python3", "make"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        (programs / name).chmod(0o755)
    return Place(workspace, workspace, {"PATH": str(programs)})


def _red(command: str, feedback: str, exit_code: int, **more: object) -> ValidatorResult:
    fields = {"name": "t", "passed": False, "exit_code": exit_code, "command": command, "feedback": feedback, **more}
    return ValidatorResult.model_validate(fields)


@pytest.mark.parametrize(
    ("line", "feedback", "why"),
    [
        (
            "python3 -m nox",
            "/usr/bin/python3: No module named nox",
            "No module named nox; /usr/bin/python3 -m pip install nox, in ",
        ),
        (
            "cd x && python -m pytest -q",
            "/v/bin/python: No module named pytest",
            "No module named pytest; /v/bin/python -m pip install pytest, in ",
        ),
        # The work is to bring these.
        ("python3 -m mytool --help", "/usr/bin/python3: No module named mytool", ""),
        ("make check", "/usr/bin/python3: No module named nox", ""),
        ("python3 -m nox", "ModuleNotFoundError: No module named nox", ""),
        ("python3 -m pytest", "E   ModuleNotFoundError: No module named 'calc'", ""),
    ],
)
def test_a_tool_that_the_line_itself_names_and_python_lacks_is_a_persons_to_install(
    place: Place, line: str, feedback: str, why: str
) -> None:
    found = obstacle(_red(line, feedback, 1), place)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_a_tool_that_the_workspace_itself_is_may_be_what_the_work_brings(place: Place) -> None:
    (place.workspace / "src" / "nox").mkdir(parents=True)
    result = _red("python3 -m nox", "/usr/bin/python3: No module named nox", 1)
    assert obstacle(result, place) == ""


@pytest.mark.parametrize("line", ["maek -q", "python3 setup.py install && maek -q"])
def test_a_missing_program_is_named_with_the_one_that_may_be_meant(place: Place, line: str) -> None:
    result = _red(line, "", 127, reason="not_found", summary="sh: 1: maek: not found")
    assert obstacle(result, place) == "maek: not found; did you mean make?"


def test_a_program_may_be_written_into_a_folder_of_the_workspace_on_path(place: Place) -> None:
    result = _red("mytool -q", "", 127, reason="not_found", summary="sh: 1: mytool: not found")

    def found(path: str) -> str:
        return obstacle(result, replace(place, env={"PATH": path}))

    assert found(f"/nonexistent:{place.workspace / 'bin'}") == ""
    assert found("/nonexistent").startswith("mytool: not found; install mytool")
    (place.workspace / "pyvenv.cfg").write_text("")
    assert found(str(place.workspace / "bin")).startswith("mytool: not found; install mytool")


def test_a_program_that_the_sandbox_hides_is_a_persons_to_show(place: Place) -> None:
    result = _red("tool", "", 127, reason="not_found", summary="/home/u/tools/tool: not found in the sandbox")
    assert 'sandbox = "none"' in obstacle(result, place)


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


def test_a_shell_that_does_not_know_pipefail_is_a_persons_to_replace(place: Place) -> None:
    said = "sh: 1: set: Illegal option -o pipefail"
    assert obstacle(_red("set -o pipefail; make | tail", said, 2), place).startswith("/bin/sh does not know")
    assert obstacle(_red("make check", said, 2), place) == ""
