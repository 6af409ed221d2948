"""The decision of a check: which sides run, and what their results mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pytest

from goalrunner.checking.protection import ChangedPath, PathKind
from goalrunner.checking.sides import (
    CheckedChanges,
    Decision,
    Side,
    added_test_fails,
    fixes_failure,
    next_side,
)
from goalrunner.core.verdict import (
    CollectedTests,
    Ending,
    RunnerCount,
    SuiteRecord,
    ValidatorResult,
)

TEST_A, TEST_B, TEST_NEW = (
    "tests/test_a.py::test_a",
    "tests/test_a.py::test_b",
    "tests/test_new.py::test_new",
)
COVERAGE = SuiteRecord(below_threshold=True)


def result(
    endings: Mapping[str, Ending] | None = None,
    *,
    passed: bool | None = None,
    name: str = "tests",
    **about: Any,
) -> ValidatorResult:
    """Return the result of a validator; red if one of its tests failed."""
    skipped_at = about.pop("skipped_at", {})
    whole = about.pop("whole", True)
    tests = (
        None
        if endings is None
        else CollectedTests(endings=endings, skipped_at=skipped_at, whole=whole)
    )
    green = passed if passed is not None else "failed" not in (endings or {}).values()
    reason = "passed" if green else "red"
    return ValidatorResult(name=name, passed=green, reason=reason, tests=tests, **about)


def counted(ran: int, *, passed: bool = True, runner: str = "jest") -> ValidatorResult:
    record = SuiteRecord(
        counts=(RunnerCount(runner=runner, ran=ran, failed=not passed),)
    )
    return result(passed=passed, suite=record)


def path(
    name: str, kind: PathKind = "source", change: Any = "changed", **about: Any
) -> ChangedPath:
    is_check = kind in ("test", "configuration", "script")
    protected = about.pop(
        "protected", is_check and not (kind == "test" and change == "new")
    )
    return ChangedPath(
        name,
        change,
        kind,
        rule="a check" if is_check else "",
        protected=protected,
        **about,
    )


GREEN: Mapping[str, Ending] = {TEST_A: "passed", TEST_B: "passed"}
RED: Mapping[str, Ending] = {TEST_A: "failed", TEST_B: "passed"}
START = {"tests": result(RED)}
SOURCE = path("src/a.py")
EXTENDED = path("tests/test_a.py", "test")
NEW_TEST = path("tests/test_new.py", "test", "new")
CONFTEST = path("tests/conftest.py", "configuration")
DATA = path("src/table.json", "data")
GOLDEN = path("tests/golden.txt", "data", protected=True)


def decided(
    case: CheckedChanges, runs: Mapping[str, Sequence[ValidatorResult]]
) -> tuple[str, Decision]:
    """Run the sides that the decision asks for; return their names, and the decision."""
    ran: dict[Side, Sequence[ValidatorResult]] = {}
    while isinstance(found := next_side(case, ran), str):
        assert found not in ran
        ran[found] = runs[found]
    return "".join(ran), found


def case(*changes: ChangedPath, **about: Any) -> CheckedChanges:
    return CheckedChanges(changes=(SOURCE, *changes), **{"start": START} | about)


Row = tuple[CheckedChanges, Mapping[str, ValidatorResult], str, str, tuple[str, ...]]
"""The changes, the result of each side, the sides that run, the ending and the labels."""

ROWS: dict[str, Row] = {
    "what was delivered is red": (case(EXTENDED), {"M": result(RED)}, "M", "red", ()),
    "only source changed": (case(), {"M": result(GREEN)}, "M", "complete", ()),
    "a new test": (
        case(NEW_TEST),
        {"M": result({**GREEN, TEST_NEW: "passed"}), "B": result(GREEN)},
        "MB",
        "complete",
        (),
    ),
    "a test file is extended": (
        case(EXTENDED),
        {"M": result({**GREEN, "tests/test_a.py::test_c": "passed"}), "B": result(GREEN)},
        "MB",
        "complete",
        (),
    ),
    "a test is deleted": (
        case(EXTENDED),
        {"M": result({TEST_A: "passed"}), "B": result(GREEN)},
        "MB",
        "complete",
        ("tests removed: 1",),
    ),
    "a test is skipped by a mark": (
        case(EXTENDED),
        {"M": result({**GREEN, TEST_B: "skipped"}), "B": result(GREEN)},
        "MB",
        "complete",
        ("tests removed: 1",),
    ),
    "tests are moved to another file": (
        case(path("tests/test_a.py", "test", "deleted"), path("tests/unit/test_a.py", "test", "new")),
        {"M": result({f"tests/unit/test_a.py::test_{one}": "passed" for one in "ab"}), "B": result(GREEN)},
        "MB",
        "complete",
        (),
    ),
    "one of two tests of the same name is moved, the other deleted": (
        case(
            path("tests/test_x.py", "test", "deleted"),
            start={"tests": result({"a.py::test_x": "passed", "b.py::test_x": "failed"})},
        ),
        {"M": result({"c.py::test_x": "passed"}), "B": result({"a.py::test_x": "passed", "b.py::test_x": "passed"})},
        "MB",
        "complete",
        ("tests removed: 1",),
    ),
    "a test that could not be collected at the start is deleted": (
        case(EXTENDED, start={"tests": result({"tests/test_a.py": "failed"}, whole=False)}),
        {"M": result({TEST_A: "passed"}), "B": result(GREEN)},
        "MB",
        "complete",
        ("tests removed: 1",),
    ),
    "configuration is changed and the originals pass": (
        case(CONFTEST),
        {"M": result(GREEN), "B": result(GREEN)},
        "MB",
        "complete",
        ("checks differ: tests/conftest.py",),
    ),
    "data that the originals do not need": (case(DATA), {"M": result(GREEN), "B": result(GREEN)}, "MB", "complete", ()),
    "data that the result needs": (
        case(DATA),
        {"M": result(GREEN), "B": result(RED), "O": result(GREEN)},
        "MBO",
        "complete",
        ("rests on changed files: src/table.json",),
    ),
    "a new test file that the coverage needs": (
        case(NEW_TEST),
        {"M": result(GREEN), "B": result(GREEN, passed=False, suite=COVERAGE), "O": result(GREEN)},
        "MBO",
        "complete",
        ("rests on changed files: tests/test_new.py",),
    ),
    "an ignored file that the result needs": (
        case(path("data/big.bin", "data", "new")),
        {"M": result(GREEN), "B": result(RED), "O": result(GREEN)},
        "MBO",
        "complete",
        ("rests on changed files: data/big.bin",),
    ),
    "data that a validator names": (
        case(path("expected.txt", "data", named=True)),
        {"M": result(GREEN), "B": result(RED), "O": result(GREEN)},
        "MBO",
        "review",
        (),
    ),
    "source that a validator names": (
        case(path("tools/run.py", named=True)),
        {"M": result(GREEN), "B": result(GREEN)},
        "MB",
        "complete",
        (),
    ),
    "a file that the objective names": (
        case(path("Makefile", "configuration", named=True, allowed="named by the objective")),
        {"M": result(GREEN)},
        "M",
        "complete",
        ("checks changed: Makefile",),
    ),
    "a changed test that the result needs": (
        case(EXTENDED), {"M": result(GREEN), "B": result(RED)}, "MB", "review", ()
    ),
    "a changed golden file that the result needs": (
        case(GOLDEN), {"M": result(GREEN), "B": result(RED)}, "MB", "review", ()
    ),
    "a changed test and data that the result needs": (
        case(EXTENDED, DATA),
        {"M": result(GREEN), "B": result(RED), "O": result(RED)},
        "MBO",
        "review",
        ("rests on changed files: src/table.json",),
    ),
    "an extended test that the coverage needs": (
        case(EXTENDED),
        {"M": result(GREEN), "B": result(GREEN, passed=False, suite=COVERAGE), "T": result(GREEN)},
        "MBT",
        "complete",
        ("rests on changed tests: tests/test_a.py",),
    ),
    "extended tests miss the coverage with the original configuration": (
        case(EXTENDED, CONFTEST),
        {
            "M": result(GREEN),
            "B": result(GREEN, passed=False, suite=COVERAGE),
            "T": result(GREEN, passed=False, suite=COVERAGE),
        },
        "MBT",
        "review",
        (),
    ),
    "a test fails and the coverage is missed": (
        case(EXTENDED), {"M": result(GREEN), "B": result(RED)}, "MB", "review", ()
    ),
    "a parameter of the source is gone": (
        case(start={"tests": result({f"{TEST_A}[x]": "passed", f"{TEST_A}[y]": "failed"})}),
        {"M": result({f"{TEST_A}[x]": "passed"})},
        "M",
        "review",
        ("tests removed: 1",),
    ),
    "a parameter of the source has another name": (
        case(start={"tests": result({f"{TEST_A}[x]": "passed", f"{TEST_A}[y]": "failed"})}),
        {"M": result({f"{TEST_A}[x]": "passed", f"{TEST_A}[z]": "passed"})},
        "M",
        "complete",
        (),
    ),
    "parameters have other names and are skipped": (
        case(start={"tests": result({f"{TEST_A}[x]": "failed", f"{TEST_A}[y]": "failed"})}),
        {"M": result({f"{TEST_A}[v]": "skipped", f"{TEST_A}[w]": "skipped", TEST_B: "passed"})},
        "M",
        "review",
        ("tests removed: 2",),
    ),
    "a test skips itself after the change": (
        case(), {"M": result({**GREEN, TEST_B: "skipped"})}, "M", "review", ("tests removed: 1",)
    ),
    "a test that was skipped at the start": (
        case(start={"tests": result({**RED, TEST_B: "skipped"})}),
        {"M": result({**GREEN, TEST_B: "skipped"})},
        "M",
        "complete",
        (),
    ),
    "source skips tests that were unknown at the start": (
        case(start={"tests": result({"tests/test_a.py": "failed"}, whole=False)}),
        {"M": result({**GREEN, TEST_B: "skipped"}, skipped_at={TEST_B: "src/a.py"})},
        "M",
        "review",
        (),
    ),
    "a helper of the tests skips a test that was unknown at the start": (
        case(start={"tests": result({"tests/test_a.py": "failed"}, whole=False)}),
        {"M": result({**GREEN, TEST_B: "skipped"}, skipped_at={TEST_B: "tests/helper.py"})},
        "M",
        "complete",
        (),
    ),
    "a file that could not be collected has no test": (
        case(start={"tests": result({TEST_A: "passed", "tests/test_c.py": "failed"}, whole=False)}),
        {"M": result({TEST_A: "passed"})},
        "M",
        "review",
        (),
    ),
    "a doctest of the source is removed": (
        case(start={"tests": result({"src/a.py::a.f": "failed", TEST_A: "passed"})}),
        {"M": result({TEST_A: "passed"})},
        "M",
        "complete",
        ("tests removed: 1",),
    ),
    "a test vanishes from a file that may change": (
        case(may_change=lambda path: path == "tests/test_a.py"),
        {"M": result({TEST_A: "passed"})},
        "M",
        "complete",
        ("tests removed: 1",),
    ),
    "a test is lost with the originals and with data": (
        case(DATA),
        {"M": result(GREEN), "B": result({TEST_A: "passed"}), "O": result({TEST_A: "passed"})},
        "MBO",
        "review",
        ("rests on changed files: src/table.json",),
    ),
    "a test exists only with new data": (
        case(DATA),
        {"M": result(GREEN), "B": result({TEST_A: "passed"}), "O": result(GREEN)},
        "MBO",
        "complete",
        ("rests on changed files: src/table.json",),
    ),
    "fewer tests by a count": (
        case(start={"tests": counted(5, passed=False)}), {"M": counted(4)}, "M", "review", ("tests removed: 1",)
    ),
    "a changed test file and as many tests by a count": (
        case(EXTENDED, start={"tests": counted(5, passed=False)}),
        {"M": counted(5), "B": counted(5)},
        "MB",
        "complete",
        (),
    ),
    "a deleted test file and as many tests by a count": (
        case(path("a.test.js", "test", "deleted"), start={"tests": counted(5, passed=False)}),
        {"M": counted(5), "B": counted(5)},
        "MB",
        "complete",
        ("checks differ: a.test.js",),
    ),
    "fewer delivered tests by a count": (
        case(EXTENDED, start={"tests": counted(5, passed=False)}),
        {"M": counted(3), "B": counted(5)},
        "MB",
        "complete",
        ("tests removed: 2",),
    ),
    "a changed test file of a silent suite": (
        case(EXTENDED, start={"tests": result(passed=False)}),
        {"M": result(), "B": result()},
        "MB",
        "complete",
        ("checks differ: tests/test_a.py",),
    ),
    "a hidden validator is red": (
        case(), {"M": result(GREEN), "hidden": result(name="hidden", passed=False, hidden=True)}, "M", "red", ()
    ),
    "strict, and the originals are red": (
        case(EXTENDED, strict=True), {"M": result(GREEN), "B": result(RED)}, "MB", "red", ()
    ),
    "strict, and a test vanishes": (case(strict=True), {"M": result({TEST_A: "passed"})}, "M", "red", ()),
    "strict, and ignored files that are kept differ": (
        case(path("data.bin", "data", protected=True), strict=True), {"M": result(GREEN), "B": result(RED)}, "MB", "red", ()
    ),
    "strict, and data that the result needs": (
        case(DATA, strict=True),
        {"M": result(GREEN), "B": result(RED), "O": result(GREEN)},
        "MBO",
        "complete",
        ("rests on changed files: src/table.json",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_decision(row: Row) -> None:
    what, results, sides, ending, labels = row
    runs = {
        side: [one, *([results["hidden"]] if "hidden" in results else [])]
        for side, one in results.items()
    }
    ran, decision = decided(what, runs)
    assert (ran, decision.ending, decision.labels) == (sides, ending, labels)


def test_two_red_validators_are_not_excused_by_the_coverage_of_one() -> None:
    missed = result(GREEN, passed=False, suite=COVERAGE)
    runs: dict[str, list[ValidatorResult]] = {
        "M": [result(GREEN), result(name="diff")],
        "B": [missed, result(name="diff", passed=False)],
    }
    assert decided(case(EXTENDED), runs)[1].ending == "review"


def test_a_review_names_tests_and_the_line_that_accepts_them() -> None:
    delivered = result({TEST_A: "passed", TEST_NEW: "passed"})
    original = result({TEST_A: "passed", TEST_B: "failed"})
    _, decision = decided(
        case(EXTENDED, NEW_TEST), {"M": [delivered], "B": [original], "O": [original]}
    )
    assert (decision.side, decision.paths, decision.refusal) == (
        "O",
        ("tests/test_a.py",),
        "",
    )
    assert decision.hint == 'allow = ["tests/test_a.py"]'
    rows = [
        (item.test, item.change, item.start, item.delivered, item.original)
        for item in decision.tests
    ]
    assert rows == [
        (TEST_B, "lost", "passed", "absent", "failed"),
        (TEST_NEW, "added", "absent", "passed", "absent"),
    ]


def test_a_review_says_which_tests_moved() -> None:
    """The original file cannot be collected: the agent renamed what it imports."""
    delivered = result(
        {
            "tests/test_store.py::test_a": "passed",
            "tests/test_store.py::test_c": "passed",
        }
    )
    original = result({"tests/test_a.py": "failed"}, whole=False)
    start = {"tests": result({TEST_A: "passed"})}
    _, decision = decided(
        case(EXTENDED, start=start), {"M": [delivered], "B": [original]}
    )
    assert [item.text for item in decision.tests] == [
        f"{TEST_A} moved to tests/test_store.py (at the start: passed; as delivered: passed; with the original checks: absent)",
        "added: tests/test_store.py::test_c (at the start: absent; as delivered: passed; with the original checks: absent)",
    ]


def test_a_review_names_the_tests_of_a_file_that_could_not_be_collected() -> None:
    original = result(
        {"tests/test_a.py": "failed", "tests/test_other.py": "failed"}, whole=False
    )
    start = {"tests": result(GREEN)}
    _, decision = decided(
        case(EXTENDED, start=start),
        {"M": [result({TEST_A: "passed"})], "B": [original]},
    )
    rows = [(item.test, item.change, item.original) for item in decision.tests]
    assert rows == [
        (TEST_B, "lost", "absent"),
        (TEST_A, "red", "failed"),
        ("tests/test_other.py", "red", "failed"),
    ]


def test_a_lost_test_makes_green_results_not_count() -> None:
    _, decision = decided(case(), {"M": [result({**GREEN, TEST_B: "skipped"})]})
    assert decision.refusal.startswith(
        f"1 test of the start did not run with the original checks: {TEST_B} (skipped)."
    )
    assert decision.hint == 'allow = ["tests/test_a.py"]'
    assert decision.paths == ()


def test_a_file_that_passes_without_its_tests_was_ended_early_and_is_not_reviewed() -> (
    None
):
    ended = result({"tests/test_a.py": "passed"})
    _, decision = decided(case(), {"M": [ended]})
    assert decision.ending == "red"
    assert "must not end before its last test" in decision.refusal
    rewritten = path("tests/test_a.py", "test", allowed="allow", protected=False)
    assert decided(case(rewritten), {"M": [ended]})[1].ending == "complete"


def test_work_shows_in_a_known_failure_that_is_fixed() -> None:
    start = {"tests": result(RED, passed=True)}
    assert fixes_failure(case(start=start), [result(GREEN)]) is True
    assert fixes_failure(case(start=start), [result(RED, passed=True)]) is False
    assert fixes_failure(case(start={"tests": result(GREEN)}), [result(GREEN)]) is None
    assert fixes_failure(case(start={"tests": result(RED)}), [result(GREEN)]) is None


@pytest.mark.parametrize(
    ("on_start", "fails"),
    [
        ({**GREEN, TEST_NEW: "passed"}, False),
        ({**GREEN, TEST_NEW: "failed"}, True),
        ({**GREEN, "tests/test_new.py": "failed"}, True),
        ({**RED, TEST_NEW: "passed"}, True),
        ({"tests/test_a.py": "failed", TEST_NEW: "passed"}, True),
        ({TEST_A: "", TEST_B: "", TEST_NEW: "", "tests/test_x.py": "failed"}, False),
    ],
)
def test_a_new_test_or_the_new_version_of_one_may_fail_on_the_start(
    on_start: Mapping[str, Ending], fails: bool
) -> None:
    delivered = [result({**GREEN, TEST_NEW: "passed"})]
    changes = case(EXTENDED, NEW_TEST, start={"tests": result(GREEN)})

    assert added_test_fails(changes, delivered, [result(on_start)]) is fails


def test_a_test_that_moved_to_another_file_is_not_new() -> None:
    delivered = [result({TEST_A: "passed", "tests/test_c.py::test_b": "passed"})]
    changes = case(EXTENDED, NEW_TEST, start={"tests": result(GREEN)})

    assert added_test_fails(changes, delivered, ()) is None


def test_sides_put_back_what_they_are_about() -> None:
    allowed = path("Makefile", "configuration", allowed="allow")
    template = path("src/page.html", "data", of_program=True)
    what = case(
        EXTENDED,
        NEW_TEST,
        CONFTEST,
        DATA,
        allowed,
        template,
        path("run.py", named=True),
    )
    paths = {
        side: {item.path for item in what.put_back(side)} for side in get_args(Side)
    }
    checks = {EXTENDED.path, CONFTEST.path}
    assert paths == {
        "M": set(),
        "B": {*checks, NEW_TEST.path, DATA.path, template.path, "run.py"},
        "O": checks,
        "T": {CONFTEST.path, DATA.path, template.path, "run.py"},
        "N": {SOURCE.path, template.path},
    }
