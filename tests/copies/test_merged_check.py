"""The files of a commit in a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.copies.merged_check import check_out
from tests.support.workspaces import git, make_repository, write


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_no_flag_of_the_index_keeps_a_file_from_being_checked_out(
    flag: str, tmp_path: Path
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n", "b": "1\n"})
    git(root, "update-index", flag, "b")
    write(root, {"b": "2\n"})

    check_out("HEAD", root)

    assert (root / "b").read_text() == "1\n"


def test_what_a_sparse_checkout_leaves_out_stays_out(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n", "big/b": "1\n"})
    git(root, "sparse-checkout", "set", "--no-cone", "/*", "!big")

    check_out("HEAD", root)

    assert sorted(path.name for path in root.iterdir()) == [".git", "a"]
