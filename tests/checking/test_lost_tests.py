"""Tests of the start that are missing or skipped later. Outputs of real runners are in validators/outputs/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from goalrunner.checking.base_results import BaseResults
from goalrunner.checking.lost_tests import (
    lost_tests,
    needed_tests,
    removed_tests,
    suite_labels,
)
from goalrunner.core.verdict import (
    CollectedTests,
    Ending,
    RunnerCount,
    SuiteRecord,
    ValidatorResult,
)
from goalrunner.validators.collected_tests import together
from goalrunner.validators.named_tests import named_tests
from goalrunner.validators.runner_output import Output
from goalrunner.validators.suites import record_of

OUTPUTS = Path(__file__).parents[1] / "validators" / "outputs"


def count(
    ran: int, skipped: int = 0, runner: str = "mocha", **more: Any
) -> RunnerCount:
    return RunnerCount(runner=runner, ran=ran, skipped=skipped, **more)


def result(
    *counts: RunnerCount, tests: CollectedTests | None = None, **suite: Any
) -> ValidatorResult:
    record = SuiteRecord(counts=counts, **suite)
    return ValidatorResult(
        name="tests", passed=True, summary="exit 0", suite=record, tests=tests
    )


def collected(
    *passed: str,
    whole: bool = True,
    at: Mapping[str, str] | None = None,
    **other: Ending,
) -> ValidatorResult:
    """Return a result with tests; names of `other` are tests of tests/a.py."""
    endings: dict[str, Ending] = dict.fromkeys(passed, "passed")
    endings |= {f"tests/a.py::{name}": ending for name, ending in other.items()}
    return result(
        tests=CollectedTests(endings=endings, skipped_at=at or {}, whole=whole)
    )


def recorded(name: str) -> ValidatorResult:
    output = Output((OUTPUTS / f"{name}.txt").read_text())
    record = record_of(output, (), "")
    named = named_tests(output.text, asked_go=True, workspace=OUTPUTS, folders=())
    tests = together(named, [count.runner for count in record.counts])
    return ValidatorResult(name="tests", passed=True, suite=record, tests=tests)


def lost(
    start: ValidatorResult | None,
    now: ValidatorResult,
    *,
    checks_may_change: bool = False,
) -> list[str]:
    """Return the tests that are lost. Files below src/ are the agent's."""
    found = lost_tests(
        start,
        now,
        lambda path: path.startswith("src/"),
        checks_may_change=checks_may_change,
    )
    return [
        f"{item.test} ({item.change})" if item.change != "lost" else item.test
        for item in found
    ]


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("pytest", "no summary of pytest"),
        ("unittest", "no summary of unittest"),
        ("jest", "no summary of jest"),
        ("mocha", "no summary of mocha"),
        ("node", "node --test ran 1 test, and 4 at the start"),
        ("spec", "node --test ran 1 test, and 4 at the start"),
        ("go", "go test example/sum::TestAdd"),
    ],
)
def test_a_process_that_ends_before_its_tests_loses_them(
    runner: str, words: str
) -> None:
    found = lost(recorded(f"red-{runner}"), recorded(f"exit-{runner}"))
    assert any(words in test for test in found), found


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_a_test_that_is_skipped_anew_is_lost(runner: str) -> None:
    assert lost(recorded(f"red-{runner}"), recorded(f"skip-{runner}")) == [
        f"{runner} ran 1 test, and 2 at the start"
    ]


@pytest.mark.parametrize(
    "runner", ["pytest", "jest", "vitest", "mocha", "node", "spec", "go", "cargo"]
)
def test_the_right_code_loses_no_test(runner: str) -> None:
    assert lost(recorded(f"red-{runner}"), recorded(f"green-{runner}")) == []


def test_go_without_a_package_that_has_tests_has_no_summary() -> None:
    record = record_of(
        Output("ok  \ta\t0.1s [no tests to run]\n?   \tb\t[no test files]\n"), (), ""
    )
    now = ValidatorResult(name="tests", passed=True, summary="exit 0", suite=record)
    assert record.counts == ()
    assert lost(result(count(2, runner="go test")), now) == [
        "no summary of go test, which printed one at the start"
    ]


@pytest.mark.parametrize(
    ("start", "now", "why"),
    [
        (
            [count(10), count(5, failed=True)],
            [count(10)],
            "mocha ran 10 tests, and 15 at the start",
        ),
        (
            [count(5, failed=True), count(8)],
            [count(8)],
            "mocha ran 8 tests, and 13 at the start",
        ),
        (
            [count(3, failed=True)],
            [count(2, 1)],
            "mocha ran 2 tests, and 3 at the start",
        ),
        (
            [count(3, failed=True)],
            [count(9, runner="jest")],
            "no summary of mocha, which printed one at the start",
        ),
        (
            [count(2, runner="go test")],
            [count(1, runner="go test")],
            "go test ran 1 package, and 2 at the start",
        ),
        ([count(3, 2)], [count(2, 3)], "mocha ran 2 tests, and 3 at the start"),
    ],
)
def test_a_count_that_is_smaller_is_lost(
    start: list[RunnerCount], now: list[RunnerCount], why: str
) -> None:
    assert lost(result(*start), result(*now)) == [why]


