"""Protected tests that no longer run."""

from __future__ import annotations

import pytest

from goalrunner.core.verdict import ValidatorResult
from goalrunner.validators import fewer_tests as module
from goalrunner.validators.fewer_tests import compared, missing_tests


def result(*ids: str) -> ValidatorResult:
    return ValidatorResult(
        name="tests", passed=True, reason="passed", summary="fine", tests_run=len(ids), test_ids=tuple(sorted(ids))
    )


def missing(base: list[str], now: list[str]) -> tuple[str, ...]:
    return missing_tests(result(*base), result(*now), lambda path: path.startswith("tests/"))


@pytest.mark.parametrize(
    ("base", "now", "gone"),
    [
        (["tests/a.py::x", "tests/a.py::y"], ["tests/a.py::y", "tests/a.py::z"], ("tests/a.py::x",)),
        (["src/a.py::x"], [], ()),
        (["tests/a.py::x[1]", "tests/a.py::x[2]"], ["tests/a.py::x[3]", "tests/a.py::x[4]"], ()),
        (["tests/a.py::x[1]", "tests/a.py::x[2]"], ["tests/a.py::x[1]"], ("tests/a.py::x[2]",)),
        (["tests/a.py::x[1]", "tests/a.py::x[2]"], ["tests/a.py::x[3]"], ("tests/a.py::x[1]", "tests/a.py::x[2]")),
        (["tests/a.py"], ["tests/a.py::x"], ()),
        (["tests/a.py"], ["tests/b.py::x"], ("tests/a.py",)),
        ([], ["tests/a.py::x"], ()),
        (["tests/a.py::x"], [], ("tests/a.py::x",)),
    ],
)
def test_what_ran_at_the_base_must_run_now(base: list[str], now: list[str], gone: tuple[str, ...]) -> None:
    assert missing(base, now) == gone


def test_what_lies_behind_the_bound_cannot_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEST_IDS", 2)
    assert missing(["tests/a.py::b", "tests/a.py::d"], ["tests/a.py::a", "tests/a.py::c"]) == ("tests/a.py::b",)


def test_a_result_without_its_tests_is_red_and_names_them() -> None:
    now = result("tests/a.py::x")
    assert compared(now, now, lambda path: True, suite=False, freed=False) == (now, ())
    base = result(*(f"tests/a.py::t{at}" for at in range(7)))
    red, _ = compared(base, now, lambda path: True, suite=False, freed=False)
    assert (red.passed, red.reason) == (False, "red")
    assert red.summary == "7 protected tests did not run: tests/a.py::t0, ..."
    assert red.feedback == (
        "exit 0, but 7 protected tests of the start did not run: tests/a.py::t0, tests/a.py::t1, tests/a.py::t2, "
        "tests/a.py::t3, tests/a.py::t4 and 2 more.\nTests in protected files must all run again: none may be skipped, "
        "deselected or expected to fail, and the process must not end before its last test. If they are to change, the "
        "goal file must say so: [workspace] allow."
    )
