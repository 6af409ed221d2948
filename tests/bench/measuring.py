"""Measurements side by side: repetition, the ratio, and how it is printed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.bounds import BOUNDS

GOAL = str(Path(sys.executable).with_name("goal"))
"""The installed command."""


@dataclass(frozen=True)
class Pairs:
    """Measurements of two things, one pair a repetition."""

    first: Sequence[float]
    second: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """Of each pair: what disturbs the machine for a while disturbs both of a pair."""
        return [
            first / second
            for first, second in zip(self.first, self.second, strict=True)
        ]


def pairs(
    first: Callable[[], float], second: Callable[[], float], repetitions: int
) -> Pairs:
    """Measure both by turns, after one measurement of each that does not count."""
    first()
    second()
    measured = [(first(), second()) for _ in range(repetitions)]
    return Pairs([one for one, _ in measured], [other for _, other in measured])


def hold(name: str, measured: Pairs, unit: str = "s") -> None:
    """Print the measurement of a row of the table, and fail where the median of the ratios is above its bound."""
    bound = BOUNDS[name]
    one, other = name.split(" / ")
    ratio = median(measured.ratios)
    print(
        f"\n{name}: {_spread(measured.ratios)}, bound {bound:g}, {len(measured.ratios)} pairs"
    )
    print(
        f"    {one}: {_spread(measured.first)} {unit}\n    {other}: {_spread(measured.second)} {unit}"
    )
    assert ratio <= bound, f"{name} is {ratio:.2f}; at most {bound:g} is promised"


def remark(text: str, values: Sequence[float], unit: str = "s") -> None:
    """Print something that has no bound."""
    print(f"    {text}: {_spread(values)} {unit}")


def process_seconds(
    command: Sequence[str],
    *,
    codes: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
) -> float:
    """The whole life of a process in seconds; it must end with one of the codes."""
    began = time.perf_counter()
    run_process(command, codes=codes, env=env)
    return time.perf_counter() - began


def cpu_seconds(work: Callable[[], object]) -> float:
    """The time of the processor that this process and its children take for some work, which other load does not lengthen."""
    before = _cpu()
    work()
    return _cpu() - before


def _cpu() -> float:
    usages = (
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run_process(
    command: Sequence[str],
    *,
    codes: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in `timeout` seconds. Raises AssertionError with its output for any other exit code."""
    whole = {**os.environ, **(env or {})}
    # As users have it: modules are compiled once and kept.
    whole.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=whole,
        cwd=cwd,
        check=False,
        timeout=timeout,
    )
    assert ended.returncode in codes, (
        f"{command} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    )
    return ended


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
