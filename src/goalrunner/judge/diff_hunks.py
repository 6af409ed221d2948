"""The changes in a diff by git, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from goalrunner.snapshots.paths import printable_path

_FILE = "diff --git "
# "@@ -1,3 +1,4 @@ def f"
_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_ABOUT_FILE = re.compile(
    r"(?:index |--- |\+\+\+ |new file mode |deleted file mode |old mode |new mode )"
)
_MODES = ("old mode ", "new mode ")
_CONTEXT = 3
"""Unchanged lines that are shown before and after a change."""
# Git writes "caf\303\251.py" for café.py.
_OCTAL = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
}


@dataclass(frozen=True)
class DiffHunk:
    """Lines of a diff that were changed together.

    A change without lines, such as that of a mode, is one as well. A hunk of git may
    hold several changes with a few unchanged lines between them; each of them is one
    here.
    """

    path: str
    header: str
    """`@@ -1,3 +1,4 @@ def f`, or the lines of git about the file."""
    text: str
    """With what git says about the file, and the unchanged lines around."""
    lines: tuple[str, ...] = ()
    """The removed and added lines."""

    @property
    def identity(self) -> str:
        """Identifies the change wherever it is in the file."""
        content = "\n".join((self.path, *(self.lines or (self.header,))))
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class _Reader:
    """The lines of a diff, and the next one that is read."""

    lines: list[str]
    position: int = 0

    def next_matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if self.position == len(self.lines):
            return None
        return pattern.match(self.lines[self.position])

    def take_while(self, pattern: re.Pattern[str]) -> list[str]:
        start = self.position
        while self.next_matches(pattern):
            self.position += 1
        return self.lines[start : self.position]


def hunks_of(diff: str) -> list[DiffHunk] | None:
    """Return the changes in a diff by git.

    None if it does not show every change line by line.
    """
    lines = diff.split("\n")
    if not lines[-1]:
        lines.pop()
    reader = _Reader(lines)
    hunks: list[DiffHunk] = []
    while reader.position < len(lines):
        hunks_of_file = _hunks_of_file(reader)
        if hunks_of_file is None:
            return None
        hunks += hunks_of_file
    return hunks


def _hunks_of_file(reader: _Reader) -> list[DiffHunk] | None:
    """Return the changes of the next file; None if its lines are not understood."""
    first_line = reader.lines[reader.position]
    if not first_line.startswith(_FILE):
        return None
    path = _path_of(first_line.removeprefix(_FILE))
    reader.position += 1
    about = reader.take_while(_ABOUT_FILE)
    modes = [line for line in about if line.startswith(_MODES)]
    # Blob ids mean nothing to a reader, and modes have a hunk of their own.
    names = [line for line in about if not line.startswith(("index ", *_MODES))]
    hunks: list[DiffHunk] = []
    if modes or not reader.next_matches(_RANGE):
        text = "\n".join([f"{_FILE}{path}", *about])
        hunks.append(DiffHunk(path, " · ".join(modes or about), text))
    while heading := reader.next_matches(_RANGE):
        body = _body_of_hunk(reader, heading)
        if body is None:
            return None
        hunks += _changes_of(path, names, heading, body)
    return hunks


def _body_of_hunk(reader: _Reader, heading: re.Match[str]) -> list[str] | None:
    """Return the lines of a hunk; None if it has other lines than its heading says."""
    # A number of lines that is left out is 1.
    old, new = int(heading[2] or 1), int(heading[4] or 1)
    start = position = reader.position + 1
    lines = reader.lines
    while old or new:
        sign = lines[position][:1] if position < len(lines) else "end"
        if sign not in (" ", "-", "+", "\\") or old < 0 or new < 0:
            return None
        old -= sign in (" ", "-")
        new -= sign in (" ", "+")
        position += 1
    # "\ No newline at end of file" is not counted.
    if position < len(lines) and lines[position].startswith("\\"):
        position += 1
    reader.position = position
    return lines[start:position]


def _changes_of(
    path: str, names: Sequence[str], heading: re.Match[str], body: Sequence[str]
) -> Iterator[DiffHunk]:
    """Yield the changes in one hunk of git, which unchanged lines separate."""
    blocks = _blocks(body)
    number_of_changes = sum(_is_changed(block[0]) for block in blocks)
    old, new = int(heading[1]), int(heading[3])
    for number, block in enumerate(blocks):
        if _is_changed(block[0]):
            header = heading[0]
            if number_of_changes > 1:
                header = f"@@ -{old} +{new} @@{heading[5]}"
            # The blocks before and after are unchanged.
            before = blocks[number - 1][-_CONTEXT:] if number else []
            after: list[str] = []
            if number + 1 < len(blocks):
                after = blocks[number + 1][:_CONTEXT]
            lines = (*names, header, *before, *block, *after)
            # Without "\ No newline at end of file".
            changed = tuple(filter(_is_changed, block))
            yield DiffHunk(path, header, "\n".join(lines), changed)
        for line in block:
            old += line[:1] in (" ", "-")
            new += line[:1] in (" ", "+")


def _blocks(body: Sequence[str]) -> list[list[str]]:
    """Return the changed and the unchanged lines of a hunk in turn."""
    blocks: list[list[str]] = []
    for line in body:
        # "\ No newline at end of file" is about the line before.
        belongs = line.startswith("\\")
        if blocks and (belongs or _is_changed(line) is _is_changed(blocks[-1][0])):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _is_changed(line: str) -> bool:
    return line.startswith(("-", "+"))


def _path_of(both: str) -> str:
    """Return the path in `a/PATH b/PATH`.

    Git quotes it if it has unusual characters.
    """
    # Both paths are the same, because renames are off.
    half = both[: (len(both) - 1) // 2]
    if not half.startswith('"'):
        return half.removeprefix("a/")

    def plain(escape: re.Match[bytes]) -> bytes:
        code = escape[1]
        return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)

    name = _OCTAL.sub(plain, half.strip('"').encode("utf-8", "surrogateescape"))
    return printable_path(name.removeprefix(b"a/"))