@pytest.mark.parametrize(
    ("start", "now"),
    [
        ([], [count(1)]),
        ([count(3, failed=True)], [count(3), count(4)]),
        ([count(0, failed=True)], [count(7)]),
        ([count(0)], []),
        ([count(3, failed=True)], [count(5, 2)]),
        ([count(10, failed=True), count(10, failed=True)], [count(10)]),
        ([count(10, failed=True), count(2)], [count(10)]),
        ([count(3, failed=True)], [count(3, 1)]),
        ([count(3, runner="cargo test")], [count(2, runner="cargo test")]),
        ([count(3, 2)], [count(3, 2)]),
    ],
)
def test_what_may_be_honest_is_not_lost(
    start: list[RunnerCount], now: list[RunnerCount]
) -> None:
    assert lost(result(*start), result(*now)) == []


def test_tests_of_an_output_that_is_too_long_are_not_counted() -> None:
    assert lost(result(count(9), whole=False), result(count(2))) == []
    assert lost(result(count(9)), result(count(2), whole=False)) == []


def test_the_pytest_that_reports_needs_no_summary() -> None:
    now = result().model_copy(update={"tests_run": 3})
    assert lost(result(count(3, runner="pytest")), now) == []


def test_a_run_without_any_report_loses_the_tests_of_the_start() -> None:
    start = collected(x="failed", y="skipped")
    assert lost(start, result()) == ["no test is reported, and 1 ran at the start"]
    assert lost(start, result(count(1))) == []
    assert lost(collected(y="skipped"), result()) == []


def test_counts_do_not_decide_where_the_goal_lets_checks_change() -> None:
    start, now = result(count(3)), result(count(2))
    assert lost(start, now, checks_may_change=True) == []
    assert removed_tests([start], now) == 1


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([count(10), count(5)], 15),
        ([count(10, failed=True), count(10)], 10),
        ([count(2, failed=True), count(10), count(1)], 12),
        ([count(9, failed=True, certain=False), count(3, failed=True)], 3),
    ],
)
def test_what_may_be_another_try_need_not_run_again(
    counts: list[RunnerCount], expected: int
) -> None:
    assert needed_tests(counts) == expected


@pytest.mark.parametrize(
    ("start", "now", "gone"),
    [
        (
            ["tests/a.py::x", "tests/a.py::y"],
            ["tests/a.py::y", "tests/a.py::z"],
            ["tests/a.py::x"],
        ),
        (["src/a.py::x"], [], []),
        (
            ["tests/a.py::x[1]", "tests/a.py::x[2]"],
            ["tests/a.py::x[3]", "tests/a.py::x[4]"],
            [],
        ),
        (
            ["tests/a.py::x[1]", "tests/a.py::x[2]"],
            ["tests/a.py::x[1]"],
            ["tests/a.py::x[2]"],
        ),
        (
            ["tests/a.py::x[1]", "tests/a.py::x[2]"],
            ["tests/a.py::x[3]"],
            ["tests/a.py::x[1]", "tests/a.py::x[2]"],
        ),
        (["tests/a.py"], ["tests/a.py::x"], []),
        (["tests/a.py"], ["tests/b.py::x"], ["tests/a.py"]),
        ([], ["tests/a.py::x"], []),
        (["tests/a.py::x"], [], ["tests/a.py::x"]),
    ],
)
def test_what_was_collected_at_the_start_must_be_there(
    start: list[str], now: list[str], gone: list[str]
) -> None:
    assert lost(collected(*start), collected(*now)) == gone


@pytest.mark.parametrize(
    ("start", "now", "gone"),
    [
        ("passed", "skipped", ["tests/a.py::x (skipped)"]),
        ("failed", "xfailed", ["tests/a.py::x (skipped)"]),
        ("failed", "passed", []),
        ("skipped", "skipped", []),
        ("xfailed", "skipped", []),
        ("", "skipped", []),
        ("skipped", "passed", []),
        ("passed", "", ["tests/a.py::x"]),
        ("", "", []),
    ],
)
def test_a_test_that_ran_must_run_again(
    start: Ending, now: Ending, gone: list[str]
) -> None:
    assert lost(collected(x=start), collected(x=now)) == gone


