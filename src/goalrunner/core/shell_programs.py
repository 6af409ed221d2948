"""The programs that a shell line starts.

It may start them through others: `env A=1`, `uv run`, `sh -c "..."`, `find -exec`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import PurePosixPath

from goalrunner.core.errors import quoted
from goalrunner.core.shell_lines import RESERVED, Command, UnreadableError, read_line
from goalrunner.core.tools import (
    GIT_VALUED,
    SCRIPT_OPTIONS,
    SHELLS,
    UNREAD_WRAPPERS,
    WRAPPERS,
    Wrapper,
)

_DEEPEST = 12
"""Programs that start each other in one line before it is not read further."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SHELL_VALUED = frozenset({"-o", "-O", "--rcfile", "--init-file"})
_UNREAD_SHELL_OPTION = re.compile(r"\+|-$|-(?!-)[^oO]*[oO].")
"""Options of shells that end elsewhere than those of other programs: `+e`, `-`, and
`-oc NAME`."""
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIXED_NAME = re.compile(r"[^$`*?\[{]+")
_ANY = "$@"
"""Arguments that are only known when the command runs."""


@dataclass(frozen=True)
class Program(Command):
    """A program and its arguments, with the position of the command that starts it.

    `words[0]` is the program as written, or the module of `python -m`.
    """

    first_word: str = ""
    """The first word of its command in the line: that of what starts it, if anything
    does."""
    through: tuple[str, ...] = ()
    """Names of what starts it, outermost first: ("uv", "coverage", "python")."""
    module: bool = False
    """Whether `words[0]` is a Python module."""
    clean: bool = False
    """Whether it gets an environment that is not the command's own, or ignores
    PYTHONPATH."""
    folder: str = ""
    """The folder after the `cd`s before it, relative to the start of the line; a `cd`
    in a subshell counts as well."""
    starts: bool = False
    """Whether it only starts the programs that follow."""
    problem: str = ""
    """Why it is not known what it runs; empty if it is known."""

    @property
    def name(self) -> str:
        """The program without its folder."""
        if not self.words:
            return ""
        return PurePosixPath(self.words[0]).name or self.words[0]

    @property
    def has_known_name(self) -> bool:
        """Whether its name is not an expansion of the shell. Its folder may be one."""
        name = self.name
        if name in ("[", "[["):
            # A test of the shell, no pattern.
            return True
        return name not in RESERVED and _FIXED_NAME.fullmatch(name) is not None


def programs(line: str) -> tuple[Program, ...]:
    """Return every program that a line starts by itself, in order.

    Those that only start others are left out. A line that cannot be read has none.
    """
    return tuple(program for program in started_programs(line)[0] if not program.starts)


def started_programs(line: str) -> tuple[tuple[Program, ...], str]:
    """Return all programs of a line, and why the line is not understood.

    Outer programs come before those that they start. The second text is empty if all
    programs are known.
    """
    try:
        started = tuple(_of_script(Program(), line, 0))
    except UnreadableError as error:
        return (), str(error)
    problems = [program.problem for program in started if program.problem]
    return started, problems[0] if problems else ""


_NOT_MAIN = frozenset({"", "cd", "export", "set", "source", "."})
"""Programs that only prepare the main program of a line."""


def label(line: str) -> str:
    """Return the name of the main program of a line.

    That of `cd x && uv run pytest -q` is pytest.
    """
    started = programs(line)
    if not started:
        first_word = (line.split() or [""])[0]
        return PurePosixPath(first_word).name
    for program in started:
        if program.name not in _NOT_MAIN:
            return program.name
    return ""


# Each of the following functions yields programs, outer ones first, each with what it
# starts in turn. `depth` counts how many programs have started each other.


def _of_script(outer: Program, script: str, depth: int) -> Iterator[Program]:
    """Yield the programs of a script, with what is known of the program that runs it.

    Raise UnreadableError.
    """
    line = read_line(script)
    if line.substitutes:
        yield Program(starts=True, problem="it contains a substitution")
    folder = outer.folder
    for command in line.commands:
        program = replace(
            outer,
            words=command.words,
            first_word="".join(command.words[:1]),
            assignments=(*outer.assignments, *command.assignments),
            expanded=command.expanded,
            lost=command.lost or outer.lost,
            negated=command.negated != outer.negated,
            fallback=command.fallback or outer.fallback,
            optional=command.optional or outer.optional,
            last=command.last and outer.last,
            folder=folder,
        )
        yield from _with_started(program, depth + 1)
        if command.words[:1] == ("cd",) and len(command.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, command.words[1]))


