"""The programs that a shell line starts, also through others: `env A=1`, `uv run`, `sh -c "..."`, `find -exec`, `python -m`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from pathlib import PurePosixPath

from goalrunner.core.errors import quoted
from goalrunner.core.shell_syntax import Command, UnreadableError, Word, parse

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "rbash"})
_SHELL_OPTIONS = frozenset({"-o", "-O", "--rcfile", "--init-file"})
_DEEPEST = 12
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANY = Word("$@").unknown()
"""Arguments that are only known when the command runs."""
_Words = tuple[Word, ...]


@dataclass(frozen=True)
class Wrapper:
    """How the command in the arguments of a program is found. Texts are lists of words."""

    valued: str = ""
    """Options that take a value, beside `scripts`."""
    operands: int = 0
    """Words of the program's own before the command."""
    behind: str = ""
    """Subcommands, with commas between them, one of which must be first; empty: none is needed."""
    scripts: str = ""
    """Options whose value is a line for a shell."""
    clean: str = ""
    """Options with which the command gets an environment of its own; `always`: without any."""


_UV = (
    "-p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --package"
    " --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links -C"
    " --config-file --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease --resolution --from"
)
_SUDO = (
    "-u --user -g --group -C --close-from -D --chdir -h --host -p --prompt -r --role -t --type -T --command-timeout"
    " -U --other-user -R --chroot"
)
_XARGS = "-a -d -E -I -J -L -n -P -R -S -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars"

WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys("builtin coproc nohup setsid unbuffer busybox toybox bunx pnpx".split(), Wrapper()),  # noqa: SIM905
    **dict.fromkeys(("timeout", "gtimeout"), Wrapper("-k --kill-after -s --signal", 1)),
    **dict.fromkeys(("rye", "pipenv"), Wrapper(behind="run")),
    **dict.fromkeys(("conda", "mamba", "micromamba"), Wrapper("-n --name -p --prefix --cwd", behind="run")),
    **dict.fromkeys(("pnpm", "yarn"), Wrapper("-C --dir -F --filter --cwd", behind="exec,dlx")),
    "env": Wrapper("-u --unset -C --chdir", scripts="-S --split-string", clean="-i --ignore-environment -"),
    "exec": Wrapper("-a"),
    "command": Wrapper(),
    "time": Wrapper("-o -f --output --format"),
    "nice": Wrapper("-n --adjustment"),
    "stdbuf": Wrapper("-i -o -e --input --output --error"),
    "xvfb-run": Wrapper("-e -f -n -p -s -w --auth-file --error-file --server-num --server-args --wait"),
    "sudo": Wrapper(_SUDO, clean="always"),
    "flock": Wrapper("-w --wait --timeout -E --conflict-exit-code", 1, scripts="-c --command"),
    "xargs": Wrapper(_XARGS),
    "uv": Wrapper(_UV, behind="run,tool run"),
    "uvx": Wrapper(_UV),
    "poetry": Wrapper("-C --directory -P --project", behind="run"),
    "pdm": Wrapper("-p --project", behind="run"),
    "hatch": Wrapper("-e --env", behind="run"),
    "pixi": Wrapper("-e --environment --manifest-path", behind="run"),
    "pipx": Wrapper("--spec --python", behind="run"),
    "npx": Wrapper("-p --package -w --workspace", scripts="-c --call"),
    "npm": Wrapper("-p --package -w --workspace --prefix -C", behind="exec,x", scripts="-c --call"),
    "bun": Wrapper(behind="x"),
    "node": Wrapper("-r --require --import --loader"),
}
_UNREAD = frozenset(
    """
    alias caffeinate chroot chrt doas fakeroot ionice ltrace nsenter numactl parallel pkexec proxychains proxychains4
    runuser script setpriv strace su systemd-run taskset torsocks unshare watch
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that start or rename other programs in ways that this module does not parse."""

_COVERAGE_OPTIONS = frozenset(
    "-m --source --source-pkgs --omit --include --rcfile --data-file --context --concurrency".split()  # noqa: SIM905
)
_PYTHON_OPTIONS = frozenset({"-m", "-c", "-W", "-X", "--check-hash-based-pycs"})
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True)
class Program:
    """A program and its arguments. `words[0]` is the program as written, or the module of `python -m`."""

    words: _Words = ()
    command: Command = field(default_factory=Command)
    """Its command in the line, with the effect of its exit code."""
    through: tuple[str, ...] = ()
    """Names of what starts it, outermost first: ("uv", "coverage", "python")."""
    module: bool = False
    """Whether `words[0]` is a Python module."""
    assignments: tuple[str, ...] = ()
    clean: bool = False
    """Whether it gets an environment that is not the command's own, or ignores PYTHONPATH."""
    strict: bool = False
    """Whether the shell stops at the first failure (`set -e`)."""
    pipefail: bool = False
    folder: str = ""
    """The folder after the `cd`s before it, relative to the start of the line; a `cd` in a subshell counts as well."""
    starts: bool = False
    """Whether it only starts the programs that follow."""
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
    try:
        found = tuple(_of_script(Program(), line, 0))
    except UnreadableError as error:
        return (), str(error)
    return found, next((one.problem for one in found if one.problem), "")


