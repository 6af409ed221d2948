"""Tool calls: their effect in the workspace, and the answers to invalid calls. No call raises."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.agents.toolbox import Toolbox
from goalrunner.core.agent_ports import ToolResult
from goalrunner.llm import ToolCall
from goalrunner.system.launcher import ProcessLauncher
from tests.support.agents import call
from tests.support.clocks import deadlines

Run = Callable[..., Awaitable[tuple[ToolResult, str]]]


@pytest.fixture
def toolbox(workspace: Path) -> Toolbox:
    return Toolbox(workspace, ProcessLauncher(), {"PATH": os.environ["PATH"]})


@pytest.fixture
def run(toolbox: Toolbox, tmp_path: Path) -> Run:
    numbers = itertools.count()

    async def runner(name: str, **arguments: Any) -> tuple[ToolResult, str]:
        result = await toolbox.run(
            call(name, **arguments),
            lambda suffix: tmp_path / f"{next(numbers)}{suffix}",
        )
        data = (
            result.output.read_bytes()
            if isinstance(result.output, Path)
            else result.output
        )
        return result, data.decode(errors="replace")

    return runner


async def refusal(run: Run, name: str, **arguments: Any) -> str:
    """The error that a call gives."""
    result, text = await run(name, **arguments)
    assert result.facts == ("error",)
    assert result.summary.startswith("error: ")
    assert len(result.summary) <= 110
    return text.rstrip("\n")


# --- shell


async def test_a_command_gives_exit_code_and_both_streams(run: Run) -> None:
    result, text = await run("shell", command="echo out; echo err >&2; exit 3")
    assert (result.facts, result.summary, result.command) == (
        ("exit 3",),
        "exit 3",
        "echo out; echo err >&2; exit 3",
    )
    assert text == "out\nerr\n"
    assert result.duration > 0


async def test_a_command_runs_in_the_workspace_with_the_given_environment_alone(
    run: Run, workspace: Path
) -> None:
    os.environ["GOAL_TEST_SECRET"] = "1"
    try:
        _, text = await run("shell", command='pwd; echo "[$GOAL_TEST_SECRET]"')
    finally:
        del os.environ["GOAL_TEST_SECRET"]
    assert text == f"{workspace}\n[]\n"


async def test_a_command_past_its_deadline_is_ended(run: Run) -> None:
    for seconds in deadlines():
        result, text = await run(
            "shell", command="echo begun; sleep 60", timeout=seconds
        )
        assert result.facts[0] == f"timed out after {seconds:g} s"
        assert result.duration < 40
        if "begun" in text:
            break
    assert text == "begun\n"


async def test_a_killed_command_is_said_to_be(run: Run) -> None:
    result, _ = await run("shell", command="kill -9 $$")
    assert result.facts == ("killed by SIGKILL",)


def becomes(name: str) -> str:
    """Return a command that waits until the last background process has that name: until then it has that of the shell."""
    return (
        f'until [ "$(cat /proc/$!/comm)" = "{name}" ]; do :; done'
        if sys.platform == "linux"
        else "sleep 0.2"
    )


async def test_processes_left_behind_are_ended_and_named(run: Run) -> None:
    result, _ = await run("shell", command=f"sleep 59 & {becomes('sleep')}")
    assert result.facts == ("exit 0", "ended 1 process left behind: sleep")


async def test_the_name_of_a_process_left_behind_is_one_word(run: Run) -> None:
    command = f'cp "$(command -v sleep)" "./a, exit 0" && {{ "./a, exit 0" 61 & {becomes("a, exit 0")}; false; }}'
    result, _ = await run("shell", command=command)
    assert result.facts == ("exit 1", "ended 1 process left behind: a_exit_0")


async def test_binary_output_survives_whole(run: Run) -> None:
    result, _ = await run("shell", command=r"printf '\377\000\001'")
    assert isinstance(result.output, Path)
    assert result.output.read_bytes() == b"\xff\x00\x01"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"command": "ls", "timeout": "soon"},
            '"timeout": Input should be a valid number',
        ),
        (
            {"cmd": "ls"},
            '"command": Field required\n- "cmd": Extra inputs are not permitted',
        ),
        ({"command": "ls", "timeout": 0}, '"timeout": Input should be greater than 0'),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(
    run: Run, arguments: dict[str, Any], problem: str
) -> None:
    expected = f"the arguments do not fit:\n- {problem}\nValid arguments of shell: command, timeout (optional)"
    assert await refusal(run, "shell", **arguments) == expected


@pytest.mark.parametrize("command", ["echo \0", "#" * 140_000])
async def test_a_command_that_cannot_be_started_has_not_run(
    run: Run, command: str
) -> None:
    result, _ = await run("shell", command=command)
    assert result.facts[0].startswith("exit 126: ")


async def test_a_workspace_that_is_gone_is_no_crash(run: Run, workspace: Path) -> None:
    workspace.rmdir()
    result, _ = await run("shell", command="true")
    assert result.facts != ("exit 0",)


# --- calls that are no calls


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "bash",
            "{}",
            "there is no tool of that name; the tools are shell, read_file, write_file, edit_file, report_blocked, ask, plan",
        ),
        (
            "shell",
            '{"command": ls}',
            "the arguments are malformed JSON: Expecting value: line 1 column 13",
        ),
        (
            "write_file",
            '{"content": "abc',
            "the arguments are malformed JSON: Unterminated string",
        ),
        (
            "shell",
            '["ls"]',
            "the arguments must be a JSON object, not list; nothing was run",
        ),
        (
            "shell",
            '{"command": "\\ud800"}',
            "the arguments are malformed JSON: 'utf-8' codec can't encode",
        ),
        (
            "shell",
            "[" * 100_000,
            "the arguments are malformed JSON: maximum recursion depth",
        ),
        ("shell", "", 'the arguments do not fit:\n- "command": Field required'),
        (
            "shell",
            '{"command": null}',
            'the arguments do not fit:\n- "command": Field required',
        ),
    ],
)
async def test_what_is_no_call_goes_back_as_an_error(
    toolbox: Toolbox, tmp_path: Path, name: str, arguments: str, message: str
) -> None:
    result = await toolbox.run(
        ToolCall("c", name, arguments), lambda suffix: tmp_path / suffix
    )
    assert result.facts == ("error",)
    assert isinstance(result.output, bytes)
    assert result.output.startswith(message.encode())


async def test_a_made_up_name_is_no_source_of_an_observation(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    result = await toolbox.run(
        call("shell (exit 0)\n43 passed"), lambda suffix: tmp_path / suffix
    )
    assert (result.tool, result.facts) == ("unknown_tool", ("error",))
    assert isinstance(result.output, bytes)
    assert b"43 passed" not in result.output


@given(
    st.sampled_from(["read_file", "write_file", "edit_file", "nonsense"]),
    st.one_of(
        st.text(max_size=30),
        st.dictionaries(
            st.sampled_from(["path", "content", "old", "new", "offset", "x"]),
            st.one_of(st.text(max_size=8), st.integers(), st.none(), st.booleans()),
        ),
    ),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_nothing_that_a_model_asks_raises_or_leaves_the_workspace(
    toolbox: Toolbox, workspace: Path, tmp_path: Path, name: str, arguments: Any
) -> None:
    asked = (
        call(name, **arguments)
        if isinstance(arguments, dict)
        else ToolCall("c", name, arguments)
    )
    result = await toolbox.run(asked, lambda suffix: tmp_path / suffix)
    assert result.facts
    assert isinstance(toolbox.describe(asked).text, str)
    assert list(tmp_path.iterdir()) == [workspace]


# --- read_file


async def test_a_file_is_read_as_it_stands(run: Run, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"one\r\ntwo caf\xe9\nthree")
    result, _ = await run("read_file", path="a.txt")
    assert (result.output, result.facts, result.command) == (
        b"one\r\ntwo caf\xe9\nthree",
        ("3 lines",),
        "a.txt",
    )


@pytest.mark.parametrize(
    ("part", "output", "fact"),
    [
        ({"offset": 2}, b"2\n3\n", "lines 2-3 of 3"),
        ({"limit": 1}, b"1\n", "lines 1-1 of 3"),
        ({"offset": 2, "limit": 1}, b"2\n", "lines 2-2 of 3"),
        ({"offset": 1, "limit": None}, b"1\n2\n3\n", "3 lines"),
    ],
)
async def test_a_part_of_a_file(
    run: Run, workspace: Path, part: dict[str, Any], output: bytes, fact: str
) -> None:
    (workspace / "a").write_bytes(b"1\n2\n3\n")
    result, _ = await run("read_file", path="a", **part)
    assert (result.output, result.facts) == (output, (fact,))


async def test_reading_past_the_end_says_how_long_the_file_is(
    run: Run, workspace: Path
) -> None:
    (workspace / "a").write_bytes(b"1\n2")
    assert (
        await refusal(run, "read_file", path="a", offset=3)
        == "a has 2 lines; line 3 is past its end"
    )


async def test_an_empty_file_a_binary_one_and_a_directory(
    run: Run, workspace: Path
) -> None:
    (workspace / "empty").touch()
    (workspace / "program").write_bytes(b"\x7fELF\0\0")
    (workspace / "folder").mkdir()
    assert (await run("read_file", path="empty"))[0].facts == ("empty",)
    result, text = await run("read_file", path="program")
    assert (result.facts, text) == (
        ("binary", "6 bytes"),
        "binary file\n",
    )
    result, text = await run("read_file", path=".")
    assert (result.facts, text) == (
        ("directory", "3 entries"),
        "empty\nfolder/\nprogram\n",
    )


async def test_a_missing_file_is_named(run: Run) -> None:
    message = await refusal(run, "read_file", path="parser.py")
    assert message == "parser.py does not exist in the workspace"


@pytest.mark.skipif(
    sys.platform == "win32", reason="there are no pipes in the file system"
)
async def test_a_pipe_is_not_waited_for(run: Run, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    assert await refusal(run, "read_file", path="pipe") == "pipe is not a regular file"
    assert (
        await refusal(run, "write_file", path="pipe", content="x")
        == "pipe is not a regular file"
    )


# --- the border of the workspace


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
async def test_nothing_outside_is_read_or_written(
    run: Run, workspace: Path, tmp_path: Path, tool: str
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    (workspace / "link").symlink_to(outside)
    (workspace / "folder").symlink_to(tmp_path)
    (workspace / "dangling").symlink_to(tmp_path / "none")
    more: dict[str, Any] = {
        "read_file": {},
        "write_file": {"content": "x"},
        "edit_file": {"old": "secret", "new": "x"},
    }[tool]
    for path in (
        "../outside.txt",
        str(outside),
        "link",
        "folder/outside.txt",
        "dangling",
    ):
        expected = f"{path} is outside the workspace {workspace}; the file tools work only inside it"
        assert await refusal(run, tool, path=path, **more) == expected
    assert outside.read_text() == "secret"
    assert not (tmp_path / "none").exists()


async def test_an_absolute_path_and_a_link_inside_are_fine(
    run: Run, workspace: Path
) -> None:
    (workspace / "real").write_text("old\n")
    (workspace / "link").symlink_to("real")
    await run("write_file", path=str(workspace / "link"), content="new\n")
    assert (workspace / "link").is_symlink()
    assert (workspace / "real").read_text() == "new\n"


async def test_a_workspace_reached_through_a_link_is_the_workspace(
    tmp_path: Path, workspace: Path
) -> None:
    (workspace / "a").write_text("x\n")
    (tmp_path / "alias").symlink_to(workspace)
    toolbox = Toolbox(tmp_path / "alias", ProcessLauncher(), {})
    result = await toolbox.run(
        call("read_file", path=str(tmp_path / "alias" / "a")),
        lambda suffix: tmp_path / suffix,
    )
    assert result.output == b"x\n"


# --- write_file


async def test_a_new_file_comes_with_its_folders(run: Run, workspace: Path) -> None:
    result, text = await run("write_file", path="a/b/c.txt", content="one\ntwo\n")
    assert (workspace / "a" / "b" / "c.txt").read_bytes() == b"one\ntwo\n"
    assert (result.facts, result.summary) == (("created", "8 bytes"), "+2 −0")
    assert text == "--- /dev/null\n+++ a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"


async def test_an_overwritten_file_keeps_mode_and_line_ends(
    run: Run, workspace: Path
) -> None:
    path = workspace / "run.sh"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o755)
    result, text = await run("write_file", path="run.sh", content="one\nthree\n")
    assert path.read_bytes() == b"one\r\nthree\r\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert (result.facts, result.summary) == (("overwritten", "12 bytes"), "+1 −1")
    assert text == "--- run.sh\n+++ run.sh\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+three\r\n"
    assert [entry.name for entry in workspace.iterdir()] == ["run.sh"]


async def test_a_binary_file_is_overwritten_without_a_diff(
    run: Run, workspace: Path
) -> None:
    (workspace / "a").write_bytes(b"\xff\xfe")
    _, text = await run("write_file", path="a", content="text\n")
    assert text == "overwritten a\n"


async def test_a_directory_is_not_overwritten(run: Run, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    assert (
        await refusal(run, "write_file", path="folder", content="")
        == "folder is not a regular file"
    )
    (workspace / "file").touch()
    assert (await refusal(run, "write_file", path="file/x", content="")).startswith(
        "write_file failed: "
    )


# --- edit_file


async def test_an_edit_replaces_one_passage_and_shows_the_difference(
    run: Run, workspace: Path
) -> None:
    path = workspace / "a.py"
    path.write_bytes("".join(f"line {n}\n" for n in range(1, 11)).encode() + b"end")
    result, text = await run(
        "edit_file", path="a.py", old="line 5\n", new="five\nand more\n"
    )
    assert path.read_bytes().count(b"five\nand more\nline 6") == 1
    assert result.summary == "+2 −1"
    assert text == (
        "--- a.py\n+++ a.py\n@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+and more\n line 6\n line 7\n line 8\n"
    )


async def test_an_edit_keeps_crlf(run: Run, workspace: Path) -> None:
    path = workspace / "a"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await run("edit_file", path="a", old="one\ntwo\n", new="1\n2\n")
    assert path.read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x = 1", "x = 3", ('"old" occurs 2 times in a.py; give more of its surroundings, or set replace_all; '
         "nothing was changed")),
        ("nothing alike", "", '"old" does not occur in a.py; nothing was changed'),
        ("", "x", '"old" is empty; to write a whole file use write_file'),
        ("y", "y", '"old" and "new" are the same; nothing would change'),
    ],
)  # fmt: skip
async def test_an_edit_that_is_not_clear_changes_nothing(
    run: Run, workspace: Path, old: str, new: str, message: str
) -> None:
    (workspace / "a.py").write_text("x = 1\n    y = 2\nx = 1\n")
    assert await refusal(run, "edit_file", path="a.py", old=old, new=new) == message
    assert (workspace / "a.py").read_text() == "x = 1\n    y = 2\nx = 1\n"


async def test_replace_all_replaces_every_occurrence(run: Run, workspace: Path) -> None:
    (workspace / "a").write_text("x\ny\nx\n")
    result, _ = await run("edit_file", path="a", old="x", new="z", replace_all=True)
    assert (workspace / "a").read_text() == "z\ny\nz\n"
    assert result.summary == "+2 −2"


async def test_what_is_no_text_is_not_edited(run: Run, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"ab\xff")
    message = await refusal(run, "edit_file", path="a", old="a", new="b")
    assert message == "a is not UTF-8 text (byte 2); use shell to change it"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "read_file",
            {"path": "../outside.txt"},
            "error: ../outside.txt is outside the workspace",
        ),
        (
            "read_file",
            {"path": "none.txt"},
            "error: none.txt does not exist in the workspace",
        ),
        (
            "write_file",
            {"path": "folder", "content": "x"},
            "error: folder is not a regular file",
        ),
        (
            "edit_file",
            {"path": "a.py", "old": "zzz", "new": "y"},
            'error: "old" does not occur in a.py',
        ),
        ("read_file", {}, "error: the arguments do not fit"),
    ],
)
async def test_the_summary_of_a_refused_call_has_the_reason_in_few_words(
    run: Run, workspace: Path, name: str, arguments: dict[str, Any], said: str
) -> None:
    (workspace / "folder").mkdir()
    (workspace / "a.py").write_text("x = 1\n")
    result, _ = await run(name, **arguments)
    assert result.summary.startswith(said)


# --- a file that is kept from the agent


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old": "a", "new": "b"}),
    ],
)
@pytest.mark.parametrize("path", ["goal.toml", "./sub/../goal.toml", "link.toml"])
async def test_a_secret_file_is_not_opened(
    workspace: Path, tmp_path: Path, name: str, arguments: dict[str, str], path: str
) -> None:
    (workspace / "sub").mkdir()
    (workspace / "goal.toml").write_text("a secret\n")
    (workspace / "link.toml").symlink_to("goal.toml")
    box = Toolbox(
        workspace,
        ProcessLauncher(),
        {"PATH": os.environ["PATH"]},
        secret=workspace / "goal.toml",
    )
    result = await box.run(
        call(name, path=path, **arguments), lambda suffix: tmp_path / suffix
    )
    assert (result.facts, result.summary) == (
        ("error",),
        "error: goal.toml is the goal file, which is not readable in this run",
    )
    assert (workspace / "goal.toml").read_text() == "a secret\n"


@pytest.mark.parametrize(
    ("names", "offered"),
    [
        (None, ["shell", "read_file", "write_file", "edit_file"]),
        (("shell", "read_file"), ["shell", "read_file"]),
        ((), []),
    ],
)
def test_the_chosen_tools_are_offered_beside_those_that_only_report(
    workspace: Path, names: tuple[str, ...] | None, offered: list[str]
) -> None:
    box = Toolbox(workspace, ProcessLauncher(), {}, names=names)
    assert [spec.name for spec in box.specs] == [
        *offered,
        "report_blocked",
        "ask",
        "plan",
    ]


async def test_a_tool_that_was_not_chosen_does_nothing(
    workspace: Path, tmp_path: Path
) -> None:
    box = Toolbox(workspace, ProcessLauncher(), {}, names=("read_file",))
    written = ToolCall(
        id="1", name="write_file", arguments='{"path": "a.txt", "content": "x"}'
    )
    result = await box.run(written, lambda suffix: tmp_path / f"scratch{suffix}")
    assert (result.facts, (workspace / "a.txt").exists()) == (("error",), False)
    assert b"the tools are read_file, report_blocked, ask, plan" in cast(
        bytes, result.output
    )
