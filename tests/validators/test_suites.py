"""What the outputs of real test runners tell about their tests. The files in outputs/ were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import calls
from goalrunner.core.verdict import SuiteRecord
from goalrunner.validators.go_verbose import names_go_tests
from goalrunner.validators.runner_output import Output
from goalrunner.validators.runner_reports import Reports
from goalrunner.validators.suites import (
    SuiteReader,
    filters_of,
    record_of,
    script_text,
)

OUTPUTS = Path(__file__).parent / "outputs"
GO_TESTS = tuple(
    f"go test example/sum::Test{name}" for name in ("Add", "Chatty", "Skip", "Two")
)


def recorded(name: str) -> Output:
    return Output((OUTPUTS / f"{name}.txt").read_text())


def record(name: str) -> SuiteRecord:
    return record_of(recorded(name), (), "")


@pytest.mark.parametrize(
    ("name", "runner", "counts"),
    [
        ("red-pytest", "pytest", [(2, 1, True)]),
        ("green-pytest", "pytest", [(2, 1, False)]),
        ("skip-pytest", "pytest", [(1, 2, False)]),
        ("exit-pytest", "pytest", []),
        ("red-unittest", "unittest", [(2, 1, True)]),
        ("skip-unittest", "unittest", [(1, 2, False)]),
        ("exit-unittest", "unittest", []),
        ("red-jest", "jest", [(3, 2, True)]),
        ("green-jest", "jest", [(3, 2, False)]),
        ("exit-jest", "jest", []),
        ("red-vitest", "vitest", [(3, 2, True)]),
        ("green-vitest", "vitest", [(3, 2, False)]),
        ("exit-vitest", "vitest", [(3, 2, True)]),
        ("red-mocha", "mocha", [(2, 2, True)]),
        ("green-mocha", "mocha", [(2, 2, False)]),
        ("exit-mocha", "mocha", []),
        ("red-node", "node --test", [(4, 2, True)]),
        ("green-node", "node --test", [(4, 2, False)]),
        ("exit-node", "node --test", [(1, 0, False)]),
        ("red-spec", "node --test", [(4, 2, True)]),
        ("exit-spec", "node --test", [(1, 0, False)]),
        ("red-go", "go test", [(1, 0, True)]),
        ("exit-go", "go test", [(1, 0, False)]),
        ("red-cargo", "cargo test", [(2, 2, False), (2, 0, True), (1, 0, True)]),
        ("green-cargo", "cargo test", [(2, 2, False), (2, 0, False), (1, 0, False)]),
    ],
)
def test_tests_are_counted(
    name: str, runner: str, counts: list[tuple[int, int, bool]]
) -> None:
    found = [
        count
        for count in record(name).counts
        if count.runner == runner and count.certain
    ]
    assert [(count.ran, count.skipped, count.failed) for count in found] == counts


@pytest.mark.parametrize("name", ["red-cargo", "green-cargo", "green-go", "exit-go"])
def test_a_program_of_cargo_that_printed_its_result_ended_by_itself(name: str) -> None:
    assert record(name).ended_early == ""


def test_a_program_of_cargo_without_a_result_ended_early() -> None:
    assert record("exit-cargo").ended_early == "tests/it.rs"


def test_a_program_of_cargo_that_is_quiet_and_prints_no_result_ended_early() -> None:
    assert record("exit-quiet-cargo").ended_early == "cargo test"


def test_what_a_test_of_cargo_prints_starts_no_program() -> None:
    output = recorded("green-cargo").text.replace(
        "test adds ... ok", "test adds ... ok\nrunning 3 tests"
    )
    assert record_of(Output(output), (), "").ended_early == ""


def test_summaries_in_the_output_of_failing_tests_are_uncertain() -> None:
    assert "1 failed, 9 passed in 0.01s" in (OUTPUTS / "red-pytest.txt").read_text()
    assert [(count.ran, count.certain) for count in record("red-pytest").counts] == [
        (10, False),
        (2, True),
    ]


def test_several_summaries_are_counted_in_their_order() -> None:
    output = Output(
        "".join(
            recorded(name).text for name in ("green-mocha", "red-mocha", "red-jest")
        )
    )
    found = [
        (count.runner, count.ran, count.failed)
        for count in record_of(output, (), "").counts
    ]
    assert found == [("jest", 3, True), ("mocha", 2, False), ("mocha", 2, True)]


def test_the_tests_of_a_pytest_that_reports_are_not_counted() -> None:
    assert record_of(recorded("red-pytest"), (), "", reported=True).counts == ()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pytest -q", ()),
        ("pytest -q -k 'not slow' -m fast", ("-k", "-m")),
        ("pytest -kfast", ("-k",)),
        ("pytest --deselect=tests/test_a.py::test_b", ("--deselect",)),
        ("pytest --testmon", ("--testmon",)),
        ("npx jest --onlyChanged", ("--onlyChanged",)),
        ("npx mocha --grep add", ("--grep",)),
        ("go test -run TestA ./...", ("-run",)),
        ("make test", ()),
        ("python -m pytest tests", ()),
    ],
)
def test_options_that_select_tests_are_found(line: str, found: tuple[str, ...]) -> None:
    assert filters_of(calls(line), line) == found


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("go test ./...", True),
        ("cd x && go test", True),
        ("go test -v ./...", False),
        ("go test -json ./... | gotestsum", False),
        ("GOFLAGS=-mod=mod go test ./...", False),
        ("test:\n\tgo vet ./...\n\tgo test ./...\n", True),
        ("test:\n\ttest -z \"$(go vet ./... 2>&1)\"\n\tgo test ./...\n", False),
        ("build:\n\tgo build ./...\n", False),
        ("pytest -q", False),
    ],
)  # fmt: skip
def test_go_names_its_tests_where_nothing_else_reads_its_output(
    line: str, named: bool
) -> None:
    assert names_go_tests(line) is named


def test_the_names_of_go_tests_are_taken_out_of_the_output(tmp_path: Path) -> None:
    reader = SuiteReader(
        ValidatorSpec(run="go test ./..."), calls("go test ./..."), tmp_path, tmp_path
    )
    assert reader.environment({"GOFLAGS": "-mod=mod"}) == {"GOFLAGS": "-mod=mod -v"}
    settings = tmp_path / ".config/go/env"
    settings.parent.mkdir(parents=True)
    settings.write_text("GOFLAGS=-mod=vendor\n")
    assert reader.environment({"HOME": str(tmp_path)}) == {"HOME": str(tmp_path)}
    output = tmp_path / "out"
    output.write_text((OUTPUTS / "red-go.txt").read_text())
    tests = reader.read(output, tmp_path / "plain", Reports()).tests
    assert tests is not None
    assert sorted(tests.endings) == [*GO_TESTS]
    said = output.read_text()
    assert "=== RUN" not in said
    assert "--- PASS" not in said
    assert "--- FAIL: TestAdd (0.00s)" in said
    assert said.endswith("s\nFAIL\n")
    output.write_text((OUTPUTS / "green-go.txt").read_text())
    reader.read(output, tmp_path / "plain", Reports())
    said = output.read_text()
    assert "=== RUN" not in said
    assert "--- PASS" not in said
    assert "ok  \t" in said


@pytest.mark.parametrize(
    ("script", "quiet"),
    [
        ("pytest -q >log 2>&1 || { cat log; exit 1; }\n", True),
        ("npm test > /tmp/log || cat /tmp/log\n", True),
        ("ctest --output-on-failure\n", True),
        ("pytest -q 2>&1 | tee log\n", False),
        ("pytest -q 2>/dev/null\n", False),
        ("echo 'tests' > note\npytest -q\n", False),
    ],
)
def test_a_script_that_shows_failures_alone_is_known(
    tmp_path: Path, script: str, quiet: bool
) -> None:
    (tmp_path / "check.sh").write_text(script)
    reader = SuiteReader(ValidatorSpec(run="sh check.sh"), (), tmp_path, tmp_path)
    assert (
        reader.read(tmp_path / "none", tmp_path / "plain", Reports()).record.quiet
        is quiet
    )


def test_options_in_the_configuration_are_found(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(
        '{"scripts": {"test": "jest --changedSince main"}}'
    )
    reader = SuiteReader(ValidatorSpec(run="npm test"), (), tmp_path, tmp_path)
    found = reader.read(tmp_path / "none", tmp_path / "plain", Reports()).record
    assert (found.filters, found.varying) == (("--changedSince",), True)


FILES = {
    "Makefile": ".PHONY: check\nX = 1\nall: check\n\ncheck: unit\n\tmypy .\n\nunit:\n\tpytest -q\n\nwatch:\n\tpytest --lf\n",
    "package.json": '{"scripts": {"test": "npm run unit", "unit": "jest", "test:watch": "jest --onlyChanged"}}',
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-q", "--testmon"]\n[tool.poe]\nwatch = "pytest --picked"\n',
    "check.sh": "make unit\n",
}


@pytest.mark.parametrize(
    ("line", "there", "not_there"),
    [
        ("make check", ("mypy .",), ("--lf",)),
        ("make", ("mypy .",), ("--lf",)),
        ("make watch", ("--lf",), ("mypy",)),
        ("sh check.sh", ("make unit", "pytest -q"), ("mypy", "--lf")),
        ("npm test", ("npm run unit", "jest"), ("--onlyChanged",)),
        ("npm run test:watch", ("--onlyChanged",), ("npm run unit",)),
        ("pytest -q", ("--testmon",), ("--picked", "mypy", "jest")),
    ],
)
def test_what_a_line_runs_is_found(
    tmp_path: Path, line: str, there: tuple[str, ...], not_there: tuple[str, ...]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    found = script_text(ValidatorSpec(run=line), tmp_path, tmp_path)
    assert [words for words in there if words not in found] == []
    assert [words for words in not_there if words in found] == []


@pytest.mark.parametrize("text", ["{", "[]", '{"scripts": 1}', "{}"])
def test_a_package_without_scripts_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "package.json").write_text(text)
    assert script_text(ValidatorSpec(run="npm test"), tmp_path, tmp_path) == "npm test"
