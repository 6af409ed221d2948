"""The tools `read_file`, `write_file` and `edit_file`, access to files of the workspace, and diffs."""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import eq
from pathlib import Path
from typing import Annotated

from pydantic import Field, WithJsonSchema

from goalrunner.agents.tool import Effect, Place, Scratch, Tool, ToolError, ToolOutput

_LARGEST_READ, _LARGEST_COMPARED, _LARGEST_EDITED = 50_000_000, 5_000_000, 10_000_000  # bytes
_MOST_LINES, _MOST_NAMED, _PROBE, _CONTEXT, _MOST_COMPARED = 2_000, 10, 8_000, 3, 2_000
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC


def inside(root: Path, text: str, *, exists: bool = False) -> Path:
    """Return the real path of what a model named, relative to the workspace `root` or absolute inside it.

    Raise ToolError if it is outside, by `..`, as an absolute path, or through a symbolic link, or if it must exist and
    does not.
    """
    if not text.strip() or "\0" in text:
        raise ToolError("the path is empty or contains a NUL character; give one relative to the workspace")
    named = root / text
    real = Path(os.path.realpath(named))
    if not real.is_relative_to(root):
        lexical = Path(os.path.normpath(named))
        way = "follows a symbolic link to" if lexical.is_relative_to(root) else "leads to"
        said = f"{text} {way} {real}, outside the workspace {root}; the file tools work only inside it"
        raise ToolError(said, "outside the workspace")
    if exists and not real.exists():
        raise ToolError(f"{text} does not exist in the workspace", "does not exist")
    return real


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raise ToolError for a pipe or device, and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path.name} is not a regular file")
        if found.st_size > limit:
            raise ToolError(f"{path.name} is too large for this tool (at most {limit:,} bytes); use shell")
        return file.read()


def file_mode(path: Path, text: str) -> int | None:
    """Return the permission bits of a file, or None if there is none. Raise ToolError if it cannot be written."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise ToolError(f"{text} is a directory", "is a directory")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{text} is not a regular file", "is not a regular file")
    if not os.access(path, os.W_OK):
        raise ToolError(f"{text} is not writable", "is not writable")
    return stat.S_IMODE(mode)


def replace(path: Path, data: bytes, mode: int | None) -> None:
    """Write `data` to `path` as a whole or not at all, with parents and the given mode (None: that of the umask)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".goal-{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Diff:
    """A unified diff and how many lines it adds and removes."""

    text: str
    added: int = 0
    removed: int = 0

    @property
    def summary(self) -> str:
        """Return `+4 −1`."""
        return f"+{self.added} −{self.removed}"


def unified(old: str, new: str, path: str, *, created: bool = False) -> Diff:
    """Return the change from `old` to `new`, with three lines of context. Only \\n ends a line."""
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    # The cost of a comparison is quadratic: the common beginning and end, and more lines than a limit, are not compared.
    head = _in_common(before, after)
    tail = _in_common(before[head:][::-1], after[head:][::-1])
    skipped, left_out = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    before, after = (lines[skipped : len(lines) - left_out] for lines in (before, after))
    rendered = [f"--- {'/dev/null' if created else path}\n", f"+++ {path}\n"]
    added = removed = 0
    if len(before) + len(after) > _MOST_COMPARED:
        head, old_end, new_end = head - skipped, len(before) - tail + left_out, len(after) - tail + left_out
        whole = ("equal", 0, head, 0, head), ("replace", head, old_end, head, new_end)
        groups = [[*whole, ("equal", old_end, len(before), new_end, len(after))]]
    else:
        groups = list(SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT))
    for group in groups if old != new else ():
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        spans = _span(skipped + old_start, skipped + old_end), _span(skipped + new_start, skipped + new_end)
        rendered.append(f"@@ -{spans[0]} +{spans[1]} @@\n")
        for tag, old_start, old_end, new_start, new_end in group:
            old_lines, new_lines = before[old_start:old_end], after[new_start:new_end]
            if tag == "equal":
                rendered += [_line(" ", line) for line in old_lines]
                continue
            rendered += [*(_line("-", line) for line in old_lines), *(_line("+", line) for line in new_lines)]
            removed += len(old_lines)
            added += len(new_lines)
    return Diff("".join(rendered), added, removed)


