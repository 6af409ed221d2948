"""What only a person can correct in a validator's own line, found before or after it runs, and faults of the environment."""

from __future__ import annotations

import json
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
from goalrunner.validators.command_obstacles import obstacle, unexecutable_script
from goalrunner.validators.environment_faults import is_environmental, without_space
from goalrunner.validators.missing_programs import MissingProgram, missing_program
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.shell_validator import ShellValidator
from goalrunner.validators.spec_validator import CheckPlace
from tests.support.agents import validation


@pytest.fixture
def place(tmp_path: Path) -> CheckPlace:
    """A machine that has pytest, git, env, timeout, sh, uv, ruff, make and a Python without tools."""
    programs, workspace = tmp_path / "bin", tmp_path / "ws"
    programs.mkdir()
    (workspace / "x").mkdir(parents=True)
    for name in ("pytest", "git", "env", "timeout", "sh", "uv", "ruff", "pip", "make"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    for name in ("python", "python3"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        (programs / name).chmod(0o755)
    return CheckPlace(workspace, workspace, {"PATH": str(programs)})


def _red(
    command: str, feedback: str, exit_code: int, **more: object
) -> ValidatorResult:
    fields = {
        "name": "t",
        "passed": False,
        "exit_code": exit_code,
        "command": command,
        "feedback": feedback,
        **more,
    }
    return ValidatorResult.model_validate(fields)


def _not_found(command: str, said: str, exit_code: int = 127) -> ValidatorResult:
    return _red(command, said, exit_code, reason="not_found", summary=said)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("pytset -q", "pytset"),
        ("env A=1 timeout 5 pytset", "pytset"),
        ("cd sub && pytset", "pytset"),
        ("! nothere x", "nothere"),
        ("sh -c 'pytset -q'", "pytset"),
        ("pytset | tee log", "pytset"),
        ("nosuchpython -m pytest", "nosuchpython"),
        ("exec pytset -q", "pytset"),
        # These can be there when the line runs, or need not be.
        ("pytest -q", ""),
        ("pytest -q && nothere", ""),
        ("./check.sh", ""),
        ("exec ./check.sh", ""),
        ("bin/tool", ""),
        ("/no/such/program", ""),
        ("sh check.sh", ""),
        ("pip install -e . && mytool --version", ""),
        (". ./env.sh; mytool", ""),
        ("export PATH=$PWD/bin:$PATH && mytool", ""),
        ("PATH=bin mytool", ""),
        ("mytool || true", ""),
        ("if true; then mytool; fi", ""),
        ("command -v mytool", ""),
        ("uv run pytset", ""),
        ("/opt/uv run pytset", ""),
        ("$TOOL -q", ""),
        ("check() { true; }; check", ""),
        ("test -e a && [ -e b ] && echo ok", ""),
        ("python3 -m mytool", ""),
        ("echo 'unclosed", ""),
    ],
)
def test_the_first_program_of_a_line_is_looked_for(
    place: CheckPlace, line: str, word: str
) -> None:
    missing = missing_program(line, place)
    assert (missing.name if missing else "") == word


def test_a_program_of_the_workspaces_own_environment_is_meant_first(
    place: CheckPlace,
) -> None:
    local = place.workspace / ".venv" / "bin"
    local.mkdir(parents=True)
    (local / "mypy").write_text("")
    (local / "mypy").chmod(0o755)
    missing = missing_program("mypy src", place)
    assert missing == MissingProgram("mypy", "write .venv/bin/mypy")
    assert str(missing) == "mypy: not found; write .venv/bin/mypy"


def test_a_program_may_be_written_into_a_folder_of_the_workspace_on_path(
    place: CheckPlace,
) -> None:
    own = replace(place, env={"PATH": f"{place.env['PATH']}:{place.workspace / 'bin'}"})
    result = _not_found("mytool -q", "sh: 1: mytool: not found")
    assert missing_program("mytool --check", own) is None
    assert obstacle(result, own) == ""
    assert obstacle(result, place).startswith("mytool: not found; install mytool")
    (place.workspace / "pyvenv.cfg").write_text("")
    assert obstacle(result, own).startswith("mytool: not found; install mytool")


