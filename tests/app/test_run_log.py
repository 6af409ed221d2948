"""What a run writes to the logger `goalrunner` of the program."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner import GoalOutcome, ValidatorSpec, run_goal
from goalrunner.testing import ScriptedConversation, ScriptedRound, shell_result

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
OBJECTIVE = "Describe the island: Zanzibar."


def is_right(response: dict[str, Any]) -> bool:
    return str(response["content"][0]["text"]).endswith("ibis")


def run(home: Path) -> GoalOutcome:
    """Run two rounds with a tool call, a red validator and a hidden one."""
    tools = (
        shell_result("c1", f"curl -H 'token: {SECRET}' x", f"got pelican {SECRET}"),
    )
    return run_goal(
        ScriptedConversation(
            ScriptedRound("my flamingo", tools=tools), ScriptedRound("my ibis")
        ),
        OBJECTIVE,
        validators=[
            ValidatorSpec(name="here", run="true"),
            ValidatorSpec(name="secret-check", run="true", hidden=True),
            is_right,
        ],
        workspace=home,
        max_iterations=2,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def test_debug_has_events_commands_and_files_without_secrets_and_texts(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "goalrunner")
    outcome = run(place)
    assert {record.name for record in caplog.records} == {"goalrunner.run"}
    lines = [record.getMessage() for record in caplog.records]
    assert all(line.startswith(f"run {outcome.run_id}: ") for line in lines)
    text = "\n".join(lines)
    for wanted in (
        r"round_started round=1 prompt=first",
        r"tool_called tool=shell summary=curl -H",
        r"message role=assistant bytes=\d+",
        r"command_started name=here output=/",
        r"validators_finished round=1 here:passed:\d.* is_right:red",
        r"validators_finished round=2 .*secret-check:passed",
        r"verdict_recorded|round_finished round=2",
        r"usage_recorded account=agent tokens=15",
        rf"files folder={re.escape(outcome.run_path)}",
        rf"files artifact={re.escape(outcome.run_path)}/artifacts/[0-9a-f]{{64}} \d+ B",
        r"files outcome=/.*/outcome\.json",
        r"run_ended status=\w+ stop_reason=\w+",
    ):
        assert re.search(wanted, text), wanted
    for private in (SECRET, "Zanzibar", "flamingo", "ibis", "pelican"):
        assert private not in text


def test_info_has_milestones_alone(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "goalrunner")
    run(place)
    lines = [record.getMessage() for record in caplog.records]
    types = {line.split()[2] for line in lines}
    assert types == {
        "run_started",
        "baseline_taken",
        "round_started",
        "round_finished",
        "validators_finished",
        "run_ended",
    }
    assert not [line for line in lines if "curl" in line or "files" in line]


PROGRAM = """
from goalrunner import run_goal
from goalrunner.testing import ScriptedConversation
run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
"""


@pytest.mark.parametrize("level", ["", "DEBUG"])
def test_nothing_is_printed_unless_the_program_asks(level: str, own_home: Path) -> None:
    head = f"import logging; logging.basicConfig(level=logging.{level})"
    ended = subprocess.run(
        [sys.executable, "-c", (head if level else "") + PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == ""
    assert ("run_ended" in ended.stderr) == bool(level)