def _in_common(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning are the same."""
    return next((at for at, same in enumerate(map(eq, one, other)) if not same), min(len(one), len(other)))


def _span(start: int, end: int) -> str:
    """Return a range as diff writes it: an empty one by the line before it, a single line without its length."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


class FileTool(Tool):
    """A tool for one file of the workspace."""

    path: str = Field(description="Relative to the workspace, or absolute inside it.")

    def file(self, place: Place) -> str:
        path = inside(place.workspace, self.path)
        name = path.relative_to(place.workspace).as_posix()
        if path == place.secret:
            raise ToolError(f"{name} is the goal file, which is not readable in this run", "not readable")
        return name


class ReadFile(FileTool):
    """Reads lines without line numbers, so that quotations match word for word."""

    name = "read_file"
    writes = False
    description = "Read lines of a text file in the workspace, as they stand. For a directory: its entries."
    offset: Annotated[
        Annotated[int, Field(ge=1)] | None,
        WithJsonSchema({"type": "integer", "description": "First line, from 1. Default: 1."}),
    ] = None
    limit: Annotated[
        Annotated[int, Field(ge=1)] | None,
        WithJsonSchema({"type": "integer", "description": f"Number of lines. Default: {_MOST_LINES}."}),
    ] = None

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        path = inside(place.workspace, self.path, exists=True)
        if path.is_dir():
            return _entries(path)
        data = read_regular(path, _LARGEST_READ)
        if b"\0" in data[:_PROBE]:
            text = f"binary file, {len(data):,} bytes; it begins with {data[:16].hex(' ')}\n"
            return ToolOutput(("binary", f"{len(data):,} bytes"), text.encode(), "binary")
        if not data:
            return ToolOutput(("empty",), b"", "empty")
        lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
        offset, total = self.offset or 1, len(lines)
        fact = "1 line" if total == 1 else f"{total} lines"
        if offset > total:
            raise ToolError(f"{self.path} has {fact}; line {offset} is past its end")
        last = min(offset - 1 + (self.limit or _MOST_LINES), total)
        if last - offset + 1 < total:
            fact = f"lines {offset}-{last} of {total}"
        return ToolOutput((fact,), b"".join(lines[offset - 1 : last]), fact)


def _entries(path: Path) -> ToolOutput:
    names = sorted(f"{entry.name}/\n" if entry.is_dir() else f"{entry.name}\n" for entry in path.iterdir())
    count = "1 entry" if len(names) == 1 else f"{len(names)} entries"
    return ToolOutput(("directory", count), "".join(names).encode(errors="surrogateescape"), count)


@dataclass(frozen=True)
class Change:
    """A file as it would be written, and what is reported of it. `mode` is None for a new file."""

    path: Path
    mode: int | None
    data: bytes
    facts: tuple[str, ...]
    summary: str
    text: str


class ChangingTool(FileTool):
    """A tool that replaces a file as a whole or not at all."""

    def change(self, root: Path) -> Change:
        """Return what would be written. Raise ToolError or OSError if that is not possible."""
        raise NotImplementedError

    def effect(self, place: Place) -> Effect:
        try:
            preview = self.change(place.workspace).text
        except (ToolError, OSError) as error:
            preview = f"not possible in the present state: {error}\n"
        return Effect("write", self.path, preview)

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        change = self.change(place.workspace)
        replace(change.path, change.data, change.mode)
        return ToolOutput(change.facts, change.text.encode(), change.summary)


class WriteFile(ChangingTool):
    """Writes a whole file and its folders. The mode and the CRLF line ends of an old file are kept."""

    name = "write_file"
    description = "Create a text file in the workspace or replace it whole. Missing folders are made."
    content: str = Field(description="The whole new content.")

    def change(self, root: Path) -> Change:
        path = inside(root, self.path)
        mode = file_mode(path, self.path)
        content, diff = self.content, None
        try:
            old = b"" if mode is None else read_regular(path, _LARGEST_COMPARED)
            if 0 < old.count(b"\n") == old.count(b"\r\n"):
                content = _crlf(content)
            diff = unified(old.decode(), content, str(path.relative_to(root)), created=mode is None)
        except (ToolError, UnicodeDecodeError):
            pass  # too large to compare, or no text
        data = content.encode()
        done, size = "created" if mode is None else "overwritten", f"{len(data):,} bytes"
        text = diff.text if diff else f"{done} {self.path}, {size}\n"
        return Change(path, mode, data, (done, size), diff.summary if diff else done, text)


class EditFile(ChangingTool):
    """Replaces an exact passage; the file's mode and line ends are kept."""

    name = "edit_file"
    description = "Replace a passage of a text file in the workspace. The passage must match exactly and occur once."
    old: str = Field(description="The passage to replace, word for word with its indentation. It must occur once.")
    new: str = Field(description="What stands there afterwards.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")

    def change(self, root: Path) -> Change:
        path = inside(root, self.path, exists=True)
        try:
            before = read_regular(path, _LARGEST_EDITED).decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{self.path} is not UTF-8 text (byte {error.start}); use shell to change it") from error
        after = before.replace(*self._passage(before))
        diff = unified(before, after, str(path.relative_to(root)))
        return Change(path, file_mode(path, self.path), after.encode(), (diff.summary,), diff.summary, diff.text)

    def _passage(self, text: str) -> tuple[str, str]:
        """Return what to replace and by what, with the line ends of the file. Raise ToolError unless the match is clear."""
        old, new = self.old, self.new
        if not old:
            raise ToolError('"old" is empty; to write a whole file use write_file')
        if old == new:
            raise ToolError('"old" and "new" are the same; nothing would change')
        if old not in text and _crlf(old) in text:
            old, new = _crlf(old), _crlf(new)
        places = [match.start() for match in re.finditer(re.escape(old), text)]
        if not places:
            raise ToolError(f'"old" does not occur in {self.path}; nothing was changed')
        if len(places) > 1 and not self.replace_all:
            lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:_MOST_NAMED])
            more = ", ..." if len(places) > _MOST_NAMED else ""
            raise ToolError(
                f'"old" occurs {len(places)} times in {self.path} (lines {lines}{more}); give more of its surroundings, '
                "or set replace_all; nothing was changed"
            )
        return old, new


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
