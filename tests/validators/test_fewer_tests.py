"""Green results with fewer tests than the baseline. Outputs of real runners are in outputs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.checking.protection import Protection, StartFiles
from goalrunner.core.verdict import RunnerCount, SuiteRecord, ValidatorResult
from goalrunner.validators import fewer_tests as module
from goalrunner.validators.fewer_tests import BaseResults, compared, complete, missing_tests, needed, with_uncollected
from goalrunner.validators.fewer_tests import tests_in as found_in
from goalrunner.validators.named_tests import named_tests
from goalrunner.validators.suites import Output, record_of

OUTPUTS = Path(__file__).parent / "outputs"


def count(ran: int, skipped: int = 0, runner: str = "mocha", **more: Any) -> RunnerCount:
    return RunnerCount(runner=runner, ran=ran, skipped=skipped, **more)


def result(*counts: RunnerCount, ids: tuple[str, ...] = (), passed: bool = True, **suite: Any) -> ValidatorResult:
    record = SuiteRecord(counts=counts, **suite)
    return ValidatorResult(name="tests", passed=passed, summary="exit 0", test_ids=ids, suite=record)


def recorded(name: str, *, passed: bool = True) -> ValidatorResult:
    output = Output((OUTPUTS / f"{name}.txt").read_text())
    named = named_tests(output.text, asked_go=True, workspace=OUTPUTS, folders=()).values()
    ids = (name for tests in named for name, ending in tests.endings.items() if ending in ("passed", "failed"))
    return ValidatorResult(name="tests", passed=passed, test_ids=tuple(sorted(ids)), suite=record_of(output, (), ""))


def comparison(
    base: ValidatorResult, now: ValidatorResult, *, suite: bool = True, freed: bool = False
) -> tuple[bool, str, tuple[str, ...]]:
    def protected(path: str) -> bool:
        return suite and not path.startswith("src/")

    found, labels = compared(base, now, protected, suite=suite, freed=freed)
    return found.passed, "" if found.passed else found.summary, labels


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("pytest", "no summary of pytest"),
        ("unittest", "no summary of unittest"),
        ("jest", "no summary of jest"),
        ("mocha", "no summary of mocha"),
        ("node", "node --test ran 1 test, and 4 at the start"),
        ("spec", "node --test ran 1 test, and 4 at the start"),
        ("go", "3 protected tests did not run: go test example/sum::TestAdd"),
        ("cargo", "2 protected tests did not run: tests/it.rs::adds"),
    ],
)
def test_a_process_that_ends_before_its_tests_is_red(runner: str, words: str) -> None:
    passed, why, _ = comparison(recorded(f"red-{runner}"), recorded(f"exit-{runner}"))
    assert not passed
    assert words in why


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_a_test_that_is_skipped_anew_is_red(runner: str) -> None:
    passed, why, _ = comparison(recorded(f"red-{runner}"), recorded(f"skip-{runner}"))
    assert (passed, why) == (False, f"{runner} ran 1 test, and 2 at the start")


def test_a_summary_that_a_failing_test_may_have_printed_is_no_reason_for_red() -> None:
    expected = ("fewer tests: pytest ran 2, 12 at the start",)
    assert comparison(recorded("red-pytest"), recorded("green-pytest")) == (True, "", expected)


@pytest.mark.parametrize("runner", ["jest", "vitest", "mocha", "node", "spec", "go", "cargo"])
def test_the_right_code_is_green_without_a_label(runner: str) -> None:
    assert comparison(recorded(f"red-{runner}"), recorded(f"green-{runner}")) == (True, "", ())


def test_names_of_rust_that_cannot_be_read_are_not_missed() -> None:
    base, now = recorded("green-cargo"), recorded("green-cargo").model_copy(update={"test_ids": ()})
    assert comparison(base, now) == (True, "", ())
    one = now.model_copy(update={"test_ids": ("tests/it.rs::other",)})
    assert comparison(base, one)[1] == "1 protected test did not run: tests/it.rs::adds"


def test_go_without_a_package_that_has_tests_has_no_summary() -> None:
    record = record_of(Output("ok  \ta\t0.1s [no tests to run]\n?   \tb\t[no test files]\n"), (), "")
    now = ValidatorResult(name="tests", passed=True, summary="exit 0", suite=record)
    passed, why, labels = comparison(result(count(2, runner="go test")), now, suite=False)
    assert (record.counts, passed, labels) == ((), False, ())
    assert why == "no summary of go test, which printed one at the start"


def test_a_package_that_could_not_be_built_must_run_a_test() -> None:
    passed, why, _ = comparison(recorded("unbuilt-go"), recorded("exit-go"))
    assert (passed, why) == (False, "1 protected test did not run: go test example/sum")
    assert comparison(recorded("unbuilt-go"), recorded("green-go")) == (True, "", ())


@pytest.mark.parametrize(
    ("base", "now", "why"),
    [
        ([count(10), count(5, failed=True)], [count(10)], "mocha ran 10 tests, and 15 at the start"),
        ([count(5, failed=True), count(8)], [count(8)], "mocha ran 8 tests, and 13 at the start"),
        ([count(3, failed=True)], [count(2, 1)], "mocha ran 2 tests, and 3 at the start"),
        ([count(3, failed=True)], [count(9, runner="jest")], "no summary of mocha, which printed one at the start"),
        ([count(2, runner="go test")], [count(1, runner="go test")], "go test ran 1 package, and 2 at the start"),
    ],
)
def test_fewer_tests_are_red(base: list[RunnerCount], now: list[RunnerCount], why: str) -> None:
    assert comparison(result(*base), result(*now)) == (False, why, ())


@pytest.mark.parametrize(
    ("base", "now", "labels"),
    [
        ([], [count(1)], ()),
        ([count(3, failed=True)], [count(3), count(4)], ()),
        ([count(0, failed=True)], [count(7)], ()),
        ([count(0)], [], ()),
        ([count(3, failed=True)], [count(5, 2)], ()),
        ([count(10, failed=True), count(10, failed=True)], [count(10)], ("fewer tests: mocha ran 10, 20 at the start",)),
        ([count(10, failed=True), count(2)], [count(10)], ("fewer tests: mocha ran 10, 12 at the start",)),
        ([count(3, failed=True)], [count(3, 1)], ("more tests skipped: mocha 1, 0 at the start",)),
        ([count(3, runner="cargo test")], [count(2, runner="cargo test")], ("fewer tests: cargo test ran 2, 3 at the start",)),
    ],
)  # fmt: skip
def test_what_may_be_honest_is_green(base: list[RunnerCount], now: list[RunnerCount], labels: tuple[str, ...]) -> None:
    assert comparison(result(*base), result(*now)) == (True, "", labels)


def test_fewer_tests_that_are_not_protected_are_labelled() -> None:
    ids = ("src/a.py::x", "src/b.py::x", "src/c.py::x", "src/d.py::x")
    base, now = result(count(3), ids=ids), result(count(2), ids=())
    expected = (
        "fewer tests: src/a.py::x, src/b.py::x, src/c.py::x and 1 more",
        "fewer tests: mocha ran 2, 3 at the start",
    )
    assert comparison(base, now, suite=False) == (True, "", expected)


def test_a_test_that_moved_to_another_file_is_not_labelled() -> None:
    base = result(ids=("src/a.py::x", "src/a.py::y[1]", "src/a.py::z"))
    now = result(ids=("src/b.py::x", "src/c.py::y[1]", "src/d.py::w"))
    assert comparison(base, now) == (True, "", ("fewer tests: src/a.py::z",))
    stayed = result(ids=("src/a.py::x", "src/b.py::x"))
    assert comparison(stayed, result(ids=("src/b.py::x",))) == (True, "", ("fewer tests: src/a.py::x",))
    protected = result(ids=("tests/a.py::x",))
    assert not comparison(protected, result(ids=("tests/b.py::x",)))[0]


def test_a_test_that_was_skipped_at_the_baseline_may_be_skipped_later() -> None:
    base, now = result(count(3, 2)), result(count(3, 2))
    assert comparison(base, now) == (True, "", ())
    assert not comparison(base, result(count(2, 3)))[0]


def test_a_summary_that_is_missing_is_labelled_where_green_runs_print_none() -> None:
    base = result(count(3), quiet=True)
    assert comparison(base, result()) == (True, "", ("no test summary: mocha",))


def test_another_test_runner_is_labelled_if_checks_may_change() -> None:
    now = result(count(3, runner="jest"))
    assert comparison(result(count(3)), now, freed=True, suite=False) == (True, "", ("no test summary: mocha",))
    assert not comparison(result(count(3)), result(), freed=True, suite=False)[0]


def test_a_selection_that_varies_is_labelled_and_not_compared() -> None:
    base = result(count(3), ids=("tests/a.py::x",), filters=("--testmon",), varying=True)
    now = result(filters=("--testmon",), varying=True)
    assert comparison(base, now) == (True, "", ("tests filtered: --testmon",))


def test_a_fixed_selection_is_labelled_and_compared() -> None:
    base, now = result(count(3), filters=("-k",)), result(count(3), filters=("-k",))
    assert comparison(base, now) == (True, "", ("tests filtered: -k",))
    assert not comparison(base, result(count(2), filters=("-k",)))[0]


def test_a_red_result_stays_as_it_is() -> None:
    red = result(passed=False, filters=("-k",))
    assert compared(result(count(3)), red, lambda path: True, suite=True, freed=False) == (red, ())


def test_tests_of_an_output_that_is_too_long_are_not_counted() -> None:
    assert comparison(result(count(9), whole=False), result(count(2))) == (True, "", ())
    assert comparison(result(count(9)), result(count(2), whole=False)) == (True, "", ())


def test_the_pytest_that_reports_needs_no_summary() -> None:
    now = result().model_copy(update={"tests_run": 3})
    assert comparison(result(count(3, runner="pytest")), now) == (True, "", ())


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([count(10), count(5)], (15, 15)),
        ([count(10, failed=True), count(10)], (10, 20)),
        ([count(2, failed=True), count(10), count(1)], (12, 13)),
        ([count(9, failed=True, certain=False), count(3, failed=True)], (3, 12)),
    ],
)
def test_what_may_be_another_try_need_not_run_again(counts: list[RunnerCount], expected: tuple[int, int]) -> None:
    assert needed(counts) == expected


@pytest.mark.parametrize(
    ("rules", "tests", "passed"),
    [
        (Protection(), ("test/a.js",), True),
        (Protection(), (), False),
        (Protection(allow=("test/b.js",)), ("test/a.js", "test/b.js"), False),
        (Protection(protect=("test/**",)), ("test/a.js",), True),
        (Protection(protect=("test/**",)), ("test/a.js", "src/a.test.js"), False),
        (Protection(editable=("src/**",)), ("test/a.js",), True),
    ],
)
def test_counts_decide_if_all_tests_of_the_start_are_protected(
    rules: Protection, tests: tuple[str, ...], passed: bool
) -> None:
    base = BaseResults(None)
    base.keep([result(count(3))])
    ((now, _),), labels = complete([(result(count(2)), None)], base, rules, StartFiles(tests), ())
    assert now.passed is not passed
    assert bool(labels) is not passed


def missing(base: list[str], now: list[str]) -> tuple[str, ...]:
    return missing_tests(
        result(ids=tuple(sorted(base))), result(ids=tuple(sorted(now))), lambda path: path.startswith("tests/")
    )


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
    now = result(ids=("tests/a.py::x",))
    assert compared(now, now, lambda path: True, suite=False, freed=False) == (now, ())
    base = result(ids=tuple(f"tests/a.py::t{at}" for at in range(7)))
    red, _ = compared(base, now, lambda path: True, suite=False, freed=False)
    assert (red.passed, red.reason) == (False, "red")
    assert red.summary == "7 protected tests did not run: tests/a.py::t0, ..."
    assert red.feedback == (
        "exit 0, but 7 protected tests of the start did not run: tests/a.py::t0, tests/a.py::t1, tests/a.py::t2, "
        "tests/a.py::t3, tests/a.py::t4 and 2 more.\nTests in protected files must all run again: none may be skipped, "
        "deselected or expected to fail, and the process must not end before its last test. If they are to change, the "
        "goal file must say so: [workspace] allow."
    )


SOURCE = """
import pytest
from calc import add

