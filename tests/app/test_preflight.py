"""What is found before round 1 without running anything: the same for a run and for a dry run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.preflight import refuse_invalid_commands, warnings_before
from goalrunner.core.errors import ValidatorMissing
from goalrunner.core.goal import Goal

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def _goal(folder: Path, *lines: str, objective: str = "Do it.", **more: Any) -> Goal:
    validators = [{"name": f"check{at}", "run": line} for at, line in enumerate(lines)]
    config = {"path": str(folder), **more.pop("workspace", {})}
    return Goal.model_validate(
        {"objective": objective, "validators": validators, "workspace": config, **more}
    )


def _made(workspace: Path, *files: str) -> Path:
    for name in files:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    return workspace


def test_a_missing_program_is_named_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ValidatorMissing) as raised:
        refuse_invalid_commands(
            _goal(tmp_path, "true", "no-such-program-here --all"), ENVIRON
        )
    assert (
        raised.value.message
        == "validator check1 cannot run here: no-such-program-here: not found"
    )
    assert (
        raised.value.hint
        == "install no-such-program-here, or name another program in the goal file"
    )


@pytest.mark.parametrize(
    "line",
    ["./check.sh", "true", "python3 check.py", "pytest tests/test_new.py", "pytest"],
)
def test_what_the_work_may_bring_is_no_reason_to_fail(
    tmp_path: Path, line: str
) -> None:
    goal = _goal(tmp_path, line)
    refuse_invalid_commands(
        goal, {**ENVIRON, "PATH": f"{_path_with_pytest(tmp_path)}:{ENVIRON['PATH']}"}
    )


def test_what_setup_prepares_is_not_missing(tmp_path: Path) -> None:
    goal = _goal(
        _made(tmp_path, "tests/test_a.py"),
        ".venv/bin/pytest",
        workspace={"setup": "uv sync"},
    )
    assert warnings_before(goal, ENVIRON) == ()


@pytest.mark.parametrize(
    ("line", "detail", "hint"),
    [
        ("echo 'x", "quot|matching", """run = "echo 'x\""""),
        ("touch made; (", "end of file", 'run = "touch made; ("'),
        ("touch made\nif true", "end of file", 'run = "touch made ..."'),
    ],
)
def test_a_line_that_the_shell_cannot_parse_is_refused_and_not_run(
    tmp_path: Path, line: str, detail: str, hint: str
) -> None:
    goal = _goal(tmp_path, line, workspace={"setup": "make tools"})
    with pytest.raises(ValidatorMissing) as raised:
        refuse_invalid_commands(goal, ENVIRON)
    finding = raised.value
    assert re.match(
        f"validator .* is not a valid command line for /bin/sh: .*(?:{detail})",
        finding.message,
    )
    assert finding.hint == f"correct this line of the goal file: {hint}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    ["touch made", "false", "cat <<E\nx\nE", 'test -n "$X" && (true)', "! grep x y"],
)
def test_a_line_is_parsed_and_not_run_before_the_start(
    tmp_path: Path, line: str
) -> None:
    refuse_invalid_commands(_goal(tmp_path, line), ENVIRON)
    assert not list(tmp_path.iterdir())


def test_a_check_that_cannot_be_red_is_a_warning_with_a_line_to_paste(
    tmp_path: Path,
) -> None:
    (tmp_path / "Makefile").write_text("test:\n")
    assert warnings_before(
        _goal(tmp_path, "make test | tee log", "make test || true"), ENVIRON
    ) == (
        "`| tee log` gives the exit code of tee, not of make; write: bash -o pipefail -c 'make test | tee log'",
        "`|| true` passes even if make fails; remove it",
    )


def test_a_hidden_validator_is_not_named_in_warnings(tmp_path: Path) -> None:
    hidden = {"name": "hush", "run": "pytest tests/test_new.py", "hidden": True}
    goal = Goal.model_validate(
        {
            "objective": "x",
            "validators": [{"name": "a", "run": "true"}, hidden],
            "workspace": {"path": str(tmp_path)},
        }
    )
    assert warnings_before(goal, ENVIRON) == ()


def test_programs_that_setup_installs_are_not_looked_for(tmp_path: Path) -> None:
    goal = _goal(tmp_path, "no-such-program-here", workspace={"setup": "make tools"})
    refuse_invalid_commands(goal, ENVIRON)


def test_a_missing_program_may_be_what_is_expected(tmp_path: Path) -> None:
    spec = {"name": "gone", "run": "no-such-program-here", "expect": {"exit_code": 127}}
    goal = Goal.model_validate(
        {"objective": "x", "validators": [spec], "workspace": {"path": str(tmp_path)}}
    )
    refuse_invalid_commands(goal, ENVIRON)


def _path_with_pytest(folder: Path) -> str:
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "pytest").write_text("#!/bin/sh\n")
    (programs / "pytest").chmod(0o755)
    return str(programs)


_ABSENT = "validator check fails until the module no_such_module exists, in the workspace or installed"
_DEFINES = "import sys as system\nclass C:\n    def f(self): ...\nasync def g(): ...\nh = C.f\n"


@pytest.mark.parametrize(
    ("python", "warned"),
    [
        ("no_such_module:f", (_ABSENT,)),
        (
            "checks:no",
            ("validator check fails until the module checks has a function no",),
        ),
        (
            "package.inner:no",
            ("validator check fails until the module package.inner has a function no",),
        ),
        *((f"checks:{name}", ()) for name in ("C.f", "g", "h", "system")),
        ("dynamic:f", ()),
        ("broken:f", ()),
        ("package.checks:f", ()),
        ("json.tool:main", ()),
        ("json.tool:no", ()),
    ],
)
def test_a_python_validator_that_does_not_exist_is_a_warning(
    tmp_path: Path, python: str, warned: tuple[str, ...]
) -> None:
    (tmp_path / "checks.py").write_text(_DEFINES)
    (tmp_path / "dynamic.py").write_text("from os import *\n")
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/inner.py").touch()
    goal = Goal.model_validate(
        {
            "objective": "Do it.",
            "validators": [{"name": "check", "python": python}],
            "workspace": {"path": str(tmp_path)},
        }
    )
    assert warnings_before(goal, ENVIRON) == warned
