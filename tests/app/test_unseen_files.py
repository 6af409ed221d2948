"""Runs of an agent whose files are not in a known folder on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, run_goal
from goalrunner.core.errors import UsageError


class Elsewhere:
    """An agent that works on another machine."""

    sees_files = False

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, prompt: str) -> str:
        """Answer."""
        self.messages += [{"role": "user", "content": prompt}]
        return "Done."


def test_no_file_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    outcome = run_goal(
        Elsewhere(), "make the file", validators=[lambda response: True], home=home
    )
    assert outcome.status == "complete"
    assert {"no snapshots"} <= set(outcome.labels)
    assert [*(home / "stores").iterdir()] == []


@pytest.mark.parametrize(
    "goal",
    [
        {"validator": "true"},
        {"workspace": {"protect": ["tests/**"]}},
        {"workspace": {"editable": ["src/**"]}},
        {"workspace": {"outputs": ["out"]}},
        {"baseline": "red"},
        {"approvals": {"checks": "refuse"}},
    ],
    ids=str,
)
def test_what_needs_the_files_is_refused(tmp_path: Path, goal: dict[str, Any]) -> None:
    whole = Goal(objective="make the file", **goal)
    with pytest.raises(UsageError, match="not in a known folder here"):
        run_goal(Elsewhere(), whole, validators=[lambda response: True], home=tmp_path)
