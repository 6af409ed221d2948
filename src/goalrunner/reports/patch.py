"""Patches of a run or a round, and what `goal restore` does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.app.run_snapshots import RoundPatch
from goalrunner.core.base import Change, Snapshot
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout
from goalrunner.reports.text import clean, cut, home_path, pad, width
from goalrunner.snapshots.objects import shown

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE = re.compile(r'\\([abtnvfr"\\]|[0-7]{3})')
_LETTERS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_HEADER = "diff --git "
_NARROWEST = 20


@dataclass
class Lines:
    """How many lines of one file were added and removed."""

    added: int = 0
    removed: int = 0
    binary: bool = False


def patch_text(patch: RoundPatch, *, terminal: bool) -> str:
    """Return the patch; for a terminal, without escape sequences."""
    if not terminal:
        return patch.text
    return "".join(f"{clean(line.expandtabs())}\n" for line in patch.text.split("\n")[:-1])


def patch_value(run_id: str, patch: RoundPatch) -> dict[str, Any]:
    """Return run, round (None: the whole run), changes with their figures, and the patch as a JSON value."""
    counted = lines_of(patch.text)
    changes = [
        {**change.model_dump(mode="json"), **vars(counted.get(change.path, Lines()))} for change in patch.changes
    ]
    return {"run_id": run_id, "round": patch.round, "changes": changes, "patch": patch.text}


def stat_text(patch: RoundPatch, *, columns: int | None = None) -> str:
    """Return a line for each path, and one for all. `columns` is the width of a terminal."""
    if not patch.changes:
        return ""
    counted = lines_of(patch.text)
    rows = [(change.path, _size(change, counted.get(change.path))) for change in patch.changes]
    room = max(width(path) for path, _ in rows)
    if columns is not None:
        room = min(room, max(columns - 2 - max(width(size) for _, size in rows), _NARROWEST))
    lines = [f"{pad(cut(path, room), room)}  {size}\n" for path, size in rows]
    added, removed = (sum(getattr(one, name) for one in counted.values()) for name in ("added", "removed"))
    part = "the run" if patch.round is None else f"round {patch.round}"
    return "".join([*lines, f"{figures.count(len(rows), 'path')} in {part}, {_signed(added, removed)}\n"])


def lines_of(text: str) -> dict[str, Lines]:
    """Return the lines of each file of a patch, by its path as snapshots show it."""
    found: dict[str, Lines] = {}
    here = Lines()
    old = new = 0
    for line in text.split("\n"):
        if old > 0 or new > 0:  # inside a hunk a line may look like anything
            here.added += line.startswith("+")
            here.removed += line.startswith("-")
            old -= line.startswith(("-", " "))
            new -= line.startswith(("+", " "))
        elif line.startswith(_HEADER):
            here = found.setdefault(_path(line.removeprefix(_HEADER)), Lines())
        elif hunk := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
        elif line.startswith("Binary files "):
            here.binary = True
    return found


def _path(pair: str) -> str:
    """Return the path of `a/x b/x`: there are no renames, so both halves are the same path."""
    name = pair[: (len(pair) - 1) // 2]
    raw = name.encode(errors="surrogateescape")
    if name.startswith('"'):
        raw = _ESCAPE.sub(lambda found: _byte(found[1]), name[1:-1]).encode("latin-1", "replace")
    return shown(raw.removeprefix(b"a/"))


def _byte(escaped: str) -> str:
    return chr(_LETTERS[escaped] if escaped in _LETTERS else int(escaped, 8))


def _size(change: Change, lines: Lines | None) -> str:
    if change.kind == "repository":
        return "HEAD, refs or index of the repository"
    if lines is None:
        return f"{change.kind}, not kept"
    size = "binary" if lines.binary else _signed(lines.added, lines.removed)
    return size if change.kind == "modified" else f"{size}  {change.kind}"


def _signed(added: int, removed: int) -> str:
    return f"+{added} −{removed}"


_MOST = 40
SHORT_ID = 12
"""Characters of a snapshot's id that are shown and can be typed."""


def plan_text(workspace: str, moment: str, changes: Sequence[Change], *, columns: int | None = None) -> str:
    """Return what would be changed."""
    return Layout(columns).text([Fact("restore", f"{home_path(workspace)} {moment}", whole=True), *_changes(changes)])


def question(changes: Sequence[Change]) -> str:
    """Return the question before files are changed."""
    return f"Change {figures.count(len(changes), 'path')}? The state before is kept as a snapshot. [y/N]"


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
    return Layout(columns).text(facts)


def nothing_text(workspace: str, moment: str) -> str:
    """Return the text for a workspace that is as wanted."""
    return f"nothing to restore: {home_path(workspace)} is {moment}\n"


def _changes(changes: Sequence[Change]) -> list[Fact]:
    facts = [Fact(change.kind, change.path, whole=True) for change in changes[:_MOST]]
    more = len(changes) - _MOST
    return [*facts, Fact("", f"and {more:,} more")] if more > 0 else facts
