"""Early warnings about a validator: a command line that passes too easily, and a callable that does not exist."""

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
    """Return that the callable of a Python validator does not exist, which the baseline cannot show; else an empty text.

    The module is only parsed: importing it would run code of the workspace.
    """
    module, _, function = (spec.python or "").partition(":")
    top, path = (
        module.partition(".")[0],
        workspace / spec.cwd / module.replace(".", "/"),
    )
    if not module or importlib.util.find_spec(top):
        return ""
    start = f"validator {name_of(spec)} fails until the module"
    folder = workspace / spec.cwd / top
    if not (folder.is_dir() or folder.with_name(f"{top}.py").is_file()):
        return f"{start} {top} exists, in the workspace or installed"
    names: set[str | None] = {"*"}
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
            # Names of definitions and imports, and of variables.
            names = {
                getattr(node, key, None)
                for node in nodes
                for key in ("name", "asname", "id")
            }
            break
    if names.isdisjoint((function.partition(".")[0], "*", "__getattr__")):
        return f"{start} {module} has a function {function}"
    return ""


_SURE = frozenset({"true", ":", "echo", "printf"})
_NO_CHECKS = _SURE | frozenset(
    """
    cd rm mkdir cp mv touch chmod ln export set unset source . trap sleep kill pkill wait read exit test [ [[ (( cat ls
    find git sed awk sort cut tr wc head tail date env which command type seq yes tee
    """.split()
)
"""Programs that prepare or print rather than check."""
_STRICT = re.compile(r"(?:\bset|sh) -[a-z]*e|errexit")
"""With it, the shell stops at the first failure."""
_INDULGENT = {
    "--passWithNoTests": "passes if there is no test",
    "--exit-zero": "always passes",
    "--ignore-errors": "passes even if its commands fail",
    "make -i": "passes even if its commands fail",
}


def weaknesses_of(spec: ValidatorSpec) -> tuple[str, ...]:
    """Return the traps of a validator's command line; none if its output decides, or if it is to fail."""
    decides = spec.run and spec.expect.output is None and not spec.expect.exit_code
    return tuple(dict.fromkeys(_traps(spec.run or ""))) if decides else ()


def _traps(command: str) -> Iterator[str]:
    found = programs(command)
    direct = [call.program for call in calls(command)]
    checks = [
        program for program in found if program.name and program.name not in _NO_CHECKS
    ]
    # One program is given the exit code of another: `code=$?`, `test $? -eq 1`, `exit $?`.
    uses_exit_code = any(
        program.name not in _SURE and _names_exit_code(program) for program in found
    )
    for program in found:
        if program not in (*direct, *checks[-1:]):
            continue
        for word in program.words[1:]:
            if reason := _INDULGENT.get(word.partition("=")[0]) or _INDULGENT.get(
                f"{program.name} {word}"
            ):
                yield f"`{word}` of {program.name} {reason}"
        yield from _lost_exit_code(program, command, uses_exit_code=uses_exit_code)


def _names_exit_code(program: Program) -> bool:
    return any(
        "$?" in word or "PIPESTATUS" in word
        for word in (*program.words[1:], *program.assignments)
    )


def _lost_exit_code(
    program: Program, command: str, *, uses_exit_code: bool
) -> Iterator[str]:
    """Yield why a program's exit code does not count, with what to write instead."""
    lost = program.lost
    if lost is None:
        return
    instead = lost.instead.partition(" ")[0]
    match lost.how:
        case "|" if "pipefail" not in command:
            checked = f"bash -o pipefail -c {shlex.quote(command)}"
            yield f"`| {lost.instead}` gives the exit code of {instead}, not of {program.name}; write: {checked}"
        case "||" if instead in _SURE or lost.instead == "exit 0":
            yield f"`|| {lost.instead}` passes even if {program.name} fails; remove it"
        case ";" if not (_STRICT.search(command) or uses_exit_code or program.optional):
            yield f"the exit code of {program.name} is lost behind `;`; write: set -e; {command}"
        case "&":
            yield f"`&` does not wait for {program.name}; remove it"
