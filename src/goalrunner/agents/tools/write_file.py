"""The tool `write_file`: a whole file, new or in place of the old. Owns that write and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from goalrunner.agents.tools.diff import Diff, unified
from goalrunner.agents.tools.paths import file_mode, inside, read_regular, relative, replace
from goalrunner.agents.tools.text import with_ends_of
from goalrunner.agents.tools.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError, preview

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
