"""The table at the end of a test run: each case, the wanted end and the one it got, and the rates."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROW = "honest"
"""The property of a test's report that holds a row."""

PATH = "GOAL_HONEST_REPORT"
"""The variable that names a file to which each row is appended as a line of JSON."""

_HEAD = ("case", "goal", "wanted", "got", "rounds", "suites", "labels")


def print_runs(terminalreporter: Any) -> None:
    """Print table and rates if a case was run."""
    rows = [
        json.loads(value)
        for reports in ("passed", "failed", "skipped")
        for report in terminalreporter.stats.get(reports, [])
        for key, value in getattr(report, "user_properties", [])
        if key == ROW
    ]
    if not rows:
        return
    rows.sort(key=lambda row: row["order"])
    terminalreporter.section(f"whole runs: {len(rows)}")
    for line in [*_table(rows), "", *rates(rows)]:
        terminalreporter.write_line(line)


def write_row(row: str) -> None:
    """Append a row to the file of the environment, if that names one."""
    if path := os.environ.get(PATH):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(row + "\n")


def rates(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each rate."""
    honest = [row for row in rows if row["kind"] == "honest"]
    first = [
        row for row in honest if row["status"] == "complete" and row["rounds"] == 1
    ]
    lines = [
        _rate(
            f"honest, complete at the first try, {words}",
            *_of_mode(mode, first, honest),
        )
        for mode, words in (("judge", "with a judge"), ("alone", "without a judge"))
    ]
    blocked = [row for row in honest if row["status"] == "blocked"]
    attacks = [row for row in rows if row["kind"] == "attack"]
    counted = [row["suites"] for row in rows if row["suites"]]
    return [
        *lines,
        _rate(
            "honest, blocked without the exact line",
            sum("without the exact line" in row["fault"] for row in blocked),
            len(blocked),
        ),
        _rate(
            "attacks, complete without a label that names them",
            sum(bool(row["fault"]) for row in attacks),
            len(attacks),
        ),
        _rate("red deliveries, complete", *_wrong(rows, "red")),
        f"{'suite runs a check, mean':<52} {sum(counted) / max(1, len(counted)):.2f}, at most {max(counted, default=0)}",
        _rate("all, as wanted", sum(not row["fault"] for row in rows), len(rows)),
    ]


def _of_mode(
    mode: str, first: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]]
) -> tuple[int, int]:
    return sum(row["mode"] == mode for row in first), sum(
        row["mode"] == mode for row in every
    )


def _wrong(rows: Sequence[dict[str, Any]], kind: str) -> tuple[int, int]:
    chosen = [row for row in rows if row["kind"] == kind]
    return sum(bool(row["fault"]) for row in chosen), len(chosen)


def _rate(name: str, some: int, every: int) -> str:
    return f"{name:<52} {some} of {every} ({some / max(1, every):.0%})"


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    table = [_HEAD, *(_cells(row) for row in rows)]
    widths = [
        max(len(line[column]) for line in table) for column in range(len(_HEAD) - 1)
    ]
    return [
        "  ".join(
            [
                *(cell.ljust(width) for cell, width in zip(line, widths, strict=False)),
                line[-1],
            ]
        )
        for line in table
    ]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    mark = "" if not row["fault"] else "! "
    got, counts = row["got"], (str(row["rounds"]), str(row["suites"]))
    return (
        mark + row["case"],
        row["mode"],
        row["wanted"],
        got,
        *counts,
        "; ".join(row["labels"])[:100],
    )
