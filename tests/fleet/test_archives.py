from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError
from goalrunner.fleet.archives import ArchiveWriter, extract
from tests.support.workspaces import listing, write


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_archives_together_make_the_folder(tmp_path: Path) -> None:
    home, writer = tmp_path / "home", ArchiveWriter(tmp_path / "home")
    write(home, {"runs/r1/events.jsonl": "1\n", "stores/a/b": "object\n"})
    writer.archived |= writer.write(tmp_path / "1.tar")
    write(home, {"runs/r1/events.jsonl": "1\n2\n", "runs/r1/new": "n\n"})
    writer.write(tmp_path / "2.tar")
    extract([tmp_path / "1.tar", tmp_path / "2.tar"], tmp_path / "copy")
    assert listing(tmp_path / "copy") == listing(home)
    assert sorted(names(tmp_path / "2.tar")) == ["runs/r1/events.jsonl", "runs/r1/new"]


def test_an_archive_that_was_not_stored_is_part_of_the_next_one(tmp_path: Path) -> None:
    home, writer = tmp_path / "home", ArchiveWriter(tmp_path / "home")
    write(home, {"a": "1"})
    writer.write(tmp_path / "lost.tar")
    write(home, {"b": "2"})
    writer.write(tmp_path / "next.tar")
    assert sorted(names(tmp_path / "next.tar")) == ["a", "b"]


def test_what_only_a_running_process_needs_is_left_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home, {"tmp/x": "", "runs/r1/scratch/y": "", "runs/r1/events.lock": "{}"})
    write(home, {"runs/r1/events.jsonl": ""})
    ArchiveWriter(home).write(tmp_path / "1.tar")
    assert names(tmp_path / "1.tar") == ["runs/r1/events.jsonl"]


def test_after_extracting_only_what_is_new_is_archived(tmp_path: Path) -> None:
    write(tmp_path / "home", {"a": "1"})
    ArchiveWriter(tmp_path / "home").write(tmp_path / "1.tar")
    extract([tmp_path / "1.tar"], tmp_path / "copy")
    writer = ArchiveWriter(tmp_path / "copy")
    writer.archived = dict(writer.files())
    write(tmp_path / "copy", {"b": "2"})
    writer.write(tmp_path / "2.tar")
    assert names(tmp_path / "2.tar") == ["b"]


@pytest.mark.parametrize(
    ("kind", "name", "target"),
    [
        (tarfile.REGTYPE, "../outside", ""),
        (tarfile.SYMTYPE, "runs", ".."),
        (tarfile.SYMTYPE, "runs/outside", "../../outside"),
        (tarfile.LNKTYPE, "runs/outside", "../outside"),
        (tarfile.LNKTYPE, "runs/outside", "runs/nothing"),
        (tarfile.CHRTYPE, "runs/outside", ""),
    ],
)
def test_a_hostile_archive_writes_nothing_outside_of_the_folder(
    tmp_path: Path, kind: bytes, name: str, target: str
) -> None:
    (tmp_path / "outside").write_text("mine")
    archive = tmp_path / "hostile.tar"
    with tarfile.open(archive, "w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, target
        tar.addfile(entry)
        # It would be written through the first one.
        entry = tarfile.TarInfo("runs/outside")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises(RecordError, match=r"hostile\.tar"):
        extract([archive], tmp_path / "copy")
    assert (tmp_path / "outside").read_text() == "mine"


def test_links_and_hard_links_of_a_home_are_archived_and_pipes_are_not(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    write(home, {"a": "1"})
    (home / "b").hardlink_to(home / "a")
    (home / "c").symlink_to("/usr/bin/env")
    os.mkfifo(home / "d")
    ArchiveWriter(home).write(tmp_path / "1.tar")
    extract([tmp_path / "1.tar"], tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [*"abc"]
    assert (tmp_path / "copy" / "b").read_text() == "1"


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b damaged"])
def test_a_damaged_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1.tar").write_bytes(content)
    with pytest.raises(RecordError):
        extract([tmp_path / "1.tar"], tmp_path / "copy")
