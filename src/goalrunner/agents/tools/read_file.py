"""The tool `read_file`: lines of a file, or the entries of a directory. Owns reading; changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, WithJsonSchema

from goalrunner.agents.tools.paths import must_exist, read_regular, relative
from goalrunner.agents.tools.tool import Answer, Arguments, Scratch, Tool, ToolError

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
