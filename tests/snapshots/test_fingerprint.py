"""What a folder holds, and what an agent cannot change in it unseen."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from goalrunner.snapshots import fingerprint
from goalrunner.snapshots.fingerprint import Fingerprint, take


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "venv" / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "module.py").write_text("a = 1\n")
    (site / "other.py").write_text("b = 1\n")
    (site / "link").symlink_to("module.py")
    return tmp_path / "venv"


def paths(old: Fingerprint, new: Fingerprint) -> list[tuple[str, str]]:
    return [(path.removeprefix("lib/site-packages/"), how) for path, how in old.changes(new)]


def test_an_unchanged_folder_has_no_changes(folder: Path) -> None:
    start = take(folder)

    assert len(start.files) == 3
    assert paths(start, take(folder, start)) == []


def test_planted_changed_and_deleted_files_are_named(folder: Path) -> None:
    start = take(folder)
    site = folder / "lib" / "site-packages"
    (site / "sitecustomize.py").write_text("import sys\n")
    (site / "module.py").write_text("a = 2\n")
    (site / "other.py").unlink()
    (site / "link").unlink()
    (site / "link").symlink_to("other.py")

    assert paths(start, take(folder, start)) == [
        ("link", "changed"),
        ("module.py", "changed"),
        ("other.py", "deleted"),
        ("sitecustomize.py", "added"),
    ]


@pytest.mark.parametrize("large", [False, True])
def test_a_change_with_size_and_mtime_set_back_is_seen(
    folder: Path, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "_RACY", 0)
    if large:
        monkeypatch.setattr(fingerprint, "HASHED", 3)
    time.sleep(0.02)
    start = take(folder)
    module = folder / "lib" / "site-packages" / "module.py"
    was = module.stat()
    time.sleep(0.02)
    module.write_text("a = 2\n")
    os.utime(module, ns=(was.st_atime_ns, was.st_mtime_ns))

    assert paths(start, take(folder, start)) == [("module.py", "changed")]


def test_a_change_right_after_the_look_is_seen(folder: Path) -> None:
    module = folder / "lib" / "site-packages" / "module.py"
    module.write_text("a = 3\n")
    start = take(folder)
    module.write_text("a = 4\n")

    assert paths(start, take(folder, start)) == [("module.py", "changed")]


def test_the_same_content_written_again_is_no_change(folder: Path) -> None:
    start = take(folder)
    module = folder / "lib" / "site-packages" / "module.py"
    module.unlink()
    module.write_text("a = 1\n")
    module.touch()

    assert paths(start, take(folder, start)) == []


def test_what_did_not_move_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_RACY", 0)
    time.sleep(0.02)
    start = take(folder)
    (folder / "lib" / "site-packages" / "other.py").write_text("b = 2\n")
    read: list[str] = []
    content = fingerprint._content

    def counted(path: str, size: int) -> str:
        read.append(path)
        return content(path, size)

    monkeypatch.setattr(fingerprint, "_content", counted)

    take(folder, start)

    assert [Path(path).name for path in read] == ["other.py"]


def test_compiled_modules_and_skipped_names_do_not_count(folder: Path) -> None:
    start = take(folder, skip={".cache"})
    for name in ("lib/site-packages/__pycache__", ".cache"):
        (folder / name).mkdir()
        (folder / name / "x.pyc").write_text("")

    assert paths(start, take(folder, start, {".cache"})) == []
    assert paths(start, take(folder, start)) == [(".cache/x.pyc", "added")]


def test_special_files_are_no_trap(folder: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert take(folder).files["pipe"].digest == "special"


def test_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    assert take(tmp_path / "nowhere") == Fingerprint({})
