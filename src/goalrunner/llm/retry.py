"""Trying again. Owns when and how long to wait; knows no provider.

LiteLLM's own retries are switched off: they hide a wrong key behind an undeclared package and count nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from goalrunner.llm.failure import PASSING, ProviderFailure

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Backoff:
    """How often and how long. Waits grow twofold from `base` to `cap` (seconds); Retry-After counts up to its own cap.

    `jitter` gives a factor from 0 to 1; the wait is spread over its upper half so that many callers drift apart.
    """

    retries: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_retry_after: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def wait(self, retry: int, retry_after: float | None) -> float:
        """Seconds before the given retry, counted from 1."""
        grown = min(self.cap, self.base * 2.0 ** (retry - 1))
        spread = grown * (0.5 + 0.5 * self.jitter())
        if retry_after is None:
            return spread
        return max(0.0, min(retry_after, self.longest_retry_after)) + self.base * 0.5 * self.jitter()


async def persist(attempt: Callable[[], Awaitable[Answer]], backoff: Backoff, on_retry: Callable[[], None]) -> Answer:
    """Call `attempt` until it answers; `on_retry` is told of each repetition.

    Raises the last ProviderFailure when it is of a kind that time does not cure, or when the retries are used up.
    Cancellation passes straight through, in an attempt as in a wait.
    """
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderFailure as failure:
            if failure.kind not in PASSING or retry >= backoff.retries:
                raise
            retry += 1
            pause = backoff.wait(retry, failure.retry_after)
        on_retry()
        await backoff.sleep(pause)