def test_add(tmp_path):
    assert add(1, 2) == 3

def helper():
    pass

@pytest.mark.parametrize("a, b", [(1, 2)])
def test_many(a, b, capsys):
    pass

class TestMore:
    def test_more(self):
        pass
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (SOURCE, ("test_add", "TestMore::test_more")),
        ("def test_a(): pass\ndef test_a(): pass", ("test_a",)),
        ("@pytest.mark.skip\ndef test_a(): pass", ()),
        ("@pytest.mark.slow\ndef test_a(): pass", ()),
        ("@needs_docker\ndef test_a(): pass", ()),
        ("@pytest.fixture\ndef test_data(): pass", ()),
        ("def test_a(docker): pass", ()),
        ("def test_a():\n    if windows:\n        pytest.skip('no')", ()),
        (
            "def test_skips_blank_lines(): pass\ndef test_b():\n    assert run('--skip')",
            ("test_skips_blank_lines", "test_b"),
        ),
        ("async def test_a(): pass", ()),
        ("pytestmark = pytest.mark.slow\ndef test_a(): pass", ()),
        ("np = pytest.importorskip('numpy')\ndef test_a(): pass", ()),
        ("class TestA(Base):\n    def test_a(self): pass", ()),
        ("class TestA:\n    def setup_method(self): skip()\n    def test_a(self): pass", ()),
        ("def broken(", ()),
        ("\0", ()),
    ],
)
def test_what_certainly_runs_is_found(source: str, found: tuple[str, ...]) -> None:
    assert found_in(source.encode()) == found


