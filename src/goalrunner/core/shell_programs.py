"""The programs that a shell line starts, also through others: `env A=1`, `uv run`, `sh -c "..."`, `find -exec`, `python -m`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from goalrunner.core import shell_wrappers as wrappers
from goalrunner.core.shell_syntax import parse
from goalrunner.core.shell_words import ASSIGNMENT, Command, Line, UnreadableError, Word
from goalrunner.core.shell_wrappers import Wrapper

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "rbash"})
_SHELL_OPTIONS = frozenset({"-o", "-O", "--rcfile", "--init-file"})
_STDIN = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_DEEPEST = 12
_Words = tuple[Word, ...]


@dataclass(frozen=True)
class Program:
    """A program and its arguments. `words[0]` is the program as written, or the module of `python -m`."""

    words: _Words
    command: Command
    """Where it stands in the line, and what becomes of its exit code."""
    through: tuple[str, ...] = ()
    """Names of what starts it, outermost first: ("uv", "coverage", "python")."""
    module: bool = False
    """Whether `words[0]` is a Python module."""
    assignments: tuple[str, ...] = ()
    clean: bool = False
    """Whether it gets an environment that is not the command's own."""
    isolated: bool = False
    """Whether its interpreter ignores PYTHONPATH."""
    strict: bool = False
    """Whether the shell stops at the first failure (`set -e`)."""
    pipefail: bool = False
    folder: str = ""
    """Where the `cd`s before it lead, relative to where the line starts; they may be in a subshell that is over."""
    starts: bool = False
    """Whether all that it does is to start the programs that follow."""
    nested: bool = False
    """Whether it runs in a substitution, `$(...)`."""
    problem: str = ""
    """Why it is not known what it runs; empty if it is known."""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return PurePosixPath(self.words[0]).name or str(self.words[0]) if self.words else ""


def programs(line: str) -> tuple[Program, ...]:
    """Return every program that a line starts by itself, in order, without those that only start others.

    A line that cannot be read has none. Programs in substitutions are left out.
    """
    return tuple(one for one in started(line)[0] if not (one.starts or one.nested))


def started(line: str) -> tuple[tuple[Program, ...], str]:
    """Return all programs of a line, outer ones before those that they start, and why the line is not understood.

    The second text is empty if all programs are known.
    """
    read = parse(line)
    found = tuple(_of_line(read, 0))
    problems = (one.problem for one in found if one.problem)
    return found, read.problem or next(problems, "")


def label(line: str) -> str:
    """Return the name of the main program of a line: that of `cd x && uv run pytest -q` is pytest."""
    found = programs(line)
    names = [one.name for one in found if one.name and one.name not in ("cd", "export", "set", "source", ".")]
    if names or found:
        return next(iter(names), "")
    return PurePosixPath((line.split() or [""])[0]).name


def _of_line(line: Line, depth: int) -> Iterator[Program]:
    given = {word for command in line.commands if command.words[:1] == ("set",) for word in command.words[1:]}
    flags = "".join(word[1:] for word in given if word.startswith("-") and not word.startswith("--"))
    strict, pipefail, folder = "e" in flags or "errexit" in given, "pipefail" in given, ""
    for command in line.commands:
        program = Program(
            command.words, command, assignments=command.assignments, strict=strict, pipefail=pipefail, folder=folder
        )
        for one in _stages(program, depth):
            yield replace(one, starts=one.starts or one.name in line.functions)
        if command.words[:1] == ("cd",) and len(command.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, command.words[1]))
    for command in line.nested:
        for program in _stages(Program(command.words, command, assignments=command.assignments), depth):
            yield replace(program, nested=True)


def _stages(program: Program, depth: int) -> Iterator[Program]:
    if depth > _DEEPEST:
        yield replace(program, problem="it is nested too deeply")
        return
    if program.words and not program.module and not program.words[0].program:
        problem = f'the program "{program.words[0]}" is only known at run time'
        yield replace(program, problem=program.problem or problem)
        return
    try:
        inner = [*_started_by(program, depth)]
    except UnreadableError as error:
        yield replace(program, problem=str(error))
        return
    yield replace(program, starts=any(not one.nested for one in inner))
    yield from inner


def _started_by(program: Program, depth: int) -> Iterator[Program]:
    """Yield the programs that a program starts, each with what it starts in turn. Raise UnreadableError."""
    name = program.name
    through = replace(program, through=(*program.through, name))
    _refuse(program)
    if name == "coverage" and program.words[1:2] == ("run",):
        yield from _module(program, program.words[1:], wrappers.COVERAGE_OPTIONS, depth)
    elif program.module:
        return
    elif name.startswith(("python", "pypy")):
        yield from _module(program, program.words, wrappers.PYTHON_OPTIONS, depth)
    elif name == "find":
        command = replace(program.command, optional=True)
        for words in wrappers.executed(program.words):
            yield from _stages(replace(through, words=words, command=command), depth + 1)
    elif name in wrappers.WRAPPERS:
        yield from _wrapped(program, through, wrappers.WRAPPERS[name], depth)
    else:
        script, strict, pipefail = _script(program)
        if script is not None:
            yield from _of_script(through, script, depth, strict=strict, pipefail=pipefail)


