"""What the known test runners print at their end. The texts have the shape of what the programs really print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.validators.runner_output import Output
from goalrunner.validators.runners import READERS, Summary

JEST = """\
FAIL j/b.test.js
  ● Test suite failed to run

Test Suites: 5 failed, 1 passed, 6 total
Tests:       1 failed, 1 skipped, 1 todo, 2 passed, 5 total
Snapshots:   0 total
Time:        2.39 s, estimated 3 s
Ran all test suites matching j.
"""
JEST_SUITE_ONLY = """\
Test Suites: 1 failed, 1 skipped, 1 passed, 2 of 3 total
Tests:       2 passed, 2 total
Snapshots:   0 total
Time:        0.7 s
Ran all test suites.
"""
VITEST = """\
 ❯ v/a.spec.mjs (3 tests | 1 failed | 1 skipped) 12ms

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 2 passed | 1 skipped (4)
   Start at  23:33:18
   Duration  879ms (transform 60ms, setup 0ms, import 87ms, tests 10ms, environment 0ms)

"""
VITEST_ERROR = """\
 Test Files  1 passed (1)
      Tests  1 passed (1)
     Errors  1 error
   Start at  23:33:23
   Duration  443ms (transform 19ms)
"""
GO = """\
--- FAIL: TestAdd (0.00s)
    add_test.go:7: got 5
