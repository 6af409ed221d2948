"""The tools `read_file`, `write_file` and `edit_file` of the built-in agent."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from goalrunner.agents.text_diff import Diff, unified
from goalrunner.agents.tool import FilePlace, Scratch, Tool, ToolError, ToolOutput

# Bytes of a file that the tools read.
_LARGEST = 10_000_000
# Lines that one call reads.
_MOST_LINES = 2_000
# Bytes that are searched for a NUL, which no text contains.
_PROBE = 8_000


def inside(root: Path, text: str, *, exists: bool = False) -> Path:
    """Return the real path of `text`.

    `text` is relative to the workspace `root`, or an absolute path inside it. Raise
    ToolError if the real path is outside of the workspace, or if it must exist and does
    not.
    """
    if not text.strip() or "\0" in text:
        raise ToolError(
            "the path is empty or contains a NUL character; "
            "give one relative to the workspace"
        )
    # Links are resolved, so that none leads out of the workspace.
    real = Path(os.path.realpath(root / text))
    if not real.is_relative_to(root):
        raise ToolError(
            f"{text} is outside the workspace {root}; "
            "the file tools work only inside it"
        )
    if exists and not real.exists():
        raise ToolError(f"{text} does not exist in the workspace")
    return real


def read_regular(path: Path) -> bytes:
    """Return the content of a file.

    Raise ToolError if it is too large or not a regular file, and OSError.
    """
    # A named pipe would block without O_NONBLOCK.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{path.name} is not a regular file")
        if status.st_size > _LARGEST:
            raise ToolError(
                f"{path.name} is too large for this tool "
                f"(at most {_LARGEST:,} bytes); use shell"
            )
        return file.read()


def file_mode(path: Path) -> int | None:
    """Return the permission bits of a file, or None if there is none.

    Raise ToolError if it cannot be written.
    """
    if not path.exists():
        return None
    if not path.is_file():
        raise ToolError(f"{path.name} is not a regular file")
    if not os.access(path, os.W_OK):
        raise ToolError(f"{path.name} is not writable")
    return stat.S_IMODE(path.stat().st_mode)


def replace(path: Path, data: bytes, mode: int | None) -> None:
    """Write `data` to `path` as a whole or not at all, with its parents.

    `mode` None is that of the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".goal-{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            # A script stays executable.
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        # A reader sees the old file or the new one, never a part.
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class FileTool(Tool):
    """A tool for one file of the workspace."""

    path: str = Field(description="Relative to the workspace, or absolute inside it.")

    def file(self, place: FilePlace) -> str:
        path = inside(place.workspace, self.path)
        name = path.relative_to(place.workspace).as_posix()
        if path == place.secret:
            raise ToolError(
                f"{name} is the goal file, which is not readable in this run"
            )
        return name


class ReadFile(FileTool):
    """Reads lines without line numbers, so that quotations match word for word."""

    name = "read_file"
    writes = False
    description = (
        "Read lines of a text file in the workspace, as they stand. "
        "For a directory: its entries."
    )
    offset: int = Field(default=1, ge=1, description="First line, from 1.")
    limit: int = Field(default=_MOST_LINES, ge=1, description="Number of lines.")

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        path = inside(place.workspace, self.path, exists=True)
        if path.is_dir():
            return _listing(path)
        data = read_regular(path)
        if b"\0" in data[:_PROBE]:
            return ToolOutput(
                ("binary", f"{len(data):,} bytes"), b"binary file\n", "binary"
            )
        if not data:
            return ToolOutput(("empty",), b"", "empty")
        lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
        offset, total = self.offset, len(lines)
        fact = "1 line" if total == 1 else f"{total} lines"
        if offset > total:
            raise ToolError(f"{self.path} has {fact}; line {offset} is past its end")
        last = min(offset - 1 + self.limit, total)
        if last - offset + 1 < total:
            fact = f"lines {offset}-{last} of {total}"
        return ToolOutput((fact,), b"".join(lines[offset - 1 : last]), fact)


