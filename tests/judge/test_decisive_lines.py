"""Which lines of an output are decisive."""

from __future__ import annotations

import time

import pytest

from goalrunner.judge.excerpt import LONGEST, decisive


@pytest.mark.parametrize(
    ("rank", "line"),
    [
        (0, "===== 2 failed, 41 passed in 1.10s ====="),
        (0, "43 passed in 0.52s"),
        (0, "no tests ran in 0.01s"),
        (0, "Ran 12 tests in 0.003s"),
        (0, "OK"),
        (0, "OK (skipped=1)"),
        (0, "FAILED (failures=1, errors=2)"),
        (0, "Tests:       1 failed, 11 passed, 12 total"),
        (0, "      Tests  1 failed | 2 passed (3)"),
        (0, "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out"),
        (0, "ok  \texample.com/pkg\t0.004s"),
        (0, "FAIL\texample.com/pkg\t0.004s"),
        (0, "--- FAIL: TestParse (0.00s)"),
        (0, "Found 3 errors in 1 file (checked 12 source files)"),
        (0, "Success: no issues found in 12 source files"),
        (0, "All checks passed!"),
        (0, "✖ 3 problems (3 errors, 0 warnings)"),
        (0, "BUILD FAILED"),
        (0, " 3 files changed, 12 insertions(+)"),
        (0, "process exited with code 3"),
        (0, "npm ERR! exit code 1"),
        (1, "E   AssertionError: assert 1 == 2"),
        (1, "FAILED tests/test_a.py::test_b - assert 1 == 2"),
        (1, "ValueError: invalid literal"),
        (1, "json.decoder.JSONDecodeError: Expecting value"),
        (1, "KeyboardInterrupt"),
        (1, "src/a.py:3: error: Name 'x' is not defined  [name-defined]"),
        (1, "error[E0308]: mismatched types"),
        (1, "fatal: not a git repository"),
        (1, "thread 'main' panicked at src/main.rs:2:5:"),
        (2, "sh: 1: foo: not found"),
        (2, "cat: x: No such file or directory"),
        (2, "Permission denied"),
        (2, "the request timed out"),
        (2, "@@ -1,3 +1,4 @@"),
        (2, "Traceback (most recent call last):"),
    ],
)
def test_a_decisive_line(rank: int, line: str) -> None:
    (span,) = decisive(f"quiet before\n{line}\nquiet after")
    assert f"quiet before\n{line}\nquiet after"[span.start : span.end] == line
    assert span.rank == rank


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_a.py ....... [ 56%]",
        "compiling parser",
        "",
        "    return found",
        "GET /health 200",
        "terrorism",
        "okay",
    ],
)
def test_a_quiet_line(line: str) -> None:
    assert decisive(f"{line}\n{line}") == []


def test_summaries_come_first_and_the_outermost_before_the_rest() -> None:
    text = "\n".join([*(f"error: number {number}" for number in range(5)), "1 failed in 2.0s"])
    kept = [text[span.start : span.end] for span in decisive(text)]
    assert kept == [
        "1 failed in 2.0s",
        "error: number 4",
        "error: number 0",
        "error: number 3",
        "error: number 1",
        "error: number 2",
    ]


def test_a_long_line_is_clipped() -> None:
    (span,) = decisive("x" * 5_000 + " fatal error: y " + "x" * 5_000)
    assert span.end - span.start <= LONGEST
    assert 4_900 < span.start < 5_010


@pytest.mark.parametrize(
    "line", ["x" * 1_000_000, "a.b" * 300_000, "= " * 500_000, "1 " * 400_000 + "passed", "E" * 9**6]
)
def test_time_grows_with_length_alone(line: str) -> None:
    began = time.perf_counter()
    decisive(line)
    assert time.perf_counter() - began < 5
