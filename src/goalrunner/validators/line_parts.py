"""A command line is split at its top-level `&&`: its parts count as validators of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalrunner.core.shell_lines import Command, UnreadableError, read_line
from goalrunner.core.tools import Runner
from goalrunner.validators.runners import Call, calls

_PREPARING = frozenset({"cd", "export", "source", ".", "set"})
"""Commands after which `&&` begins no new part."""


@dataclass(frozen=True)
class LinePart:
    """One part of a line, as it is written."""

    text: str
    calls: tuple[Call, ...]
    """The test runners that it calls directly."""

    @property
    def runner(self) -> Runner | None:
        """The test runner whose exit code is that of the part; None if it is another program's."""
        deciding = [call for call in self.calls if call.tests and _decides(call)]
        return deciding[-1].runner if len(deciding) == len(self.calls) and deciding else None


def _decides(call: Call) -> bool:
    program = call.program
    return not (program.lost or program.negated or program.fallback or program.optional)


def parts_of(line: str) -> tuple[LinePart, ...]:
    """Return the parts of a line between its top-level `&&`, in order. They run in one shell, as written.

    A line that has `||`, `;`, `&` or several lines at its top level is one part, and so is one that cannot be read.
    """
    texts = _split(line)
    merged: list[str] = []
    for text, is_joined in zip(texts, [False, *map(_prepares, texts)], strict=False):
        if is_joined:
            merged[-1] = f"{merged[-1]}&&{text}"
        else:
            merged.append(text)
    return tuple(LinePart(text.strip(), calls(text)) for text in merged)


def _split(line: str) -> list[str]:
    parts: list[str] = []
    begin = 0
    whole = _commands(line)
    if whole is None or any(_is_separate(command) for command in whole):
        return [line]
    for found in re.finditer("&&", line):
        left, right = _commands(line[begin : found.start()]), _commands(line[found.end() :])
        rest = _commands(line[begin:])
        if left and right and rest and _words(left) + _words(right) == _words(rest):
            parts.append(line[begin : found.start()])
            begin = found.end()
    return [*parts, line[begin:]]


def _commands(text: str) -> Sequence[Command] | None:
    """Return the commands of a text; None if it is not complete by itself."""
    try:
        return read_line(text).commands
    except UnreadableError:
        return None


def _is_separate(command: Command) -> bool:
    """Return whether the exit code of a command does not decide that of the line, as behind `||` or before `;`."""
    return command.fallback or (command.lost is not None and command.lost.how != "|")


def _words(commands: Sequence[Command]) -> list[tuple[str, ...]]:
    return [command.words for command in commands]


def _prepares(text: str) -> bool:
    """Return whether a part ends in a command that prepares the next one."""
    commands = _commands(text) or ()
    return bool(commands) and "".join(commands[-1].words[:1]) in _PREPARING
