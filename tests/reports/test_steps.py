"""Steps as rows."""

from __future__ import annotations

import pytest

from goalrunner.reports.steps import call_step


@pytest.mark.parametrize(
    ("tool", "command", "name", "subject"),
    [
        (
            "Bash",
            "cd /src/parser && pytest -q /src/parser/tests",
            "shell",
            "pytest -q tests",
        ),
        (
            "Bash",
            "ls /src/parser-2/x /src/parser",
            "shell",
            "ls /src/parser-2/x /src/parser",
        ),
        (
            "command_execution",
            "/bin/bash -lc 'echo hi > \"a b.txt\"'",
            "shell",
            'echo hi > "a b.txt"',
        ),
        ("command_execution", "/bin/bash -lc ls", "shell", "ls"),
        ("command_execution", "bash -c 'a' 'b'", "shell", "bash -c 'a' 'b'"),
        (
            "command_execution",
            "bash -lc 'never closed",
            "shell",
            "bash -lc 'never closed",
        ),
        ("Edit", "/src/parser/a.py", "edit", "a.py"),
        ("file_change", "/src/parser/a.py, /src/parser/b.py", "edit", "a.py, b.py"),
        (
            "mcp__github__get_issue",
            '{"number": 3}',
            "mcp",
            'github get_issue {"number": 3}',
        ),
        ("mcp__github", "x", "mcp__github", "x"),
        (
            "WebFetch",
            "https://example.org/src/parser/a",
            "WebFetch",
            "https://example.org/src/parser/a",
        ),
    ],
)
def test_the_row_of_a_call_names_its_tool_and_has_paths_in_the_workspace(
    tool: str, command: str, name: str, subject: str
) -> None:
    step = call_step(tool, command, "/src/parser")
    assert (step.name, step.subject) == (name, subject)
