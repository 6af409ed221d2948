"""The scripts of validators, and the variables of the run that they name, as they were before the agent worked."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.validators.started_checks import started_checks

SECRET = "sk-ant-api03-0123456789abcdef"
SPECS = (
    ValidatorSpec(name=f"./check.sh --key {SECRET}", run=f"./check.sh --key {SECRET}"),
    ValidatorSpec(name="m", run="python -m m"),
    ValidatorSpec(name="tests", run="pytest -q"),
)
WHY = {
    "check.sh": f'named by validator "{SPECS[0].name}"',
    "m.py": 'checked by validator "m"',
    "m/__init__.py": 'found before a file of validator "m"',
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    for name in ("check.sh", "m.py"):
        (folder / name).write_text("#!/bin/sh\n")
    return folder


def test_each_script_has_the_reason_why_it_belongs_to_a_check(
    workspace: Path, tmp_path: Path
) -> None:
    assert (
        started_checks(SPECS, workspace, tmp_path / "start" / "scripts.json").rules
        == WHY
    )


def test_a_later_look_finds_what_the_first_one_found(
    workspace: Path, tmp_path: Path
) -> None:
    record = tmp_path / "start" / "scripts.json"
    started_checks(SPECS, workspace, record)
    for name in ("check.sh", "m.py"):
        (workspace / name).unlink()
    assert started_checks(SPECS, workspace, record).rules == WHY


def test_a_script_that_comes_later_is_no_script_of_the_start(tmp_path: Path) -> None:
    workspace, record = tmp_path / "ws", tmp_path / "scripts.json"
    workspace.mkdir()
    assert started_checks(SPECS, workspace, record).rules == {}
    (workspace / "check.sh").write_text("exit 0\n")
    assert started_checks(SPECS, workspace, record).rules == {}


def test_the_record_holds_paths_and_no_command_lines(
    workspace: Path, tmp_path: Path
) -> None:
    record = tmp_path / "scripts.json"
    started_checks(SPECS, workspace, record)
    assert SECRET not in record.read_text()
    assert "check.sh" in record.read_text()


def test_the_last_validator_that_names_a_script_is_its_reason(
    workspace: Path, tmp_path: Path
) -> None:
    specs = [ValidatorSpec(name=name, run="sh check.sh") for name in ("a", "b")]
    assert started_checks(specs, workspace, tmp_path / "s.json").rules == {
        "check.sh": 'named by validator "b"'
    }


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "7", "[[], []]", "[1, 2, 3]", '{"a": 1}', '[["before\\ta.sh"]]'],
)
def test_a_record_that_cannot_be_read_is_an_error(
    workspace: Path, tmp_path: Path, damage: str
) -> None:
    record = tmp_path / "scripts.json"
    record.write_text(damage)
    with pytest.raises(
        RecordError, match="made by another version of goal, or "
    ) as raised:
        started_checks(SPECS, workspace, record)
    assert raised.value.hint == "start a new run: goal run GOAL_FILE"


def test_a_folder_that_cannot_be_written_is_an_error(
    workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "start").write_text("a file")
    with pytest.raises(RecordError, match=r"scripts\.json"):
        started_checks(SPECS, workspace, tmp_path / "start" / "scripts.json")


def test_a_variable_that_a_script_names_is_passed(workspace: Path) -> None:
    (workspace / "check.sh").write_text(
        '#!/bin/sh\ngrep -q yes "$GOAL_RESPONSE_FILE"\n'
    )
    (workspace / "m.py").write_text(
        "import os\nos.environ['GOAL_ITERATION'], os.environ['GOAL_RUN_ID']\n"
    )
    passed = [spec.pass_env for spec in started_checks(SPECS, workspace).specs]
    assert passed == [("GOAL_RESPONSE_FILE",), ("GOAL_RUN_ID", "GOAL_ITERATION"), ()]


def test_a_script_that_names_a_variable_later_does_not_get_it(
    workspace: Path, tmp_path: Path
) -> None:
    record = tmp_path / "scripts.json"
    assert started_checks(SPECS, workspace, record).specs == SPECS
    (workspace / "check.sh").write_text("#!/bin/sh\n# GOAL_ITERATION\n")
    assert started_checks(SPECS, workspace, record).specs == SPECS


def test_what_the_goal_file_passes_stays(workspace: Path) -> None:
    (workspace / "check.sh").write_text("echo $GOAL_RUN_ID\n")
    spec = ValidatorSpec(run="./check.sh", pass_env=("GOAL_ITERATION",))
    (found,) = started_checks([spec], workspace).specs
    assert found.pass_env == ("GOAL_ITERATION", "GOAL_RUN_ID")
