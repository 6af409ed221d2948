"""The memory of an owner on disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from goalrunner.app.memory import MOST_CHARACTERS, MOST_ITEMS, MemoryFile, MemoryItem, find_item, list_items, recall
from goalrunner.core.errors import RecordError
from tests.support.memory import ManualClock

NOW = ManualClock().now()


def item(
    number: int, text: str = "", *, owner: str = "ann", replaces: str = "", days: float | None = None
) -> MemoryItem:
    return MemoryItem(
        memory_id=f"m{number:08x}",
        kind="fact",
        text=text or f"fact {number}",
        run_id="r",
        source_ref="o1",
        owner=owner,
        permission="p",
        expires_at=None if days is None else (NOW + timedelta(days=days)).isoformat(),
        promoted_by="ann@desk",
        promoted_at=NOW.isoformat(),
        replaces=replaces,
    )


def filled(home: Path, *items: MemoryItem) -> MemoryFile:
    file = MemoryFile.of(home, items[0].owner)
    with file.writing():
        for one in items:
            file.append(one)
    return file


@pytest.mark.parametrize("owner", ["ann", "team/ops", "..", "ÄÖ ü", "x" * 400, "-", "a\nb"])
def test_any_owner_has_a_file_of_its_own_inside_the_memory(tmp_path: Path, owner: str) -> None:
    file = filled(tmp_path, item(1, owner=owner))
    assert file.path.parent == tmp_path / "memory"
    assert [one.owner for one in list_items(tmp_path, owner)[0]] == [owner]
    assert list_items(tmp_path, f"{owner}x") == ([], [])


def test_a_damaged_line_is_named_and_the_others_count(tmp_path: Path) -> None:
    file = filled(tmp_path, item(1), item(2))
    first, second = file.path.read_bytes().splitlines()
    unknown = second.replace(b'"kind":"fact"', b'"kind":"rumour"')
    file.path.write_bytes(b"\n".join([first, b"{half", unknown, b'{"memory_id": "m00000009"}', b"\xff[", b""]))
    items, damages = file.read()
    assert items == [item(1)]
    assert [damage.split(":")[1] for damage in damages] == ["2", "3", "4", "5"]
    assert damages[0] == f"{file.path}:2: no JSON; the line is ignored"
    assert "kind" in damages[1]


def test_forgetting_takes_the_text_off_the_disk_and_what_it_had_corrected_too(tmp_path: Path) -> None:
    file = filled(tmp_path, item(1, "wrong"), item(2, "better", replaces="m00000001"), item(3, "other"))
    gone = file.forget("m00000002")
    assert [one.text for one in gone] == ["better", "wrong"]
    assert file.read() == ([item(3, "other")], [])
    assert b"wrong" not in file.path.read_bytes()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert find_item(tmp_path, "m00000002") is None
    assert file.forget("m00000002") == ()


def test_corrections_in_a_circle_end(tmp_path: Path) -> None:
    file = filled(tmp_path, item(1, replaces="m00000002"), item(2, replaces="m00000001"))
    assert len(file.forget("m00000001")) == 2


def test_forgetting_leaves_damaged_lines_as_they_are(tmp_path: Path) -> None:
    file = filled(tmp_path, item(1))
    file.path.write_bytes(file.path.read_bytes() + b"{half\n")
    file.forget("m00000001")
    assert file.path.read_bytes() == b"{half\n"


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    file = MemoryFile.of(tmp_path, "ann")
    with (
        file.writing(),
        pytest.raises(RecordError, match="is being changed by process"),
        MemoryFile.of(tmp_path, "ann").writing(),
    ):
        pass


def test_a_run_is_told_what_has_not_expired_and_where_it_comes_from(tmp_path: Path) -> None:
    filled(tmp_path, item(1, days=-1), item(2, "two\n lines", days=1), item(3))
    told = recall(tmp_path, "ann", NOW)
    assert told.lines == ("(fact, m00000002, o1 of run r) two lines", "(fact, m00000003, o1 of run r) fact 3")
    assert told.notes == ('the agent reads 2 remembered facts of owner "ann" (goal memory)',)


def test_an_expiry_that_cannot_be_read_is_over(tmp_path: Path) -> None:
    filled(tmp_path, item(1).model_copy(update={"expires_at": "soon"}))
    assert recall(tmp_path, "ann", NOW).lines == ()


def test_what_is_told_is_bounded_and_the_newest_is_told_first(tmp_path: Path) -> None:
    filled(tmp_path, *(item(number, f"{number} " + "x" * 5_000) for number in range(MOST_ITEMS + 5)))
    told = recall(tmp_path, "ann", NOW)
    assert sum(map(len, told.lines)) <= MOST_CHARACTERS
    assert f") {MOST_ITEMS + 4} x" in told.lines[-1]
    assert f"the newest of {MOST_ITEMS + 5}" in told.notes[0]


def test_damage_is_a_note_and_never_a_crash(tmp_path: Path) -> None:
    file = filled(tmp_path, item(1))
    file.path.write_bytes(b"{half\n" + file.path.read_bytes())
    told = recall(tmp_path, "ann", NOW)
    assert len(told.lines) == 1
    assert f"memory: {file.path}:1: no JSON; the line is ignored" in told.notes
    file.path.unlink()
    file.path.mkdir()
    assert recall(tmp_path, "ann", NOW).notes[0].startswith("memory: ")
    assert recall(tmp_path, " ", NOW).notes == ("[memory] recall has no effect: the goal names no owner",)