def _listing(folder: Path) -> ToolOutput:
    """Return the entries of a folder, one in a line."""
    names = []
    for entry in folder.iterdir():
        names.append(f"{entry.name}/\n" if entry.is_dir() else f"{entry.name}\n")
    names.sort()
    count = "1 entry" if len(names) == 1 else f"{len(names)} entries"
    # File names may be no valid UTF-8.
    text = "".join(names).encode(errors="surrogateescape")
    return ToolOutput(("directory", count), text, count)


class FileEdit(NamedTuple):
    """The new content of a file, with the facts and the diff to report.

    `mode` is None for a new file.
    """

    path: Path
    mode: int | None
    data: bytes
    facts: tuple[str, ...]
    diff: Diff


class ChangingTool(FileTool):
    """A tool that writes a whole file or nothing."""

    kind = "write"

    def change(self, root: Path) -> FileEdit:
        """Return what would be written.

        Raise ToolError or OSError if that is not possible.
        """
        raise NotImplementedError

    def preview(self, place: FilePlace) -> str:
        try:
            return self.change(place.workspace).diff.text
        except (ToolError, OSError) as error:
            return f"not possible in the present state: {error}\n"

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        change = self.change(place.workspace)
        replace(change.path, change.data, change.mode)
        return ToolOutput(change.facts, change.diff.text.encode(), change.diff.summary)


class WriteFile(ChangingTool):
    """Writes a whole file and its folders.

    The mode and the CRLF line ends of an old file stay.
    """

    name = "write_file"
    description = (
        "Create a text file in the workspace or replace it whole. "
        "Missing folders are made."
    )
    content: str = Field(description="The whole new content.")

    def change(self, root: Path) -> FileEdit:
        path = inside(root, self.path)
        mode = file_mode(path)
        content = self.content
        done = "created" if mode is None else "overwritten"
        try:
            old = b"" if mode is None else read_regular(path)
            # A file with CRLF at every line end is one of Windows.
            if 0 < old.count(b"\n") == old.count(b"\r\n"):
                content = _crlf(content)
            name = str(path.relative_to(root))
            diff = unified(old.decode(), content, name, created=mode is None)
        except (ToolError, UnicodeDecodeError):
            # The old content is too large to compare, or not text.
            diff = Diff(f"{done} {self.path}\n", done)
        data = content.encode()
        return FileEdit(path, mode, data, (done, f"{len(data):,} bytes"), diff)


class EditFile(ChangingTool):
    """Replaces an exact passage; the file's mode and line ends stay."""

    name = "edit_file"
    description = (
        "Replace a passage of a text file in the workspace. "
        "The passage must match exactly and occur once."
    )
    old: str = Field(
        description=(
            "The passage to replace, word for word with its indentation. "
            "It must occur once."
        )
    )
    new: str = Field(description="What stands there afterwards.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")

    def change(self, root: Path) -> FileEdit:
        path = inside(root, self.path, exists=True)
        try:
            before = read_regular(path).decode()
        except UnicodeDecodeError as error:
            raise ToolError(
                f"{self.path} is not UTF-8 text (byte {error.start}); "
                "use shell to change it"
            ) from error
        old, new = self.old, self.new
        if not old:
            raise ToolError('"old" is empty; to write a whole file use write_file')
        if old == new:
            raise ToolError('"old" and "new" are the same; nothing would change')
        # Models write line ends as \n, whatever the file has.
        if old not in before and _crlf(old) in before:
            old, new = _crlf(old), _crlf(new)
        count = before.count(old)
        if not count:
            raise ToolError(f'"old" does not occur in {self.path}; nothing was changed')
        # A change in the wrong place is worse than a second call.
        if count > 1 and not self.replace_all:
            raise ToolError(
                f'"old" occurs {count} times in {self.path}; give more of its '
                "surroundings, or set replace_all; nothing was changed"
            )
        after = before.replace(old, new)
        diff = unified(before, after, str(path.relative_to(root)))
        return FileEdit(path, file_mode(path), after.encode(), (diff.summary,), diff)


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
