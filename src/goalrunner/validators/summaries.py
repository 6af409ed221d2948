"""How known test runners sum up a run, in the lines of their output.

Every form is anchored to whole lines, and only the last summary of an output counts: a log line that says "2 failed"
before it is nobody's summary. The forms are those of pytest 5 to 9, unittest of Python 3.8 to 3.14, jest 27 to 30,
vitest 1 to 4, mocha 8 to 11, node:test of Node 18 to 24, and of the test commands of go and cargo.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True)
class Summary:
    """The last summary of an output. `says` is what it reports of failures, "2 failed, 1 error"; empty: none."""

    text: str
    """The whole of it in one line, for people."""
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
_VITEST_ERRORS = re.compile(r" *(Errors|Type Errors) +(\d+ errors?|no errors)")
_VITEST_REST = re.compile(r" +(?:Start at|Duration|Snapshots|Typecheck) .*|")
_FAILED = re.compile(r"([1-9]\d*) failed")
_GO_PACKAGE = re.compile(r"(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?")
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
_UNITTEST_PART = re.compile(r"(skipped|expected failures)=(\d+)")
_CARGO = re.compile(
    r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; \d+ ignored; \d+ measured; \d+ filtered out"
    r"(?:; finished in [0-9.]+s)?"
)
_CARGO_ERROR = re.compile(
    r"error: (?:test failed, to rerun pass .*|doctest failed, to rerun pass .*|(\d+) targets? failed:)"
)
_CARGO_REST = re.compile(
    r"error: test failed.*|error: doctest failed.*|error: \d+ targets? failed:|    `.*`|all doctests ran in .*|"
)


def pytest(lines: Sequence[str]) -> Summary | None:
    """`== 2 failed, 41 passed in 1.20s ==`, or with -q the same without bars."""
    for at in _backwards(lines):
        if found := _PYTEST.fullmatch(lines[at].strip()):
            counts = found["counts"]
            bad = ", ".join(bad[0] for bad in _PYTEST_BAD.finditer(counts))
            ran, skipped = _sum(counts, _RAN), _sum(counts, ("skipped", "xfailed"))
            return Summary(counts, bad, at, at + 1, ran=ran, skipped=skipped)
    return None


def unittest(lines: Sequence[str]) -> Summary | None:
    """`Ran 3 tests in 0.001s`, a blank line, and `FAILED (failures=1)`."""
    for at in _backwards(lines):
        found = _UNITTEST.fullmatch(lines[at].strip())
        count = (
            _UNITTEST_COUNT.fullmatch(lines[at - 2].strip()) if found and at > 1 and not lines[at - 1].strip() else None
        )
        if found is None or count is None:
            continue
        tests = f"{count[1]} test{'' if count[1] == '1' else 's'}"
        text = ", ".join(part for part in (tests, found[1], found[2]) if part)
        bad = ", ".join(f"{number} {what}" for what, number in _UNITTEST_BAD.findall(found[2] or ""))
        bad = bad or ("FAILED" if found[1] == "FAILED" else "")
        others = dict(_UNITTEST_PART.findall(found[2] or ""))
        skipped = int(others.get("skipped", 0)) + int(others.get("expected failures", 0))
        ran = max(int(count[1]) - skipped, 0)
        return Summary(text, bad, at - 2, at + 1, none_ran=count[1] == "0", ran=ran, skipped=skipped)
    return None


def jest(lines: Sequence[str]) -> Summary | None:
    """`Test Suites: 1 failed, 1 total`, and below it `Tests: ...`."""
    for at in _backwards(lines):
        tests = _JEST_TESTS.fullmatch(lines[at].strip())
        suites = _JEST_SUITES.fullmatch(lines[at - 1].strip()) if tests and at else None
        if tests is None or suites is None:
            continue
        text = tests[1].rstrip(", ") or suites[1].rstrip(", ") or "no tests"
        bad = _failed_of(("test", tests[1]), ("test suite", suites[1]))
        end = _behind(lines, at + 1, _JEST_REST)
        return Summary(text, bad, at - 1, end, ran=_sum(tests[1], _RAN), skipped=_sum(tests[1], _LEFT_OUT))
    return None


def vitest(lines: Sequence[str]) -> Summary | None:
    """`Test Files  1 failed | 1 passed (2)`, below it `Tests ...`, and where there are some `Errors ...`."""
    for at in _backwards(lines):
        tests = _VITEST_TESTS.fullmatch(lines[at].rstrip())
        files = _VITEST_FILES.fullmatch(lines[at - 1].rstrip()) if tests and at else None
        if tests is None or files is None:
            continue
        bad, end = [_failed_of(("test", tests[1]), ("test file", files[1]))], at + 1
        while end < len(lines) and (errors := _VITEST_ERRORS.fullmatch(lines[end].rstrip())):
            bad.append(errors[2] if errors[2] != "no errors" else "")
            end += 1
        text = ", ".join([tests[1].replace(" | ", ", "), *filter(None, bad[1:])])
        end = _behind(lines, end, _VITEST_REST)
        ran, skipped = _sum(tests[1], _RAN), _sum(tests[1], _LEFT_OUT)
        return Summary(text, ", ".join(filter(None, bad)), at - 1, end, ran=ran, skipped=skipped)
    return None


def mocha(lines: Sequence[str]) -> Summary | None:
    """`  3 passing (5ms)`, below it `  2 pending` and `  1 failing`."""
    for at in _backwards(lines):
        if found := _MOCHA.fullmatch(lines[at].rstrip()):
            end, counts = at + 1, [f"{found[1]} passing"]
            while end < len(lines) and (more := _MOCHA_MORE.fullmatch(lines[end].rstrip())):
                counts.append(more[1])
                end += 1
            text = ", ".join(counts)
            bad = next((count for count in counts if count.endswith("failing") and count != "0 failing"), "")
            ran = _sum(text, ("passing", "failing"))
            return Summary(text, bad, at, _behind(lines, end, _BLANK), ran=ran, skipped=_sum(text, ("pending",)))
    return None


def node(lines: Sequence[str]) -> Summary | None:
    """`# tests 5` and the counts below it; the reporter spec writes `ℹ` for `#`."""
    for at in _backwards(lines):
        if _NODE_TESTS.fullmatch(lines[at].rstrip()) is None:
            continue
        counts, end = {}, at
        while end < len(lines) and (found := _NODE_COUNT.fullmatch(lines[end].rstrip())):
            counts[found[1]] = int(float(found[2]))
            end += 1
        if not {"tests", "pass", "fail", "cancelled"} <= counts.keys():
            continue
        text = ", ".join(f"{counts[name]} {name}" for name in ("pass", "fail", "cancelled") if counts[name])
        bad = f"{counts['fail'] or counts['cancelled']} failed" if counts["fail"] or counts["cancelled"] else ""
        # A file that ends without a test of its own counts as one.
        before = takewhile(lambda line: not _NODE_TESTS.fullmatch(line), reversed(lines[:at]))
        ran = max(counts["pass"] + counts["fail"] - sum(bool(_NODE_FILE.fullmatch(line)) for line in before), 0)
        skipped = counts.get("skipped", 0) + counts.get("todo", 0)
        none_ran = not counts["tests"]
        return Summary(text or "no tests", bad, at, _behind(lines, end, _BLANK), none_ran, ran, skipped)
    return None


def go(lines: Sequence[str]) -> Summary | None:
    """A line for each package, and at the end `FAIL` when one failed."""
    last = next((at for at in _backwards(lines) if _GO_PACKAGE.fullmatch(lines[at])), None)
    if last is None:
        return None
    end = _behind(lines, last + 1, _GO_END)
    packages = [(found[1].strip(), found[2]) for line in lines if (found := _GO_PACKAGE.fullmatch(line))]
    failed = [name for state, name in packages if state == "FAIL"]
    closed = "FAIL" in (line.strip() for line in lines[last + 1 : end])
    if not closed and packages[-1][0] != "FAIL":
        ok = sum(state == "ok" for state, _ in packages)
        return Summary(f"{ok} package{'' if ok == 1 else 's'} ok", "", last, end)
    tests = [found[1] for line in lines if (found := _GO_FAILED_TEST.fullmatch(line))]
    what = f"FAIL {', '.join(dict.fromkeys(failed[-3:]))}".strip()
    text = f"{what} ({', '.join(dict.fromkeys(tests[-3:]))})" if tests else what
    return Summary(text, text, last, end)


def cargo(lines: Sequence[str]) -> Summary | None:
    """`test result: FAILED. 1 passed; 1 failed; ...` for each target, and cargo's own last word where one failed."""
    last = next((at for at in _backwards(lines) if _CARGO.fullmatch(lines[at].strip())), None)
    if last is None:
        return None
    end = _behind(lines, last + 1, _CARGO_REST)
    found = _CARGO.fullmatch(lines[last].strip())
    assert found is not None
    text = f"{found[2]} passed, {found[3]} failed"
    error = next((line.strip() for line in lines[last + 1 : end] if _CARGO_ERROR.fullmatch(line.strip())), "")
    if found[1] == "FAILED" or found[3] != "0":
        return Summary(text, f"{found[3]} failed", last, end)
    return Summary(text, error.removeprefix("error: ").rstrip(":"), last, end)


def _sum(text: str, words: Collection[str]) -> int:
    """Return the sum of the counts that stand before one of the words: "2 failed, 41 passed"."""
    return sum(int(count) for count, word in re.findall(r"(\d+) (\w+)(?=$|[ ,|])", text) if word in words)


def _failed_of(*counts: tuple[str, str]) -> str:
    """ "2 failed" of the first that has some; "1 test suite failed" of a later one."""
    for number, (what, text) in enumerate(counts):
        if found := _FAILED.search(text):
            return found[0] if number == 0 else f"{found[1]} {what}{'' if found[1] == '1' else 's'} failed"
    return ""


def _behind(lines: Sequence[str], at: int, more: re.Pattern[str]) -> int:
    """The first line from `at` on that does not belong to the summary any more."""
    while at < len(lines) and more.fullmatch(lines[at].rstrip()):
        at += 1
    return at


def _backwards(lines: Sequence[str]) -> range:
    return range(len(lines) - 1, -1, -1)