def _with_started(program: Program, depth: int) -> Iterator[Program]:
    """Yield a program, and then those that it starts."""
    problem = ""
    inner: list[Program] = []
    if depth > _DEEPEST:
        problem = "it is nested too deeply"
    elif program.words and not program.module and not program.has_known_name:
        problem = f"the program {quoted(program.words[0])} is only known at run time"
    elif program.words:
        try:
            inner += _started_by(program, depth)
        except UnreadableError as error:
            problem = str(error)
    # A program of which only a problem is known does not count as started.
    starts = any(started.words or started.assignments for started in inner)
    yield replace(program, problem=problem, starts=starts)
    yield from inner


def _started_by(program: Program, depth: int) -> Iterator[Program]:
    """Yield the programs that a program starts. Raise UnreadableError."""
    name, words = program.name, program.words
    if program.module and name != "coverage":
        return
    if words[1:2] in (("--version",), ("--help",)):
        return
    if name in UNREAD_WRAPPERS:
        raise UnreadableError(f"{name} starts another program")
    through = replace(program, through=(*program.through, name))
    is_python = name.startswith(("python", "pypy"))
    if name == "find":
        yield from _of_find(through, depth)
    elif name == "trap" and len(words) > 2:
        yield from _of_script(through, words[1], depth)
    elif name in (*SHELLS, ".", "source"):
        yield from _of_shell(through, depth)
    elif name == "git":
        yield from _of_git(through, depth)
    elif wrapper := WRAPPERS.get("python" if is_python else name):
        yield from _of_wrapper(through, wrapper, depth)


