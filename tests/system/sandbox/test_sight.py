"""A program that the sandbox hides is distinguished from one that does not exist."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from goalrunner.core.ports import HIDDEN
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.sandbox import hidden_path
from goalrunner.system.sandbox_view import Confinement, is_visible
from tests.support.sandboxes import SandboxedWorkspace, needs_sandbox


@pytest.fixture
def sandboxed(tmp_path: Path) -> SandboxedWorkspace:
    """One with programs that are hidden: a tool, and a script that is in view whose interpreter is not."""
    made = SandboxedWorkspace(tmp_path)
    tool = made.home / "tool"
    tool.write_text("#!/bin/sh\necho worked\n")
    tool.chmod(0o755)
    for name, line in (
        ("script", f"#!{tool}\n"),
        ("env-script", f"#!/usr/bin/env {tool}\n"),
    ):
        (made.workspace / name).write_text(line)
        (made.workspace / name).chmod(0o755)
    return made


@needs_sandbox
@pytest.mark.parametrize(
    "line",
    [
        "{tool}",
        "exec {tool} -x",
        "bash -c {tool}",
        "env {tool}",
        "./script",
        "./env-script",
        "PATH={home}; exec {tool}",
    ],
)
async def test_a_hidden_program_is_named(
    sandboxed: SandboxedWorkspace, line: str
) -> None:
    tool = sandboxed.home / "tool"
    done = await sandboxed(line.format(tool=tool, home=sandboxed.home))
    assert (done.exit_code, done.error) == (127, f"{tool}: {HIDDEN}"), sandboxed.said


@needs_sandbox
@pytest.mark.parametrize(
    "line",
    ["nosuch -x", "/no/such/program", "echo 'sh: not found' >&2; exit 127", "exit 127"],
)
async def test_what_is_nowhere_or_in_view_is_not_called_hidden(
    sandboxed: SandboxedWorkspace, line: str
) -> None:
    done = await sandboxed(line)
    assert (done.exit_code, done.error) == (127, "")


@needs_sandbox
async def test_what_ends_otherwise_is_no_program_that_was_missed(
    sandboxed: SandboxedWorkspace,
) -> None:
    done = await sandboxed(f"{sandboxed.home}/tool; exit 3")
    assert (done.exit_code, done.error) == (3, "")


@needs_sandbox
@pytest.mark.parametrize("argv", [["{tool}"], ["/bin/sh", "-c", "{tool}"]])
async def test_a_connection_knows_why_its_program_could_not_be_started(
    sandboxed: SandboxedWorkspace, argv: list[str]
) -> None:
    tool = sandboxed.home / "tool"
    connector = ProcessConnector(policy=sandboxed.policy)
    words = [word.format(tool=tool) for word in argv]
    async with connector.connect(
        words, cwd=sandboxed.workspace, env=sandboxed.env, errors=sandboxed.output
    ) as connection:
        while connection.exit_code is None:
            await asyncio.sleep(0.01)
        assert connection.obstacle == f"{tool}: {HIDDEN}"


@needs_sandbox
async def test_a_connection_to_what_runs_has_no_obstacle(
    sandboxed: SandboxedWorkspace,
) -> None:
    connector = ProcessConnector(policy=sandboxed.policy)
    words = ["/bin/sh", "-c", "echo nosuch: not found >&2; read answer; exit 127"]
    async with connector.connect(
        words, cwd=sandboxed.workspace, env=sandboxed.env, errors=sandboxed.output
    ) as connection:
        await connection.write(b"go on\n")
        while connection.exit_code is None:
            await asyncio.sleep(0.01)
        assert (connection.exit_code, connection.obstacle) == (127, "")


@needs_sandbox
def test_paths_that_a_sandbox_hides_are_known_before_anything_is_started(
    sandboxed: SandboxedWorkspace,
) -> None:
    tool = str(sandboxed.home / "tool")
    script = str(sandboxed.workspace / "script")
    assert hidden_path(["/bin/sh", tool], sandboxed.policy, sandboxed.workspace) == tool
    assert hidden_path([script], sandboxed.policy, sandboxed.workspace) == tool
    assert (
        hidden_path(
            ["/bin/sh", "/no/such/program"], sandboxed.policy, sandboxed.workspace
        )
        == ""
    )


def test_what_is_in_view_follows_the_innermost_place_and_links(tmp_path: Path) -> None:
    for name in (
        "home/login",
        "home/bin/tool",
        "home/letters",
        "own/kept",
        "hidden/inner/one",
        "hidden/two",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "home/bin/link").symlink_to(tmp_path / "home/letters")
    home = tmp_path / "home"
    within = Confinement(
        readable=(tmp_path, home / "bin", tmp_path / "hidden/inner"),
        hidden=(tmp_path / "hidden",),
        writable=(home / "login",),
        home=(home, tmp_path / "own"),
    )
    seen = {
        name: is_visible(tmp_path / name, within)
        for name in (
            "home/login",
            "home/bin/tool",
            "home/bin/link",
            "home/letters",
            "home/kept",
            "hidden/two",
        )
    }
    assert seen == {
        "home/login": True,
        "home/bin/tool": True,
        "home/bin/link": False,
        "home/letters": False,
        "home/kept": True,
        "hidden/two": False,
    }
    assert is_visible(tmp_path / "hidden/inner/one", within)
    assert is_visible(Path("/bin/sh"), within)
