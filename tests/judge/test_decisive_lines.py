"""Which lines of an output are decisive."""

from __future__ import annotations

import time

import pytest

from goalrunner.judge.excerpt import LONGEST, decisive


@pytest.mark.parametrize(
    "line",
    [
        "===== 2 failed, 41 passed in 1.10s =====",
        "43 passed in 0.52s",
        "no tests ran in 0.01s",
        "Ran 12 tests in 0.003s",
        "OK",
        "OK (skipped=1)",
        "FAILED (failures=1, errors=2)",
        "Tests:       1 failed, 11 passed, 12 total",
        "      Tests  1 failed | 2 passed (3)",
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        "ok  \texample.com/pkg\t0.004s",
        "FAIL\texample.com/pkg\t0.004s",
        "--- FAIL: TestParse (0.00s)",
        "Found 3 errors in 1 file (checked 12 source files)",
        "Success: no issues found in 12 source files",
        "All checks passed!",
        "✖ 3 problems (3 errors, 0 warnings)",
        "BUILD FAILED",
        " 3 files changed, 12 insertions(+)",
        "process exited with code 3",
        "npm ERR! exit code 1",
        "E   AssertionError: assert 1 == 2",
        "FAILED tests/test_a.py::test_b - assert 1 == 2",
        "ValueError: invalid literal",
        "json.decoder.JSONDecodeError: Expecting value",
        "KeyboardInterrupt",
        "src/a.py:3: error: Name 'x' is not defined  [name-defined]",
        "error[E0308]: mismatched types",
        "fatal: not a git repository",
        "thread 'main' panicked at src/main.rs:2:5:",
        "sh: 1: foo: not found",
        "cat: x: No such file or directory",
        "Permission denied",
        "the request timed out",
        "@@ -1,3 +1,4 @@",
        "Traceback (most recent call last):",
    ],
)
def test_a_decisive_line(line: str) -> None:
    ((start, end),) = decisive(f"quiet before\n{line}\nquiet after")
    assert f"quiet before\n{line}\nquiet after"[start:end] == line


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


def test_the_outermost_come_before_the_rest() -> None:
    text = "\n".join(
        [*(f"error: number {number}" for number in range(5)), "1 failed in 2.0s"]
    )
    kept = [text[start:end] for start, end in decisive(text)]
    assert kept == [
        "1 failed in 2.0s",
        "error: number 0",
        "error: number 4",
        "error: number 1",
        "error: number 3",
        "error: number 2",
    ]


def test_a_long_line_is_clipped() -> None:
    ((start, end),) = decisive("x" * 5_000 + " fatal error: y " + "x" * 5_000)
    assert end - start <= LONGEST
    assert 4_900 < start < 5_010


@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        "a.b" * 300_000,
        "= " * 500_000,
        "1 " * 400_000 + "passed",
        "E" * 9**6,
    ],
)
def test_time_grows_with_length_alone(line: str) -> None:
    began = time.thread_time()
    decisive(line)
    assert time.thread_time() - began < 5
