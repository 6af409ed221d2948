"""The tool `write_file`: a whole file, new or in place of the old. Owns that write and what is said of it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from goalrunner.agents.tools.diff import unified
from goalrunner.agents.tools.paths import file_mode, inside, read_regular, relative, replace
from goalrunner.agents.tools.text import with_ends_of
from goalrunner.agents.tools.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError

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
        return Effect("write", self.command(arguments))

    async def run(self, arguments: WriteFileArguments, scratch: Scratch) -> Answer:
        """Write it; the answer is the difference to what was there."""
        path = inside(self._workspace, arguments.path)
        mode = file_mode(path, arguments.path)
        old = b"" if mode is None else _old_content(path)
        content = arguments.content if old is None else with_ends_of(old, arguments.content)
        data = content.encode()
        replace(self._workspace, path, data, mode)
        done = "created" if mode is None else "overwritten"
        facts = (done, f"{len(data):,} bytes")
        before = None if old is None else _decoded(old)
        if before is None:
            return Answer(facts, f"{done} {arguments.path}, {len(data):,} bytes\n".encode(), summary=done)
        name = str(path.relative_to(self._workspace))
        diff = unified(before, content, name, created=mode is None)
        return Answer(facts, diff.text.encode(), summary=diff.summary)


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
