"""What a command line starts, seen through what stands in front of it: `env A=1`, `uv run`, `timeout 60`, `python -m`.

Owns the table of such words. A word that is not in it is taken for the program, and then no runner is recognised.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from goalrunner.validators.commandline import Command, read, takes_options

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"(?:python|pypy)(?:[0-9.]*)t?")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_DEEPEST = 4

_Words = tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A program and its arguments. `words[0]` is the program as written, or the module of `python -m`."""

    words: _Words
    command: Command
    """Where it stands in the line, and what becomes of its exit code."""
    through: _Words = ()
    """Names of what starts it, outermost first: ("uv", "coverage", "python")."""
    module: bool = False
    """Whether `words[0]` is a Python module."""
    assignments: _Words = ()
    clean: bool = False
    """Whether it gets an environment that is not the command's own."""
    isolated: bool = False
    """Whether its interpreter ignores PYTHONPATH."""
    strict: bool = False
    """Whether the shell stops at the first failure (`set -e`)."""
    pipefail: bool = False
    folder: str = ""
    """Where the `cd`s before it lead, relative to where the line starts; they may be in a subshell that is over."""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return PurePosixPath(self.words[0]).name if self.words else ""


def programs(line: str, depth: int = 0) -> tuple[Program, ...]:
    """Every program that the line starts by itself, in order; what those start in turn is not seen."""
    commands = read(line)
    strict, pipefail = takes_options(commands, "e", "errexit"), takes_options(commands, "", "pipefail")
    found: list[Program] = []
    folder = ""
    for command in commands:
        program = Program(command.words, command, (), assignments=command.assignments, strict=strict, pipefail=pipefail)
        found += _opened(_unwrapped(replace(program, folder=folder)), depth)
        if command.words[:1] == ("cd",) and len(command.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, command.words[1]))
    return tuple(found)


def _unwrapped(program: Program) -> Program:
    """Without everything that only starts another program."""
    for _ in range(len(program.words) + 1):
        if not program.words or (program.module and program.name != "coverage"):
            return program
        inner = _STARTERS[program.name](program) if program.name in _STARTERS else None
        if inner is None and _PYTHON.fullmatch(program.name):
            inner = _python(program)
        if inner is None or not inner.words:
            return program
        program = replace(inner, through=(*program.through, program.name))
    return program


def _opened(program: Program, depth: int) -> Iterator[Program]:
    """The programs of `sh -c "..."`, in the place of the shell; else the program itself."""
    script = _script(program.words) if program.name in _SHELLS and depth < _DEEPEST else None
    inner = programs(script, depth + 1) if script is not None else ()
    if not inner:
        yield program
        return
    options = " ".join(program.words[1:])
    for one in inner:
        outer, own = program.command, one.command
        merged = replace(
            own,
            lost=own.lost or outer.lost,
            negated=own.negated != outer.negated,
            fallback=own.fallback or outer.fallback,
            optional=own.optional or outer.optional,
            last=own.last and outer.last,
        )
        yield replace(
            one,
            command=merged,
            through=(*program.through, program.name, *one.through),
            assignments=(*program.assignments, *one.assignments),
            clean=program.clean or one.clean,
            folder=posixpath.normpath(posixpath.join(program.folder, one.folder)) if one.folder else program.folder,
            strict=one.strict or re.search(r"(?:^| )-[a-z]*e|errexit", options.partition(script or "")[0]) is not None,
            pipefail=one.pipefail or "pipefail" in options,
        )


def _script(words: _Words) -> str | None:
    """What a shell is given with -c: the word behind the options."""
    for at, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            rest = [other for other in words[at + 1 :] if not other.startswith("-") and other != "pipefail"]
            return rest[0] if rest else None
        if not word.startswith(("-", "+")) and words[at - 1] not in ("-o", "-eo", "-euo", "-uo"):
            return None
    return None


