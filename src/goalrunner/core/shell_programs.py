"""The programs that a shell line starts, also through others: `env A=1`, `uv run`, `sh
-c "..."`, `find -exec`, `python -m`.
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
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SHELL_VALUED = frozenset({"-o", "-O", "--rcfile", "--init-file"})
_UNREAD_SHELL_OPTION = re.compile(r"\+|-$|-(?!-)[^oO]*[oO].")
"""Options of shells that end elsewhere than those of other programs: `+e`, `-`, and
`-oc NAME`."""
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
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
        return PurePosixPath(self.words[0]).name or self.words[0] if self.words else ""

    @property
    def has_known_name(self) -> bool:
        """Whether its name is not an expansion of the shell. Its folder may be one."""
        if self.name in ("[", "[["):
            return True
        return (
            re.fullmatch(r"[^$`*?\[{]+", self.name) is not None
            and self.name not in RESERVED
        )


def programs(line: str) -> tuple[Program, ...]:
    """Return every program that a line starts by itself, in order, without those that
    only start others.

    A line that cannot be read has none.
    """
    return tuple(program for program in started_programs(line)[0] if not program.starts)


def started_programs(line: str) -> tuple[tuple[Program, ...], str]:
    """Return all programs of a line, outer ones before those that they start, and why
    the line is not understood.

    The second text is empty if all programs are known.
    """
    try:
        found = tuple(_of_script(Program(), line, 0))
    except UnreadableError as error:
        return (), str(error)
    problems = [program.problem for program in found if program.problem]
    return found, problems[0] if problems else ""


def label(line: str) -> str:
    """Return the name of the main program of a line: that of `cd x && uv run pytest -q`
    is pytest.
    """
    found = programs(line)
    if not found:
        return PurePosixPath((line.split() or [""])[0]).name
    names = (program.name for program in found)
    return next(
        (
            name
            for name in names
            if name not in ("", "cd", "export", "set", "source", ".")
        ),
        "",
    )


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
    yield replace(
        program,
        problem=problem,
        starts=any(found.words or found.assignments for found in inner),
    )
    yield from inner


def _started_by(program: Program, depth: int) -> Iterator[Program]:
    """Yield the programs that a program starts, each with what it starts in turn.

    Raise UnreadableError.
    """
    name, words = program.name, program.words
    through = replace(program, through=(*program.through, name))
    if program.module and name != "coverage":
        return
    if words[1:2] in (("--version",), ("--help",)):
        return
    if name in UNREAD_WRAPPERS:
        raise UnreadableError(f"{name} starts another program")
    if name == "git" and any(
        option == "-c" and key.lower().startswith("alias.")
        for option, key in pairwise(words)
    ):
        raise UnreadableError("an alias gives a command of git another name")
    if name == "find":
        yield from _executed(through, depth)
    elif name == "trap" and len(words) > 2:
        yield from _of_script(through, words[1], depth)
    elif name in (*SHELLS, ".", "source"):
        yield from _of_shell(through, depth)
    elif name == "git":
        yield from _of_git(through, depth)
    elif wrapper := WRAPPERS.get(
        "python" if name.startswith(("python", "pypy")) else name
    ):
        yield from _wrapped(through, wrapper, depth)


def _of_shell(shell: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of a shell's script, unless the script is a file."""
    at, given = _options(shell.words, _SHELL_VALUED)
    operand = "".join(shell.words[at : at + 1])
    if any(map(_UNREAD_SHELL_OPTION.match, shell.words[1 : at + 1])):
        raise UnreadableError(f"the options of {shell.through[-1]} are not read")
    if "-c" in given:
        if operand in shell.expanded:
            yield Program(starts=True, problem="variables are part of its script")
        yield from _of_script(shell, operand, depth)
    elif (
        "-s" in given
        or not operand
        or operand.startswith(("-", "/dev/", "/proc/", "<("))
    ):
        raise UnreadableError(f"{shell.through[-1]} runs what it reads")


