"""Retries: for which failures, how often, and after how long."""

from __future__ import annotations

import asyncio

import pytest

from goalrunner.llm.client import Backoff, persist
from goalrunner.llm.failure import FailureKind, ProviderFailure


class Attempts:
    """Fails with the given failures, then answers."""

    def __init__(self, *failures: ProviderFailure) -> None:
        self.left = list(failures)
        self.slept: list[float] = []
        self.retries = 0

    async def __call__(self) -> str:
        if self.left:
            raise self.left.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def count(self) -> None:
        self.retries += 1

    async def run(self, retries: int = 5, jitter: float = 1.0) -> str:
        backoff = Backoff(retries=retries, sleep=self.sleep, jitter=lambda: jitter)
        return await persist(self, backoff, self.count)


def _busy(retry_after: float | None = None) -> ProviderFailure:
    return ProviderFailure("busy", status=503, retry_after=retry_after)


async def test_waits_double_up_to_the_cap() -> None:
    attempts = Attempts(*[_busy() for _ in range(9)])
    assert await attempts.run(retries=9) == "answer"
    assert attempts.slept == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert attempts.retries == 9


async def test_jitter_spreads_a_wait_over_its_upper_half() -> None:
    attempts = Attempts(_busy(), _busy())
    await attempts.run(jitter=0.0)
    assert attempts.slept == [0.25, 0.5]


@pytest.mark.parametrize(("said", "waited"), [(0.0, 0.0), (7.0, 7.0), (90_000.0, 120.0), (-3.0, 0.0)])
async def test_retry_after_is_honoured_within_reason(said: float, waited: float) -> None:
    attempts = Attempts(_busy(said))
    await attempts.run(jitter=0.0)
    assert attempts.slept == [waited]


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_only_what_time_may_cure_is_tried_again(kind: FailureKind) -> None:
    passing = {"rate limit", "server error", "timeout", "connection", "cut stream"}
    attempts = Attempts(ProviderFailure("no", kind=kind))
    if kind.value in passing:
        assert await attempts.run() == "answer"
        assert attempts.retries == 1
    else:
        with pytest.raises(ProviderFailure):
            await attempts.run()
        assert attempts.retries == 0


async def test_the_last_failure_is_raised_when_the_retries_are_used_up() -> None:
    attempts = Attempts(_busy(), _busy(), ProviderFailure("the last", status=500))
    with pytest.raises(ProviderFailure, match="the last"):
        await attempts.run(retries=2)
    assert attempts.retries == 2


async def test_cancellation_passes_through_a_wait() -> None:
    attempts = Attempts(_busy())
    backoff = Backoff(base=60)
    task = asyncio.create_task(persist(attempts, backoff, attempts.count))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
