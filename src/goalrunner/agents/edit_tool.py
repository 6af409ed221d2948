"""The tool `edit_file`, and the diff that it shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from goalrunner.agents.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError, preview
from goalrunner.agents.tool_paths import file_mode, must_exist, read_regular, relative, replace, to_crlf

_CONTEXT = 3
_MOST_LINES = 2_000
"""Of what lies between the shared ends, old and new together; more is shown as one replacement."""
_Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Diff:
    """A unified diff and how many lines it adds and removes."""

    text: str
    added: int
    removed: int

    @property
    def summary(self) -> str:
        """`+4 −1`, for people."""
        return f"+{self.added} −{self.removed}"


def unified(old: str, new: str, path: str, *, created: bool = False) -> Diff:
    """The change from `old` to `new`, with three lines of context. A text that grows large is compared in one piece."""
    before, after = _lines(old), _lines(new)
    added = removed = 0
    rendered = [f"--- {'/dev/null' if created else path}\n", f"+++ {path}\n"]
    for group in _groups(_opcodes(before, after)):
        rendered.append(_range(group))
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                rendered += [_line(" ", line) for line in before[old_start:old_end]]
                continue
            rendered += [_line("-", line) for line in before[old_start:old_end]]
            rendered += [_line("+", line) for line in after[new_start:new_end]]
            removed += old_end - old_start
            added += new_end - new_start
    return Diff("".join(rendered), added, removed)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only \\n ends one, so that no other separator is lost or made."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _opcodes(before: Sequence[str], after: Sequence[str]) -> list[_Opcode]:
    """difflib's opcodes, with what both ends share cut off first, because its cost grows with the square."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
    middle_old, middle_new = before[head : len(before) - tail], after[head : len(after) - tail]
    inner: list[_Opcode]
    if len(middle_old) + len(middle_new) > _MOST_LINES or not middle_old or not middle_new:
        changed = bool(middle_old or middle_new)
        inner = [("replace", 0, len(middle_old), 0, len(middle_new))] if changed else []
    else:
        inner = [*difflib.SequenceMatcher(None, middle_old, middle_new).get_opcodes()]
    shifted = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in inner]
    old_end, new_end = len(before) - tail, len(after) - tail
    return [("equal", 0, head, 0, head), *shifted, ("equal", old_end, len(before), new_end, len(after))]


def _groups(opcodes: list[_Opcode]) -> list[list[_Opcode]]:
    """Hunks: changes with their context, apart where more than twice the context lies between."""
    groups: list[list[_Opcode]] = []
    group: list[_Opcode] = []
    if all(tag == "equal" for tag, *_ in opcodes):
        return []
    for position, (tag, a, b, c, d) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        first, last = position == 0, position == len(opcodes) - 1
        if not last and not first and b - a <= 2 * _CONTEXT:
            group.append((tag, a, b, c, d))
            continue
        if not first and group:
            kept = min(_CONTEXT, b - a)
            groups.append([*group, ("equal", a, a + kept, c, c + kept)])
        kept = min(_CONTEXT, b - a)
        group = [] if last else [("equal", b - kept, b, d - kept, d)]
    return groups


def _range(group: list[_Opcode]) -> str:
    return f"@@ -{_span(group[0][1], group[-1][2])} +{_span(group[0][3], group[-1][4])} @@\n"


def _span(start: int, end: int) -> str:
    """As diff writes it: an empty range is named by the line before it, a single line without its length."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


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
