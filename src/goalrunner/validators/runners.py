"""How the known test runners sum up a run.

Every form is anchored to whole lines. The forms are those of pytest 5 to 9, unittest of Python 3.8 to 3.14, jest 27 to
30, vitest 1 to 4, mocha 8 to 11, node:test of Node 18 to 24, and of the test commands of go and cargo.
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
    """A summary in an output, as one line. `says` is what it reports of failures: "2 failed, 1 error"."""

    text: str
    says: str
    begin: int
    end: int
    """Where it stands in the output."""
    none_ran: bool = False
    """Whether no test passed or failed, not even as expected."""
    ran: int = 0
    """Tests that passed or failed; of go: packages."""
    skipped: int = 0
    """Tests that were skipped, pending, todo or expected to fail."""


GO_PACKAGE = re.compile(
    r"^(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?$", re.MULTILINE
)
CARGO_RESULT = re.compile(
    r"^ *test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; \d+ filtered out"
    r"(?:; finished in [0-9.]+s)? *$",
    re.MULTILINE,
)
_COUNT = r"\d+ [a-z]+(?: [a-z]+)?"
_BARS = r"\d+ [a-z]+(?: \| \d+ [a-z]+)*|no tests"
_PYTEST = re.compile(
    rf"^ *(?P<bar>=+ )?(?P<tests>{_COUNT}(?:, {_COUNT})*|no tests ran) in [0-9.]+ ?s(?:econds)?"
    r"(?: \((?:\d+ days?, )?[0-9:]+\))?(?(bar) =+) *$",
    re.MULTILINE,
)
_JEST = re.compile(
    r"^Test Suites: +(?P<groups>(?:\d+ [a-z]+, )*)\d+(?: of \d+)? total *\n *Tests: +(?P<tests>(?:\d+ [a-z]+, )*)\d+ total *"
    r"(?:\n(?:Snapshots: .*|Time: .*|Ran all test suites.*| *$))*",
    re.MULTILINE,
)
_VITEST = re.compile(
    rf"^ *Test Files +(?P<groups>{_BARS}) *(?:\(\d+\))? *\n *Tests +(?P<tests>{_BARS}) *(?:\(\d+\))? *"
    r"(?P<more>(?:\n *(?:Type )?Errors +(?:\d+ errors?|no errors) *$)*)"
    r"(?:\n(?: +(?:Start at|Duration|Snapshots|Typecheck) .*| *$))*",
    re.MULTILINE,
)
_MOCHA = re.compile(
    r"^  (?P<tests>\d+ passing) \(\d+(?:ms|s|m|h)\) *(?P<more>(?:\n  \d+ (?:pending|failing) *$)*)",
    re.MULTILINE,
)
_NODE = re.compile(
    r"^[#ℹ] tests \d+ *(?:\n[#ℹ] (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [0-9.]+ *$)*",
    re.MULTILINE,
)
_NODE_COUNT = re.compile(r"([a-z]+) ([0-9]+)")
_NODE_FILE = re.compile(
    r"^(?:(?:not )?ok \d+ - |[✔✖] )(?:/.*|\S+)\.[cm]?[jt]sx?(?: \([0-9.]+ms\)| #.*)?$",
    re.MULTILINE,
)
_NO_JEST = re.compile(r"^No tests found, exiting with code 0$", re.MULTILINE)
_NO_VITEST = re.compile(r"^.*No test files found, exiting with code 0$", re.MULTILINE)
"""What jest and vitest print with --passWithNoTests."""
_PROGRESS = re.compile(r"^[.FEsxu]+$", re.MULTILINE)
"""The line of unittest with a letter for each test and each subtest that failed or was skipped."""
_UNITTEST = re.compile(
    r"^ *Ran (\d+) tests? in [0-9.]+s *\n *\n *(OK|FAILED|NO TESTS RAN)"
    r"(?: \(([a-z]+(?: [a-z]+)?=\d+(?:, [a-z]+(?: [a-z]+)?=\d+)*)\))? *$",
    re.MULTILINE,
)
_UNITTEST_BAD = re.compile(r"(?:^|, )(failures|errors|unexpected successes)=([1-9]\d*)")
_UNITTEST_SKIPPED = re.compile(r"(skipped|expected failures)=(\d+)")
_GO_FAILED_TEST = re.compile(r"^--- FAIL: (\S+) \([0-9.]+s\)$", re.MULTILINE)
_GO_END = re.compile(
    r"(?:\n(?:FAIL|PASS|exit status \d+|coverage: .*) *$)*", re.MULTILINE
)
_CARGO_END = re.compile(
    r"(?:\n(?:error: (?:test|doctest) failed.*|error: \d+ targets? failed:|    `.*`|all doctests ran in .*| *$))*",
    re.MULTILINE,
)
_BAD = re.compile(r"[1-9]\d* (?:[a-z]+ )?(?:failed|failing|errors?)\b")
_RAN = ("passed", "failed", "xpassed", "passing", "failing")
_LEFT_OUT = ("skipped", "xfailed", "todo", "pending", "disabled")


def _counted(
    form: re.Pattern[str], noun: str = "", empty: re.Pattern[str] | None = None
) -> Callable[[str], Iterator[Summary]]:
    """Return a reader of a form with counts of tests, perhaps more of them, and counts of groups of tests.

    `empty` is what the runner prints instead if it finds no test.
    """

    def read(output: str) -> Iterator[Summary]:
        for match in form.finditer(output):
            parts = match.groupdict("")
            tests = parts["tests"].replace(" | ", ", ").strip(", ")
            groups = parts.get("groups", "").strip(", ")
            more = re.findall(r"\d+ [a-z]+", parts.get("more", ""))
            counts = ", ".join(filter(None, (tests, *more)))
            skipped = _sum(counts, _LEFT_OUT)
            yield Summary(
                text=counts or groups or "no tests",
                says=", ".join(_BAD.findall(counts)) or _failed_groups(groups, noun),
                begin=match.start(),
                end=match.end(),
                none_ran=_sum(counts, (*_RAN, "xfailed")) == 0
                and "collected" not in counts,
                ran=_sum(counts, _RAN),
                skipped=skipped,
            )
        for match in empty.finditer(output) if empty else ():
            yield Summary(
                text="no tests",
                says="",
                begin=match.start(),
                end=match.end(),
                none_ran=True,
            )

    return read


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
        number, word, more = match.groups("")
        failures = ", ".join(
            f"{count} {kind}" for kind, count in _UNITTEST_BAD.findall(more)
        )
        left_out = {kind: int(count) for kind, count in _UNITTEST_SKIPPED.findall(more)}
        skipped = sum(left_out.values())
        letters = max(
            map(len, _PROGRESS.findall(output, begin, match.start())), default=0
        )
        begin = match.end()
        # A test of which a subtest is skipped is no skipped test. There are more letters than tests then.
        has_subtests = max(letters, skipped) > int(number)
        yield Summary(
            text=", ".join(
                filter(None, (f"{number} test{_plural(number)}", word, more))
            ),
            says=failures or ("FAILED" if word == "FAILED" else ""),
            begin=match.start(),
            end=match.end(),
            none_ran=not has_subtests and left_out.get("skipped", 0) == int(number),
            ran=int(number) if has_subtests else int(number) - skipped,
            skipped=0 if has_subtests else skipped,
        )


def node(output: str) -> Iterator[Summary]:
    """Read `# tests 5` and the counts below it; the reporter spec writes `ℹ` for `#`."""
    end_before = 0
    for match in _NODE.finditer(output):
        counts = {name: int(count) for name, count in _NODE_COUNT.findall(match[0])}
        # Node counts a file without tests as a test.
        files = len(_NODE_FILE.findall(output, end_before, match.start()))
        end_before = match.end()
        if not {"tests", "pass", "fail", "cancelled"} <= counts.keys():
            continue
        failed = counts["fail"] or counts["cancelled"]
        text = ", ".join(
            f"{counts[name]} {name}"
            for name in ("pass", "fail", "cancelled")
            if counts[name]
        )
        yield Summary(
            text=text or "no tests",
            says=f"{failed} failed" if failed else "",
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
    failed = [package[2] for package in packages if package[1] == "FAIL"]
    ok = [package[0] for package in packages if package[1] == "ok  "]
    says = ""
    if last[1] == "FAIL" or re.search(
        r"^FAIL *$", output[last.end() : ending.end()], re.MULTILINE
    ):
        tests = ", ".join(dict.fromkeys(_GO_FAILED_TEST.findall(output)[-3:]))
        says = f"FAIL {', '.join(dict.fromkeys(failed[-3:]))}"
        says += f" ({tests})" if tests else ""
    ran = len(failed) + sum("[no tests to run]" not in line for line in ok)
    yield Summary(
        text=says or f"{len(ok)} package{_plural(str(len(ok)))} ok",
        says=says,
        begin=last.start(),
        end=ending.end(),
        none_ran=ran == 0,
        ran=ran,
    )


def cargo(output: str) -> Iterator[Summary]:
    """Read `test result: FAILED. 1 passed; 1 failed; ...` for each target, and cargo's own last word where one failed."""
    results = [*CARGO_RESULT.finditer(output)]
    any_ran = any(
        int(result[2]) + int(result[3]) + int(result[5]) for result in results
    )
    passed = failed = (
        0  # of all targets so far: the last one, the doctests, often has no tests
    )
    for result in results:
        ending = _CARGO_END.match(output, result.end()) or result
        error = re.search(
            r"^error: (.*?):?$", output[result.end() : ending.end()], re.MULTILINE
        )
        says = error[1] if error else ""
        if result[1] == "FAILED" or result[3] != "0":
            says = f"{result[3]} failed"
        passed += int(result[2])
        failed += int(result[3])
        yield Summary(
            text=f"{passed} passed, {failed} failed",
            says=says,
            begin=result.start(),
            end=ending.end(),
            none_ran=not any_ran,
            ran=int(result[2]) + int(result[3]),
            skipped=int(result[4]),
        )


