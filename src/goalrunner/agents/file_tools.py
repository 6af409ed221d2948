"""The tools `read_file` and `write_file`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, WithJsonSchema

from goalrunner.agents.edit_tool import Diff, unified
from goalrunner.agents.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError, preview
from goalrunner.agents.tool_paths import file_mode, inside, must_exist, read_regular, relative, replace, with_ends_of

LARGEST_FILE = 50_000_000
"""Bytes; what is larger is read with `shell`."""
_MOST_LINES = 2_000
_MOST_ENTRIES = 1_000
_PROBE = 8_000


class ReadFileArguments(Arguments):
    """What `read_file` takes."""

    path: str = Field(description="Relative to the workspace, or absolute inside it.")
    offset: Annotated[
        Annotated[int, Field(ge=1)] | None,
        WithJsonSchema({"type": "integer", "description": "First line, from 1. Default: 1."}),
    ] = None
    limit: Annotated[
        Annotated[int, Field(ge=1)] | None,
        WithJsonSchema({"type": "integer", "description": f"Number of lines. Default: {_MOST_LINES}."}),
    ] = None


class ReadFileTool(Tool[ReadFileArguments]):
    """Reads lines as they stand, without line numbers, so that what is quoted from them is there word for word."""

    name = "read_file"
    arguments = ReadFileArguments
    writes = False
    description = "Read lines of a text file in the workspace, as they stand. For a directory: its entries."

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def path(self, arguments: ReadFileArguments) -> str:
        """The file, whatever its name was spelled like."""
        return relative(self._workspace, arguments.path)

    def command(self, arguments: ReadFileArguments) -> str:
        """The path as the model gave it."""
        return arguments.path

    async def run(self, arguments: ReadFileArguments, scratch: Scratch) -> Answer:
        """Read the lines that were asked for."""
        path = must_exist(self._workspace, arguments.path)
        if path.is_dir():
            return _entries(path)
        data = read_regular(path, LARGEST_FILE)
        if b"\0" in data[:_PROBE]:
            text = f"binary file, {len(data):,} bytes; it begins with {data[:16].hex(' ')}\n"
            return Answer(("binary", f"{len(data):,} bytes"), text.encode(), summary="binary")
        return _part(data, arguments.path, arguments.offset or 1, arguments.limit or _MOST_LINES)


def _part(data: bytes, name: str, offset: int, limit: int) -> Answer:
    if not data:
        return Answer(("empty",), b"", summary="empty")
    lines = data.split(b"\n")
    total = len(lines) - data.endswith(b"\n")
    if offset > total:
        raise ToolError(f"{name} has {_lines(total)}; line {offset} is past its end")
    last = min(offset - 1 + limit, total)
    part = b"\n".join(lines[offset - 1 : last])
    if last < total or data.endswith(b"\n"):
        part += b"\n"
    fact = _lines(total) if last - offset + 1 == total else f"lines {offset}-{last} of {total}"
    return Answer((fact,), part, summary=fact)


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _entries(path: Path) -> Answer:
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in path.iterdir())
    listed = [*names[:_MOST_ENTRIES]]
    if len(names) > _MOST_ENTRIES:
        listed.append(f"[... {len(names) - _MOST_ENTRIES:,} entries omitted ...]")
    count = "1 entry" if len(names) == 1 else f"{len(names)} entries"
    text = "".join(f"{name}\n" for name in listed)
    return Answer(("directory", count), text.encode(errors="surrogateescape"), summary=count)


_LARGEST_COMPARED = 5_000_000


class WriteFileArguments(Arguments):
    """What `write_file` takes."""

    path: str = Field(description="Relative to the workspace, or absolute inside it.")
    content: str = Field(description="The whole new content.")


class WriteFileTool(Tool[WriteFileArguments]):
    """Writes a file whole or not at all; folders are made, the mode and CRLF line ends of an old file are kept."""

    name = "write_file"
    arguments = WriteFileArguments
    description = "Create a text file in the workspace or replace it whole. Missing folders are made."

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def path(self, arguments: WriteFileArguments) -> str:
        """The file, whatever its name was spelled like."""
        return relative(self._workspace, arguments.path)

    def command(self, arguments: WriteFileArguments) -> str:
        """The path as the model gave it."""
        return arguments.path

    def effect(self, arguments: WriteFileArguments) -> Effect:
        """The file is written."""
        return Effect("write", self.command(arguments), preview(lambda: self._change(arguments).said))

    async def run(self, arguments: WriteFileArguments, scratch: Scratch) -> Answer:
        """Write it; the answer is the difference to what was there."""
        change = self._change(arguments)
        replace(self._workspace, change.path, change.data, change.mode)
        facts = (change.done, f"{len(change.data):,} bytes")
        return Answer(facts, change.said.encode(), summary=change.diff.summary if change.diff else change.done)

    def _change(self, arguments: WriteFileArguments) -> _Change:
        """What would be written, and what it changes. Raises ToolError and OSError where it cannot be."""
        path = inside(self._workspace, arguments.path)
        mode = file_mode(path, arguments.path)
        old = b"" if mode is None else _old_content(path)
        content = arguments.content if old is None else with_ends_of(old, arguments.content)
        before = None if old is None else _decoded(old)
        name = str(path.relative_to(self._workspace))
        diff = None if before is None else unified(before, content, name, created=mode is None)
        return _Change(arguments.path, path, mode, content.encode(), diff)


@dataclass(frozen=True)
class _Change:
    """One write; `diff` is None where there is no text to compare with."""

    name: str
    path: Path
    mode: int | None
    data: bytes
    diff: Diff | None

    @property
    def done(self) -> str:
        return "created" if self.mode is None else "overwritten"

    @property
    def said(self) -> str:
        return self.diff.text if self.diff else f"{self.done} {self.name}, {len(self.data):,} bytes\n"


def _old_content(path: Path) -> bytes | None:
    """What is there now, or None where it is too large to be compared."""
    try:
        return read_regular(path, _LARGEST_COMPARED)
    except ToolError:
        return None


def _decoded(data: bytes) -> str | None:
    """The text, or None where it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
