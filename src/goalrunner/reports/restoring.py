"""The text of `goal restore`: what would be changed, and what was changed."""

from __future__ import annotations

from collections.abc import Sequence

from goalrunner.model.snapshot import Change, Snapshot
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout, plain
from goalrunner.reports.patch import change_lines
from goalrunner.reports.places import home_path

_MOST = 40
SHORT_ID = 12
"""Characters of a snapshot's id that people are shown, and can type."""


def plan_text(workspace: str, moment: str, changes: Sequence[Change], *, columns: int | None = None) -> str:
    """Return what would be changed."""
    return _text([Fact("restore", f"{home_path(workspace)} {moment}", whole=True), *_changes(changes)], columns)


def question(changes: Sequence[Change]) -> str:
    """Return the question before files are changed."""
    return f"Change {figures.count(len(changes), 'path')}? The state before is kept as a snapshot. [y/N] "


def done_text(
    run_id: str, workspace: str, moment: str, changes: Sequence[Change], before: Snapshot, *, columns: int | None = None
) -> str:
    """Return what was changed, and the command that undoes it."""
    facts = [
        Fact("restored", f"{home_path(workspace)} {moment}", whole=True),
        *_changes(changes),
        Fact("before", f"kept as snapshot {before.id[:SHORT_ID]}; to undo the restore:"),
        Fact("", f"goal restore {run_id} --snapshot {before.id[:SHORT_ID]}", whole=True),
    ]
    return _text(facts, columns)


def nothing_text(workspace: str, moment: str) -> str:
    """Return the text for a workspace that is as wanted."""
    return f"nothing to restore: {home_path(workspace)} is {moment}\n"


def _changes(changes: Sequence[Change]) -> list[Fact]:
    return [Fact(kind, path, whole=True) for kind, path in change_lines(changes, _MOST)]


def _text(facts: Sequence[Fact], columns: int | None) -> str:
    layout = Layout(columns)
    return "".join(plain(layout.rows(fact)) for fact in facts)
