"""The program of a command is never one that an agent has put into the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.agents.external_agents import ExternalAgent, invocation, resolve_executable, resolve_executables
from goalrunner.core.agent_preset import Preset


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """With a program `double` in it, and one outside: `tmp_path/bin/double`."""
    for folder in ("work/bin", "bin"):
        (tmp_path / folder).mkdir(parents=True)
        program(tmp_path / folder / "double")
    return tmp_path / "work"


def program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


@pytest.mark.parametrize("first", ["{work}/bin", "{work}", "bin", ".", "", "{link}"])
def test_a_program_in_the_workspace_is_not_started_for_one_of_its_name_elsewhere(workspace: Path, first: str) -> None:
    outside = workspace.parent / "bin"
    program(workspace / "double")
    link = workspace.parent / "link"
    link.symlink_to(workspace / "bin")
    environ = {"PATH": f"{first.format(work=workspace, link=link)}:{outside}"}

    assert resolve_executable(("double", "-p"), environ, workspace) == (f"{outside}/double", "-p")
    assert resolve_executable(("double -p {prompt}",), environ, workspace) == (f"{outside}/double -p {{prompt}}",)


def test_one_that_is_in_the_workspace_alone_was_installed_there(workspace: Path) -> None:
    environ = {"PATH": f"{workspace}/bin:/usr/bin"}

    assert resolve_executable(("double", "-p"), environ, workspace) == ("double", "-p")


@pytest.mark.parametrize("words", [("./double",), ("{workspace}/double", "x"), ("A=1 double | cat",), ("cd", "x"), ()])
def test_what_names_its_place_or_no_program_stays_as_it_is(workspace: Path, words: tuple[str, ...]) -> None:
    environ = {"PATH": f"{workspace.parent}/bin"}

    assert resolve_executable(words, environ, workspace) == words


def test_every_command_of_a_preset_is_pinned(workspace: Path) -> None:
    environ, path = {"PATH": f"{workspace.parent}/bin"}, f"{workspace.parent}/bin/double"
    preset = Preset(argv=("double",), resume=("double", "-r"), acp=("double", "acp"), version=("double", "-v"))

    found = resolve_executables(preset, environ, workspace)

    assert (found.argv, found.resume, found.acp) == ((path,), (path, "-r"), (path, "acp"))
    assert found.version == (path, "-v")


def test_the_shell_of_a_line_is_the_systems_own(workspace: Path, tmp_path: Path) -> None:
    assert (
        invocation(("a | b",), ExternalAgent("x", Preset(), workspace, {}), lambda suffix: tmp_path / suffix).argv[0]
        == "/bin/sh"
    )