def label(line: str) -> str:
    """Return the name of the main program of a line: that of `cd x && uv run pytest -q` is pytest."""
    found = programs(line)
    names = [one.name for one in found if one.name and one.name not in ("cd", "export", "set", "source", ".")]
    if names or found:
        return next(iter(names), "")
    return PurePosixPath((line.split() or [""])[0]).name


def _of_script(outer: Program, script: str, depth: int) -> Iterator[Program]:
    """Yield the programs of a script, with what is known of the program that runs it. Raise UnreadableError."""
    line, folder = parse(script, outer.command), outer.folder
    given = {word for command in line.commands if command.words[:1] == ("set",) for word in command.words[1:]}
    flags = "".join(word[1:] for word in given if re.match("-[a-zA-Z]", word))
    strict = outer.strict or "e" in flags or "errexit" in given
    outer = replace(outer, strict=strict, pipefail=outer.pipefail or "pipefail" in given)

    def stages(command: Command) -> Iterator[Program]:
        assignments = (*outer.assignments, *command.assignments)
        program = replace(outer, words=command.words, command=command, assignments=assignments, folder=folder)
        return _stages(program, depth + 1)

    for command in line.commands:
        for one in stages(command):
            yield replace(one, starts=one.starts or one.name in line.functions)
        if command.words[:1] == ("cd",) and len(command.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, command.words[1]))
    for command in line.nested:
        yield from (replace(one, nested=True) for one in stages(command))


def _stages(program: Program, depth: int) -> Iterator[Program]:
    """Yield a program, and then those that it starts."""
    problem, inner = "", list[Program]()
    if depth > _DEEPEST:
        problem = "it is nested too deeply"
    elif program.words and not program.module and not program.words[0].program:
        problem = f"the program {quoted(program.words[0])} is only known at run time"
    else:
        try:
            inner = [*_started_by(program, depth)]
        except UnreadableError as error:
            problem = str(error)
    yield replace(program, problem=problem, starts=any(not one.nested for one in inner))
    yield from inner


def _started_by(program: Program, depth: int) -> Iterator[Program]:
    """Yield the programs that a program starts, each with what it starts in turn. Raise UnreadableError."""
    name, words = program.name, program.words
    through = replace(program, through=(*program.through, name))
    if name == "coverage" and words[1:2] == ("run",):
        yield from _module(through, words[1:], _COVERAGE_OPTIONS, depth)
    elif program.module or words[1:2] in (("--version",), ("--help",)):
        return
    elif name in _UNREAD:
        raise UnreadableError(f"{name} starts another program")
    elif name.startswith(("python", "pypy")):
        yield from _module(through, words, _PYTHON_OPTIONS, depth)
    elif name == "git" and any(one == "-c" and key.lower().startswith("alias.") for one, key in pairwise(words)):
        raise UnreadableError("an alias gives a command of git another name")
    elif name == "find":
        yield from _executed(through, depth)
    elif name in WRAPPERS:
        yield from _wrapped(through, WRAPPERS[name], depth)
    elif name == "eval":
        yield from _of_script(through, " ".join(words[1:]), depth)
    elif name == "trap" and len(words) > 2 and not words[1].startswith("-"):
        yield from _of_script(through, words[1], depth)
    elif name in (*SHELLS, ".", "source"):
        yield from _of_shell(through, depth)


