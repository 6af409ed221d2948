"""The summaries that test runners print at the end of a run.

Every form is anchored to whole lines. The forms are those of pytest 5 to 9, unittest of
Python 3.8 to 3.14, jest 27 to 30, vitest 1 to 4, mocha 8 to 11, node:test of Node 18 to
24, and of the test commands of go and cargo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from goalrunner.core.runner_calls import Call
from goalrunner.core.tools import (
    CARGO_TEST,
    GO_TEST,
    JEST,
    MOCHA,
    NODE_TEST,
    PYTEST,
    UNITTEST,
    VITEST,
)


@dataclass(frozen=True)
class Summary:
    """A summary of a test runner in an output."""

    text: str
    """The summary in one line: "2 failed, 41 passed"."""
    failures: str
    """What it reports of failures: "2 failed, 1 error"; empty if there are none."""
    begin: int
    end: int
    """Its position in the output, in characters."""
    none_ran: bool = False
    """Whether no test passed or failed, not even as expected."""
    ran: int = 0
    """Tests that passed or failed; of go: packages."""
    skipped: int = 0
    """Tests that were skipped, pending, todo or expected to fail."""


# "ok  \texample.com/x\t0.01s", "FAIL\texample.com/x [build failed]"
GO_PACKAGE = re.compile(
    r"^(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?$", re.MULTILINE
)
# "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
CARGO_RESULT = re.compile(
    r"^ *test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored;"
    r" (\d+) measured; \d+ filtered out(?:; finished in [0-9.]+s)? *$",
    re.MULTILINE,
)
_COUNT = r"\d+ [a-z]+(?: [a-z]+)?"
_BARS = r"\d+ [a-z]+(?: \| \d+ [a-z]+)*|no tests"
# "===== 2 failed, 41 passed in 1.20s =====", with -q without the bars
_PYTEST = re.compile(
    rf"^ *(?P<bar>=+ )?(?P<tests>{_COUNT}(?:, {_COUNT})*|no tests ran)"
    r" in [0-9.]+ ?s(?:econds)?"
    r"(?: \((?:\d+ days?, )?[0-9:]+\))?(?(bar) =+) *$",
    re.MULTILINE,
)
# "Test Suites: 1 failed, 2 total", then "Tests:       1 failed, 2 passed, 3 total"
_JEST = re.compile(
    r"^Test Suites: +(?P<groups>(?:\d+ [a-z]+, )*)\d+(?: of \d+)? total *"
    r"\n *Tests: +(?P<tests>(?:\d+ [a-z]+, )*)\d+ total *"
    r"(?:\n(?:Snapshots: .*|Time: .*|Ran all test suites.*| *$))*",
    re.MULTILINE,
)
# " Test Files  1 failed | 2 passed (3)", then "      Tests  1 failed | 9 passed (10)"
_VITEST = re.compile(
    rf"^ *Test Files +(?P<groups>{_BARS}) *(?:\(\d+\))? *"
    rf"\n *Tests +(?P<tests>{_BARS}) *(?:\(\d+\))? *"
    r"(?P<more>(?:\n *(?:Type )?Errors +(?:\d+ errors?|no errors) *$)*)"
    r"(?:\n(?: +(?:Start at|Duration|Snapshots|Typecheck) .*| *$))*",
    re.MULTILINE,
)
# "  3 passing (12ms)", then "  1 failing"
_MOCHA = re.compile(
    r"^  (?P<tests>\d+ passing) \(\d+(?:ms|s|m|h)\) *"
    r"(?P<more>(?:\n  \d+ (?:pending|failing) *$)*)",
    re.MULTILINE,
)
# "# tests 5", then a line for each count; the reporter spec writes "ℹ tests 5".
_NODE = re.compile(
    r"^[#ℹ] tests \d+ *(?:\n[#ℹ] "
    r"(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [0-9.]+ *$)*",
    re.MULTILINE,
)
_NODE_COUNT = re.compile(r"([a-z]+) ([0-9]+)")
# "ok 1 - /home/x/test/a.test.js", "✔ test/a.test.js (12.3ms)"
_NODE_FILE = re.compile(
    r"^(?:(?:not )?ok \d+ - |[✔✖] )"
    r"(?:/.*|\S+)\.[cm]?[jt]sx?(?: \([0-9.]+ms\)| #.*)?$",
    re.MULTILINE,
)
_NO_JEST = re.compile(r"^No tests found, exiting with code 0$", re.MULTILINE)
_NO_VITEST = re.compile(r"^.*No test files found, exiting with code 0$", re.MULTILINE)
"""What jest and vitest print with --passWithNoTests."""
_PROGRESS = re.compile(r"^[.FEsxu]+$", re.MULTILINE)
"""The line of unittest with a letter for each test.

