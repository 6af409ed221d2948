"""Patches of a run: coloured for terminals, as JSON, and by file with figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from goalrunner.app.run_snapshots import RoundPatch
from goalrunner.core.observation import Change
from goalrunner.reports import figures
from goalrunner.reports.terminal_text import ELLIPSIS, lines_text, printable, table
from goalrunner.snapshots.paths import printable_path

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_HEADER = "diff --git "
# The colours that git itself uses.
_COLOURS = {"diff": "\x1b[1m", "@": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
_RESET = "\x1b[m"
# Characters of a line that a page shows.
_LONGEST = 300


def patch_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line of a patch with its kind.

    The kind is "+", "-" or " " in a hunk, "@" for its header, "diff" for a line of a
    file's header, and empty for a note.
    """
    # Lines of the hunk that are still to come, on each side.
    old_lines = new_lines = 0
    for line in text.split("\n")[:-1]:
        kind = line[:1]
        # "\ No newline at end of file" is no line of either side.
        if kind == "\\":
            yield "", line
        # Inside a hunk a line may look like a header.
        elif old_lines > 0 or new_lines > 0:
            old_lines -= kind != "+"
            new_lines -= kind != "-"
            yield kind, line
        elif hunk := _HUNK.match(line):
            old_count, new_count = hunk.groups()
            # git leaves out a count of one.
            old_lines = int(old_count or 1)
            new_lines = int(new_count or 1)
            yield "@", line
        else:
            yield "diff", line


@dataclass
class FileDiff:
    """One file of a patch.

    A line is its kind ("+", "-", " ", "@" for a hunk, empty for a note) and its text.
    """

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
    """Return the files of a patch, and the number of lines that are left out.

    The files have the first `most` lines of the patch; their figures count all lines.
    """
    files: list[FileDiff] = []
    number = 0
    for kind, line in patch_lines(text):
        if kind == "diff":
            if line.startswith(_HEADER):
                files.append(FileDiff(_path_of(line.removeprefix(_HEADER))))
            elif line.startswith("Binary files ") and files:
                files[-1].binary = True
            continue
        # A patch may begin with a hunk.
        if not files:
            files.append(FileDiff())
        file = files[-1]
        file.added += kind == "+"
        file.removed += kind == "-"
        number += 1
        if most is None or number <= most:
            file.lines.append((kind, _shown_code(kind, line)))
    left_out = 0 if most is None else max(number - most, 0)
    return files, left_out


def _shown_code(kind: str, line: str) -> str:
    """Return the text of a line without the sign of its kind, cut if it is long."""
    code = line if kind in ("@", "") else line[1:]
    code = printable(code.rstrip("\r").expandtabs(4))
    return code if len(code) <= _LONGEST else code[:_LONGEST] + ELLIPSIS


def _path_of(pair: str) -> str:
    """Return the path of a header's `a/x b/x`."""
    # There are no renames, so both halves are the same path.
    name = pair[: (len(pair) - 1) // 2]
    raw = name.encode(errors="surrogateescape")
    if name.startswith('"'):
        # git quotes special characters; bytes without an escape stay as they are.
        raw = raw[1:-1].decode("unicode_escape").encode("latin-1")
    return printable_path(raw.removeprefix(b"a/"))


def patch_text(patch: RoundPatch, *, colours: bool = False) -> str:
    """Return the patch for a terminal, without escape sequences of its files."""
    lines = []
    for kind, line in patch_lines(patch.text):
        text = printable(line.expandtabs())
        colour = _COLOURS.get(kind, "")
        if colours and colour:
            text = f"{colour}{text}{_RESET}"
        lines.append(text)
    return lines_text(lines)


def patch_value(run_id: str, patch: RoundPatch) -> dict[str, Any]:
    """Return a patch and its changes with their figures as a JSON value.

    The round is None for the patch of the whole run.
    """
    files = _files_by_path(patch)
    changes = []
    for change in patch.changes:
        file = files.get(change.path, FileDiff())
        sizes = {"added": file.added, "removed": file.removed, "binary": file.binary}
        changes.append({**change.model_dump(mode="json"), **sizes})
    # Bytes that are not UTF-8 cannot be written as JSON.
    text = patch.text.encode(errors="surrogateescape").decode(errors="replace")
    return {"run_id": run_id, "round": patch.round, "changes": changes, "patch": text}


def stat_text(patch: RoundPatch) -> str:
    """Return a line for each changed path, and one for all."""
    if not patch.changes:
        return ""
    files = _files_by_path(patch)
    rows = []
    total = FileDiff()
    for change in patch.changes:
        rows.append((change.path, _size(change, files.get(change.path))))
    for file in files.values():
        total.added += file.added
        total.removed += file.removed
    part = "the run" if patch.round is None else f"round {patch.round}"
    last_line = f"{figures.count(len(rows), 'path')} in {part}, {total.size}"
    return lines_text([*table(rows), last_line])


def _files_by_path(patch: RoundPatch) -> dict[str, FileDiff]:
    files, _ = files_of(patch.text)
    return {file.path: file for file in files}


def _size(change: Change, file: FileDiff | None) -> str:
    if change.kind == "repository":
        return "HEAD, refs or index of the repository"
    if file is None:
        return f"{change.kind}, not kept"
    return file.size if change.kind == "modified" else f"{file.size}  {change.kind}"
