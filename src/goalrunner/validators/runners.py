"""The known test runners: which command lines call them, and how they sum up a run in the lines of their output.

Every form is anchored to whole lines, and only the last summary of an output counts. The forms are those of pytest 5 to
9, unittest of Python 3.8 to 3.14, jest 27 to 30, vitest 1 to 4, mocha 8 to 11, node:test of Node 18 to 24, and of the
test commands of go and cargo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

from goalrunner.core.shell_programs import Program, programs


@dataclass(frozen=True)
class Summary:
    """The last summary of an output, as one line. `says` is what it reports of failures: "2 failed, 1 error"."""

    text: str
    says: str
    begin: int
    """Its first line, counted from 0."""
    end: int
    """The line behind its last one."""
    none_ran: bool = False
    """Whether it says that there was no test at all."""
    ran: int = 0
    """Tests that passed or failed; of go: packages."""
    skipped: int = 0
    """Tests that were skipped, pending, todo or expected to fail."""


GO_PACKAGE = re.compile(r"(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?")
CARGO_RESULT = re.compile(
    r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out"
    r"(?:; finished in [0-9.]+s)?"
)
_COUNT = r"\d+ [a-z]+(?: [a-z]+)?"
_PYTEST = re.compile(
    rf"(?P<bar>=+ )?(?P<counts>{_COUNT}(?:, {_COUNT})*|no tests ran) in [0-9.]+ ?s(?:econds)?"
    r"(?: \((?:\d+ days?, )?[0-9:]+\))?(?(bar) =+)"
)
_PYTEST_BAD = re.compile(r"[1-9]\d* (?:[a-z]+ )?(?:failed|errors?)")
_UNITTEST = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(([a-z]+(?: [a-z]+)?=\d+(?:, [a-z]+(?: [a-z]+)?=\d+)*)\))?")
_UNITTEST_COUNT = re.compile(r"Ran (\d+) tests? in [0-9.]+s")
_UNITTEST_BAD = re.compile(r"(?:^|, )(failures|errors|unexpected successes)=([1-9]\d*)")
_JEST_SUITES = re.compile(r"Test Suites: +((?:\d+ [a-z]+, )*)\d+(?: of \d+)? total")
_JEST_TESTS = re.compile(r"Tests: +((?:\d+ [a-z]+, )*)\d+ total")
_JEST_REST = re.compile(r"(?:Snapshots|Time): .*|Ran all test suites.*|")
_VITEST_FILES = re.compile(r" *Test Files +(\d+ [a-z]+(?: \| \d+ [a-z]+)*|no tests) *(?:\(\d+\))?")
_VITEST_TESTS = re.compile(r" *Tests +(\d+ [a-z]+(?: \| \d+ [a-z]+)*|no tests) *(?:\(\d+\))?")
_VITEST_ERRORS = re.compile(r" *(?:Errors|Type Errors) +(?:(\d+ errors?)|no errors)")
_VITEST_REST = re.compile(r" +(?:Start at|Duration|Snapshots|Typecheck) .*|")
_FAILED = re.compile(r"([1-9]\d*) failed")
_GO_FAILED_TEST = re.compile(r"--- FAIL: (\S+) \([0-9.]+s\)")
_GO_END = re.compile(r"FAIL|PASS|exit status \d+|coverage: .*")
_MOCHA = re.compile(r"  (\d+) passing \(\d+(?:ms|s|m|h)\)")
_MOCHA_MORE = re.compile(r"  (\d+ (?:pending|failing))")
_NODE_TESTS = re.compile(r"[#ℹ] tests \d+")
_NODE_COUNT = re.compile(r"[#ℹ] (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([0-9.]+)")
_NODE_FILE = re.compile(r"(?:(?:not )?ok \d+ - |[✔✖] ).*\.[cm]?[jt]sx?(?: \([0-9.]+ms\)| #.*)?")
_BLANK = re.compile("")
_RAN = ("passed", "failed", "xpassed")
_LEFT_OUT = ("skipped", "todo", "pending", "disabled")
_UNITTEST_SKIPPED = re.compile(r"(?:skipped|expected failures)=(\d+)")
_CARGO_REST = re.compile(
    r"error: test failed.*|error: doctest failed.*|error: \d+ targets? failed:|    `.*`|all doctests ran in .*|"
)


_Lines = Sequence[str]


def _last(read: Callable[[_Lines, int], Summary | None]) -> Callable[[_Lines], Summary | None]:
    """Return a reader of the last summary in lines. `read` returns the one whose main line has a number."""

    def reader(lines: _Lines) -> Summary | None:
        found = (read(lines, at) for at in range(len(lines) - 1, -1, -1))
        return next(filter(None, found), None)

    return reader


@_last
def pytest(lines: _Lines, at: int) -> Summary | None:
    """Read `== 2 failed, 41 passed in 1.20s ==`, or with -q the same without bars."""
    found = _PYTEST.fullmatch(lines[at].strip())
    if found is None:
        return None
    counts = found["counts"]
    bad = ", ".join(bad[0] for bad in _PYTEST_BAD.finditer(counts))
    ran, skipped = _sum(counts, _RAN), _sum(counts, ("skipped", "xfailed"))
    return Summary(counts, bad, at, at + 1, bool(skipped) and not ran and "xfailed" not in counts, ran, skipped)


@_last
def unittest(lines: _Lines, at: int) -> Summary | None:
    """Read `Ran 3 tests in 0.001s`, a blank line, and `FAILED (failures=1)`."""
    found = _UNITTEST.fullmatch(lines[at].strip())
    count = _UNITTEST_COUNT.fullmatch(lines[at - 2].strip()) if found and at > 1 and not lines[at - 1].strip() else None
    if found is None or count is None:
        return None
    tests = f"{count[1]} test{'' if count[1] == '1' else 's'}"
    bad = ", ".join(f"{number} {what}" for what, number in _UNITTEST_BAD.findall(found[2] or ""))
    bad = bad or ("FAILED" if found[1] == "FAILED" else "")
    skipped = sum(int(number) for number in _UNITTEST_SKIPPED.findall(found[2] or ""))
    ran = max(int(count[1]) - skipped, 0)
    text = ", ".join(filter(None, (tests, found[1], found[2])))
    return Summary(text, bad, at - 2, at + 1, count[1] == "0", ran, skipped)


@_last
def jest(lines: _Lines, at: int) -> Summary | None:
    """Read `Test Suites: 1 failed, 1 total`, and below it `Tests: ...`."""
    tests = _JEST_TESTS.fullmatch(lines[at].strip())
    suites = _JEST_SUITES.fullmatch(lines[at - 1].strip()) if tests and at else None
    if tests is None or suites is None:
        return None
    text = tests[1].rstrip(", ") or suites[1].rstrip(", ") or "no tests"
    bad = _failed_of(tests[1], suites[1], "test suite")
    ran, skipped = _sum(tests[1], _RAN), _sum(tests[1], _LEFT_OUT)
    return Summary(text, bad, at - 1, _behind(lines, at + 1, _JEST_REST), not ran, ran, skipped)


@_last
def vitest(lines: _Lines, at: int) -> Summary | None:
    """Read `Test Files  1 failed | 1 passed (2)`, below it `Tests ...`, and perhaps `Errors ...`."""
    tests = _VITEST_TESTS.fullmatch(lines[at].rstrip())
    files = _VITEST_FILES.fullmatch(lines[at - 1].rstrip()) if tests and at else None
    if tests is None or files is None:
        return None
    end = _behind(lines, at + 1, _VITEST_ERRORS)
    errors = [
        found[1] for line in lines[at + 1 : end] if (found := _VITEST_ERRORS.fullmatch(line.rstrip())) and found[1]
    ]
    bad = ", ".join(filter(None, (_failed_of(tests[1], files[1], "test file"), *errors)))
    text = ", ".join((tests[1].replace(" | ", ", "), *errors))
    ran, skipped = _sum(tests[1], _RAN), _sum(tests[1], _LEFT_OUT)
    return Summary(text, bad, at - 1, _behind(lines, end, _VITEST_REST), not ran, ran, skipped)


@_last
def mocha(lines: _Lines, at: int) -> Summary | None:
    """Read `  3 passing (5ms)`, below it `  2 pending` and `  1 failing`."""
    found = _MOCHA.fullmatch(lines[at].rstrip())
    if found is None:
        return None
    end = _behind(lines, at + 1, _MOCHA_MORE)
    counts = [f"{found[1]} passing", *(line.strip() for line in lines[at + 1 : end])]
    bad = next((count for count in counts if count.endswith("failing") and count != "0 failing"), "")
    text = ", ".join(counts)
    ran = _sum(text, ("passing", "failing"))
    return Summary(text, bad, at, _behind(lines, end, _BLANK), not ran, ran, _sum(text, ("pending",)))


@_last
def node(lines: _Lines, at: int) -> Summary | None:
    """Read `# tests 5` and the counts below it; the reporter spec writes `ℹ` for `#`."""
    end = _behind(lines, at, _NODE_COUNT) if _NODE_TESTS.fullmatch(lines[at].rstrip()) else at
    found = [match for line in lines[at:end] if (match := _NODE_COUNT.fullmatch(line.rstrip()))]
    counts = {match[1]: int(float(match[2])) for match in found}
    if not {"tests", "pass", "fail", "cancelled"} <= counts.keys():
        return None
    failed = counts["fail"] or counts["cancelled"]
    text = ", ".join(f"{counts[name]} {name}" for name in ("pass", "fail", "cancelled") if counts[name])
    # A file that ends without a test of its own counts as one.
    before = takewhile(lambda line: not _NODE_TESTS.fullmatch(line), reversed(lines[:at]))
    ran = max(counts["pass"] + counts["fail"] - sum(bool(_NODE_FILE.fullmatch(line)) for line in before), 0)
    skipped = counts.get("skipped", 0) + counts.get("todo", 0)
    bad = f"{failed} failed" if failed else ""
    return Summary(text or "no tests", bad, at, _behind(lines, end, _BLANK), not text, ran, skipped)


def go(lines: _Lines) -> Summary | None:
    """Read a line for each package, and at the end `FAIL` when one failed."""
    packages = [
        (at, found[1].strip(), found[2]) for at, line in enumerate(lines) if (found := GO_PACKAGE.fullmatch(line))
    ]
    if not packages:
        return None
    last, state, _ = packages[-1]
    end = _behind(lines, last + 1, _GO_END)
    if state != "FAIL" and "FAIL" not in (line.strip() for line in lines[last + 1 : end]):
        ok = [lines[at] for at, state, _ in packages if state == "ok"]
        none_ran = bool(ok) and all("[no tests to run]" in line for line in ok)
        return Summary(f"{len(ok)} package{'' if len(ok) == 1 else 's'} ok", "", last, end, none_ran)
    failed = [name for _, state, name in packages if state == "FAIL"]
    tests = [found[1] for line in lines if (found := _GO_FAILED_TEST.fullmatch(line))]
    text = f"FAIL {', '.join(dict.fromkeys(failed[-3:]))}".strip()
    text += f" ({', '.join(dict.fromkeys(tests[-3:]))})" if tests else ""
    return Summary(text, text, last, end)


def cargo(lines: _Lines) -> Summary | None:
    """Read `test result: FAILED. 1 passed; 1 failed; ...` for each target, and cargo's own last word where one failed."""
    found = [(at, result) for at, line in enumerate(lines) if (result := CARGO_RESULT.fullmatch(line.strip()))]
    if not found:
        return None
    at, last = found[-1]
    end = _behind(lines, at + 1, _CARGO_REST)
    text = f"{last[2]} passed, {last[3]} failed"
    if last[1] == "FAILED" or last[3] != "0":
        return Summary(text, f"{last[3]} failed", at, end)
    error = next((line.strip() for line in lines[at + 1 : end] if line.startswith("error: ")), "")
    ran = any(int(result[2]) + int(result[3]) for _, result in found)
    none_ran = not ran and any(result[5] != "0" for _, result in found)
    return Summary(text, error.removeprefix("error: ").rstrip(":"), at, end, none_ran)