def _sum(text: str, words: Collection[str]) -> int:
    """Return the sum of the counts before one of these words: "2 failed, 41 passed"."""
    counts = re.findall(r"(\d+) (\w+)(?=$|[ ,|])", text)
    return sum(int(count) for count, word in counts if word in words)


def _plural(number: str) -> str:
    return "" if number == "1" else "s"


READERS: dict[str, Callable[[str], Iterator[Summary]]] = {
    PYTEST.name: _counted(_PYTEST),
    UNITTEST.name: unittest,
    JEST.name: _counted(_JEST, "test suite", _NO_JEST),
    VITEST.name: _counted(_VITEST, "test file", _NO_VITEST),
    MOCHA.name: _counted(_MOCHA),
    NODE_TEST.name: node,
    GO_TEST.name: go,
    CARGO_TEST.name: cargo,
}
"""What yields the summaries of a runner in an output, in their order."""


def reports_needed(calls: Sequence[Call], env: Mapping[str, str]) -> int | None:
    """Return how many reports of pytest there must be if a line ends with exit code 0; None if it can give none.

    Under `coverage run` the plugin would be measured.
    """
    if env.get("COVERAGE_PROCESS_START") or env.get("COVERAGE_PROCESS_CONFIG"):
        return None
    pytests = [
        call.program
        for call in calls
        if call.runner is PYTEST and call.tests and not call.program.clean
    ]
    if not pytests or any(
        program.negated or "coverage" in program.through for program in pytests
    ):
        return None
    return sum(not (program.fallback or program.optional) for program in pytests)
