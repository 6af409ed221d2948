"""Files that checks wrote are copied into the workspace, and nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from goalrunner.checking.environment import copy_into


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Where checks wrote, the workspace, and a folder outside of both with a file in it."""
    made = (tmp_path / "written", tmp_path / "ws", tmp_path / "outside")
    for folder in made:
        folder.mkdir()
    (made[0] / "out").mkdir()
    (made[0] / "out" / "report.xml").write_text("new")
    (made[2] / "report.xml").write_text("precious")
    return made


def test_a_file_is_copied_with_its_mode_and_its_folders_are_made(
    places: tuple[Path, Path, Path],
) -> None:
    written, workspace, _ = places
    (written / "out" / "report.xml").chmod(0o4751)
    assert copy_into(written, workspace, "out/report.xml")
    copied = workspace / "out" / "report.xml"
    assert (copied.read_text(), stat.S_IMODE(copied.stat().st_mode)) == ("new", 0o751)
    assert list(copied.parent.iterdir()) == [copied]


def test_a_link_in_place_of_a_folder_is_not_followed(
    places: tuple[Path, Path, Path],
) -> None:
    written, workspace, outside = places
    (workspace / "out").symlink_to(outside)
    assert not copy_into(written, workspace, "out/report.xml")
    assert (outside / "report.xml").read_text() == "precious"


@pytest.mark.parametrize("planted", ["link", "pipe", "file"])
def test_what_stands_at_the_path_is_replaced(
    places: tuple[Path, Path, Path], planted: str
) -> None:
    written, workspace, outside = places
    path = workspace / "out" / "report.xml"
    path.parent.mkdir()
    match planted:
        case "link":
            path.symlink_to(outside / "report.xml")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_text("old")
    assert copy_into(written, workspace, "out/report.xml")
    assert (path.is_symlink(), path.read_text()) == (False, "new")
    assert (outside / "report.xml").read_text() == "precious"


def test_a_folder_at_the_path_stays(places: tuple[Path, Path, Path]) -> None:
    written, workspace, _ = places
    (workspace / "out" / "report.xml").mkdir(parents=True)
    assert not copy_into(written, workspace, "out/report.xml")


@pytest.mark.parametrize("planted", ["link", "folder link", "pipe"])
def test_only_a_regular_file_of_the_checks_is_read(
    places: tuple[Path, Path, Path], planted: str
) -> None:
    written, workspace, outside = places
    (written / "out" / "report.xml").unlink()
    match planted:
        case "link":
            (written / "out" / "report.xml").symlink_to(outside / "report.xml")
        case "pipe":
            os.mkfifo(written / "out" / "report.xml")
        case _:
            (written / "out").rmdir()
            (written / "out").symlink_to(outside)
    assert not copy_into(written, workspace, "out/report.xml")
    assert not (workspace / "out" / "report.xml").exists()