def _rest(words: _Words, valued: frozenset[str], operands: int = 0) -> _Words:
    """Behind the program's options, those in `valued` with their value, and so many operands."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        at += 2 if words[at] in valued else 1
    return words[at + operands :]


def _plain(valued: str = "", operands: int = 0) -> Callable[[Program], Program | None]:
    """A starter whose options that take a value are known."""
    options = frozenset(valued.split())
    return lambda program: replace(program, words=_rest(program.words, options, operands))


def _env(program: Program) -> Program:
    at, words, assigned, clean = 1, program.words, list(program.assignments), program.clean
    while at < len(words):
        word = words[at]
        if word in ("-u", "--unset", "-C", "--chdir"):
            assigned += [f"{words[at + 1]}="] if word in ("-u", "--unset") and at + 1 < len(words) else []
            at += 2
        elif word in ("-i", "-", "--ignore-environment"):
            clean, at = True, at + 1
        elif word.startswith("-"):
            at += 1
        elif _ASSIGNMENT.match(word):
            assigned.append(word)
            at += 1
        else:
            break
    return replace(program, words=words[at:], assignments=tuple(assigned), clean=clean)


def _sudo(program: Program) -> Program:
    options = frozenset("-u -g -C -D -h -p -r -t -U".split())  # noqa: SIM905
    return replace(program, words=_rest(program.words, options), clean=True)


def _behind(subcommands: str, valued: str = "") -> Callable[[Program], Program | None]:
    """A starter that does so under a subcommand alone: `uv run`, `poetry run`."""
    names, options = frozenset(subcommands.split(",")), frozenset(valued.split())

    def unwrap(program: Program) -> Program | None:
        words = _rest(program.words, options)
        for name in names:
            parts = tuple(name.split())
            if words[: len(parts)] == parts:
                return replace(program, words=_rest(words[len(parts) - 1 :], options))
        return None

    return unwrap


def _script_tool(subcommands: str, valued: str = "") -> Callable[[Program], Program | None]:
    """A JavaScript package manager: behind its subcommand, or directly a known runner (`yarn jest`)."""
    behind = _behind(subcommands, valued)

    def unwrap(program: Program) -> Program | None:
        inner = behind(program)
        if inner is None and program.words[1:2] and program.words[1] in ("jest", "vitest"):
            return replace(program, words=program.words[1:])
        return inner

    return unwrap


def _node(program: Program) -> Program | None:
    words = _rest(program.words, frozenset({"-r", "--require", "--import", "--loader"}))
    known = words and PurePosixPath(words[0]).name in ("jest", "jest.js", "vitest", "vitest.mjs")
    return replace(program, words=words) if known else None


def _coverage(program: Program) -> Program | None:
    words = program.words[1:]
    if words[:1] != ("run",):
        return None
    valued = frozenset("--source --source-pkgs --omit --include --rcfile --data-file --context --concurrency".split())  # noqa: SIM905
    return _module(replace(program, module=False), words, valued)


def _python(program: Program) -> Program | None:
    return _module(program, program.words, frozenset({"-W", "-X", "--check-hash-based-pycs"}))


def _module(program: Program, words: _Words, valued: frozenset[str]) -> Program | None:
    """What stands behind -m; None where no module is named."""
    at, isolated = 1, program.isolated
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        if word == "-m":
            return replace(program, words=words[at + 1 :], module=True, isolated=isolated)
        if word in valued:
            at += 2
            continue
        short = word[1:] if not word.startswith("--") else ""
        isolated = isolated or bool(set(short[:1]) & set("IE")) or "I" in short or "E" in short
        if short.endswith("m") and len(short) > 1:
            return replace(program, words=words[at + 1 :], module=True, isolated=isolated)
        if "c" in short:
            return None
        at += 1
    return None


_UV = (
    "-p --python --with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --package"
    " --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links -C"
    " --config-file --cache-dir --color -w -m --refresh-package --upgrade-package -P --prerelease --resolution --from"
)

_STARTERS: dict[str, Callable[[Program], Program | None]] = {
    "env": _env,
    "exec": _plain("-a"),
    "command": _plain(),
    "builtin": _plain(),
    "nohup": _plain(),
    "setsid": _plain(),
    "caffeinate": _plain("-t -w"),
    "unbuffer": _plain(),
    "time": _plain("-o -f --output --format"),
    "nice": _plain("-n --adjustment"),
    "ionice": _plain("-c -n"),
    "stdbuf": _plain("-i -o -e"),
    "timeout": _plain("-k --kill-after -s --signal", 1),
    "gtimeout": _plain("-k --kill-after -s --signal", 1),
    "xvfb-run": _plain("-e -f -n -p -s -w"),
    "sudo": _sudo,
    "doas": _sudo,
    "uv": _behind("run,tool run", _UV),
    "uvx": _plain(_UV),
    "poetry": _behind("run", "-C --directory -P --project"),
    "pdm": _behind("run", "-p --project"),
    "hatch": _behind("run", "-e --env"),
    "rye": _behind("run"),
    "pipenv": _behind("run"),
    "pixi": _behind("run", "-e --environment --manifest-path"),
    "conda": _behind("run", "-n --name -p --prefix --cwd"),
    "mamba": _behind("run", "-n --name -p --prefix --cwd"),
    "micromamba": _behind("run", "-n --name -p --prefix --cwd"),
    "pipx": _behind("run", "--spec --python"),
    "npx": _plain("-p --package -c --call -w --workspace"),
    "bunx": _plain(),
    "pnpx": _plain(),
    "npm": _behind("exec,x", "-p --package -w --workspace --prefix -C"),
    "pnpm": _script_tool("exec,dlx", "-C --dir -F --filter"),
    "yarn": _script_tool("exec,dlx", "--cwd"),
    "bun": _script_tool("x"),
    "node": _node,
    "coverage": _coverage,
}
