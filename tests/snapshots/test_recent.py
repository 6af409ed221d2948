from __future__ import annotations

import pytest

from goalrunner.snapshots.objects import Recent


async def test_an_answer_is_asked_for_once_while_it_is_among_the_last() -> None:
    asked: list[str] = []
    recent = Recent[str](2)

    async def ask(id_: str) -> str:
        asked.append(id_)
        return id_.upper()

    given = [await recent.get(id_, ask) for id_ in ("a", "b", "a", "c", "a", "b")]
    assert given == ["A", "B", "A", "C", "A", "B"]
    assert asked == ["a", "b", "c", "b"]
    recent.forget()
    await recent.get("a", ask)
    assert asked == ["a", "b", "c", "b", "a"]


async def test_a_failure_is_no_answer() -> None:
    recent = Recent[str](2)

    async def fail(id_: str) -> str:
        raise OSError(id_)

    async def answer(id_: str) -> str:
        return id_

    with pytest.raises(OSError, match="a"):
        await recent.get("a", fail)
    assert await recent.get("a", answer) == "a"