def _sum(text: str, words: Collection[str]) -> int:
    """Return the sum of the counts that stand before one of the words: "2 failed, 41 passed"."""
    return sum(int(count) for count, word in re.findall(r"(\d+) (\w+)(?=$|[ ,|])", text) if word in words)


def _failed_of(tests: str, groups: str, noun: str) -> str:
    """Return "2 failed" of the tests, or "1 test suite failed" of their groups."""
    if found := _FAILED.search(tests):
        return found[0]
    found = _FAILED.search(groups)
    return f"{found[1]} {noun}{'' if found[1] == '1' else 's'} failed" if found else ""


def _behind(lines: _Lines, at: int, more: re.Pattern[str]) -> int:
    """Return the first line from `at` on that does not match."""
    while at < len(lines) and more.fullmatch(lines[at].rstrip()):
        at += 1
    return at


@dataclass(frozen=True)
class Runner:
    """A test runner. `read` returns its last summary in the lines of an output."""

    name: str
    programs: str
    read: Callable[[Sequence[str]], Summary | None]
    idle: str = ""
    """Options with which it runs no test at all."""
    commands: str = ""
    """Subcommands that run tests; empty: it needs none."""
    option: str = ""
    """An option without which it is no test runner."""
    module: bool = False
    """Whether it is only started with `python -m`."""

    def arguments(self, program: Program) -> tuple[str, ...] | None:
        """Return the arguments of a call; None if the program is not this runner."""
        words = tuple(word for word in program.words[:2] if not word.startswith("+")) + program.words[2:]
        if program.name not in self.programs.split() or (self.module and not program.module):
            return None
        if self.commands:
            return words[2:] if words[1:2] and words[1] in self.commands.split() else None
        return words[1:] if not self.option or self.option in words else None


