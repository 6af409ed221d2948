"""The status of runs, whatever their summaries say. What it looks like is in the pages `statuses` and `commands`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goalrunner.core.run_summary import RunSummary
from goalrunner.reports.layout import laid_out
from goalrunner.reports.next_steps import message_lines
from goalrunner.reports.run_table import listing_text
from goalrunner.reports.status import status_lines
from goalrunner.reports.terminal_text import width
from tests.reports.pages import COMMANDS, NOW, commands_after, summaries
from tests.support.told_run import summary
from tests.support.workspaces import write


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"status": "capped", "exit_code": 1}, 1),
        ({"status": "cancelled", "exit_code": 143}, 143),
        ({"status": "running", "exit_code": None}, 4),
        ({"status": "running", "exit_code": 0}, 4),
        ({"status": "complete", "exit_code": None}, 4),
        ({"status": "complete", "exit_code": False}, 4),
        ({"status": "complete", "exit_code": "0"}, 4),
        ({"status": "unreadable"}, 4),
        ({"status": 7}, 4),
    ],
)
def test_only_a_complete_run_gives_zero(changes: dict[str, Any], code: int) -> None:
    assert RunSummary.read(summary(**changes)).process_exit_code == code


NAMED = "protected files are still changed in the workspace"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(summary(), JSON)))
@example({"status": " "})
@example({"status": "\x1b"})
def test_a_damaged_summary_is_shown_and_never_a_crash(values: dict[str, Any]) -> None:
    read = RunSummary.read(values)
    assert "status     " in laid_out(status_lines(read, NOW))
    assert listing_text([read], NOW, columns=80).startswith("RUN")
    assert isinstance(read.process_exit_code, int)


@pytest.mark.parametrize("columns", [120, 70, 60, 40])
def test_no_row_of_a_list_is_wider_than_the_terminal(columns: int) -> None:
    table, _, _ = listing_text(summaries(), NOW, columns).partition("\n\n")
    assert max(map(width, table.splitlines())) <= columns


@pytest.mark.parametrize(
    ("status", "labels", "words"),
    [
        ("blocked", ["checks differ: a.py"], NAMED),
        ("complete", [], "the validators pass with the originals as well"),
        ("complete", ["checks differ: a.py"], ""),
        ("complete", ["rests on changed tests: a.py"], ""),
        ("running", [], ""),
    ],
)
def test_protected_files_are_named_unless_a_label_of_a_complete_run_does(
    status: str, labels: list[str], words: str
) -> None:
    read = RunSummary.read(
        summary(
            status=status,
            complete=status == "complete",
            labels=labels,
            left_changed=["a.py"],
        )
    )
    text = laid_out(status_lines(read, NOW))
    assert ("goal restore" in text) == bool(words)
    assert words in text


@pytest.mark.parametrize("values", COMMANDS)
def test_a_command_that_comes_next_can_be_pasted(values: dict[str, Any]) -> None:
    for command in commands_after(values):
        if (
            ": " not in command and " in " not in command
        ):  # else it names what to correct
            assert shlex.split(command)[0] == "goal"


def test_only_lines_that_are_replaced_are_left_out_of_a_message() -> None:
    facts = list(
        message_lines(
            "it waits\n\ngoal approve k3f9, or goal deny k3f9\ngoal agents claude\n"
        )
    )
    assert [(fact.text, fact.whole) for fact in facts] == [
        ("it waits", False),
        ("goal agents claude", True),
    ]


def test_protected_files_that_are_still_changed_come_first() -> None:
    values = summary(
        status="blocked",
        message="a1 waits for a person",
        labels=["protected files changed: tests/test_a.py", "self-judged"],
        left_changed=["tests/test_a.py", "tests/test b.py"],
    )
    read = RunSummary.read(values)
    lines = laid_out(status_lines(read, NOW)).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("status"))
    assert [" ".join(line.split()) for line in lines[first + 1 : first + 4]] == [
        f"files {NAMED}: tests/test_a.py, tests/test b.py",
        f"goal restore {read.run_id} 0 --path tests/test_a.py --path 'tests/test b.py'",
        "a1 waits for a person",
    ]
    assert sum("protected files" in line for line in lines) == 1


def test_a_run_without_its_copy_is_not_resumed(tmp_path: Path) -> None:
    values = summary(
        status="capped", path=str(tmp_path), isolated=True, round_ended=True
    )
    text = laid_out(status_lines(RunSummary.read(values), NOW))
    assert "goal resume" not in text
    assert "--incomplete" in text
    write(tmp_path, {"copy/copy.json": "{}"})
    assert "goal resume" in laid_out(status_lines(RunSummary.read(values), NOW))
