"""The test runners that a command line calls directly, and the parts of such a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalrunner.core.shell_lines import Command, UnreadableError, read_line
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import JEST, MOCHA, TEST_RUNNERS, UNITTEST, VITEST, Runner

WITH_NAMES = "pytest, python -m unittest -v, go test, cargo test or node --test"
_PREPARING = frozenset({"cd", "export", "source", ".", "set"})
"""Commands after which `&&` begins no new part."""


@dataclass(frozen=True)
class Call:
    """A runner that a command line calls directly."""

    runner: Runner
    arguments: tuple[str, ...]
    program: Program

    @property
    def tests(self) -> bool:
        """Whether it is asked to run tests, rather than to list them, for example."""
        idle_options = self.runner.idle.split()
        names = [word.partition("=")[0] for word in self.arguments]
        return not any(name in idle_options for name in names)


def calls(line: str) -> tuple[Call, ...]:
    """Return the direct calls of known runners in a line.

    `pytest -q` and `cd x && A=1 uv run python -m pytest` have one. Calls by a Makefile,
    a script or another tool are not direct calls.
    """
    direct: list[Call] = []
    for program in programs(line):
        for runner in TEST_RUNNERS:
            arguments = _arguments_of(runner, program)
            if arguments is not None:
                direct.append(Call(runner, arguments, program))
    return tuple(direct)


def _arguments_of(runner: Runner, program: Program) -> tuple[str, ...] | None:
    """Return the arguments of a call of a runner; None for another program."""
    if program.name not in runner.programs.split():
        return None
    if runner.is_module and not program.module:
        return None
    arguments = program.words[1:]
    if arguments and arguments[0].startswith("+"):
        # The toolchain of cargo: `cargo +nightly test`.
        arguments = arguments[1:]
    if runner.commands:
        has_command = bool(arguments) and arguments[0] in runner.commands.split()
        return arguments[1:] if has_command else None
    if runner.option and runner.option not in arguments:
        return None
    return arguments


@dataclass(frozen=True)
class LinePart:
    """One part of a line, as it is written."""

    text: str
    calls: tuple[Call, ...]
    """The test runners that it calls directly."""

    @property
    def runner(self) -> Runner | None:
        """The test runner whose exit code is that of the part.

        None if the exit code is another program's.
        """
        if not self.calls:
            return None
        if not all(call.tests and _decides(call) for call in self.calls):
            return None
        return self.calls[-1].runner


def _decides(call: Call) -> bool:
    program = call.program
    return not (program.lost or program.negated or program.fallback or program.optional)


def parts_of(line: str) -> tuple[LinePart, ...]:
    """Return the parts of a line between its top-level `&&`, in order.

    They run in one shell, as written. A line that has `||`, `;`, `&` or several lines
    at its top level is one part, and so is one that cannot be read.
    """
    parts: list[str] = []
    is_prepared = False
    for text in _split(line):
        if is_prepared:
            # `cd x && pytest` is one part: the first command prepares the second.
            parts[-1] = f"{parts[-1]}&&{text}"
        else:
            parts.append(text)
        is_prepared = _prepares(text)
    return tuple(LinePart(part.strip(), calls(part)) for part in parts)


def _split(line: str) -> list[str]:
    commands = _commands(line)
    if commands is None or any(map(_is_separate, commands)):
        return [line]
    parts: list[str] = []
    begin = 0
    for operator in re.finditer("&&", line):
        before, after = line[begin : operator.start()], line[operator.end() :]
        # An `&&` in quotes, in a group or in a here-document divides nothing.
        if _are_parts_of(line[begin:], before, after):
            parts.append(before)
            begin = operator.end()
    return [*parts, line[begin:]]


def _are_parts_of(text: str, before: str, after: str) -> bool:
    """Return whether a text has the commands of both parts, and no others."""
    whole, first, second = map(_commands, (text, before, after))
    if not whole or not first or not second:
        return False
    return _words(first) + _words(second) == _words(whole)


def _commands(text: str) -> Sequence[Command] | None:
    """Return the commands of a text; None if it is not complete by itself."""
    try:
        return read_line(text).commands
    except UnreadableError:
        return None


def _is_separate(command: Command) -> bool:
    """Return whether the exit code of a command does not decide that of the line.

    That is so behind `||` or before `;`.
    """
    return command.fallback or (command.lost is not None and command.lost.how != "|")


def _words(commands: Sequence[Command]) -> list[tuple[str, ...]]:
    return [command.words for command in commands]


def _prepares(text: str) -> bool:
    """Return whether a part ends in a command that prepares the next one."""
    commands = _commands(text) or ()
    return bool(commands) and "".join(commands[-1].words[:1]) in _PREPARING


def why_nameless(line: str, *, alone: bool) -> str:
    """Return why the tests of a line are not known by their names; else an empty text.

    `alone`: nothing else may decide the exit code.
    """
    nameless = [call.runner.name for call in calls(line) if _only_counts(call)]
    if nameless and "junit" not in line.lower():
        return (
            f"needs the names of tests, and {nameless[0]} prints only their number; "
            f"use {WITH_NAMES}"
        )
    if alone and len(parts_of(line)) > 1:
        return (
            "needs a command that only runs tests; "
            "write [[validators]] for each part of the line"
        )
    return ""


def _only_counts(call: Call) -> bool:
    """Return whether the output of a call has no names of tests."""
    # Their usual reports have the number of tests, and no names.
    if call.runner in (JEST, VITEST, MOCHA):
        return True
    if call.runner is not UNITTEST or "--verbose" in call.arguments:
        return False
    short = [word for word in call.arguments if word[:1] == "-" and word[1:2] != "-"]
    return not any("v" in word for word in short)