@dataclass(frozen=True)
class Call:
    """A runner that a command line calls directly."""

    runner: Runner
    arguments: tuple[str, ...]
    program: Program

    @property
    def tests(self) -> bool:
        """Whether it is asked to run tests, rather than to list them or to say its version."""
        return not any(word.partition("=")[0] in self.runner.idle.split() for word in self.arguments)


def calls(line: str) -> tuple[Call, ...]:
    """Return the direct calls of known runners in a line: `pytest -q`, `cd x && A=1 uv run python -m pytest`.

    What a Makefile, a script or another tool calls in its turn is no direct call.
    """
    return tuple(
        Call(runner, arguments, program)
        for program in programs(line)
        for runner in RUNNERS
        if (arguments := runner.arguments(program)) is not None
    )


_PYTEST_IDLE = (
    "--collect-only --collectonly --co --version -V -VV --help -h --fixtures --markers --setup-plan --setup-only"
)
RUNNERS: tuple[Runner, ...] = (
    Runner("pytest", "pytest py.test", pytest, _PYTEST_IDLE),
    Runner("unittest", "unittest", unittest, "-h --help", module=True),
    Runner("jest", "jest jest.js", jest, "--listTests --version --showConfig"),
    Runner("vitest", "vitest vitest.mjs", vitest, "list --version"),
    Runner("mocha", "mocha _mocha mocha.js", mocha, "--dry-run --version --help"),
    Runner("node --test", "node", node, option="--test"),
    Runner("go test", "go", go, "-list -c -n", commands="test"),
    Runner("cargo test", "cargo", cargo, "--no-run --list", commands="test t"),
)
"""The test runners whose summaries are understood."""
