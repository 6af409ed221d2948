"""The output of `goal restore`: what it will change, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goalrunner.core.observation import Change, Snapshot
from goalrunner.reports.layout import Fact
from goalrunner.reports.short_forms import SHORT_ID, home_path

# Paths that are listed.
_MOST = 40


def plan_lines(
    label: str, workspace: str, moment: str, changes: Sequence[Change]
) -> Iterator[Fact]:
    """Yield the changes that a restore makes in a workspace.

    `moment` names the snapshot: "to the start".
    """
    yield Fact(label, f"{home_path(workspace)} {moment}", whole=True)
    for change in changes[:_MOST]:
        yield Fact(change.kind, change.path, whole=True)
    if len(changes) > _MOST:
        yield Fact("", f"and {len(changes) - _MOST:,} more")


def done_lines(
    run_id: str,
    workspace: str,
    moment: str,
    changes: Sequence[Change],
    before: Snapshot,
) -> Iterator[Fact]:
    """Yield the changes that were made, and the command that undoes them.

    `before` is the snapshot of the workspace before the restore.
    """
    yield from plan_lines("restored", workspace, moment, changes)
    short_id = before.id[:SHORT_ID]
    yield Fact("before", f"kept as snapshot {short_id}; to undo the restore:")
    yield Fact("", f"goal restore {run_id} --snapshot {short_id}", whole=True)
