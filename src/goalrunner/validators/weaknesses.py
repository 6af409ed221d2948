"""Traps in a command line that make a check pass whatever it finds. Owns their description; nothing is red for one."""

from __future__ import annotations

from goalrunner.validators.programs import Program, programs
from goalrunner.validators.runners import calls

_CHECKERS = frozenset(
    """
    ruff mypy pyright basedpyright flake8 pylint black isort bandit tox nox make just task ctest rspec phpunit eslint
    tsc biome prettier shellcheck golangci-lint diff cmp grep
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs whose exit code is their answer, beside the known test runners."""

_SURE = frozenset({"true", ":", "echo", "printf"})
_INDULGENT = {
    "--passWithNoTests": "passes when there is no test at all",
    "--suppress-tests-failed-exit-code": "passes when tests fail",
    "--suppress-no-test-exit-code": "passes when there is no test at all",
    "--exit-zero": "passes whatever it finds",
}


def weaknesses(command: str) -> tuple[str, ...]:
    """One sentence for each trap, in the order of the line; empty for a line whose exit code says what it seems to."""
    direct = {id(call.program.command) for call in calls(command)}
    found: list[str] = []
    for program in programs(command):
        if id(program.command) in direct or program.name in _CHECKERS or _answers(program, command):
            found += _of(program)
    return tuple(dict.fromkeys(found))


def _answers(program: Program, command: str) -> bool:
    """Whether a program is recognised as a test runner, or is a script of its own: `./check.sh`."""
    return "/" in (program.words[:1] or ("",))[0] or any(call.program.words == program.words for call in calls(command))


def _of(program: Program) -> list[str]:
    found = [
        f"`{word}` of {program.name} {_INDULGENT[word.partition('=')[0]]}"
        for word in program.words[1:]
        if word.partition("=")[0] in _INDULGENT
    ]
    if program.name == "make" and {"-i", "--ignore-errors"} & set(program.words):
        found.append("make -i passes whatever its commands find")
    lost = program.command.lost
    if lost is None:
        return found
    instead = _first_word(lost.instead)
    match lost.how:
        case "|" if not program.pipefail:
            found.append(f"the exit code of `{lost.whole}` is {instead}'s")
        case "||" if instead in _SURE:
            found.append(f"`{lost.whole}` passes whatever {program.name} finds")
        case ";" if not program.strict:
            found.append(f"the exit code of `{lost.whole}` is not {program.name}'s")
        case "&":
            found.append(f"`{lost.whole}` does not wait for {program.name}")
        case _:
            pass
    return found


def _first_word(text: str) -> str:
    inner = programs(text)
    return inner[-1].name if inner else text.split()[0] if text.split() else text