@pytest.mark.parametrize("line", ["maek -q", "python3 setup.py install && maek -q"])
def test_a_program_that_the_shell_did_not_find_is_named(
    place: CheckPlace, line: str
) -> None:
    result = _not_found(line, "sh: 1: maek: not found")
    assert obstacle(result, place).startswith("maek: not found; install maek")


def test_a_longer_word_is_the_one_that_was_meant(place: CheckPlace) -> None:
    assert (
        obstacle(_not_found("nothere; ./nothere", "sh: 1: ./nothere: not found"), place)
        == ""
    )


def test_a_program_that_the_sandbox_hides_is_a_persons_to_show(
    place: CheckPlace,
) -> None:
    result = _not_found("tool", "/home/u/tools/tool: not found in the sandbox")
    assert 'sandbox = "none"' in obstacle(result, place)


def test_a_shell_that_does_not_know_pipefail_is_a_persons_to_replace(
    place: CheckPlace,
) -> None:
    said = "sh: 1: set: Illegal option -o pipefail"
    assert obstacle(_red("set -o pipefail; make | tail", said, 2), place).startswith(
        "/bin/sh does not know"
    )
    assert obstacle(_red("make check", said, 2), place) == ""


@pytest.mark.parametrize(
    ("line", "feedback", "why"),
    [
        (
            "python3 -m nox",
            "/usr/bin/python3: No module named nox",
            "No module named nox; /usr/bin/python3 -m pip install nox, with ",
        ),
        (
            "cd x && python -m pytest -q",
            "/v/bin/python: No module named pytest",
            "No module named pytest; /v/bin/python -m pip install pytest, with ",
        ),
        # The work is to bring these.
        ("python3 -m mytool --help", "/usr/bin/python3: No module named mytool", ""),
        ("make check", "/usr/bin/python3: No module named nox", ""),
        ("python3 -m nox", "ModuleNotFoundError: No module named 'nox'", ""),
    ],
)
def test_a_missing_tool_of_python_is_a_persons_to_install(
    place: CheckPlace, line: str, feedback: str, why: str
) -> None:
    found = obstacle(_red(line, feedback, 1), place)
    assert found.startswith(why)
    assert bool(found) == bool(why)


_INTERNAL = """\
INTERNALERROR>   File "{}", line 3, in f
INTERNALERROR> AttributeError: 'Package' object has no attribute 'obj'
"""
_USAGE = """\
ERROR: usage: pytest [options] [file_or_dir] [file_or_dir] [...]
pytest: error: unrecognized arguments: {}
  inifile: None
  rootdir: /w
"""


@pytest.mark.parametrize(
    ("line", "refused", "name"),
    [
        ("pytest -q --cov", "--cov", "--cov"),
        ("pytest --cov-fail-under=90", "--cov-fail-under=90", "--cov-fail-under"),
        ("uv run pytest -n 4", "-n", "-n"),
        # A conftest.py of the workspace may be what brings these.
        ("pytest --runslow", "--runslow", ""),
        # Configuration of the workspace names these, not the goal file.
        ("pytest -q", "--cov", ""),
        ("make test", "--cov", ""),
    ],
)
def test_an_option_of_the_line_itself_is_a_persons_to_correct(
    place: CheckPlace, line: str, refused: str, name: str
) -> None:
    found = obstacle(_red(line, _USAGE.format(refused), 4), place)
    hint = f"pytest does not know {name}; install its plugin, or remove it from the goal file"
    assert found == (hint if name else "")


