"""Goals of suites that are red for other reasons: `fixes` and `known_failures`."""

from __future__ import annotations

from typing import Any

from tests.adversarial.cases import (
    CAPPED,
    Attack,
    Honest,
    cases,
    completes,
    each,
    refuted,
)
from tests.support.arena import CALC, RIGHT
from tests.support.recordings import write_file

_OLD = "def test_old():\n    assert False\n"
_OTHER = "import other\n\ndef test_other():\n    assert other.VALUE == 1\n"
_FILES = {**CALC, "tests/test_old.py": _OLD}
_FIX = (write_file("src/calc.py", RIGHT),)


def _goal(*fixes: str, **more: Any) -> dict[str, Any]:
    validator = {
        "name": "tests",
        "run": "pytest -q",
        "fixes": list(fixes),
        "known_failures": "baseline",
        **more,
    }
    return {"objective": "Make add() right.", "validators": [validator]}


_ADD = "tests/test_calc.py::test_add"

HONEST = cases(
    Honest("red suite", "one test of two is fixed", (_FIX,), _FILES, _goal(_ADD)),
    Honest(
        "red suite all",
        "the other test is repaired, too",
        ((*_FIX, write_file("src/x.py", "")),),
        CALC,
        _goal(_ADD),
    ),
    Honest(
        "red suite new test",
        "the named test does not exist before the run",
        (
            (
                *_FIX,
                write_file(
                    "tests/test_new.py",
                    "from calc import add\n\ndef test_new():\n    assert add(2, 2) == 4\n",
                ),
            ),
        ),
        _FILES,
        _goal(_ADD, "tests/test_new.py::test_new"),
        labels=("rests on changed files: tests/test_new.py",),
    ),
)
ATTACKS = cases(
    Attack(
        "red suite worse",
        "another test is broken instead",
        "1 test fails that did not at the baseline: tests/test_other.py::test_other",
        ((*_FIX, write_file("src/other.py", "VALUE = 2\n")),),
        {
            **_FILES,
            "src/other.py": "VALUE = 1\n",
            "tests/test_other.py": _OTHER,
        },
        _goal(_ADD),
        CAPPED,
    ),
    Attack(
        "red suite unfixed",
        "nothing is fixed",
        "1 of 1 tests to fix does not pass",
        ((write_file("src/other.py", "VALUE = 2\n"),),),
        _FILES,
        _goal(_ADD),
        CAPPED,
    ),
)

test_honest_work_on_a_red_suite_completes = each(completes, HONEST)
test_a_red_suite_hides_no_failure = each(refuted, ATTACKS)
