"""Readers of other packages, which register them as entry points."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.transcripts import READER_GROUP, formats, read_transcript
from tests.transcripts.sessions import SESSIONS

READER = """
from goalrunner.core.trail_builder import TrailBuilder

DESCRIPTION = "diary of an agent"

def matches(source):
    return any("diary" in row for row in source.rows)

def read(source, deliverable):
    trail = TrailBuilder("keeper")
    for record in source.records():
        trail.called("", "look", {"command": record.value["diary"]})
        trail.result("", record.value["seen"])
    return trail.finish(deliverable)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with one that registers a reader."""
    folder = tmp_path / "packages"
    info = folder / "diary-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: diary\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{READER_GROUP}]\ndiary = diary_reader\n")
    (folder / "diary_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "diary_reader", raising=False)
    return folder


def test_a_registered_reader_reads_its_format(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps({"diary": "ls", "seen": "a.py"}))
    trail = read_transcript(path)
    assert (trail.format, [trail.read(item) for item in trail.items]) == (
        "diary",
        ["a.py"],
    )
    assert ("diary", "diary of an agent") in formats()
    path.write_text(SESSIONS["openai-chat"].text)
    assert read_transcript(path).format == "openai-chat"


def test_a_reader_that_cannot_be_imported_is_an_error_that_names_it(
    package: Path, tmp_path: Path
) -> None:
    (package / "diary_reader.py").write_text("import a_package_that_is_not_there")
    with pytest.raises(
        UsageError,
        match="the reader diary cannot be imported from diary_reader: No module",
    ) as caught:
        formats()
    assert READER_GROUP in caught.value.hint
