from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from goalrunner.errors import GoalError, UsageError
from goalrunner.reports.outcome import check_copy, json_text, outcome_text, write_copy
from tests.support.told_run import outcome


def test_the_outcome_has_the_names_that_readers_know() -> None:
    value = json.loads(outcome_text(outcome()))
    assert (value["status"], value["stop_reason"], value["iterations"]) == ("complete", "satisfied", 2)
    assert {key: value["verdict"][key] for key in ("score", "complete", "missing")} == {
        "score": 1.0,
        "complete": True,
        "missing": "",
    }


def test_json_is_ascii_so_that_nothing_in_it_reaches_a_terminal() -> None:
    text = json_text({"said": "\x9b2J\x1b[31m日本 \ud800"})
    assert text.isascii()
    assert "\x1b" not in text
    assert text.endswith("}\n")


def test_a_copy_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    check_copy(path)
    write_copy(path, "{}\n")
    assert path.read_text() == "{}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_copy(link, "{}\n")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "{}\n"


def test_a_device_is_written_and_not_replaced() -> None:
    check_copy(Path("/dev/null"))
    write_copy(Path("/dev/null"), "{}\n")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "no" / "out.json"
    with pytest.raises(UsageError) as refused:
        check_copy(path)
    assert str(refused.value) == (f"--output {path}: the folder {path.parent} does not exist\nmkdir -p {path.parent}")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_copy(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="may not be written to"):
        check_copy(tmp_path / "out.json")


def test_a_copy_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match=r"--output .*/gone/out\.json could not be written: No such file or directory"):
        write_copy(tmp_path / "gone" / "out.json", "{}")