def _refuse(program: Program) -> None:
    """Raise UnreadableError if it is unknown what a program runs."""
    name, words = program.name, () if program.module else program.words
    if name in wrappers.UNREAD and words and words[1:2] not in (("--version",), ("--help",)):
        raise UnreadableError(f"{name} starts another program")
    if name == "alias" and any("=" in word for word in words):
        raise UnreadableError("an alias gives a program another name")
    if name == "git" and any(one == "-c" and key.lower().startswith("alias.") for one, key in pairwise(words)):
        raise UnreadableError("an alias gives a command of git another name")


def _of_script(
    outer: Program, script: str, depth: int, *, strict: bool = False, pipefail: bool = False
) -> Iterator[Program]:
    """Yield the programs of a script, with what is known of the program that runs it."""
    line = parse(script)
    if line.problem:
        raise UnreadableError(line.problem)
    for one in _of_line(line, depth + 1):
        own, around = one.command, outer.command
        merged = replace(
            own,
            lost=own.lost or around.lost,
            negated=own.negated != around.negated,
            fallback=own.fallback or around.fallback,
            optional=own.optional or around.optional,
            detached=own.detached or around.detached,
            last=own.last and around.last,
        )
        yield replace(
            one,
            command=merged,
            through=(*outer.through, *one.through),
            assignments=(*outer.assignments, *one.assignments),
            clean=outer.clean or one.clean,
            folder=posixpath.normpath(posixpath.join(outer.folder, one.folder)) if one.folder else outer.folder,
            strict=one.strict or strict,
            pipefail=one.pipefail or pipefail,
        )


def _script(program: Program) -> tuple[str | None, bool, bool]:
    """Return what a program runs as a script that is no file, and whether its options are `-e` and `-o pipefail`."""
    if program.name == "eval":
        return " ".join(program.words[1:]), False, False
    if program.name == "trap" and len(program.words) > 2 and program.words[1] not in ("-", "-l", "-p"):
        return program.words[1], False, False
    if program.name not in (*SHELLS, ".", "source"):
        return None, False, False
    at, given = wrappers.options(program.words, _SHELL_OPTIONS)
    names, values = {name for name, _ in given}, {str(value) for _, value in given}
    rest = program.words[at + (program.words[at : at + 1] == ("-",)) :]
    script: str | None = None
    if "-c" in names:
        script = str(rest[0]) if rest else None
    elif "-s" in names or not rest or rest[0] in _STDIN or rest[0].startswith("<("):
        script = program.command.stdin
        if (script is None and program.command.piped) or (rest and rest[0].startswith("<(")):
            raise UnreadableError(f"{program.name} runs the output of another command")
    return script, "-e" in names or "errexit" in values, "pipefail" in values


def _wrapped(program: Program, through: Program, wrapper: Wrapper, depth: int) -> Iterator[Program]:
    name, words = program.name, wrappers.command_part(program.words, wrapper)
    at, given = wrappers.options(words, wrapper.options)
    if not words or (name == "command" and {"-v", "-V"} & {option for option, _ in given}):
        return
    inner = replace(through, clean=program.clean or wrapper.clean)
    scripts = [value for option, value in given if option in wrapper.scripts.split()]
    later = words[at + wrapper.operands :][:2]
    if scripts or later[:1] in (("-c",), ("--command",)):
        yield from _of_script(inner, [*scripts, *later[1:]][0], depth)
        return
    rest = words[at + wrapper.operands :]
    assigned, clean = list(inner.assignments), inner.clean
    for option, value in given if name == "env" else ():
        if option in ("-S", "--split-string"):
            rest = (*_split(value), *rest)
        assigned += [f"{value}="] if option in ("-u", "--unset") else []
        clean = clean or option in ("-i", "--ignore-environment")
    while rest and (ASSIGNMENT.match(rest[0]) or rest[0] == "-"):
        clean = clean or rest[0] == "-"
        assigned += [rest[0]] if rest[0] != "-" else []
        rest = rest[1:]
    if name == "xargs":
        rest = wrappers.with_inputs(rest, given)
        inner = replace(inner, command=replace(program.command, optional=True))
    if rest and (name != "node" or PurePosixPath(rest[0]).stem in ("jest", "vitest")):
        yield from _stages(replace(inner, words=rest, assignments=tuple(assigned), clean=clean), depth + 1)


def _split(text: str) -> _Words:
    """Return the words that `env -S` makes of a text. Raise UnreadableError."""
    line = parse(text)
    if line.problem or len(line.commands) != 1:
        raise UnreadableError(f'env may change the meaning of "{text}"')
    return (*map(Word, line.commands[0].assignments), *line.commands[0].words)


def _module(program: Program, words: _Words, valued: frozenset[str], depth: int) -> Iterator[Program]:
    at, given = wrappers.options(words, valued, last=("-m", "-c"))
    if given and given[-1][0] == "-m" and given[-1][1]:
        names = {name for name, _ in given}
        isolated = program.isolated or not names.isdisjoint(("-I", "-E"))
        through = (*program.through, program.name)
        inner = replace(program, words=(given[-1][1], *words[at:]), through=through, module=True, isolated=isolated)
        yield from _stages(inner, depth + 1)
