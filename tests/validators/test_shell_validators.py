"""Shell checks, with real processes: what is green, and why the rest is red."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, get_args

import pytest

from goalrunner.core.goal_tables import Expectation, RunVariable, ValidatorSpec
from goalrunner.core.ports import Validator
from goalrunner.core.verdict import FEEDBACK_TAIL, ValidatorResult
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators import output_search
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation
from tests.support.clocks import deadlines
from tests.support.shellless import Shellless


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


async def check(
    workspace: Path, run: str, **more: Any
) -> tuple[ValidatorResult, bytes]:
    """The result of a command and its whole output."""
    context = more.pop("context", None) or validation(
        workspace, workspace.parent / "scratch"
    )
    spec = ValidatorSpec(name="tests", run=run, **more)
    validator: Validator = ShellValidator(
        spec, ProcessLauncher(), {"PATH": os.environ["PATH"]}
    )
    result, output = await validator.validate(context)
    assert result.name == "tests"
    assert result.command == run
    return result, output.read_bytes() if output else b""


async def test_exit_0_is_green(workspace: Path, scratch: Path) -> None:
    result, output = await check(workspace, "pwd; echo done >&2")
    assert (result.passed, result.reason, result.exit_code, result.summary) == (
        True,
        "passed",
        0,
        "exit 0",
    )
    assert output == f"{workspace}\ndone\n".encode()
    assert result.duration > 0
    assert result.feedback == ""
    assert [path.suffix for path in scratch.iterdir()] == [".out"]


async def test_another_exit_is_red_with_its_output(
    workspace: Path, scratch: Path
) -> None:
    result, _ = await check(
        workspace, r"printf '\033[31mwrong\033[0m caf\351\n'; exit 3"
    )
    assert (result.passed, result.reason, result.exit_code, result.summary) == (
        False,
        "red",
        3,
        "exit 3",
    )
    assert result.feedback == "wrong caf�"


async def test_feedback_is_the_tail_and_the_output_is_whole(
    workspace: Path, scratch: Path
) -> None:
    result, output = await check(
        workspace, "i=0; while [ $i -lt 30000 ]; do echo é$i; i=$((i+1)); done; false"
    )
    assert FEEDBACK_TAIL - len("é00000\n") <= len(result.feedback) <= FEEDBACK_TAIL
    assert result.feedback.startswith("é29")
    assert result.feedback.endswith("é29998\né29999")
    assert output.startswith("é0\né1\n".encode())


async def test_feedback_begins_with_a_whole_word_of_a_very_long_line(
    workspace: Path, scratch: Path
) -> None:
    result, _ = await check(workspace, "printf 'assertion %.0s' $(seq 1000); false")
    assert set(result.feedback.split()) == {"assertion"}
    assert len(result.feedback) > FEEDBACK_TAIL - 20


async def test_a_missing_command_is_not_found(workspace: Path, scratch: Path) -> None:
    result, _ = await check(workspace, "no-such-program --version")
    assert (result.passed, result.reason, result.exit_code) == (False, "not_found", 127)
    assert "no-such-program" in result.summary
    (workspace / "script").write_text("true\n")
    result, _ = await check(workspace, "./script")
    assert (result.passed, result.reason, result.exit_code) == (False, "not_found", 126)


async def test_a_deadline_is_red_and_quick(workspace: Path, scratch: Path) -> None:
    for seconds in deadlines():
        result, output = await check(workspace, "echo begun; sleep 60", timeout=seconds)
        assert (result.passed, result.reason, result.summary) == (
            False,
            "timeout",
            f"timed out after {seconds:g} s",
        )
        assert result.duration < 40
        if output:
            break
    assert (result.feedback, output) == ("begun", b"begun\n")


async def test_a_signal_is_a_crash_whatever_was_expected(
    workspace: Path, scratch: Path
) -> None:
    for expected in (0, 128 + signal.SIGSEGV):
        result, _ = await check(
            workspace, "kill -SEGV $$", expect=Expectation(exit_code=expected)
        )
        assert (result.passed, result.reason, result.summary) == (
            False,
            "crashed",
            "killed by SIGSEGV",
        )
        assert result.exit_code is None


async def test_another_exit_code_may_be_expected(
    workspace: Path, scratch: Path
) -> None:
    expect = Expectation(exit_code=2)
    assert (await check(workspace, "exit 2", expect=expect))[0].passed
    result, _ = await check(workspace, "exit 0", expect=expect)
    assert (result.passed, result.summary) == (False, "exit 0, expected 2")


async def test_a_pattern_is_looked_for_in_the_whole_output(
    workspace: Path, scratch: Path
) -> None:
    command = "echo first; seq 20000"
    assert (await check(workspace, command, expect=Expectation(output="^first$")))[
        0
    ].passed
    result, _ = await check(workspace, command, expect=Expectation(output="^second$"))
    assert (result.passed, result.reason) == (False, "red")
    assert result.summary == "exit 0, but the output does not match '^second$'"


async def test_a_pattern_without_end_is_cut(
    workspace: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_search, "SEARCH_TIMEOUT", 0.5)
    expect = Expectation(output="(a+)+$")
    result, _ = await check(workspace, f"echo {'a' * 60}b", expect=expect)
    assert (result.passed, result.reason) == (False, "red")
    assert (
        result.summary
        == "exit 0, but searching for the pattern '(a+)+$' took more than 0.5 s"
    )


async def test_the_run_is_in_the_environment(workspace: Path, scratch: Path) -> None:
    os.environ["GOAL_TEST_SECRET"] = "1"
    line = 'echo "$GOAL_RUN_ID|$GOAL_ITERATION|$GOAL_OBJECTIVE|$EXTRA|$GOAL_TEST_SECRET"; cat "$GOAL_RESPONSE_FILE"'
    context = validation(
        workspace, scratch, response="I did it: café \ud800", objective="Make it\0 so."
    )
    try:
        _, output = await check(
            workspace,
            line,
            env={"EXTRA": "more", "GOAL_RUN_ID": "mine"},
            context=context,
        )
    finally:
        del os.environ["GOAL_TEST_SECRET"]
    assert output.decode() == "k3f9-do-it|2|Make it  so.|more|\nI did it: café ?"


@pytest.mark.parametrize(
    "line",
    ["env", "env # GOAL_HOME", "python3 -c 'import os; print(dict(os.environ))'"],
)
async def test_nothing_in_the_environment_tells_that_a_check_runs(
    workspace: Path, scratch: Path, line: str
) -> None:
    result, output = await check(workspace, line, env={"GOAL_TEST_SECRET": "1"})
    assert (result.passed, result.steady) == (True, True)
    assert not [name for name in get_args(RunVariable) if name.encode() in output]
    assert b"GOAL_TEST_SECRET" in output
    assert [path.suffix for path in scratch.iterdir()] == [".out"]


@pytest.mark.parametrize(
    ("line", "passed"), [("env", set()), ('ls "$GOAL_HOME"', {"GOAL_HOME"})]
)
async def test_settings_of_goal_itself_are_passed_only_to_a_line_that_names_them(
    workspace: Path, scratch: Path, line: str, passed: set[str]
) -> None:
    base = {
        "GOAL_HOME": "/home",
        "GOAL_AGENT": "claude",
        "GOAL_MODEL": "m",
        "GOAL_JUDGE": "j",
        "GOAL_DIFFICULTY": "3",
    }
    spec = ValidatorSpec(name="check", run=f"env # {line}")
    validator = ShellValidator(
        spec, ProcessLauncher(), {"PATH": os.environ["PATH"], **base}
    )
    _, output = await validator.validate(validation(workspace, scratch))
    assert output is not None
    names = {
        row.partition("=")[0]
        for row in output.read_text().splitlines()
        if row.startswith("GOAL_")
    }
    assert names == passed | {"GOAL_DIFFICULTY"}


async def test_a_variable_of_the_run_is_passed_by_name(
    workspace: Path, scratch: Path
) -> None:
    result, output = await check(
        workspace, "env | grep ^GOAL_", pass_env=("GOAL_ITERATION", "GOAL_RUN_ID")
    )
    assert sorted(output.decode().splitlines()) == [
        "GOAL_ITERATION=2",
        "GOAL_RUN_ID=k3f9-do-it",
    ]
    assert not result.steady


async def test_a_very_long_objective_is_cut_for_the_environment(
    workspace: Path, scratch: Path
) -> None:
    context = validation(workspace, scratch, objective="é" * 300_000)
    result, output = await check(
        workspace, 'printf %s "$GOAL_OBJECTIVE" | wc -c', context=context
    )
    assert (result.passed, output.strip()) == (True, b"100000")


async def test_a_folder_within_the_workspace(workspace: Path, scratch: Path) -> None:
    (workspace / "sub").mkdir()
    _, output = await check(workspace, "pwd", cwd="sub")
    assert output == f"{workspace / 'sub'}\n".encode()
    (workspace / "out").symlink_to(workspace.parent)
    result, _ = await check(workspace, "true", cwd="out")
    assert (result.passed, result.reason) == (False, "not_found")
    assert result.feedback == f'cwd "out" leads out of the workspace {workspace}'
    result, _ = await check(workspace, "true", cwd="gone")
    assert (result.passed, result.reason, result.feedback) == (
        False,
        "not_found",
        f"the folder {workspace / 'gone'} does not exist",
    )


async def test_what_cannot_be_started_is_red(workspace: Path, scratch: Path) -> None:
    result, _ = await check(workspace, ": " + "x" * 200_000)
    assert not result.passed
    assert result.reason in ("crashed", "not_found")
    assert result.summary


async def test_a_shell_that_is_missing_is_not_found(
    workspace: Path, scratch: Path
) -> None:
    spec = ValidatorSpec(run="true", expect=Expectation(exit_code=127))
    validator = ShellValidator(spec, Shellless(), {"PATH": "/nonexistent"})
    result, _ = await validator.validate(validation(workspace, scratch))
    assert (result.passed, result.reason, result.cannot_run) == (
        False,
        "not_found",
        True,
    )
