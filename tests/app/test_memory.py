"""The memory of an owner on disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from goalrunner.app.memory import (
    MOST_CHARACTERS,
    MOST_ITEMS,
    MemoryItem,
    forget_fact,
    list_items,
    recall,
)
from goalrunner.core.errors import UsageError
from tests.support.memory import ManualClock

NOW = ManualClock().now()


def item(
    number: int,
    text: str = "",
    *,
    owner: str = "ann",
    replaces: str = "",
    days: float | None = None,
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


def filled(home: Path, *items: MemoryItem) -> Path:
    path = home / "memory" / "items.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in items))
    return path


def test_a_damaged_line_is_named_and_the_others_count(tmp_path: Path) -> None:
    path = filled(tmp_path, item(1), item(2))
    first, second = path.read_bytes().splitlines()
    unknown = second.replace(b'"kind":"fact"', b'"kind":"rumour"')
    path.write_bytes(
        b"\n".join(
            [first, b"{half", unknown, b'{"memory_id": "m00000009"}', b"\xff[", b""]
        )
    )
    items, damages = list_items(tmp_path, "ann")
    assert items == [item(1)]
    assert [damage.split(":")[1] for damage in damages] == ["2", "3", "4", "5"]
    assert damages[0].startswith(f"{path}:2: Invalid JSON")
    assert "kind" in damages[1]


def test_forgetting_takes_the_text_off_the_disk_and_what_it_had_corrected_too(
    tmp_path: Path,
) -> None:
    path = filled(
        tmp_path,
        item(1, "wrong"),
        item(2, "better", replaces="m00000001"),
        item(3, "other"),
    )
    gone = forget_fact(tmp_path, "m00000002")
    assert [one.text for one in gone] == ["better", "wrong"]
    assert list_items(tmp_path) == ([item(3, "other")], [])
    assert b"wrong" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="no kept fact"):
        forget_fact(tmp_path, "m00000002")


def test_corrections_in_a_circle_end(tmp_path: Path) -> None:
    filled(tmp_path, item(1, replaces="m00000002"), item(2, replaces="m00000001"))
    assert len(forget_fact(tmp_path, "m00000001")) == 2


def test_forgetting_leaves_damaged_lines_as_they_are(tmp_path: Path) -> None:
    path = filled(tmp_path, item(1))
    path.write_bytes(path.read_bytes() + b"{half\n")
    forget_fact(tmp_path, "m00000001")
    assert path.read_bytes() == b"{half\n"


def test_a_run_is_told_what_has_not_expired_and_where_it_comes_from(
    tmp_path: Path,
) -> None:
    filled(
        tmp_path,
        item(1, days=-1),
        item(2, "two\n lines", days=1),
        item(3),
        item(4, owner="bob"),
    )
    lines, notes = recall(tmp_path, "ann", NOW)
    assert lines == (
        "(fact, m00000002, o1 of run r) two lines",
        "(fact, m00000003, o1 of run r) fact 3",
    )
    assert notes == ('the agent reads 2 remembered facts of owner "ann" (goal memory)',)


def test_an_expiry_that_cannot_be_read_is_over(tmp_path: Path) -> None:
    filled(tmp_path, item(1).model_copy(update={"expires_at": "soon"}))
    assert recall(tmp_path, "ann", NOW)[0] == ()


def test_what_is_told_is_bounded_and_the_newest_is_told_first(tmp_path: Path) -> None:
    filled(
        tmp_path,
        *(item(number, f"{number} " + "x" * 5_000) for number in range(MOST_ITEMS + 5)),
    )
    lines, notes = recall(tmp_path, "ann", NOW)
    assert sum(map(len, lines)) <= MOST_CHARACTERS
    assert f") {MOST_ITEMS + 4} x" in lines[-1]
    assert f"the newest of {MOST_ITEMS + 5}" in notes[0]


def test_damage_is_a_note_and_never_a_crash(tmp_path: Path) -> None:
    path = filled(tmp_path, item(1))
    path.write_bytes(b"{half\n" + path.read_bytes())
    lines, notes = recall(tmp_path, "ann", NOW)
    assert len(lines) == 1
    assert notes[0].startswith(f"memory: {path}:1: Invalid JSON")
    path.unlink()
    path.mkdir()
    assert recall(tmp_path, "ann", NOW)[1][0].startswith("memory: ")
    assert recall(tmp_path, " ", NOW)[1] == (
        "[memory] recall has no effect: the goal names no owner",
    )