def _of_shell(shell: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of a shell's script, unless the script is a file."""
    at, given = options(shell.words, _SHELL_OPTIONS)
    strict, pipefail = "-e" in given or "errexit" in shell.words[:at], "pipefail" in shell.words[:at]
    operand = next(iter(shell.words[at:]), Word(""))
    if "-c" in given:
        yield from _of_script(replace(shell, strict=strict, pipefail=pipefail), operand, depth)
    elif "-s" in given or not operand or operand.startswith(("-", "/dev/", "/proc/", "<(")):
        raise UnreadableError(f"{shell.through[-1]} runs what it reads")


def _wrapped(wrapper: Program, how: Wrapper, depth: int) -> Iterator[Program]:
    name, words = wrapper.through[-1], _from_subcommand(wrapper.words, how)
    at, given = options(words, frozenset(f"{how.valued} {how.scripts}".split()))
    if not words or (name == "command" and {"-v", "-V"} & given.keys()):
        return
    rest = words[at + how.operands :]
    own = [*takewhile(lambda word: word == "-" or _ASSIGNMENT.match(word), rest)]
    clean = how.clean == "always" or not {*given, *own}.isdisjoint(how.clean.split())
    assigned = (*wrapper.assignments, *(word for word in own if word != "-"))
    inner = replace(wrapper, clean=wrapper.clean or clean, assignments=assigned, words=rest[len(own) :])
    scripts = [given[option] for option in how.scripts.split() if option in given]
    if inner.words[:1] in (("-c",), ("--command",)):  # flock LOCK -c LINE
        scripts = [*inner.words[1:2]]
    if scripts:
        yield from _of_script(inner, scripts[0], depth)
        return
    if name == "xargs":
        inner = replace(inner, words=_with_input(inner.words, given), command=replace(wrapper.command, optional=True))
    if inner.words and (name != "node" or PurePosixPath(inner.words[0]).stem in ("jest", "vitest")):
        yield from _stages(inner, depth + 1)


def _from_subcommand(words: _Words, wrapper: Wrapper) -> _Words:
    """Return the words of a wrapper from its subcommand on; none if it has another subcommand."""
    if not wrapper.behind:
        return words
    rest = words[options(words, frozenset(wrapper.valued.split()))[0] :]
    for names in (tuple(name.split()) for name in wrapper.behind.split(",")):
        if rest[: len(names)] == names:
            return rest[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if rest[:1] in (("jest",), ("vitest",)) else ()


def _with_input(words: _Words, given: dict[str, Word]) -> _Words:
    """Return the words of a command with those that `xargs` reads from its input."""
    placeholders = [str(given[name]) or "{}" for name in ("-I", "-J", "--replace") if name in given]
    if placeholders or "-i" in given:
        return tuple(word.replaced((placeholders or ["{}"])[0]) for word in words)
    return (*words, _ANY) if words else ()


def _executed(find: Program, depth: int) -> Iterator[Program]:
    """Yield the programs of `find -exec`. The paths that it finds begin with the folder that it searches."""
    roots = [*takewhile(lambda word: not word.startswith("-"), find.words[1:])] or [Word(".")]
    head = roots[0].head if len(roots) == 1 else ""
    inner = replace(find, command=replace(find.command, optional=True))
    rest = iter(find.words)
    for word in rest:
        if word in _EXECUTING:
            executed = tuple(one.replaced("{}", head) for one in takewhile(lambda one: one not in (";", "+"), rest))
            yield from _stages(replace(inner, words=executed), depth + 1)


def _module(program: Program, words: _Words, valued: frozenset[str], depth: int) -> Iterator[Program]:
    """Yield the module of `python -m` or `coverage run -m`, and what it starts."""
    at, given = options(words, valued, last=("-m", "-c"))
    if module := given.get("-m"):
        clean = program.clean or not given.keys().isdisjoint(("-I", "-E"))
        yield from _stages(replace(program, words=(module, *words[at:]), module=True, clean=clean), depth + 1)


def options(words: Sequence[Word], valued: frozenset[str], last: tuple[str, ...] = ()) -> tuple[int, dict[str, Word]]:
    """Return where the operands of a command begin, and its options with their values. An option in `last` ends them.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood.
    """
    at = 1
    found: dict[str, Word] = {}
    while at < len(words) and words[at].startswith("-") and words[at] != "-" and found.keys().isdisjoint(last):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else Word("")
        name, equals, value = word.partition("=")
        at += 1
        if word == "--":
            break
        if name.startswith("--") or name in valued:
            found[name] = following if name in valued and not equals else Word(value)
            at += name in valued and not equals
            continue
        for position, letter in enumerate(word[1:], 2):
            attached = Word(word[position:])
            found[f"-{letter}"] = attached or following
            if f"-{letter}" in valued:
                at += not attached
                break
    return min(at, len(words)), found
