"""The table at the end of a test run: every project in every mode, and the rates of the modes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROW = "project"
"""The property of a test's report that holds a row."""

_SHORT = 90


def print_projects(terminalreporter: Any) -> None:
    """Print table and rates if a project was measured, and write them to $GOAL_PROJECTS_REPORT if that is set."""
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
    terminalreporter.section(f"projects: {len({row['project'] for row in rows})}")
    for line in [*_table(rows), "", *_summary(rows)]:
        terminalreporter.write_line(line)
    if path := os.environ.get("GOAL_PROJECTS_REPORT"):
        Path(path).write_text(
            json.dumps({"rates": rates(rows), "rows": rows}, indent=1) + "\n", "utf-8"
        )


def rates(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return for each mode how many projects were run, completed at the first try, and were skipped."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        mode = found.setdefault(row["mode"], {"complete": 0, "run": 0, "skipped": 0})
        mode["skipped" if row["skipped"] else "run"] += 1
        mode["complete"] += row["result"] == "complete"
    return found


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ("project", "mode", "checks", "suite s", "goal s", "result", "layout")
    table = [
        head,
        *(
            (
                row["project"],
                row["mode"],
                row.get("environment", ""),
                *_seconds(row),
                row["result"][:_SHORT],
                row["layout"],
            )
            for row in rows
        ),
    ]
    widths = [max(len(line[column]) for line in table) for column in range(6)]
    return [
        "  ".join(
            [
                *(cell.ljust(width) for cell, width in zip(line, widths, strict=False)),
                line[6],
            ]
        )
        for line in table
    ]


def _seconds(row: Mapping[str, Any]) -> tuple[str, str]:
    return (
        ("-", "-")
        if row["skipped"]
        else (f"{row['bare_seconds']:.1f}", f"{row['seconds']:.1f}")
    )


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{mode:<10}  complete at the first try: {found['complete']} of {found['run']}"
        f" ({found['complete'] / max(1, found['run']):.0%}), skipped: {found['skipped']}"
        for mode, found in rates(rows).items()
    ]
