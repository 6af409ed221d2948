"""Simulations of large fleets, kept as figures.

`python -m tests.bench.scale_results` takes minutes and writes `scale_results.json`. With
a number behind it, everything is that many times smaller: goals, workers and batches.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, quantiles

from tests.bench.scale_model import FleetShape, ScaleResult, simulate

FILE = Path(__file__).with_name("scale_results.json")
CASES = {
    "nothing fails": FleetShape(allowance=None, between_losses=None),
    "workers are lost": FleetShape(allowance=None),
    "accounts reach limits": FleetShape(between_losses=None),
    "both": FleetShape(),
}
PERCENTS = (50, 90, 99)


@dataclass(frozen=True)
class CaseFigures:
    """What one simulation showed."""

    goals: int
    workers: int
    hours: float
    waits: list[dict[str, float]]
    """By priority: mean, percentiles and the longest one, in seconds."""
    deepest: int
    """The most queued goals."""
    most_starts: float
    """The most deliveries a second, over ten seconds."""
    losses: int
    lost_hours: float
    pauses: int
    holds: int
    paused_hours: float
    """Of workers whose runs wait for their account."""
    busy: float
    """The share of the workers that had a run, on average."""
    seconds: float
    """How long the simulation took."""
    timeline: list[tuple[float, int, int, int]]
    """Hours; queued, running and paused runs."""


def _figures(shape: FleetShape, result: ScaleResult, seconds: float) -> CaseFigures:
    waits: list[dict[str, float]] = []
    for times in result.waits:
        cuts = quantiles(times, n=100)
        row = {f"p{percent}": round(cuts[percent - 1], 1) for percent in PERCENTS}
        waits.append(
            {"mean": round(mean(times), 1), **row, "max": round(max(times), 1)}
        )
    samples = result.samples
    steps = list(itertools.pairwise(samples))
    hours = result.seconds / 3600
    return CaseFigures(
        goals=shape.goals,
        workers=shape.workers,
        hours=round(hours, 2),
        waits=waits,
        deepest=max(sample.queued for sample in samples),
        most_starts=max(
            (after.enqueued - before.enqueued) / (after.at - before.at)
            for before, after in steps
        ),
        losses=result.losses,
        lost_hours=round(result.lost_work / 3600, 1),
        pauses=result.pauses,
        holds=result.holds,
        paused_hours=round(sum(sample.paused for sample in samples) * 10 / 3600, 1),
        busy=round(mean(sample.running for sample in samples) / shape.workers, 3),
        seconds=round(seconds, 1),
        timeline=[
            (round(sample.at / 3600, 3), sample.queued, sample.running, sample.paused)
            for sample in samples[:: max(1, len(samples) // 400)]
        ],
    )


def case_figures(name: str, divisor: int = 1) -> CaseFigures:
    """Simulate one case, so many times smaller."""
    shape = CASES[name]
    shape = replace(
        shape,
        goals=shape.goals // divisor,
        workers=shape.workers // divisor,
        batch=shape.batch // divisor,
    )
    began = time.process_time()
    result = simulate(shape)
    return _figures(shape, result, time.process_time() - began)


def main() -> None:
    divisor = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with ProcessPoolExecutor(2) as pool:
        figures = pool.map(case_figures, CASES, [divisor] * len(CASES))
        values = {name: asdict(case) for name, case in zip(CASES, figures, strict=True)}
    FILE.write_text(json.dumps(values) + "\n")
    for name, case in values.items():
        print(name, {key: value for key, value in case.items() if key != "timeline"})


if __name__ == "__main__":
    main()