def _of_shell(shell: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of a shell's script, unless the script is a file."""
    options = _options(shell.words, _SHELL_VALUED)
    if any(map(_UNREAD_SHELL_OPTION.match, shell.words[1 : options.end + 1])):
        raise UnreadableError(f"the options of {shell.through[-1]} are not read")
    operand = "".join(shell.words[options.end : options.end + 1])
    if "-c" in options.values:
        if operand in shell.expanded:
            yield Program(starts=True, problem="variables are part of its script")
        yield from _of_script(shell, operand, depth)
        return
    reads_input = "-s" in options.values or not operand
    if reads_input or operand.startswith(("-", "/dev/", "/proc/", "<(")):
        raise UnreadableError(f"{shell.through[-1]} runs what it reads")


def _of_git(git: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of `rebase --exec`, `bisect run` and `submodule foreach`."""
    for option, key in pairwise(git.words):
        if option == "-c" and key.lower().startswith("alias."):
            raise UnreadableError("an alias gives a command of git another name")
    words = git.words[_options(git.words, GIT_VALUED).end :]
    if words[:1] == ("rebase",):
        yield from _of_rebase(git, words, depth)
    elif words[:2] == ("bisect", "run"):
        if words[2:]:
            yield from _with_started(replace(git, words=words[2:]), depth + 1)
    elif words[:1] == ("submodule",):
        yield from _of_submodule(git, words, depth)


def _of_rebase(git: Program, words: Sequence[str], depth: int) -> Iterator[Program]:
    """Yield the programs of `rebase --exec LINE`, also written `-x LINE` or
    `-xLINE`."""
    for option, following in pairwise((*words, "")):
        name, equals, value = option.partition("=")
        line = ""
        if name == "--exec":
            line = value if equals else following
        elif re.match(r"-[^-]*x", option):
            line = option.partition("x")[2] or following
        yield from _of_argument(git, line, depth)


def _of_submodule(
    git: Program, words: tuple[str, ...], depth: int
) -> Iterator[Program]:
    words = words[_options(words, frozenset()).end :]
    if words[:1] != ("foreach",):
        return
    command = words[_options(words, frozenset()).end :]
    # There may be no submodule.
    foreach = replace(git, optional=True)
    if len(command) == 1:
        yield from _of_argument(foreach, command[0], depth)
    elif command:
        yield from _with_started(replace(foreach, words=command), depth + 1)


def _of_argument(outer: Program, script: str, depth: int) -> Iterator[Program]:
    """Yield the programs of an argument that is a shell line."""
    if script in outer.expanded:
        yield Program(starts=True, problem="variables are part of its script")
    if script:
        yield from _of_script(outer, script, depth)


def _of_wrapper(program: Program, wrapper: Wrapper, depth: int) -> Iterator[Program]:
    """Yield the program in the arguments of a wrapper, with what it starts."""
    name = program.through[-1]
    words = _from_subcommand(program.words, wrapper)
    ending = ("-m", "-c") if wrapper.starts_module else ()
    options = _options(words, frozenset(wrapper.valued.split()), ending)
    command = words[options.end + wrapper.operands :]
    if wrapper.starts_module:
        module = options.values.get("-m")
        command = () if module is None else (module, *command)
    elif not SCRIPT_OPTIONS.isdisjoint((*options.values, *command[:1])):
        raise UnreadableError(f"{name} runs a script")
    # `env A=1 -` has assignments before the command.
    prefix = tuple(
        takewhile(lambda word: word == "-" or _ASSIGNMENT.match(word), command)
    )
    command = command[len(prefix) :]
    if not command or _starts_nothing(name, command, options):
        return
    if name == "xargs":
        command = _with_any_argument(command, options)
        program = replace(program, optional=True)
    cleaning = {*options.values, *prefix}.intersection(wrapper.clean.split())
    is_clean = wrapper.clean == "always" or bool(cleaning)
    assignments = [word for word in prefix if word != "-"]
    inner = replace(
        program,
        words=command,
        module=wrapper.starts_module,
        clean=program.clean or is_clean,
        assignments=(*program.assignments, *assignments),
    )
    yield from _with_started(inner, depth + 1)


def _starts_nothing(name: str, command: Sequence[str], options: _Options) -> bool:
    """Return whether the arguments of a wrapper are no command that it starts."""
    if name == "command":
        # `command -v pytest` only says where pytest is.
        return not {"-v", "-V"}.isdisjoint(options.values)
    # node runs scripts; of those, only the test runners are programs.
    script = PurePosixPath(command[0]).stem
    return name == "node" and script not in ("jest", "vitest")


def _with_any_argument(command: Sequence[str], options: _Options) -> tuple[str, ...]:
    """Return the command of xargs with `$@` for what it reads."""
    values = [options.values.get(key) for key in ("-I", "-J", "--replace")]
    placeholder = next(filter(None, values), "{}")
    return (*(word.replace(placeholder, _ANY) for word in command), _ANY)


def _from_subcommand(words: tuple[str, ...], wrapper: Wrapper) -> tuple[str, ...]:
    """Return the words of a wrapper from its subcommand on; none for another one."""
    if not wrapper.behind:
        return words
    end_of_options = _options(words, frozenset(wrapper.valued.split())).end
    following = words[end_of_options:]
    for subcommand in wrapper.behind.split(","):
        names = tuple(subcommand.split())
        if following[: len(names)] == names:
            return following[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if following[:1] in (("jest",), ("vitest",)) else ()


def _of_find(find: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of `find -exec`.

    The paths that it finds begin with the folder that it searches.
    """
    roots = [*takewhile(lambda word: not word.startswith("-"), find.words[1:])] or ["."]
    path = f"{roots[0]}{_ANY}" if len(roots) == 1 else _ANY
    words = iter(find.words)
    for word in words:
        if word not in _EXECUTING:
            continue
        command = takewhile(lambda word: word not in (";", "+"), words)
        started = tuple(word.replace("{}", path) for word in command)
        program = replace(find, words=started, optional=True)
        yield from _with_started(program, depth + 1)


@dataclass(frozen=True)
class _Options:
    """The options of a command, before its operands."""

    end: int
    """Where the operands begin."""
    values: dict[str, str]
    """By option."""


def _options(
    words: Sequence[str], valued: frozenset[str], last: Collection[str] = ()
) -> _Options:
    """Return the options of a command; those in `valued` take a value.

    An option in `last` ends them. `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and
    `-nu bob` are understood.
    """
    index = 1
    values: dict[str, str] = {}
    while index < len(words) and values.keys().isdisjoint(last):
        word = words[index]
        if not word.startswith("-") or word == "-":
            break
        following = "".join(words[index + 1 : index + 2])
        index += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") or name in valued:
            takes_next = name in valued and not equals
            values[name] = following if takes_next else value
            index += takes_next
            continue
        for position, letter in enumerate(word[1:], 2):
            attached = word[position:]
            values[f"-{letter}"] = attached or following
            if f"-{letter}" in valued:
                index += not attached
                break
    return _Options(min(index, len(words)), values)