@pytest.mark.parametrize(
    ("line", "feedback", "option"),
    [
        ("nox -q -s tests", "nox: error: unrecognized arguments: -q", "-q"),
        ("uv run nox -q", "nox: error: unrecognized arguments: -q", "-q"),
        # A program of the work, and a tool that a session of nox starts.
        ("python main.py --json", "main.py: error: unrecognized arguments: --json", ""),
        ("calc --json", "calc: error: unrecognized arguments: --json", ""),
        ("nox -s tests", "mypy: error: unrecognized arguments: --new", ""),
        ("nox -s lint", "nox: error: unrecognized arguments: --new", ""),
    ],
)
def test_an_option_that_a_tool_does_not_know_is_a_persons_to_correct(
    place: CheckPlace, line: str, feedback: str, option: str
) -> None:
    hint = f"nox does not know {option}; correct the command in the goal file"
    for at_start in (True, False):
        result = _red(line, feedback, 2)
        assert obstacle(result, place, at_start=at_start) == (hint if option else "")


@pytest.mark.parametrize(
    ("line", "feedback", "why"),
    [
        (
            "pytest -q",
            _USAGE.format("--cov"),
            "pytest does not know --cov; install its plugin",
        ),
        (
            "make test",
            _USAGE.format("--asyncio-mode=auto"),
            "pytest does not know --asyncio-mode; install its plugin",
        ),
        (
            "pytest -q",
            "ERROR: Missing required plugins: pytest-x",
            "pytest cannot start: Missing required plugins: pytest-x",
        ),
        (
            "pytest -q",
            "ERROR: Error importing plugin \"xyz.plugin\": No module named 'xyz'",
            "pytest cannot start: Error importing plugin \"xyz.plugin\": No module named 'xyz'; install the plugin",
        ),
        (
            "pytest -q",
            "ERROR: Error importing plugin \"tests.fixtures\": No module named 'calc'",
            "",
        ),
        (
            "pytest -q",
            _INTERNAL.format("/usr/lib/python3/site-packages/pytest_x/plugin.py"),
            "pytest and its plugins do not work together: AttributeError: 'Package' object has no attribute 'obj'",
        ),
        (
            "pytest -q",
            _INTERNAL.format("conftest.py"),
            "",
        ),
        (
            "pytest",
            "INTERNALERROR> pluggy._manager.PluginValidationError: unknown hook 'pytest_x' in plugin y",
            "pytest cannot start: pluggy._manager.PluginValidationError: unknown hook",
        ),
        (
            "pytest tests/test_new.py",
            "ERROR: file or directory not found: tests/test_new.py",
            "",
        ),
    ],
)
def test_a_plugin_that_is_missing_at_the_start_is_a_persons_to_install(
    place: CheckPlace, line: str, feedback: str, why: str
) -> None:
    found = obstacle(_red(line, feedback, 4), place, at_start=True)
    assert found.startswith(why)
    assert bool(found) == bool(why)


NODE_NOT_FOUND = "> ms@2.1.3 test\n> vitest run\n\nsh: 1: vitest: not found"
NO_TAPE = "Error: Cannot find module 'tape'\nRequire stack:\n- /ws/test/parse.js"


@pytest.mark.parametrize(
    ("line", "feedback", "code", "why"),
    [
        (
            "npm test",
            NODE_NOT_FOUND,
            127,
            "vitest: not found; install the packages first: npm install",
        ),
        (
            "pnpm test",
            NO_TAPE,
            1,
            "no package tape; install the packages first: pnpm install",
        ),
        ("npm test", "Error: Cannot find module './parse'", 1, ""),
        ("npm test", "Error: Cannot find module 'undeclared'", 1, ""),
        ("npm test", "AssertionError: user not found", 1, ""),
        ("make test", NODE_NOT_FOUND, 127, ""),
    ],
)
def test_packages_that_are_declared_and_not_installed_are_a_persons_to_install(
    place: CheckPlace, line: str, feedback: str, code: int, why: str
) -> None:
    manifest = {"devDependencies": {"tape": "5.9.0", "vitest": "3.2.0"}}
    (place.workspace / "package.json").write_text(json.dumps(manifest))
    result = _red(line, feedback, code)
    assert obstacle(result, place, at_start=True) == why
    # Later, the agent may have written it.
    assert obstacle(result, place) == ""
    (place.workspace / "node_modules").mkdir()
    assert obstacle(result, place, at_start=True) == ""


