"""The plots and the tables of docs/explanation/scale.md.

`python -m tests.bench.scale_page` makes them of `fleet_measures.json` and
`scale_results.json`, so each number of the page comes from a measurement or a simulation.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.scale_costs import (
    BEAT,
    BEFORE,
    CONNECTIONS,
    CORES,
    FleetLoad,
    Measures,
    connections,
    demands,
    total,
)
from tests.bench.scale_model import FleetShape
from tests.bench.scale_results import FILE as RESULTS

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
PAGE = DOCS / "scale.md"
SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
_GREY = "#7a7a7a"
"""Readable on white and on black."""
_COLOURS = ("#3b82c4", "#d9822b", "#2f9e63", "#c2488a", "#8a6fd1", "#b0892f", "#5f9ea0")


def load_of(runs: int, jobs: int = 1, queued: int = 100_000) -> FleetLoad:
    """Return the load of so many runs at the same time, as the model assumes goals."""
    shape = FleetShape()
    rate = shape.load * runs / shape.service
    assert shape.between_losses is not None
    losses = runs * shape.load / shape.between_losses
    workers = runs // jobs
    idle = round((1 - shape.load) * workers)
    return FleetLoad(workers, rate, queued, losses, idle=idle, jobs=jobs)


def _figure(width: float = 7.2, height: float = 3.8) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "scale",
            "font.family": "sans-serif",
            "font.size": 10,
            "text.color": _GREY,
            "axes.labelcolor": _GREY,
            "axes.edgecolor": _GREY,
            "xtick.color": _GREY,
            "ytick.color": _GREY,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "legend.fontsize": 9,
        }
    )
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.grid(color=_GREY, alpha=0.25, linewidth=0.6)
    return figure, axes


def _save(figure: Any, name: str) -> None:
    from matplotlib import pyplot

    file = DOCS / name
    figure.savefig(file, transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    lines = [line.rstrip() for line in file.read_text("utf-8").splitlines()]
    file.write_text("\n".join(lines) + "\n", "utf-8")


def plot_database(measures: Measures) -> None:
    """Processors of the database by the number of workers, cause by cause."""
    figure, axes = _figure()
    names = list(demands(load_of(10), measures))
    for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
        cores = [demands(load_of(size), measures)[name].cores for size in SIZES]
        axes.plot(SIZES, cores, color=colour, label=name)
    before = [size / BEAT * BEFORE["beat_cpu_ms"] / 1000 for size in SIZES]
    label = "signs of life, as they were before"
    axes.plot(SIZES, before, color=_COLOURS[0], linestyle=":", label=label)
    axes.axhline(CORES, color=_GREY, linestyle="--", linewidth=1)
    axes.text(SIZES[0], CORES * 1.15, f"{CORES} processors", color=_GREY)
    axes.set(xscale="log", yscale="log", ylim=(1e-4, 300))
    axes.set(xlabel="workers", ylabel="processors of the database")
    axes.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, -0.18))
    _save(figure, "scale-database.svg")


def plot_connections(measures: Measures) -> None:
    """Connections by the number of runs at the same time."""
    figure, axes = _figure(height=3.0)
    for jobs, colour in zip((1, 4, 16), _COLOURS, strict=False):
        counts = [connections(size, jobs, measures) / jobs for size in SIZES]
        axes.plot(SIZES, counts, color=colour, label=f"--jobs {jobs}")
    for limit, text in (
        (100, "PostgreSQL's default"),
        (CONNECTIONS, "without a pooler"),
    ):
        axes.axhline(limit, color=_GREY, linestyle="--", linewidth=1)
        axes.text(SIZES[-1], limit * 1.15, f"{limit}: {text}", ha="right")
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="runs at the same time", ylabel="connections")
    axes.legend()
    _save(figure, "scale-connections.svg")


def plot_waits(results: dict[str, Any]) -> None:
    """Waits by priority in each case."""
    figure, axes = _figure(height=3.2)
    width = 0.26
    for number, name in enumerate(("priority 0", "priority 1", "priority 2")):
        places = [case + (number - 1) * width for case in range(len(results))]
        middle = [max(1.0, case["waits"][number]["p50"]) for case in results.values()]
        most = [max(1.0, case["waits"][number]["p99"]) for case in results.values()]
        axes.bar(places, most, width, color=_COLOURS[number], alpha=0.45)
        axes.bar(places, middle, width, color=_COLOURS[number], label=name)
    axes.set(yscale="log", ylabel="seconds in the queue")
    axes.set_xticks(range(len(results)), list(results))
    axes.set_title("dark: the median; light: 99 of 100 wait no longer", fontsize=9)
    axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(0, -0.12))
    _save(figure, "scale-waits.svg")


def plot_timeline(results: dict[str, Any]) -> None:
    """The fleet over time, with everything that can fail."""
    figure, axes = _figure(height=3.0)
    lines = ("queued", "at work", "waiting for an account")
    timeline = list(results.values())[-1]["timeline"]
    hours = [row[0] for row in timeline]
    for number, (name, colour) in enumerate(zip(lines, _COLOURS, strict=False), 1):
        axes.plot(
            hours,
            [row[number] for row in timeline],
            color=colour,
            label=name,
            linewidth=1,
        )
    axes.set(xlabel="hours", ylabel="runs", ylim=(0, None))
    axes.legend(ncols=3, loc="upper left", bbox_to_anchor=(0, -0.2))
    _save(figure, "scale-timeline.svg")


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def waits_table(results: dict[str, Any]) -> str:
    heading = [
        "case",
        "goals, workers",
        "hours",
        "priority 0",
        "1",
        "2",
        "lost workers",
        "work done again",
        "deliveries held back",
        "worker hours paused",
    ]
    rows = []
    for name, case in results.items():
        waits = [
            f"{_number(wait['p50'])} / {_number(wait['p99'])} s"
            for wait in case["waits"]
        ]
        rows.append(
            [
                name,
                f"{case['goals']:,}, {case['workers']:,}",
                _number(case["hours"]),
                *waits,
                _number(case["losses"]),
                f"{_number(case['lost_hours'])} h",
                _number(case["holds"]),
                _number(case["paused_hours"]),
            ]
        )
    return _table(heading, rows)


def database_table(measures: Measures) -> str:
    loads = [load_of(100), load_of(1_000), load_of(10_000), load_of(10_000, 16)]
    parts = [demands(load, measures) for load in loads]
    rows = []
    for name in parts[0]:
        most = parts[2][name]
        cores = [_number(part[name].cores) for part in parts]
        wal = _number(most.wal / 2**20)
        rows.append([name, *cores, _number(most.commits), wal])
    sums = [total(part) for part in parts]
    last = sums[2]
    cores = [_number(demand.cores) for demand in sums]
    wal = _number(last.wal / 2**20)
    rows.append(["**all**", *cores, _number(last.commits), wal])
    heading = [
        "processors for",
        "100 workers",
        "1,000",
        "10,000",
        "625 with `--jobs 16`",
        "transactions a second of 10,000",
        "MiB of WAL a second of 10,000",
    ]
    return _table(heading, rows)


def measures_table(measures: Measures) -> str:
    rows = []
    for name, entry in measures.values.items():
        value = entry["value"]
        if isinstance(value, dict):
            text = ", ".join(f"{key}: {_number(one)}" for key, one in value.items())
        else:
            text = _number(value) if isinstance(value, float) else str(value)
        rows.append([f"`{name}`", text, entry["unit"]])
    return _table(["measured", "value", "unit"], rows)


def page_text(text: str, results: dict[str, Any], measures: Measures) -> str:
    """Return a page with its tables made anew."""
    tables = {
        "waits": waits_table(results),
        "database": database_table(measures),
        "measures": measures_table(measures),
    }
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        before, found, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        assert found, name
        assert closed, name
        text = f"{before}{start}\n{table}\n{end}{after}"
    return text


def stored_results() -> dict[str, Any]:
    """Return the figures of the simulations, by case."""
    values: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return values


def main() -> None:
    measures, results = Measures.read(), stored_results()
    plot_database(measures)
    plot_connections(measures)
    plot_waits(results)
    plot_timeline(results)
    PAGE.write_text(page_text(PAGE.read_text("utf-8"), results, measures), "utf-8")


if __name__ == "__main__":
    main()
