from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.records.decision_files import (
    DecisionFiles,
    GivenAnswer,
    GivenApproval,
    GivenNote,
)

YES = GivenApproval(approval_id="a1", decision="approved", by="ann@desk")
BLUE = GivenAnswer(question="Which colour?", text="blue", by="ann@desk")
NOTE = GivenNote(note_id="n1", text="keep the public API", by="ann@desk")


def test_decisions_are_read_in_the_order_in_which_they_were_given(
    tmp_path: Path,
) -> None:
    files = DecisionFiles(tmp_path / "decisions")
    assert list(files.pending()) == []
    paths = [files.give(decision) for decision in (YES, BLUE, NOTE)]
    assert list(files.pending()) == list(zip(paths, (YES, BLUE, NOTE), strict=True))
    assert oct(paths[0].stat().st_mode & 0o777) == "0o600"


def test_a_removed_decision_is_gone_and_may_be_removed_again(tmp_path: Path) -> None:
    files = DecisionFiles(tmp_path)
    path = files.give(YES)
    files.remove(path)
    files.remove(path)
    assert list(files.pending()) == []


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '{"kind": "approval", "approval_id": "a1"}', '{"kind": "other"}'],
)
def test_what_is_no_decision_is_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / "1.json").write_text(content)
    assert list(DecisionFiles(tmp_path).pending()) == []
    assert not (tmp_path / "1.json").exists()


def test_a_link_and_a_pipe_are_no_decisions_and_an_unfinished_file_is_left(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "decisions"
    files = DecisionFiles(folder)
    moved_file = files.give(YES).rename(tmp_path / "elsewhere")
    (folder / "1.json").symlink_to(moved_file)
    os.mkfifo(folder / "2.json")
    (folder / ".goal-1.new").write_text("{")
    assert list(files.pending()) == []
    assert (sorted(path.name for path in folder.iterdir()), moved_file.exists()) == (
        [".goal-1.new"],
        True,
    )