async def test_they_count_as_tests_of_the_start() -> None:
    async def read(path: str) -> bytes | None:
        return SOURCE.encode() if path == "tests/test_a.py" else None

    base = ValidatorResult(
        name="tests",
        passed=False,
        command="pytest -q",
        test_ids=("tests/test_a.py", "tests/test_b.py::test_b", "tests/test_c.py"),
    )
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (
        "tests/test_a.py",
        "tests/test_a.py::TestMore::test_more",
        "tests/test_a.py::test_add",
        "tests/test_b.py::test_b",
        "tests/test_c.py",
    )
    for selected in (
        base.model_copy(update={"command": "pytest tests/test_a.py::test_add"}),
        base.model_copy(update={"suite": SuiteRecord(filters=("-k",))}),
    ):
        assert await with_uncollected([selected], read) == [selected]


LINUX = "import sys, pytest\nimport calc\npytestmark = pytest.mark.skipif(sys.platform == 'linux', reason='')\n"


@pytest.mark.parametrize(
    ("source", "required"),
    [
        (LINUX + "def test_a(): pass", False),
        ("@unittest.skipUnless(shutil.which('docker'), '')\nclass A(TestCase): ...", False),
        ("@pytest.mark.skipif(not calc.READY, reason='')\ndef test_a(): pass", True),
        ("calc = pytest.importorskip('calc')\n" + LINUX + "def test_a(): pass", True),
        (LINUX + "@pytest.mark.skipif(condition=calc.OFF, reason='')\ndef test_a(): pass", True),
        (LINUX + "@pytest.mark.skipif('calc.OFF', reason='')\ndef test_a(): pass", True),
        ("@pytest.mark.skip\ndef test_a(): pass", True),
        ("@needs_docker\ndef test_a(): pass", True),
        ("def broken(", True),
    ],
)
async def test_a_file_whose_tests_the_environment_may_skip_need_not_run_one(source: str, required: bool) -> None:
    async def read(path: str) -> bytes | None:
        return source.encode()

    base = ValidatorResult(name="tests", passed=False, command="pytest", test_ids=("tests/test_a.py",))
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (("tests/test_a.py",) if required else ())


@pytest.mark.parametrize(
    ("condition", "may_skip"),
    [
        ('shutil.which("docker") is None, reason="docker is missing or not running"', True),
        ('sys.platform == "win32" or not os.environ.get("DB"), reason="no database"', True),
        ('condition=sys.platform == "win32", reason="not here"', True),
        ('sys.platform == "win32", app.OFF, reason="not here"', False),
        ('sys.platform not in app.PLATFORMS, reason="not here"', False),
        ('os.environ.get("FAST") == app.FAST, reason="fast"', False),
    ],
)
async def test_a_condition_of_the_environment_alone_may_skip_all_tests_of_a_file(
    condition: str, may_skip: bool
) -> None:
    async def read(_: str) -> bytes | None:
        return f"import app\n\n@pytest.mark.skipif({condition})\ndef test_a(): pass\n".encode()

    base = ValidatorResult(name="tests", passed=False, command="pytest -q", test_ids=("tests/test_a.py",))
    (found,) = await with_uncollected([base], read)
    assert found.test_ids == (() if may_skip else base.test_ids)
