"""`goal export --patch` after a real run with everything that patches make difficult."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from tests.exports.test_export import git, without_caches, worked, written


def test_the_patch_of_a_folder_without_git_makes_the_same_files_of_the_start(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = written(tmp_path / "work")
    worked(tmp_path, workspace, own_home)
    patch = tmp_path / "change.patch"
    monkeypatch.chdir(workspace)
    assert main(["export", "--patch", "-o", str(patch)]) == 0
    other = written(tmp_path / "other")
    git(other, "init", "-q")
    git(other, "apply", str(patch))
    assert without_caches(other) == without_caches(workspace)
    assert os.access(other / "run.sh", os.X_OK)
    assert not (other / "__pycache__").exists()
