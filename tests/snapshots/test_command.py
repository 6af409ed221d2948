from __future__ import annotations

import asyncio

import pytest

from goalrunner.snapshots.git import both


async def test_two_calls_run_side_by_side() -> None:
    met = asyncio.Barrier(2)

    async def call(answer: str) -> str:
        async with asyncio.timeout(5):
            await met.wait()
        return answer

    assert await both(call("one"), call("two")) == ("one", "two")


@pytest.mark.parametrize("failing", ["first", "second"])
async def test_where_one_fails_the_other_has_ended(failing: str) -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            if name == failing:
                raise OSError(name)
            await asyncio.sleep(0 if name == "first" else 60)
        finally:
            ended.append(name)

    with pytest.raises(OSError, match=failing):
        await both(wait("first"), wait("second"))
    assert sorted(ended) == ["first", "second"] or (
        failing == "first" and ended == ["first"]
    )
