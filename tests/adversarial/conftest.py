"""Fixtures: the workspace of an attack or an honest run, and the row of its table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.arena import Arena, Ending
from tests.support.tables import ATTACK, ROW

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
        row["words"] = (ending.why(words) or words) if kind == ATTACK else words
        record_property(ROW, json.dumps(row))

    return write
