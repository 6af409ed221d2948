"""Times of changes, compared with the clock of the file system itself."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.snapshots.file_times import ChangedSince, is_overlay
from goalrunner.system.change_clock import ChangeClock


def changed(root: Path, since: int, *files: str) -> list[str]:
    found = ChangedSince(
        os.fsencode(root), since, lambda name: os.fsdecode(name) in files
    )
    found.look([os.fsencode(name) for name in files], [b""])
    return sorted(map(os.fsdecode, found.times))


def test_a_time_after_changes_separates_earlier_from_later_ones(tmp_path: Path) -> None:
    clock, file = ChangeClock(), tmp_path / "a"
    for number in range(20):
        file.write_text(f"{number}")
        before = file.stat().st_ctime_ns
        clock.note()
        time = clock.after_changes()
        file.write_text(f"{number}+")
        assert before < time <= file.stat().st_ctime_ns


def test_a_file_that_was_changed_back_has_changed(tmp_path: Path) -> None:
    clock, file = ChangeClock(), tmp_path / "a"
    file.write_text("x")
    (tmp_path / "b").write_text("x")
    clock.note()
    time = clock.after_changes()
    assert changed(tmp_path, time, "a", "b") == []
    file.write_text("y")
    file.write_text("x")
    os.utime(file, ns=(0, 0))
    assert changed(tmp_path, time, "a", "b") == ["a"]


def test_a_folder_has_changed_unless_a_cache_was_made_in_it(tmp_path: Path) -> None:
    clock = ChangeClock()
    (tmp_path / "a").write_text("x")
    clock.note()
    time = clock.after_changes()
    (tmp_path / "new").write_text("x")
    (tmp_path / "new").unlink()
    assert changed(tmp_path, time, "a") == ["/"]
    (tmp_path / "__pycache__").mkdir()
    assert changed(tmp_path, time, "a") == []


def test_a_git_folder_explains_no_change(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert changed(tmp_path, 0) == ["/"]


def test_the_root_is_looked_up_without_error() -> None:
    assert is_overlay(Path("/")) in (True, False)
