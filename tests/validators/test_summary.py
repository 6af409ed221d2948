"""One line for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.validators.suites import Output


@pytest.mark.parametrize(
    ("output", "code", "summary"),
    [
        ("....\n43 passed in 1.02s", 0, "43 passed"),
        ("== 2 failed, 41 passed, 1 warning in 61.10s (0:01:01) ==", 1, "2 failed, 41 passed, 1 warning"),
        ("no tests ran in 0.01s", 5, "no tests ran"),
        ("== 12 deselected in 0.01s ==", 5, "exit 5, no test selected, 12 deselected"),
        ("TOTAL 80%\nFAIL Required test coverage\n43 passed in 0.4s", 1, "exit 1, 43 passed"),
        ("Ran 3 tests in 0.001s\n\nOK", 0, "3 tests, OK"),
        ("Ran 1 test in 0.001s\n\nFAILED (failures=1)", 1, "1 test, FAILED, failures=1"),
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