def test_a_script_of_a_project_without_packages_may_be_the_work(
    place: CheckPlace,
) -> None:
    (place.workspace / "package.json").write_text('{"scripts": {"test": "mytool"}}')
    result = _red("npm test", "sh: 1: mytool: not found", 127)
    assert obstacle(result, place, at_start=True) == ""


def test_a_daemon_that_does_not_run_is_a_persons_to_start(place: CheckPlace) -> None:
    said = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    found = obstacle(_red("docker run --rm img pytest", said, 125), place)
    assert found.startswith(
        "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock; start it"
    )
    assert obstacle(_red("pytest", said, 1), place) == ""


def test_a_script_that_is_not_executable_is_a_persons_to_change(
    place: CheckPlace,
) -> None:
    (place.workspace / "check.sh").write_text("true\n")
    result = _not_found("./check.sh", "sh: 1: ./check.sh: Permission denied", 126)
    assert (
        unexecutable_script(result, place, "Do it.")
        == "./check.sh cannot be executed; chmod +x ./check.sh"
    )
    assert unexecutable_script(result, place, "Make check.sh executable.") == ""


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
        ("true | no-such-program | cat", "cannot_run"),
        ("no-such-program | cat", "cannot_run"),
        ("./needs.sh | cat", "green"),
        ("true || no-such-program | cat", "green"),
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
async def test_a_missing_program_is_no_red_check(
    tmp_path: Path, line: str, stands: str
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "needs.sh").write_text("#!/bin/sh\nno-such-program\n")
    (workspace / "needs.sh").chmod(0o755)
    (workspace / "plain").write_text("true\n")
    (tmp_path / "outside").write_text("true\n")
    validator = ShellValidator(ValidatorSpec(run=line), ProcessLauncher(), VARIABLES)
    result, _ = await validator.validate(validation(workspace, tmp_path))
    assert (
        "green" if result.passed else "cannot_run" if result.cannot_run else "red"
    ) == stands


async def test_a_module_or_folder_that_is_not_there_yet_is_red(tmp_path: Path) -> None:
    validator = PythonValidator(
        ValidatorSpec(python="notyet:done"),
        ProcessLauncher(),
        {"PATH": os.environ["PATH"]},
    )
    result, _ = await validator.validate(validation(tmp_path, tmp_path))
    assert (result.reason, result.cannot_run) == ("not_found", False)
    shell = ShellValidator(
        ValidatorSpec(run="true", cwd="notyet"),
        ProcessLauncher(),
        {"PATH": os.environ["PATH"]},
    )
    result, _ = await shell.validate(validation(tmp_path, tmp_path))
    assert (result.reason, result.cannot_run) == ("not_found", False)


@pytest.mark.parametrize(
    ("feedback", "suspicious"),
    [
        ("OSError: [Errno 18] Invalid cross-device link", True),
        ("unshare: unshare failed: Operation not permitted", True),
        ("OSError: [Errno 30] Read-only file system: 'x'", True),
        ("AssertionError: 1 != 2", False),
    ],
)
def test_what_the_kernel_refuses_is_tried_in_the_workspace_itself(
    feedback: str, *, suspicious: bool
) -> None:
    assert (
        is_environmental(_red("./check", feedback, 1), incomplete=False) is suspicious
    )


def test_a_message_about_a_full_disk_counts_only_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [_red("./check", "OSError: [Errno 28] No space left on device", 1)]
    assert without_space(results, tmp_path) == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    assert without_space(results, tmp_path) == f"no space left in {tmp_path}"
    assert without_space([_red("./check", "1 failed", 1)], tmp_path) == ""
