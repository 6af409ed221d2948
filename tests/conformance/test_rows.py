"""The rows of a run with a real program as agent: what it says, runs, edits and asks MCP servers, in short words."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from goalrunner.agents.external_agents import parser_class
from tests.conformance.installed import missing, no_keys, search_path
from tests.support.fake_provider import (
    SETTINGS,
    Answer,
    FakeProvider,
    call,
    calls,
    run,
    say,
)
from tests.support.forking import goal
from tests.support.workspaces import make_repository

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
LONG = "I look at the file first, so that the change is as small as possible and touches nothing else."
PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
-one
+two
+three
*** End Patch
"""


def claude_script(workspace: Path) -> list[Answer]:
    """The answers of the model of Claude Code."""
    notes = str(workspace / "notes.txt")
    return [
        run(f"cd {workspace} && cat notes.txt", text=LONG),
        call("Read", file_path=notes),
        call("mcp__calc__add", a=2, b=3),
        call("Edit", file_path=notes, old_string="one\n", new_string="two\nthree\n"),
        run("touch done"),
        say("The file\nis changed."),
    ]


def codex_script(workspace: Path) -> list[Answer]:
    """The answers of the model of Codex, whose only tool runs JavaScript."""
    add = "text(JSON.stringify(await tools.mcp__calc__add({a: 2, b: 3})))"
    patch = f"text(await tools.apply_patch({json.dumps(PATCH)}))"
    return [
        run(f"cd {workspace} && cat notes.txt", text=LONG),
        calls(("exec", add)),
        calls(("exec", patch)),
        run("touch done"),
        say("The file\nis changed."),
    ]


CALC = {"command": sys.executable, "args": [str(SERVER)]}
CLAUDE_ARGS = ("--mcp-config", json.dumps({"mcpServers": {"calc": CALC}}))
CODEX_ARGS = (
    *("-c", f"mcp_servers.calc.command={json.dumps(CALC['command'])}"),
    *("-c", f"mcp_servers.calc.args={json.dumps(CALC['args'])}"),
)
END = r" +(?:\d[\d.]* s +)?(?:exit 0, )?reported"
"""A time, if it took long, and what is known of its end."""
ROWS = (
    r"· agent   \S+ · \d+\.\d+\.\d+",
    rf"· agent   {LONG}",
    rf"· shell   cat notes\.txt{END}",
    rf'· mcp     calc add {{"a": 2, "b": 3}}{END}',
    r"· edit    notes\.txt +.*reported",
    rf"· shell   touch done{END}",
    r"· agent   The file is changed\.",
)


@pytest.mark.parametrize(
    ("name", "script", "args", "more"),
    [
        ("claude", claude_script, CLAUDE_ARGS, ("· read    notes.txt ", "+2 −1, ")),
        ("codex", codex_script, CODEX_ARGS, ()),
    ],
)
def test_rows_name_what_was_done_without_shells_and_folders(
    name: str,
    script: object,
    args: tuple[str, ...],
    more: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if why := missing(parser_class(name).preset, "command"):
        pytest.skip(why)
    no_keys(monkeypatch)
    workspace, user = tmp_path / "work", tmp_path / "user"
    workspace.mkdir()
    user.mkdir()
    assert callable(script)
    with FakeProvider(script(workspace)) as server:
        point = SETTINGS[name].at(server)
        table = json.dumps([*point.args, *args])
        goal_file = (
            'objective = "Change the notes."\nvalidator = "test -e done"\n'
            f'[agent]\nuse = "{name}"\nargs = {table}\n'
        )
        make_repository(workspace, {"notes.txt": "one\n", "goal.toml": goal_file})
        environ = {
            **point.env,
            "HOME": str(user),
            "PATH": f"{search_path()}{os.pathsep}{os.environ['PATH']}",
            "IS_SANDBOX": "1",
        }
        ended = goal("run", cwd=workspace, env=environ)
    assert ended.code == 0, ended
    rows = ended.out[ended.out.index("round 1 ") :]
    places = [re.search(row, rows) for row in ROWS]
    assert None not in places, rows
    starts = [place.start() for place in places if place is not None]
    assert starts == sorted(starts), rows
    assert all(text in rows for text in more), rows
    assert str(workspace) not in rows
    assert "bash -lc" not in rows
