"""The tool `edit_file`: one passage of a file replaced by another. Owns the match, which is exact, and its errors."""

from __future__ import annotations

import difflib
from pathlib import Path

from pydantic import Field

from goalrunner.agents.tools.diff import Diff, unified
from goalrunner.agents.tools.paths import file_mode, must_exist, read_regular, relative, replace
from goalrunner.agents.tools.text import to_crlf
from goalrunner.agents.tools.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError, preview

_LARGEST_FILE = 10_000_000
_MOST_LINES_COMPARED = 5_000
_LONGEST_QUOTED = 200


class EditFileArguments(Arguments):
    """What `edit_file` takes."""

    path: str = Field(description="Relative to the workspace, or absolute inside it.")
    old: str = Field(description="The passage to replace, word for word with its indentation. It must occur once.")
    new: str = Field(description="What stands there afterwards.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


class EditFileTool(Tool[EditFileArguments]):
    """Replaces an exact passage; the file's mode and line ends are kept."""

    name = "edit_file"
    arguments = EditFileArguments
    description = "Replace a passage of a text file in the workspace. The passage must match exactly and occur once."

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def path(self, arguments: EditFileArguments) -> str:
        """The file, whatever its name was spelled like."""
        return relative(self._workspace, arguments.path)

    def command(self, arguments: EditFileArguments) -> str:
        """The path as the model gave it."""
        return arguments.path

    def effect(self, arguments: EditFileArguments) -> Effect:
        """The file is written."""
        return Effect("write", self.command(arguments), preview(lambda: self._diff(*self._change(arguments)).text))

    async def run(self, arguments: EditFileArguments, scratch: Scratch) -> Answer:
        """Replace it; the answer is the difference."""
        path, before, after = self._change(arguments)
        replace(self._workspace, path, after.encode(), file_mode(path, arguments.path))
        diff = self._diff(path, before, after)
        return Answer((diff.summary,), diff.text.encode(), summary=diff.summary)

    def _change(self, arguments: EditFileArguments) -> tuple[Path, str, str]:
        """The file, its text, and what it would be. Raises ToolError and OSError where it cannot be done."""
        path = must_exist(self._workspace, arguments.path)
        before = _text(read_regular(path, _LARGEST_FILE), arguments.path)
        old, new = _passage(before, arguments)
        return path, before, before.replace(old, new)

    def _diff(self, path: Path, before: str, after: str) -> Diff:
        return unified(before, after, str(path.relative_to(self._workspace)))


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{name} is no UTF-8 text (byte {error.start}); use shell to change it") from error


def _passage(text: str, arguments: EditFileArguments) -> tuple[str, str]:
    """What to replace and by what, as they stand in the file. Raises ToolError unless the match is clear."""
    old, new, name = arguments.old, arguments.new, arguments.path
    if not old:
        raise ToolError('"old" is empty; to write a whole file use write_file')
    if old == new:
        raise ToolError('"old" and "new" are the same; nothing would change')
    if old not in text and to_crlf(old) in text:
        old, new = to_crlf(old), to_crlf(new)
    found = text.count(old)
    if not found:
        raise ToolError(f'"old" does not occur in {name}{_nearest(text, old)}; nothing was changed')
    if found > 1 and not arguments.replace_all:
        lines = ", ".join(str(number) for number in _line_numbers(text, old)[:10])
        more = ", ..." if found > 10 else ""
        raise ToolError(
            f'"old" occurs {found} times in {name} (lines {lines}{more}); give more of its surroundings, '
            "or set replace_all; nothing was changed"
        )
    return old, new


def _line_numbers(text: str, passage: str) -> list[int]:
    numbers, at = [], text.find(passage)
    while at >= 0:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(passage, at + len(passage)) if len(numbers) < 10 else -1
    return numbers


def _nearest(text: str, passage: str) -> str:
    """`; the nearest is line 12: ...`, or nothing where no line is alike."""
    wanted = next((line.strip() for line in passage.split("\n") if line.strip()), "")[:_LONGEST_QUOTED]
    lines = [line.strip()[:_LONGEST_QUOTED] for line in text.split("\n")[:_MOST_LINES_COMPARED]]
    near = [wanted] if wanted in lines else difflib.get_close_matches(wanted, lines, n=1, cutoff=0.6)
    if not wanted or not near:
        return ""
    at = lines.index(near[0])
    return f"; the nearest is line {at + 1}: {text.split(chr(10))[at][:_LONGEST_QUOTED]!r}"
