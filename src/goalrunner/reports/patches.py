"""Patches of a run: for terminals, as JSON, with figures, and as files with lines; and what `goal restore` does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalrunner.app.run_snapshots import RoundPatch
from goalrunner.core.observation import Change, Snapshot
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact
from goalrunner.reports.short_forms import (
    SHORT_ID,
    home_path,
)
from goalrunner.reports.terminal_text import (
    ELLIPSIS,
    lines_text,
    printable,
    table,
)
from goalrunner.snapshots.paths import printable_path

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_HEADER = "diff --git "
_COLOURS = {"diff": "\x1b[1m", "@": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
_LONGEST = 300
"""Characters of a line that a page shows."""
_MOST = 40
"""Paths that `goal restore` lists."""


def patch_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its kind: "+", "-" or " " in a hunk, "@" for its header, "diff" for a file's header, else empty."""
    old = new = 0
    for line in text.split("\n")[:-1]:
        kind = line[:1]
        if kind == "\\":  # "\ No newline at end of file"
            yield "", line
        elif old > 0 or new > 0:  # inside a hunk a line may look like anything
            old -= kind != "+"
            new -= kind != "-"
            yield kind, line
        elif hunk := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            yield "@", line
        else:
            yield "diff", line


@dataclass
class FileDiff:
    """One file of a patch. A line is its kind ("+", "-", " ", "@" for a hunk, empty for a note) and its text."""

    path: str = ""
    added: int = 0
    removed: int = 0
    binary: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def size(self) -> str:
        """How many lines were added and removed."""
        return "binary" if self.binary else f"+{self.added} −{self.removed}"


def files_of(text: str, most: int | None = None) -> tuple[list[FileDiff], int]:
    """Return the files of a patch with its first `most` lines, and the number of lines that are left out."""
    found: list[FileDiff] = []
    number = 0
    for kind, line in patch_lines(text):
        if kind == "diff":
            if line.startswith(_HEADER):
                found.append(FileDiff(_path_of(line.removeprefix(_HEADER))))
            elif line.startswith("Binary files ") and found:
                found[-1].binary = True
            continue
        found = found or [FileDiff()]
        found[-1].added += kind == "+"
        found[-1].removed += kind == "-"
        number += 1
        if most is None or number <= most:
            code = printable(
                (line if kind in ("@", "") else line[1:]).rstrip("\r").expandtabs(4)
            )
            found[-1].lines.append(
                (kind, code if len(code) <= _LONGEST else code[:_LONGEST] + ELLIPSIS)
            )
    return found, max(number - most, 0) if most is not None else 0


def _path_of(pair: str) -> str:
    """Return the path of a header's `a/x b/x`: there are no renames, so both halves are the same path."""
    name = pair[: (len(pair) - 1) // 2]
    raw = name.encode(errors="surrogateescape")
    if name.startswith('"'):
        raw = (
            raw[1:-1].decode("unicode_escape").encode("latin-1")
        )  # bytes without an escape stay as they are
    return printable_path(raw.removeprefix(b"a/"))


def patch_text(patch: RoundPatch, *, colours: bool = False) -> str:
    """Return the patch for a terminal, without the escape sequences that files contain."""
    lines = []
    for kind, line in patch_lines(patch.text):
        text, colour = (
            printable(line.expandtabs()),
            _COLOURS.get(kind, "") if colours else "",
        )
        lines.append(f"{colour}{text}\x1b[m\n" if colour else f"{text}\n")
    return "".join(lines)


def patch_value(run_id: str, patch: RoundPatch) -> dict[str, Any]:
    """Return run, round (None: the whole run), changes with their figures, and the patch as a JSON value."""
    counted = {file.path: file for file in files_of(patch.text)[0]}
    changes = []
    for change in patch.changes:
        file = counted.get(change.path, FileDiff())
        sizes = {"added": file.added, "removed": file.removed, "binary": file.binary}
        changes.append({**change.model_dump(mode="json"), **sizes})
    text = patch.text.encode(errors="surrogateescape").decode(errors="replace")
    return {"run_id": run_id, "round": patch.round, "changes": changes, "patch": text}


def stat_text(patch: RoundPatch) -> str:
    """Return a line for each path, and one for all."""
    if not patch.changes:
        return ""
    counted = {file.path: file for file in files_of(patch.text)[0]}
    rows = [
        (change.path, _size(change, counted.get(change.path)))
        for change in patch.changes
    ]
    total = FileDiff(
        "",
        sum(one.added for one in counted.values()),
        sum(one.removed for one in counted.values()),
    )
    part = "the run" if patch.round is None else f"round {patch.round}"
    return lines_text(
        [*table(rows), f"{figures.count(len(rows), 'path')} in {part}, {total.size}"]
    )


def _size(change: Change, file: FileDiff | None) -> str:
    if change.kind == "repository":
        return "HEAD, refs or index of the repository"
    if file is None:
        return f"{change.kind}, not kept"
    return file.size if change.kind == "modified" else f"{file.size}  {change.kind}"


def plan_lines(
    label: str, workspace: str, moment: str, changes: Sequence[Change]
) -> Iterator[Fact]:
    """Yield the changes of `goal restore`."""
    yield Fact(label, f"{home_path(workspace)} {moment}", whole=True)
    yield from (
        Fact(change.kind, change.path, whole=True) for change in changes[:_MOST]
    )
    if len(changes) > _MOST:
        yield Fact("", f"and {len(changes) - _MOST:,} more")


def done_lines(
    run_id: str,
    workspace: str,
    moment: str,
    changes: Sequence[Change],
    before: Snapshot,
) -> Iterator[Fact]:
    """Yield the changes that were made, and the command that undoes them."""
    yield from plan_lines("restored", workspace, moment, changes)
    yield Fact(
        "before", f"kept as snapshot {before.id[:SHORT_ID]}; to undo the restore:"
    )
    yield Fact(
        "", f"goal restore {run_id} --snapshot {before.id[:SHORT_ID]}", whole=True
    )
