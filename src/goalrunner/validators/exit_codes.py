"""What an exit code is worth: traps in a command line that hide it, and outputs that contradict it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.shell_programs import SHELLS, Program, programs
from goalrunner.validators.pytest_report import Report
from goalrunner.validators.runners import RUNNERS, Summary, calls
from goalrunner.validators.spec_validator import text_of_end

_CHECKERS = frozenset(
    """
    ruff mypy pyright basedpyright flake8 pylint black isort bandit tox nox make just task ctest rspec phpunit eslint
    tsc biome prettier shellcheck golangci-lint diff cmp grep
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs whose exit code is their answer, beside the known test runners."""
_SURE = frozenset({"true", ":", "echo", "printf"})
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
    # One program is given the exit code of another: `code=$?`, `test $? -eq 1`, `exit $?`.
    given = [word for one in found if one.name not in _SURE for word in (*one.words[1:], *one.assignments)]
    used = any("$?" in word or "PIPESTATUS" in word for word in given)
    checks = [program for program in found if program.name and program.name not in _NO_CHECKS]
    for program in found:
        words = program.words
        certain = program in direct or program.name in _CHECKERS or "/" in (words or ("",))[0]
        for word in words[1:] if certain else ():
            if reason := _INDULGENT.get(word.partition("=")[0]) or _INDULGENT.get(f"{program.name} {word}"):
                yield f"`{word}` of {program.name} {reason}"
        if certain or program in checks[-1:]:
            yield from _of_position(program, command, certain=certain, used=used)


def _of_position(program: Program, command: str, *, certain: bool, used: bool) -> Iterator[str]:
    """Yield what takes the place of a program's exit code; if the program may not be a check, only what always passes."""
    lost = program.command.lost
    if lost is None:
        return
    inner = programs(lost.instead)
    instead = inner[-1].name if inner else next(iter(lost.instead.split()), lost.instead)
    sure = instead in _SURE or lost.instead == "exit 0"
    line = lost.whole if any(name in SHELLS for name in program.through) else command
    match lost.how:
        case "|" if not program.pipefail and (certain or instead in _PASSING):
            checked = f"bash -o pipefail -c {shlex.quote(line)}"
            yield f"the exit code of `{lost.whole}` is {instead}'s; write: {checked}"
        case "||" if sure:
            checked = lost.whole.removesuffix(f" || {lost.instead}")
            whole = line.replace(lost.whole, checked) if lost.whole in line else checked
            yield f"`{lost.whole}` passes even if {program.name} fails; write: {whole}"
        case ";" if not program.strict and not used and (certain or sure):
            yield f"the exit code of `{lost.whole}` is not {program.name}'s; write: set -e; {line}"
        case "&" if certain:
            yield f"`{lost.whole}` does not wait for {program.name}; write: {lost.whole.removesuffix(' &')}"


_FAILURES = (
    "A validator whose test runner reports failures fails, whatever its exit code. Failures that are meant to be there "
    "must be marked in the tests (xfail, skip), or wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A validator that calls pytest passes if that pytest itself ran tests to its end and reported to the runner. "
    "Another program named pytest, an exit from within the tests, and a run without any test count as failed."
)
_NO_TEST = (
    "A validator that runs no test fails: its command selects tests that do not exist, or all of them are skipped."
)


def contradiction(line: str, output: Path, report: Report | None, needed: int) -> tuple[str, str] | None:
    """Return why exit code 0 of a line does not count, and the rule for the agent; None if it does.

    `needed` is the number of reports that there must be.
    """
    if report is not None and (problem := report.problem(needed)):
        return f"exit 0, but {problem}", _FAILURES if report.failed and not report.unreadable else _ABSENCE
    summary = _against(line, text_of_end(output)[0], reported=report is not None and report.began > 0)
    if summary is None:
        return None
    if summary.says:
        return f"exit 0, but its summary reports {summary.says}", _FAILURES
    return "exit 0, but no test ran", _NO_TEST


def _against(line: str, output: str, *, reported: bool) -> Summary | None:
    """Return the summary that counts and reports failures, or no test."""
    if not any(program.command.negated for program in programs(line)):
        for runner in RUNNERS:
            summary = runner.last(output)
            if summary and summary.says and not output[summary.end :].strip():
                return summary
    for call in calls(line):
        command = call.program.command
        if command.negated or (reported and call.runner.name == "pytest") or not (command.lost or command.last):
            continue
        summary = call.runner.last(output) if call.tests else None
        if summary and (summary.says or summary.none_ran):
            return summary
    return None
