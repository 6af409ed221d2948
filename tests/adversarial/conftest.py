"""The two tables of this folder: what was tried and how it ended, and what was honest and ended as expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.arena import Arena, Ending

ATTACK, HONEST = "attack", "honest run"
_REFUSED = 72

Note = Callable[..., None]
"""`note(kind, name, tried, ending, words)`: one row of a table; `words` are those of the rule, or the expected round."""


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """A workspace, a home and a machine."""
    return Arena(tmp_path)


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Write a row. It travels with the test's report, so that it arrives from other processes too."""

    def write(kind: str, name: str, tried: str, ending: Ending, words: str) -> None:
        how = "/".join(ending.how[:2])
        row = {"kind": kind, "name": name, "tried": tried, "how": how, "round": ending.how[2]}
        row["words"] = ending.why(words) or words if kind == ATTACK else words
        record_property("arena", json.dumps(row))

    return write


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the tables, in the order of the names."""
    rows: dict[str, list[dict[str, Any]]] = {ATTACK: [], HONEST: []}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, []):
            for key, value in getattr(report, "user_properties", []):
                if key == "arena":
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
    else:
        head = ("honest run", "what is special", "expected round", "ended")
        cells = [(row["name"], row["tried"], row["words"], f"{row['how']} {row['round']}{row['mark']}") for row in rows]
    table = [head, *sorted(cells)]
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[3]]) for line in table
    ]