And one for each subtest that failed or was skipped.
"""
# "Ran 3 tests in 0.001s", an empty line, then "FAILED (failures=1, skipped=1)"
_UNITTEST = re.compile(
    r"^ *Ran (\d+) tests? in [0-9.]+s *\n *\n *(OK|FAILED|NO TESTS RAN)"
    r"(?: \(([a-z]+(?: [a-z]+)?=\d+(?:, [a-z]+(?: [a-z]+)?=\d+)*)\))? *$",
    re.MULTILINE,
)
_UNITTEST_BAD = re.compile(r"(?:^|, )(failures|errors|unexpected successes)=([1-9]\d*)")
_UNITTEST_SKIPPED = re.compile(r"(skipped|expected failures)=(\d+)")
# "--- FAIL: TestA (0.00s)"; subtests are indented and not counted.
_GO_FAILED_TEST = re.compile(r"^--- FAIL: (\S+) \([0-9.]+s\)$", re.MULTILINE)
_GO_END = re.compile(
    r"(?:\n(?:FAIL|PASS|exit status \d+|coverage: .*) *$)*", re.MULTILINE
)
# What cargo prints after the result of a target belongs to its summary.
_CARGO_END = re.compile(
    r"(?:\n(?:error: (?:test|doctest) failed.*|error: \d+ targets? failed:"
    r"|    `.*`|all doctests ran in .*| *$))*",
    re.MULTILINE,
)
_CARGO_ERROR = re.compile(r"^error: (.*?):?$", re.MULTILINE)
_GO_FAIL = re.compile(r"^FAIL *$", re.MULTILINE)
# "2 failed", "1 failing", "1 test error"; "0 failed" is no failure.
_BAD = re.compile(r"[1-9]\d* (?:[a-z]+ )?(?:failed|failing|errors?)\b")
_RAN = ("passed", "failed", "xpassed", "passing", "failing")
_LEFT_OUT = ("skipped", "xfailed", "todo", "pending", "disabled")


@dataclass(frozen=True)
class _CountedForm:
    """The summary of a runner that counts tests, and perhaps groups of tests."""

    pattern: re.Pattern[str]
    """With groups: tests, and perhaps `more` counts of tests, and `groups` of them."""
    noun: str = ""
    """What a group is: "test file"."""
    empty: re.Pattern[str] | None = None
    """What the runner prints instead if it finds no test."""

    def read(self, output: str) -> Iterator[Summary]:
        for match in self.pattern.finditer(output):
            yield self._summary(match)
        if self.empty is None:
            return
        for match in self.empty.finditer(output):
            begin, end = match.span()
            yield Summary("no tests", "", begin, end, none_ran=True)

    def _summary(self, match: re.Match[str]) -> Summary:
        parts = match.groupdict("")
        # vitest separates its counts by bars.
        tests = parts["tests"].replace(" | ", ", ").strip(", ")
        groups = parts.get("groups", "").strip(", ")
        more = re.findall(r"\d+ [a-z]+", parts.get("more", ""))
        counts = ", ".join(filter(None, (tests, *more)))
        failures = ", ".join(_BAD.findall(counts))
        # `pytest --collect-only` prints how many tests it collected.
        is_collection = "collected" in counts
        return Summary(
            text=counts or groups or "no tests",
            failures=failures or _failed_groups(groups, self.noun),
            begin=match.start(),
            end=match.end(),
            none_ran=_sum(counts, (*_RAN, "xfailed")) == 0 and not is_collection,
            ran=_sum(counts, _RAN),
            skipped=_sum(counts, _LEFT_OUT),
        )


def _failed_groups(groups: str, noun: str) -> str:
    """Return `1 test file failed`, if that is all that a summary says of failures."""
    failed = _BAD.search(groups)
    if failed is None:
        return ""
    number = failed[0].partition(" ")[0]
    return f"{number} {noun}{_plural(number)} failed"


def unittest(output: str) -> Iterator[Summary]:
    """Read `Ran 3 tests in 0.001s`, a blank line, and `FAILED (failures=1)`."""
    begin = 0
    for match in _UNITTEST.finditer(output):
        progress = _PROGRESS.findall(output, begin, match.start())
        begin = match.end()
        yield _unittest_summary(match, max(map(len, progress), default=0))


def _unittest_summary(match: re.Match[str], letters: int) -> Summary:
    """Return a summary; `letters` is the length of the line of progress before it."""
    count, word, details = match.groups("")
    number = int(count)
    failures = [f"{bad} {kind}" for kind, bad in _UNITTEST_BAD.findall(details)]
    left_out = dict(_UNITTEST_SKIPPED.findall(details))
    skipped = sum(map(int, left_out.values()))
    # A test of which a subtest is skipped is no skipped test. There are more letters
    # than tests then.
    has_subtests = max(letters, skipped) > number
    all_skipped = int(left_out.get("skipped", 0)) == number
    tests = f"{count} test{_plural(count)}"
    return Summary(
        text=", ".join(filter(None, (tests, word, details))),
        failures=", ".join(failures) or ("FAILED" if word == "FAILED" else ""),
        begin=match.start(),
        end=match.end(),
        none_ran=all_skipped and not has_subtests,
        ran=number if has_subtests else number - skipped,
        skipped=0 if has_subtests else skipped,
    )


def node(output: str) -> Iterator[Summary]:
    """Read `# tests 5` and the counts below it.

    The reporter spec writes `ℹ` for `#`.
    """
    end_before = 0
    for match in _NODE.finditer(output):
        # Node counts a file without tests as a test.
        files = len(_NODE_FILE.findall(output, end_before, match.start()))
        end_before = match.end()
        counts = {name: int(count) for name, count in _NODE_COUNT.findall(match[0])}
        if {"tests", "pass", "fail", "cancelled"} <= counts.keys():
            yield _node_summary(match, counts, files)


def _node_summary(
    match: re.Match[str], counts: Mapping[str, int], files: int
) -> Summary:
    """Return a summary; `files` are the files that node counted as tests."""
    kinds = [kind for kind in ("pass", "fail", "cancelled") if counts[kind]]
    text = ", ".join(f"{counts[kind]} {kind}" for kind in kinds)
    failed = counts["fail"] or counts["cancelled"]
    return Summary(
        text=text or "no tests",
        failures=f"{failed} failed" if failed else "",
        begin=match.start(),
        end=match.end(),
        none_ran=not text,
        ran=max(counts["pass"] + counts["fail"] - files, 0),
        skipped=counts.get("skipped", 0) + counts.get("todo", 0),
    )


def go(output: str) -> Iterator[Summary]:
    """Read a line for each package, and at the end `FAIL` when one failed."""
    packages = [*GO_PACKAGE.finditer(output)]
    if not packages:
        return
    last = packages[-1]
    ending = _GO_END.match(output, last.end()) or last
    failed: list[str] = []
    ok = 0
    without_tests = 0
    for package in packages:
        if package[1] == "FAIL":
            failed.append(package[2])
        elif package[1] == "ok  ":
            ok += 1
            without_tests += "[no tests to run]" in package[0]
    failures = ""
    if last[1] == "FAIL" or _GO_FAIL.search(output[last.end() : ending.end()]):
        failures = _go_failures(failed, _GO_FAILED_TEST.findall(output))
    ran = len(failed) + ok - without_tests
    yield Summary(
        text=failures or f"{ok} package{_plural(str(ok))} ok",
        failures=failures,
        begin=last.start(),
        end=ending.end(),
        none_ran=ran == 0,
        ran=ran,
    )


def _go_failures(packages: Sequence[str], tests: Sequence[str]) -> str:
    """Return `FAIL x/y (TestA)`, with the last three of each."""
    last_packages = ", ".join(dict.fromkeys(packages[-3:]))
    last_tests = ", ".join(dict.fromkeys(tests[-3:]))
    return f"FAIL {last_packages}" + (f" ({last_tests})" if last_tests else "")


def cargo(output: str) -> Iterator[Summary]:
    """Read `test result: FAILED. 1 passed; 1 failed; ...` for each target.

    Where one failed, cargo's own last line follows.
    """
    results = [*CARGO_RESULT.finditer(output)]
    all_ran = 0
    for result in results:
        all_ran += int(result[2]) + int(result[3]) + int(result[5])
    # The text counts all targets so far: the last one, the doctests, often has no test.
    passed = failed = 0
    for result in results:
        ending = _CARGO_END.match(output, result.end()) or result
        passed += int(result[2])
        failed += int(result[3])
        failures = ""
        if result[1] == "FAILED" or result[3] != "0":
            failures = f"{result[3]} failed"
        elif error := _CARGO_ERROR.search(output[result.end() : ending.end()]):
            failures = error[1]
        yield Summary(
            text=f"{passed} passed, {failed} failed",
            failures=failures,
            begin=result.start(),
            end=ending.end(),
            none_ran=all_ran == 0,
            ran=int(result[2]) + int(result[3]),
            skipped=int(result[4]),
        )


def _sum(text: str, words: Collection[str]) -> int:
    """Return the sum of the counts of these words in a text: "2 failed, 41 passed"."""
    counts = re.findall(r"(\d+) (\w+)(?=$|[ ,|])", text)
    return sum(int(count) for count, word in counts if word in words)


def _plural(number: str) -> str:
    return "" if number == "1" else "s"


READERS: dict[str, Callable[[str], Iterator[Summary]]] = {
    PYTEST.name: _CountedForm(_PYTEST).read,
    UNITTEST.name: unittest,
    JEST.name: _CountedForm(_JEST, "test suite", _NO_JEST).read,
    VITEST.name: _CountedForm(_VITEST, "test file", _NO_VITEST).read,
    MOCHA.name: _CountedForm(_MOCHA).read,
    NODE_TEST.name: node,
    GO_TEST.name: go,
    CARGO_TEST.name: cargo,
}
"""What yields the summaries of a runner in an output, in their order."""


def reports_needed(calls: Sequence[Call], env: Mapping[str, str]) -> int | None:
    """Return how many reports of pytest there must be if a line ends with exit code 0.

    None if the line can give none: under `coverage run` the plugin would be measured.
    """
    if env.get("COVERAGE_PROCESS_START") or env.get("COVERAGE_PROCESS_CONFIG"):
        return None
    calls_of_pytest = 0
    needed = 0
    for call in calls:
        program = call.program
        if call.runner is not PYTEST or not call.tests or program.clean:
            continue
        if program.negated or "coverage" in program.through:
            return None
        calls_of_pytest += 1
        needed += not (program.fallback or program.optional)
    return needed if calls_of_pytest else None
