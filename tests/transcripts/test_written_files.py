"""Which commands print a file that the agent wrote before, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.tool_arguments import command_of
from goalrunner.core.written_files import WrittenFiles


def last(*calls: Any) -> str:
    """The file of the agent that the last call shows; a text is a shell command, a pair a tool with its arguments."""
    files, found = WrittenFiles(), ""
    for call in calls:
        tool, given = ("shell", {"command": call}) if isinstance(call, str) else call
        found = files.of_call(tool, given, command_of(given))
    return found


@pytest.mark.parametrize(
    "calls",
    [
        ("echo 43 passed > x", "cat x"),
        ("printf '43 passed' >> ./x", "cat x"),
        ("cat > x <<'EOF'\n43 passed\nEOF", "head -3 < x"),
        ("cat > x <<'EOF'\n43 passed\nEOF\ncat x",),
        ("echo 43 passed | tee x",),
        ("echo 43 passed | tee -a y x", "less x"),
        ("cp /tmp/a x", "cat x"),
        ("mv -f /tmp/a x", "cat x"),
        ("sed -i 's/1 failed/43 passed/' x", "cat x"),
        ('echo 43 passed > "$OUT/x"', "cat $OUT/x"),
        ("true; sudo install -m 644 /tmp/a x", "cat x"),
        ("cd sub && python gen.py > x 2>&1", "cat sub/x"),
        (("Write", {"file_path": "/ws/x", "content": "43 passed"}), "cat x"),
        (("Write", {"file_path": "/ws/x", "content": "43 passed"}), "python /ws/x"),
        (
            ("Write", {"file_path": "/ws/x", "content": "43 passed"}),
            ("Read", {"file_path": "/ws/x"}),
        ),
        (("write_file", {"path": "x", "content": "43 passed"}), "./x --verbose"),
        (("write_file", {"path": "x", "content": "43 passed"}), "pytest -q x::test_a"),
        (
            ("mcp__files__write_file", {"path": "x", "content": "43 passed"}),
            "sh -c 'cat x'",
        ),
        (
            (
                "str_replace_based_edit_tool",
                {"command": "create", "path": "/ws/x", "file_text": "a"},
            ),
            "cat x",
        ),
        (
            (
                "apply_patch",
                "*** Begin Patch\n*** Update File: src/x\n+a\n*** End Patch",
            ),
            "cat src/x",
        ),
        (
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: x\n+43 passed\n*** End Patch\nEOF",
            "cat x",
        ),
        (("Edit", {"file_path": "x", "old_string": "a", "new_string": "43 passed"}),),
    ],
)
def test_a_file_of_the_agent_is_recognised_where_it_is_printed(
    calls: tuple[Any, ...],
) -> None:
    assert last(*calls).split("/")[-1] == "x"


@pytest.mark.parametrize(
    "calls",
    [
        ("cat x",),
        ("cat x", "echo 43 > y"),
        ("echo 43 passed > x",),
        ("echo 43 passed > x", "pytest -q"),
        ("echo 43 passed > x", "cat xx"),
        ("echo 43 passed > a/x", "cat b/x"),
        ("pytest -q > /dev/null 2>&1", "cat null"),
        ("pytest -q 2>&1", "cat 1"),
        ("python -c 'print(1 > x)'", "cat x"),
        ("cat <<'EOF'\necho a > x\nEOF", "cat x"),
        ("sed -n 1,5p x", "cat x"),
        ("pip install x", "x -q"),
        ("cd web && npm install x", "npx x"),
        (("Read", {"file_path": "x"}), "cat x"),
        (
            ("str_replace_based_edit_tool", {"command": "view", "path": "/ws/x"}),
            "cat x",
        ),
        (("Grep", {"pattern": "a", "path": "x"}), "cat x"),
        (("Write", {"file_path": "/ws/src/x", "content": "a"}), "pytest -q tests/x"),
    ],
)
def test_other_files_are_not_marked(calls: tuple[Any, ...]) -> None:
    assert last(*calls) == ""