@pytest.mark.parametrize(
    ("start", "delivered", "removed"),
    [
        ({"a.py::x": "passed"}, {"b.py::x": "passed"}, 0),
        ({"a.py::x": "passed"}, {"b.py::x": "skipped"}, 1),
        ({"a.py::x": "skipped"}, {"b.py::x": "skipped"}, 0),
        ({"a.py::x": "passed"}, {"a.py::x[1]": "passed"}, 0),
        ({"a.py::x": "passed"}, {"a.py::x[1]": "skipped"}, 1),
        ({"a.py::x": "passed"}, {"b.py::x[1]": "passed"}, 1),
        ({"a.py::x": "passed"}, {"a.py::xy[1]": "passed"}, 1),
    ],
)
def test_a_test_that_was_moved_or_got_parameters_is_removed_if_it_does_not_run(
    start: Mapping[str, Ending], delivered: Mapping[str, Ending], removed: int
) -> None:
    earlier, later = (
        result(tests=CollectedTests(endings=endings, whole=True))
        for endings in (start, delivered)
    )
    assert removed_tests([earlier], later) == removed


def test_a_file_that_could_not_be_collected_must_run_a_test() -> None:
    assert lost(collected("tests/a.py"), collected(x="skipped", y="passed")) == []
    assert lost(collected("tests/a.py"), collected(x="skipped")) == ["tests/a.py"]


def test_a_run_that_does_not_know_all_tests_loses_none_by_their_names() -> None:
    assert lost(collected(x="passed"), collected("tests/b.py::y", whole=False)) == []


def test_a_run_that_ended_early_loses_the_tests_behind_its_end() -> None:
    start = collected(x="failed", y="passed")
    assert lost(start, collected(x="", whole=False)) == [
        "tests/a.py::x",
        "tests/a.py::y",
    ]


def test_source_that_skips_a_test_loses_it_even_if_it_was_unknown_at_the_start() -> (
    None
):
    test = "tests/a.py::x"
    for start in (None, result(), collected("tests/a.py::y", whole=False)):
        now = collected("tests/a.py::y", x="skipped", at={test: "src/a.py"})
        assert lost(start, now) == [f"{test} (skipped)"]
    assert lost(None, collected(x="skipped", at={test: "tests/helper.py"})) == []
    assert (
        lost(collected(x="skipped"), collected(x="skipped", at={test: "src/a.py"}))
        == []
    )


def test_a_selection_that_varies_is_not_compared() -> None:
    start = result(count(3), filters=("--testmon",), varying=True)
    assert lost(start, result()) == []
    assert removed_tests([start], result()) == 0


@pytest.mark.parametrize(
    ("earlier", "delivered", "removed"),
    [
        (["tests/a.py::x"], ["tests/b.py::x"], 0),
        (
            ["tests/a.py::x", "tests/a.py::y[1]", "tests/a.py::z"],
            ["b.py::x", "c.py::y[1]", "d.py::w"],
            1,
        ),
        (["tests/a.py::x", "tests/b.py::x"], ["tests/b.py::x"], 1),
        (["tests/a.py::x", "tests/b.py::x"], ["tests/c.py::x"], 1),
        (["src/a.py::x", "src/b.py::x"], [], 2),
        (["tests/a.py"], ["tests/unit/a.py::x"], 0),
    ],
)
def test_tests_that_were_removed_are_counted(
    earlier: list[str], delivered: list[str], removed: int
) -> None:
    assert removed_tests([None, collected(*earlier)], collected(*delivered)) == removed


def test_a_removed_test_counts_once_for_several_runs() -> None:
    assert (
        removed_tests(
            [collected(x="failed"), collected(x="passed", y="passed")],
            collected(z="passed"),
        )
        == 2
    )


def test_a_moved_test_is_none_of_those_removed_although_a_side_has_it_twice() -> None:
    start, delivered = (
        collected("tests/a.py::test_a"),
        collected("tests/new.py::test_a"),
    )
    both = collected("tests/a.py::test_a", "tests/new.py::test_a")
    assert removed_tests([start, both], delivered) == 0


def labels(
    start: Sequence[RunnerCount], *now: RunnerCount, **suite: Any
) -> tuple[str, ...]:
    return suite_labels(result(*start, **suite), result(*now, **suite))


def test_what_is_not_known_of_tests_is_labelled() -> None:
    assert labels([count(3)], quiet=True) == ("no test summary: mocha",)
    assert lost(result(count(3), quiet=True), result(quiet=True)) == []
    assert labels([count(3)], count(3), filters=("-k",)) == ("tests filtered: -k",)
    assert labels([count(3)], count(3)) == ()


def test_the_tests_of_the_baseline_are_kept(tmp_path: Path) -> None:
    start = collected(x="failed", at={"tests/a.py::y": "tests/a.py"})
    BaseResults(tmp_path / "base.json", lambda text: text.replace("exit", "***")).keep(
        [start]
    )
    kept = BaseResults(tmp_path / "base.json").results["tests"]
    assert (kept.tests, kept.summary) == (start.tests, "*** 0")
    assert "tests" not in start.model_dump()
