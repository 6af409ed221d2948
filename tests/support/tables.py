"""The tables of the adversarial tests, printed at the end of a test run: attacks, known limits, and honest runs.

The rows come with the tests' reports.
"""

from __future__ import annotations

import json
from typing import Any

ATTACK, LIMIT, HONEST = "attack", "known limit", "honest run"
ROW = "arena"
"""The property of a test's report that holds a row."""

_REFUSED = 72


def print_tables(terminalreporter: Any) -> None:
    """Print the tables, sorted by name; those without rows are left out."""
    rows: dict[str, list[dict[str, Any]]] = {ATTACK: [], LIMIT: [], HONEST: []}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, []):
            for key, value in getattr(report, "user_properties", []):
                if key == ROW:
                    row = json.loads(value)
                    rows[row["kind"]].append({**row, "mark": "" if outcome == "passed" else f" ({outcome})"})
    for kind, found in rows.items():
        if found:
            terminalreporter.section(f"{kind}s: {len(found)}")
            for line in _table(kind, found):
                terminalreporter.write_line(line)


def _table(kind: str, rows: list[dict[str, Any]]) -> list[str]:
    if kind == ATTACK:
        head = ("attack", "what it tried", "ended", "refused by")
        cells = [(row["name"], row["tried"], row["how"] + row["mark"], row["words"][:_REFUSED]) for row in rows]
    elif kind == LIMIT:
        head = ("known limit", "what it tried", "ended", "why it is not refused")
        cells = [(row["name"], row["tried"], row["how"] + row["mark"], row["words"]) for row in rows]
    else:
        head = ("honest run", "what is special", "expected round", "ended")
        cells = [(row["name"], row["tried"], row["words"], f"{row['how']} {row['round']}{row['mark']}") for row in rows]
    table = [head, *sorted(cells)]
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]) for line in table
    ]
