"""Files that a person makes meanwhile are found, and removed only inside of a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.copies.frozen_base import OPAQUE
from goalrunner.copies.new_live_files import NewLiveFiles
from goalrunner.copies.run_copy import CopyRecord
from goalrunner.core.errors import EnvironmentFailed
from tests.support.workspaces import write


@pytest.fixture
def found(tmp_path: Path) -> NewLiveFiles:
    """A merged tree as a plain folder, with its layers beside it."""
    root, base = tmp_path / "root", tmp_path / "base"
    shared = ("deps/", "src/out/")
    record = CopyRecord(str(root), str(root), str(tmp_path), (str(base),), shared)
    upper = {"src/agent.py": "1\n", "both/agent.py": "1\n", "own/agent.py": "1\n"}
    write(record.layer(0) / "u", upper)
    os.setxattr(record.layer(0) / "u" / "own", OPAQUE[0], b"y")
    write(base / "tree", {"old.py": "1\n", "src/old.py": "1\n"})
    merged = ("old.py", "mine.txt", "deps/lib.js", "__pycache__/x.pyc", "local/a/b")
    below = ("old.py", "agent.py", "mine.py", "out/x")
    write(root, dict.fromkeys([*merged, *(f"src/{name}" for name in below)], "1\n"))
    write(root, dict.fromkeys(["both/agent.py", "both/mine.py", "own/new"], "1\n"))
    return NewLiveFiles(record)


def test_what_is_in_no_layer_and_not_shared_is_new(found: NewLiveFiles) -> None:
    assert list(found.find()) == ["local", "mine.txt", "src/mine.py", "both/mine.py"]


def test_outside_of_a_copy_nothing_is_removed(
    found: NewLiveFiles, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentFailed, match="is not in the copy"):
        found.hide()
    assert (tmp_path / "root" / "mine.txt").exists()


class _InACopy(NewLiveFiles):
    """It lists `paths`, of which the person may have removed some since."""

    paths: tuple[str, ...] = ()

    def find(self) -> Iterator[str]:
        yield from self.paths

    def _require_overlay(self) -> None:
        pass


def test_what_the_person_removes_meanwhile_need_not_be_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, {"mine/a": "1\n", "mine.txt": "1\n", "kept.txt": "1\n"})
    files = _InACopy(CopyRecord(str(root), str(root), str(tmp_path), (str(tmp_path),)))
    files.paths = ("gone.txt", "gone/folder", "mine", "mine.txt")
    files.hide()
    assert [path.name for path in root.iterdir()] == ["kept.txt"]