FAIL
FAIL\texample.com/demo/add\t0.002s
ok  \texample.com/demo/sub\t(cached)
?   \texample.com/demo/cmd\t[no test files]
FAIL
"""
GO_BUILD = """\
# example.com/demo/add
add/add.go:3:1: syntax error: non-declaration statement outside function body
FAIL\texample.com/demo/add [build failed]
ok  \texample.com/demo/sub\t0.003s\tcoverage: 80.0% of statements
FAIL
"""
GO_HERE = (
    "--- FAIL: TestAdd (0.00s)\nFAIL\nexit status 1\nFAIL\texample.com/demo\t0.002s\n"
)
GO_OK = "=== RUN   TestAdd\nFAIL\n--- PASS: TestAdd (0.00s)\nPASS\nok  \texample.com/demo\t0.002s\n"
RESULT = "test result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.19s\n"
CARGO = f"failures:\n    tests::bad\n\n{RESULT.format('FAILED', 1, 1)}\nerror: test failed, to rerun pass `--lib`\n"
CARGO_GOES_ON = (
    f"{CARGO}   Doc-tests demo\n\nrunning 1 test\ntest src/lib.rs - add (line 2) ... ok\n\n{RESULT.format('ok', 1, 0)}\n"
    "all doctests ran in 0.69s; merged doctests compilation took 0.66s\nerror: 1 target failed:\n    `--lib`\n"
)
CARGO_OK = f"{RESULT.format('ok', 2, 0)}\n   Doc-tests demo\n\nrunning 0 tests\n\n{RESULT.format('ok', 0, 0)}\n"


def last(runner: str, output: str) -> Summary | None:
    """The last summary that a runner prints in an output."""
    (name,) = (name for name in READERS if name.split()[0] == runner)
    return Output(output).last(name)


UNITTEST = "-" * 70 + "\nRan {} in 0.001s\n\n{}\n"


@pytest.mark.parametrize(
    ("reader", "output", "text", "says", "ends"),
    [
        ("pytest", "== 2 failed, 41 passed in 61.10s (0:01:01) ==\n", "2 failed, 41 passed", "2 failed", True),
        ("pytest", "3 failed, 2 passed, 1 xfailed, 1 subtests passed in 0.55s", None, "3 failed", True),
        ("pytest", "1 passed, 2 errors in 1.00s\nmake: done", None, "2 errors", False),
        ("pytest", "=== 1 failed, 2 passed in 0.12 seconds ===", None, "1 failed", True),
        ("pytest", "1 passed, 3 warnings, 1 rerun in 86401.00s (1 day, 0:00:01)", None, "", True),
        ("pytest", "2 failed in 0.1s\n5 passed, 2 xfailed, 1 xpassed in 0.20s", None, "", True),
        ("pytest", "3 tests collected in 0.01s", "3 tests collected", "", True),
        ("pytest", "no tests ran in 0.01s", "no tests ran", "", True),
        ("unittest", UNITTEST.format("4 tests", "FAILED (failures=3, expected failures=1)"), None, "3 failures", True),
        ("unittest", UNITTEST.format("1 test", "FAILED (unexpected successes=1)"), None, "1 unexpected successes", True),
        ("unittest", UNITTEST.format("2 tests", "OK (expected failures=1)"), None, "", True),
        ("unittest", UNITTEST.format("2 tests", "OK (skipped=1)"), "2 tests, OK, skipped=1", "", True),
        ("jest", JEST, "1 failed, 1 skipped, 1 todo, 2 passed", "1 failed", True),
        ("jest", JEST_SUITE_ONLY, "2 passed", "1 test suite failed", True),
        ("vitest", VITEST, "1 failed, 2 passed, 1 skipped", "1 failed", True),
        ("vitest", VITEST_ERROR, "1 passed, 1 error", "1 error", True),
        ("go", GO, None, "FAIL example.com/demo/add (TestAdd)", True),
        ("go", GO_BUILD, None, "FAIL example.com/demo/add", True),
        ("go", GO_HERE, None, "FAIL example.com/demo (TestAdd)", True),
        ("go", GO_OK, "1 package ok", "", True),
        ("cargo", CARGO, "1 passed, 1 failed", "1 failed", True),
        ("cargo", CARGO_GOES_ON, "2 passed, 1 failed", "1 target failed", True),
        ("cargo", CARGO_OK, "2 passed, 0 failed", "", True),
    ],
)  # fmt: skip
def test_a_summary_is_read(
    reader: str, output: str, text: str | None, says: str, ends: bool
) -> None:
    found = last(reader, output)
    assert found is not None
    assert found.failures == says
    assert text is None or found.text == text
    assert (not output[found.end :].strip()) is ends


FILTERED = RESULT.replace("0 filtered", "3 filtered")


@pytest.mark.parametrize(
    ("reader", "output", "none_ran"),
    [
        (
            "jest",
            "Test Suites: 1 skipped, 0 of 1 total\nTests:       3 skipped, 3 total\n",
            True,
        ),
        ("vitest", " Test Files  1 skipped (1)\n      Tests  3 skipped (3)\n", True),
        ("mocha", "  0 passing (2ms)\n", True),
        ("node", "# tests 2\n# pass 0\n# fail 0\n# cancelled 0\n# skipped 2\n", True),
        ("node", "# tests 1\n# pass 1\n# fail 0\n# cancelled 0\n# skipped 0\n", False),
        (
            "go",
            "ok  \ta\t0.1s [no tests to run]\nok  \tb\t(cached) [no tests to run]\n",
            True,
        ),
        ("go", "ok  \ta\t0.1s [no tests to run]\nok  \tb\t0.1s\n", False),
        ("go", "?   \ta\t[no test files]\n", True),
        ("cargo", FILTERED.format("ok", 0, 0), True),
        ("cargo", FILTERED.format("ok", 1, 0) + FILTERED.format("ok", 0, 0), False),
        ("cargo", RESULT.format("ok", 0, 0), True),
        ("unittest", UNITTEST.format("0 tests", "OK"), True),
    ],
)
def test_a_selection_that_matches_no_test_is_seen(
    reader: str, output: str, none_ran: bool
) -> None:
    found = last(reader, output)
    assert found is not None
    assert found.none_ran is none_ran


@pytest.mark.parametrize(
    "line",
    [
        "2 failed",
        "INFO 2 failed in 0.1s",
        "2 failed in 0.1s, trying again",
        "retrying: 2 failed, 3 passed in 1.0s",
        "FAILED (failures=1)",
        "Tests:       1 failed, 1 total",
        "      Tests  1 failed (1)",
        "test result: FAILED",
        "FAIL",
        "--- FAIL: TestAdd (0.00s)",
        "error: test failed, to rerun pass `--lib`",
    ],
)
def test_a_log_line_is_no_summary(line: str) -> None:
    assert not any(Output(f"{line}\nall is well").summaries.values())


@given(st.text(alphabet=st.sampled_from("0123456789 abcdefilopst,.=()s\n\tTFAIL:;|")))
def test_any_text_is_read_without_failing(text: str) -> None:
    for found in Output(text).summaries.values():
        assert all(0 <= one.begin < one.end <= len(text) for one in found)


@pytest.mark.parametrize(
    ("output", "code", "summary"),
    [
        ("....\n43 passed in 1.02s", 0, "43 passed"),
        (
            "== 2 failed, 41 passed, 1 warning in 61.10s (0:01:01) ==",
            1,
            "2 failed, 41 passed, 1 warning",
        ),
        ("no tests ran in 0.01s", 5, "no tests ran"),
        ("== 12 deselected in 0.01s ==", 5, "exit 5, no test selected, 12 deselected"),
        (
            "TOTAL 80%\nFAIL Required test coverage\n43 passed in 0.4s",
            1,
            "exit 1, 43 passed",
        ),
        ("Ran 3 tests in 0.001s\n\nOK", 0, "3 tests, OK"),
        (
            "Ran 1 test in 0.001s\n\nFAILED (failures=1)",
            1,
            "1 test, FAILED, failures=1",
        ),
        (
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.19s",
            101,
            "4 passed, 1 failed",
        ),
        (
            "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\nSnapshots:   0 total\nTime:  1 s",
            1,
            "1 failed, 2 passed",
        ),
        ("Ran 3 tests in 0.001s\n\nOK\n\n1 passed in 0.10s", 0, "1 passed"),
        (
            "no tests ran in 0.08s\nERROR: file or directory not found: test\n",
            4,
            "exit 4: ERROR: file or directory not found: test",
        ),
        (
            "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --cov\n  inifile: None\n  rootdir: /w\n",
            4,
            "exit 4: pytest: error: unrecognized arguments: --cov",
        ),
        ("OK", 0, "exit 0"),
        ("", 2, "exit 2"),
    ],
)
def test_known_runners_are_summed_up(output: str, code: int, summary: str) -> None:
    assert Output(output).summary(code, passed=code == 0) == summary


@given(st.text(), st.integers(1, 255))
def test_a_red_result_never_sounds_green(output: str, code: int) -> None:
    summary = Output(f"{output}\n7 passed in 0.1s").summary(code, passed=False)
    assert summary == f"exit {code}, 7 passed"
    assert "\n" not in Output(output).summary(code, passed=False)


def test_a_row_of_numbers_is_no_summary_and_costs_no_time() -> None:
    row = " ".join(str(2**power) for power in range(10, 60))
    assert Output(f"{row}\n{row} {row}").summary(0, passed=True) == "exit 0"
