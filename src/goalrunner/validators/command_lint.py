"""Traps in a command line that make a check pass whatever it finds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.shell_programs import SHELLS, Program, programs
from goalrunner.core.shell_syntax import parse
from goalrunner.validators.runners import calls
from goalrunner.validators.script_text import named_paths, text_of

CHECKERS = frozenset(
    """
    ruff mypy pyright basedpyright flake8 pylint black isort bandit tox nox make just task ctest rspec phpunit eslint
    tsc biome prettier shellcheck golangci-lint diff cmp grep
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs whose exit code is their answer, beside the known test runners."""

_SURE = frozenset({"true", ":", "echo", "printf"})
_GREPS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
_PASSING = frozenset({"tee", "tail", "head", "cat", "less", "more", "ts"})
"""Programs that end a pipeline to show or keep output."""
_NO_CHECKS = _SURE | frozenset(
    """
    cd rm mkdir cp mv touch chmod ln export set unset source . trap sleep kill pkill wait read exit test [ [[ (( cat ls
    find git sed awk sort cut tr wc head tail date env which command type seq yes tee
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that prepare or print rather than check."""
_INDULGENT = {
    "--passWithNoTests": "passes if there is no test",
    "--suppress-tests-failed-exit-code": "passes even if tests fail",
    "--suppress-no-test-exit-code": "passes if there is no test",
    "--exit-zero": "always passes",
}
_SHELL_SCRIPT = re.compile(r"#!\s*\S*(?:/| )(?:ba|da|z|k|a)?sh\b(.*)")
_LARGEST_SCRIPT = 20_000
_MOST_COMMANDS = 20


@dataclass(frozen=True)
class _Trap:
    """What is said of a line, and what to write instead: in the line itself, and in a script."""

    text: str
    instead: str = ""
    in_script: str = ""

    def sentence(self, instead: str) -> str:
        return f"{self.text}; write: {instead}" if instead else self.text


def weaknesses(command: str) -> tuple[str, ...]:
    """Return a sentence for each trap, in the order of the line."""
    return tuple(dict.fromkeys(trap.sentence(trap.instead) for trap in _traps(command)))


def weaknesses_of(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the traps of a validator's command line, and of the simple shell scripts of the workspace that it names.

    A validator whose output decides, or that is to fail, has none.
    """
    if not spec.run or spec.expect.output is not None or spec.expect.exit_code:
        return ()
    found = [*weaknesses(spec.run)]
    for name in named_paths(spec, workspace):
        traps = _traps(_script(workspace / name, spec.run))
        found += [f"{name}: {trap.sentence(trap.in_script)}" for trap in traps]
    return tuple(dict.fromkeys(found))


def _script(path: Path, command: str) -> str:
    """Return the text of a shell script that is a plain list of commands, with the options that it is started with."""
    text = text_of(path)
    first = _SHELL_SCRIPT.match(text)
    if len(text) > _LARGEST_SCRIPT or not (first or path.suffix == ".sh"):
        return ""
    line = parse(text)
    if line.functions or len(line.commands) > _MOST_COMMANDS or any(one.optional for one in line.commands):
        return ""
    words = shlex.split(first[1], posix=False) if first else []
    for program in programs(command):
        if any(path.name == Path(word).name for word in program.words[1:]):
            words += program.words[1:]
    flags = "".join(word[1:] for word in words if re.fullmatch(r"-[a-z]+", word))
    return f"{'set -e; ' * ('e' in flags)}{'set -o pipefail; ' * ('pipefail' in words)}{text}"


def _traps(command: str) -> Iterator[_Trap]:
    found = programs(command)
    direct = [call.program for call in calls(command)]
    used = any(map(_uses_status, found))
    checks = [program for program in found if program.name and program.name not in _NO_CHECKS]
    for program in found:
        words = program.words
        certain = program in direct or program.name in CHECKERS or "/" in (words or ("",))[0]
        for word in words[1:] if certain else ():
            if reason := _INDULGENT.get(word.partition("=")[0]):
                yield _Trap(f"`{word}` of {program.name} {reason}")
        if program.name == "make" and {"-i", "--ignore-errors"} & set(words):
            yield _Trap("make -i passes even if its commands fail")
        is_grep = program.name in _GREPS or (program.name == "git" and words[1:2] == ("grep",))
        if program.command.negated and not program.command.piped and is_grep:
            yield _negated_grep(program, command)
        elif certain or program in checks[-1:]:
            yield from _of_position(program, command, certain=certain, used=used)


def _of_position(program: Program, command: str, *, certain: bool, used: bool) -> Iterator[_Trap]:
    """Yield what takes the place of a program's exit code; if the program may not be a check, only what always passes."""
    lost = program.command.lost
    if lost is None:
        return
    instead = _name(lost.instead)
    sure = instead in _SURE or lost.instead == "exit 0"
    line = lost.whole if any(name in SHELLS for name in program.through) else command
    match lost.how:
        case "|" if not program.pipefail and (certain or instead in _PASSING):
            piped = f"bash -o pipefail -c {shlex.quote(line)}"
            yield _Trap(f"the exit code of `{lost.whole}` is {instead}'s", piped, "set -o pipefail")
        case "||" if sure:
            checked = lost.whole.removesuffix(f" || {lost.instead}")
            text = f"`{lost.whole}` passes even if {program.name} fails"
            yield _Trap(text, line.replace(lost.whole, checked) if lost.whole in line else checked, checked)
        case ";" if not program.strict and not used and (certain or sure):
            yield _Trap(f"the exit code of `{lost.whole}` is not {program.name}'s", f"set -e; {line}", "set -e")
        case "&" if certain:
            checked = lost.whole.removesuffix(" &")
            yield _Trap(f"`{lost.whole}` does not wait for {program.name}", checked, checked)
        case _:
            pass


def _negated_grep(program: Program, command: str) -> _Trap:
    text = program.command.text
    checked = f"{text}; test $? -eq 1"
    whole = command.strip() == f"! {text}"
    return _Trap(
        f"`! {text}` also passes when {program.name} fails, for example because a file is missing",
        checked if whole else command.replace(f"! {text}", f"{{ {checked}; }}"),
        checked,
    )


def _uses_status(program: Program) -> bool:
    """Return whether a program is given the exit code of another: `code=$?`, `test $? -eq 1`, `exit $?`."""
    given = (*program.words[1:], *program.assignments) if program.name not in _SURE else ()
    return any("$?" in word or "PIPESTATUS" in word for word in given)


def _name(text: str) -> str:
    """Return the name of the last program of a line."""
    inner = programs(text)
    return inner[-1].name if inner else next(iter(text.split()), text)
