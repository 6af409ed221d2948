"""Warnings about a validator before it runs."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import calls
from goalrunner.core.shell_programs import Program, programs
from goalrunner.validators.spec_validator import name_of


def missing_callable(spec: ValidatorSpec, workspace: Path) -> str:
    """Return that the callable of a Python validator does not exist; else empty.

    The baseline cannot show it: the agent may be asked to write the callable. The
    module is only parsed: importing it would run code of the workspace.
    """
    module, _, function = (spec.python or "").partition(":")
    top = module.partition(".")[0]
    if not module or importlib.util.find_spec(top):
        return ""
    start = f"validator {name_of(spec)} fails until the module"
    root = workspace / spec.cwd
    if not (root / top).is_dir() and not (root / f"{top}.py").is_file():
        return f"{start} {top} exists, in the workspace or installed"
    path = root / module.replace(".", "/")
    names = _names_in_module(path)
    if names is None or "*" in names or "__getattr__" in names:
        return ""
    if function.partition(".")[0] in names:
        return ""
    return f"{start} {module} has a function {function}"


def _names_in_module(path: Path) -> set[str | None] | None:
    """Return all names in the text of a module; None if it cannot be parsed.

    `path` has no ending.
    """
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            names: set[str | None] = set()
            for node in ast.walk(ast.parse(file.read_bytes())):
                # Names of definitions and imports, and of variables.
                for key in ("name", "asname", "id"):
                    names.add(getattr(node, key, None))
            return names
    return None


_SURE = frozenset({"true", ":", "echo", "printf"})
_NO_CHECKS = _SURE | frozenset(
    """
    cd rm mkdir cp mv touch chmod ln export set unset source . trap sleep kill pkill
    wait read exit test [ [[ (( cat ls find git sed awk sort cut tr wc head tail date
    env which command type seq yes tee
    """.split()
)
"""Programs that prepare or print rather than check."""
# `set -e`, `sh -ec`, `set -o errexit`
_STRICT = re.compile(r"(?:\bset|sh) -[a-z]*e|errexit")
"""With it, the shell stops at the first failure."""
_INDULGENT = {
    "--passWithNoTests": "passes if there is no test",
    "--exit-zero": "always passes",
    "--ignore-errors": "passes even if its commands fail",
    "make -i": "passes even if its commands fail",
}


def weaknesses_of(spec: ValidatorSpec) -> tuple[str, ...]:
    """Return the traps of a validator's command line.

    None if its output decides, or if it is to fail.
    """
    if not spec.run or spec.expect.output is not None or spec.expect.exit_code:
        return ()
    return tuple(dict.fromkeys(_traps(spec.run)))


def _traps(command: str) -> Iterator[str]:
    started = programs(command)
    direct = [call.program for call in calls(command)]
    checks = [
        program
        for program in started
        if program.name and program.name not in _NO_CHECKS
    ]
    # One program gets the exit code of another: `code=$?`, `test $? -eq 1`, `exit $?`.
    uses_exit_code = any(
        program.name not in _SURE and _names_exit_code(program) for program in started
    )
    for program in started:
        # What comes before the last check may prepare it, and may fail.
        if program not in (*direct, *checks[-1:]):
            continue
        for word in program.words[1:]:
            with_name = _INDULGENT.get(f"{program.name} {word}")
            reason = _INDULGENT.get(word.partition("=")[0]) or with_name
            if reason:
                yield f"`{word}` of {program.name} {reason}"
        yield from _lost_exit_code(program, command, uses_exit_code=uses_exit_code)


def _names_exit_code(program: Program) -> bool:
    words = (*program.words[1:], *program.assignments)
    return any("$?" in word or "PIPESTATUS" in word for word in words)


def _lost_exit_code(
    program: Program, command: str, *, uses_exit_code: bool
) -> Iterator[str]:
    """Yield why a program's exit code does not count, with what to write instead."""
    lost = program.lost
    if lost is None:
        return
    name = program.name
    instead = lost.instead.partition(" ")[0]
    match lost.how:
        case "|" if "pipefail" not in command:
            yield (
                f"`| {lost.instead}` gives the exit code of {instead}, not of {name};"
                f" write: bash -o pipefail -c {shlex.quote(command)}"
            )
        case "||" if instead in _SURE or lost.instead == "exit 0":
            yield f"`|| {lost.instead}` passes even if {name} fails; remove it"
        case ";" if not (_STRICT.search(command) or uses_exit_code or program.optional):
            yield (
                f"the exit code of {name} is lost behind `;`; write: set -e; {command}"
            )
        case "&":
            yield f"`&` does not wait for {name}; remove it"
