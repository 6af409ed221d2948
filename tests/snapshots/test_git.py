"""Which git is called: never one that an agent can have put there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from goalrunner.core.errors import WorkspaceError
from goalrunner.snapshots.git import ask_git, git_program


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a git of its own that leaves a trace."""
    folder = tmp_path / "work"
    (folder / "bin").mkdir(parents=True)
    fake = folder / "bin" / "git"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    fake.chmod(0o755)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "git").symlink_to(fake)
    (tmp_path / "alias").symlink_to(folder)
    return folder


@pytest.mark.parametrize("first", ["work/bin", "outside", "alias/bin"])
def test_a_git_of_the_workspace_is_passed_over(
    workspace: Path, tmp_path: Path, first: str
) -> None:
    environ = {
        "PATH": os.pathsep.join([str(tmp_path / first), "bin", os.environ["PATH"]])
    }

    assert git_program(workspace, environ) == shutil.which("git")
    assert git_program(tmp_path / "alias", environ) == shutil.which("git")
    code, output, _ = ask_git(
        tmp_path, "--version", environ=environ, timeout=60, workspace=workspace
    )
    assert (code, output.split()[:2]) == (0, [b"git", b"version"])
    assert not (tmp_path / "called").exists()


def test_without_a_git_of_the_machine_there_is_none(workspace: Path) -> None:
    environ = {"PATH": f"{workspace}/bin"}

    with pytest.raises(WorkspaceError, match="git is not on PATH"):
        git_program(workspace, environ)
    assert ask_git(workspace, "status", environ=environ, timeout=60)[0] == 127