def _of_git(git: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of `git rebase --exec`, `git bisect run` and `git submodule
    foreach`.
    """
    rest = git.words[_options(git.words, GIT_VALUED)[0] :]
    if rest[:1] == ("rebase",):
        for option, following in pairwise((*rest, "")):
            is_short = re.match(r"-[^-]*x", option) is not None
            name, equals, value = option.partition("=")
            line = ""
            if name == "--exec":
                line = value if equals else following
            elif is_short:
                line = option.partition("x")[2] or following
            yield from _of_argument(git, line, depth)
    elif rest[:2] == ("bisect", "run"):
        if rest[2:]:
            yield from _with_started(replace(git, words=rest[2:]), depth + 1)
    elif rest[:1] == ("submodule",):
        words = rest[_options(rest, frozenset())[0] :]
        command = (
            words[_options(words, frozenset())[0] :]
            if words[:1] == ("foreach",)
            else ()
        )
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


def _wrapped(wrapper: Program, how: Wrapper, depth: int) -> Iterator[Program]:
    """Yield the program behind a wrapper, with what it starts."""
    name, words = wrapper.through[-1], _from_subcommand(wrapper.words, how)
    at, given = _options(
        words, frozenset(how.valued.split()), ("-m", "-c") if how.starts_module else ()
    )
    rest = words[at + how.operands :]
    if how.starts_module:
        rest = (given["-m"], *rest) if "-m" in given else ()
    elif not SCRIPT_OPTIONS.isdisjoint((*given, *rest[:1])):
        raise UnreadableError(f"{name} runs a script")
    own = tuple(takewhile(lambda word: word == "-" or _ASSIGNMENT.match(word), rest))
    rest = rest[len(own) :]
    is_script_of_node = name == "node" and PurePosixPath(
        "".join(rest[:1])
    ).stem not in ("jest", "vitest")
    if (
        not rest
        or is_script_of_node
        or (name == "command" and {"-v", "-V"} & given.keys())
    ):
        return
    if name == "xargs":
        placeholder = (
            given.get("-I") or given.get("-J") or given.get("--replace") or "{}"
        )
        rest = (*(word.replace(placeholder, _ANY) for word in rest), _ANY)
        wrapper = replace(wrapper, optional=True)
    inner = replace(
        wrapper,
        words=rest,
        module=how.starts_module,
        clean=wrapper.clean
        or how.clean == "always"
        or not {*given, *own}.isdisjoint(how.clean.split()),
        assignments=(*wrapper.assignments, *(word for word in own if word != "-")),
    )
    yield from _with_started(inner, depth + 1)


def _from_subcommand(words: tuple[str, ...], wrapper: Wrapper) -> tuple[str, ...]:
    """Return the words of a wrapper from its subcommand on; none if it has another
    subcommand.
    """
    if not wrapper.behind:
        return words
    rest = words[_options(words, frozenset(wrapper.valued.split()))[0] :]
    for subcommand in wrapper.behind.split(","):
        names = tuple(subcommand.split())
        if rest[: len(names)] == names:
            return rest[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if rest[:1] in (("jest",), ("vitest",)) else ()


def _executed(find: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of `find -exec`.

    The paths that it finds begin with the folder that it searches.
    """
    roots = [*takewhile(lambda word: not word.startswith("-"), find.words[1:])] or ["."]
    path = f"{roots[0]}{_ANY}" if len(roots) == 1 else _ANY
    rest = iter(find.words)
    for word in rest:
        if word in _EXECUTING:
            words = (
                word.replace("{}", path)
                for word in takewhile(lambda word: word not in (";", "+"), rest)
            )
            yield from _with_started(
                replace(find, words=tuple(words), optional=True), depth + 1
            )


def _options(
    words: Sequence[str], valued: frozenset[str], last: Collection[str] = ()
) -> tuple[int, dict[str, str]]:
    """Return where the operands of a command begin, and its options with their values.

    An option in `last` ends them.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood.
    """
    at = 1
    found: dict[str, str] = {}
    while (
        at < len(words)
        and words[at].startswith("-")
        and words[at] != "-"
        and found.keys().isdisjoint(last)
    ):
        word = words[at]
        following = "".join(words[at + 1 : at + 2])
        at += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") or name in valued:
            takes_next = name in valued and not equals
            found[name] = following if takes_next else value
            at += takes_next
            continue
        for position, letter in enumerate(word[1:], 2):
            attached = word[position:]
            found[f"-{letter}"] = attached or following
            if f"-{letter}" in valued:
                at += not attached
                break
    return min(at, len(words)), found
