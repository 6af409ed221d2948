"""The test runners that a command line calls directly, and the parts of a line between
its top-level `&&`.
"""

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
        """Whether it is asked to run tests, rather than to list them or to say its
        version.
        """
        return not any(
            word.partition("=")[0] in self.runner.idle.split()
            for word in self.arguments
        )


def calls(line: str) -> tuple[Call, ...]:
    """Return the direct calls of known runners in a line: `pytest -q`, `cd x && A=1 uv
    run python -m pytest`.

    Calls by a Makefile, a script or another tool are not direct calls.
    """
    found: list[Call] = []
    for program in programs(line):
        for runner in TEST_RUNNERS:
            arguments = _arguments_of(runner, program)
            if arguments is not None:
                found.append(Call(runner, arguments, program))
    return tuple(found)


def _arguments_of(runner: Runner, program: Program) -> tuple[str, ...] | None:
    """Return the arguments of a call of a runner; None if the program is not this
    runner.
    """
    if program.name not in runner.programs.split() or (
        runner.is_module and not program.module
    ):
        return None
    arguments = program.words[1:]
    if arguments[:1] and arguments[0].startswith("+"):  # a toolchain of cargo
        arguments = arguments[1:]
    if runner.commands:
        return (
            arguments[1:]
            if arguments[:1] and arguments[0] in runner.commands.split()
            else None
        )
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
        """The test runner whose exit code is that of the part; None if it is another
        program's.
        """
        deciding = [call for call in self.calls if call.tests and _decides(call)]
        return (
            deciding[-1].runner
            if len(deciding) == len(self.calls) and deciding
            else None
        )


def _decides(call: Call) -> bool:
    program = call.program
    return not (program.lost or program.negated or program.fallback or program.optional)


def parts_of(line: str) -> tuple[LinePart, ...]:
    """Return the parts of a line between its top-level `&&`, in order.

    They run in one shell, as written.

    A line that has `||`, `;`, `&` or several lines at its top level is one part, and so
    is one that cannot be read.
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
        left, right = (
            _commands(line[begin : found.start()]),
            _commands(line[found.end() :]),
        )
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
    """Return whether the exit code of a command does not decide that of the line, as
    behind `||` or before `;`.
    """
    return command.fallback or (command.lost is not None and command.lost.how != "|")


def _words(commands: Sequence[Command]) -> list[tuple[str, ...]]:
    return [command.words for command in commands]


def _prepares(text: str) -> bool:
    """Return whether a part ends in a command that prepares the next one."""
    commands = _commands(text) or ()
    return bool(commands) and "".join(commands[-1].words[:1]) in _PREPARING


def why_nameless(line: str, *, alone: bool) -> str:
    """Return why the tests of a line are not known by their names; empty if they may
    be.

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
            "needs a command that only runs tests; write [[validators]] for each part "
            "of the line"
        )
    return ""


def _only_counts(call: Call) -> bool:
    short = [word for word in call.arguments if word[:1] == "-" and word[1:2] != "-"]
    is_verbose = "--verbose" in call.arguments or any("v" in word for word in short)
    return call.runner in (JEST, VITEST, MOCHA) or (
        call.runner is UNITTEST and not is_verbose
    )
