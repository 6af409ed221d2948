"""The ending of each test that go, cargo and unittest name. Outputs of go and cargo are in outputs/; unittest is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.core.verdict import Ending
from goalrunner.validators.named_tests import cargo_tests, go_tests, unittest_tests

OUTPUTS = Path(__file__).parent / "outputs"


def recorded(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


def of_go(**endings: Ending) -> dict[str, Ending]:
    return {
        f"go test example/sum::Test{name}": ending for name, ending in endings.items()
    }


def of_cargo(doc: Ending, **adds: Ending) -> dict[str, Ending]:
    unit: dict[str, Ending] = {
        "ign": "skipped",
        "ign2": "skipped",
        "two": "passed",
        "pan": "passed",
    }
    every = {f"src/lib.rs::tests::{name}": ending for name, ending in unit.items()}
    return {
        **every,
        **{f"tests/it.rs::{name}": ending for name, ending in adds.items()},
        "src/lib.rs::add[2]": doc,
    }


@pytest.mark.parametrize(
    ("name", "endings", "whole"),
    [
        (
            "green-go",
            of_go(Add="passed", Two="passed", Skip="skipped", Chatty="passed"),
            True,
        ),
        (
            "red-go",
            of_go(Add="failed", Two="passed", Skip="skipped", Chatty="passed"),
            True,
        ),
        ("exit-go", of_go(Add=""), False),
        ("unbuilt-go", {"go test example/sum": "failed"}, False),
    ],
)
def test_go_names_its_tests(name: str, endings: dict[str, Ending], whole: bool) -> None:
    found = go_tests(recorded(name), asked=True)
    assert found is not None
    assert (found.endings, found.whole) == (endings, whole)


def test_a_panic_in_go_hides_the_tests_behind_it() -> None:
    output = (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.00s)\n"
        "panic: no [recovered]\n\tpanic: no\n\ngoroutine 7 [running]:\nFAIL\texample/sum\t0.004s\nFAIL\n"
    )
    found = go_tests(output, asked=True)
    assert found is not None
    assert (found.endings, found.whole) == (of_go(A="passed", B="failed"), False)


def test_go_that_was_not_asked_names_no_tests() -> None:
    assert go_tests(recorded("unbuilt-go"), asked=False) is None
    found = go_tests(recorded("green-go"), asked=False)
    assert found is not None
    assert not found.whole


@pytest.mark.parametrize(
    ("name", "endings", "whole"),
    [
        ("green-cargo", of_cargo("passed", adds="passed", other="passed"), True),
        ("red-cargo", of_cargo("failed", adds="failed", other="passed"), True),
        ("exit-cargo", of_cargo("passed"), False),
    ],
)
def test_cargo_names_its_tests(
    name: str, endings: dict[str, Ending], whole: bool
) -> None:
    found = cargo_tests(recorded(name))
    assert found is not None
    assert (found.endings, found.whole) == (endings, whole)


def test_names_of_cargo_do_not_count_if_tests_write_between_them() -> None:
    assert (
        cargo_tests(
            recorded("green-cargo").replace("test adds ... ok", "loudtest adds ... ok")
        )
        is None
    )


def test_what_a_test_of_cargo_prints_is_no_test() -> None:
    output = recorded("green-cargo").replace(
        "test adds ... ok", "test adds ... ok\nrunning 3 tests"
    )
    found = cargo_tests(output)
    assert found is not None
    assert found.whole


def test_a_cargo_that_gives_up_hides_the_programs_behind_the_first_red_one() -> None:
    output = recorded("red-cargo")
    ending = output.index("   Doc-tests demo")
    found = cargo_tests(output[:ending])
    assert found is not None
    assert not found.whole


def test_files_of_the_same_name_in_two_packages_are_not_told_apart() -> None:
    found = cargo_tests(recorded("green-cargo") * 2)
    assert found is not None
    assert not found.whole


UNITTESTS = '''
import sys, unittest
class T(unittest.TestCase):
    def test_passes(self):
        """Has a docstring."""
    def test_prints(self):
        print("out", flush=True)
        sys.stderr.write("no end of a line")
    def test_fails(self): self.fail()
    def test_breaks(self): 1 / 0
    @unittest.skip("x")
    def test_left_out(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_skips_parts(self):
        for number in range(3):
            with self.subTest(number=number): self.skipTest("no")
    def test_fails_in_parts(self):
        for number in range(3):
            with self.subTest(number=number): self.assertEqual(number, 1)
'''
UNITTEST_ENDINGS: dict[str, Ending] = {
    "passes": "passed",
    "prints": "",
    "fails": "failed",
    "breaks": "failed",
    "left_out": "skipped",
    "expected": "xfailed",
    "unexpected": "failed",
    "skips_parts": "passed",
    "fails_in_parts": "failed",
}


def run_unittest(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "unittest", *arguments, "-v"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def test_unittest_names_its_tests(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(UNITTESTS)
    output = run_unittest(tmp_path, "discover", "-s", "tests")
    found = unittest_tests(output, tmp_path, [tmp_path, tmp_path / "tests"])
    assert found is not None
    assert found.endings == {
        f"tests/test_a.py::T::test_{name}": end
        for name, end in UNITTEST_ENDINGS.items()
    }
    assert found.whole


def test_a_module_that_unittest_cannot_import_hides_its_tests(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    )
    (tmp_path / "test_b.py").write_text("import no_such_module\n")
    found = unittest_tests(run_unittest(tmp_path), tmp_path, [tmp_path])
    assert found is not None
    assert found.endings == {"test_a.py::T::test_a": "passed", "test_b.py": "failed"}
    assert not found.whole


def test_unittest_without_v_names_no_tests() -> None:
    assert unittest_tests(recorded("red-unittest"), OUTPUTS, [OUTPUTS]) is None
