"""Many goals at once, and several agents on one goal."""

import asyncio
from datetime import UTC, datetime, timedelta

from goalrunner import (
    BatchEvent,
    BatchOutcome,
    Goal,
    GoalOutcome,
    abest_of,
    apply,
    arun_batch,
    best_of,
    run_batch,
)


def report(event: BatchEvent) -> None:
    print(event.type, event.at)


def many(folder: str) -> dict[str, GoalOutcome]:
    outcome: BatchOutcome = run_batch(
        [f"{folder}/a.toml", Goal(objective="x", validator="true", model="a/b")],
        jobs=2,
        cost_usd=5,
        until=datetime.now(UTC) + timedelta(hours=8),
        on_event=report,
    )
    return dict(outcome.runs)


def best(path: str) -> tuple[str, ...]:
    result = best_of(path, agents=["claude", "codex"], first=False)
    if result.winner is None:
        return ()
    return apply(result.winner, check=True)


async def both(path: str) -> tuple[bool, bool]:
    batch, group = await asyncio.gather(arun_batch(path), abest_of(path, 3))
    return batch.passed, group.passed


def main() -> None:
    assert callable(many)
