"""Which command lines call a known test runner directly, and the parts of a line."""

from __future__ import annotations

import pytest

from goalrunner.core.runner_calls import calls, parts_of, why_nameless
from goalrunner.core.shell_lines import Lost


@pytest.mark.parametrize(
    ("line", "runner", "arguments"),
    [
        ("pytest -q", "pytest", ("-q",)),
        ("py.test tests", "pytest", ("tests",)),
        (".venv/bin/pytest", "pytest", ()),
        ("python -m pytest -x", "pytest", ("-x",)),
        ("python3.12 -W error -X dev -m pytest", "pytest", ()),
        (".venv/bin/python -Im pytest", "pytest", ()),
        ("PYTHONPATH=src A=1 pytest", "pytest", ()),
        ("cd sub && env -u B A=1 pytest", "pytest", ()),
        ("uv run pytest -q", "pytest", ("-q",)),
        ("uv run --with pytest-cov --frozen -p 3.12 python -m pytest", "pytest", ()),
        ("uvx --from x pytest", "pytest", ()),
        ("poetry run pytest", "pytest", ()),
        ("hatch -e test run pytest", "pytest", ()),
        ("conda run -n env pytest", "pytest", ()),
        ("coverage run --source src -m pytest -q", "pytest", ("-q",)),
        ("python -m coverage run -p -m pytest", "pytest", ()),
        ("timeout -k 5 60 nice -n 5 pytest", "pytest", ()),
        ("time pytest", "pytest", ()),
        ("bash -lc 'cd x && pytest -q'", "pytest", ("-q",)),
        ("sudo -u me pytest", "pytest", ()),
        ("python -m unittest discover -v", "unittest", ("discover", "-v")),
        ("npx jest --ci", "jest", ("--ci",)),
        ("yarn jest", "jest", ()),
        ("pnpm exec jest", "jest", ()),
        ("npm exec -- jest", "jest", ()),
        (
            "NODE_ENV=test node --experimental-vm-modules node_modules/jest/bin/jest.js",
            "jest",
            (),
        ),
        ("npx vitest run", "vitest", ("run",)),
        ("node_modules/.bin/vitest", "vitest", ()),
        ("go test ./... -race", "go test", ("./...", "-race")),
        ("cargo +nightly test --all", "cargo test", ("--all",)),
        ("ruff check . && cargo t", "cargo test", ()),
    ],
)
def test_a_direct_call_is_recognised(
    line: str, runner: str, arguments: tuple[str, ...]
) -> None:
    found = [(call.runner.name, call.arguments) for call in calls(line)]
    assert found == [(runner, arguments)]


@pytest.mark.parametrize(
    "line",
    [
        "make test",
        "npm test",
        "tox -e py312",
        "./run-pytest.sh",
        "echo pytest",
        "pip install pytest",
        "which pytest",
        "python pytest_runner.py",
        "python -c 'import pytest'",
        "docker run img pytest",
        "npm run jest",
        "yarn test",
        "uv run --with pytest check.py",
        "coverage report",
        "cargo nextest run",
        "cargo build",
        "go vet ./...",
        "python -m pytestlike",
        "unittest",
        "pytest 'unclosed",
    ],
)
def test_what_calls_none_or_only_in_turn_is_not(line: str) -> None:
    assert calls(line) == ()


def test_several_calls_are_all_found() -> None:
    assert [
        call.runner.name
        for call in calls("pytest a; npx jest && go test || cargo test")
    ] == [
        "pytest",
        "jest",
        "go test",
        "cargo test",
    ]


def test_listing_tests_is_no_run_of_them() -> None:
    assert [
        calls(line)[0].tests
        for line in (
            "pytest --co -q",
            "pytest --version",
            "cargo test --no-run",
            "pytest -q",
        )
    ] == [
        False,
        False,
        False,
        True,
    ]


def test_the_position_inside_a_shell_is_that_of_the_shell() -> None:
    (call,) = calls("sh -c 'cd x && pytest' | tee log")
    assert call.program.lost == Lost("|", "tee log")
    assert call.program.through == ("sh",)
    assert call.program.folder == "x"


def test_a_cleared_environment_is_known() -> None:
    assert calls("env -i PATH=/bin pytest")[0].program.clean
    assert calls("python -E -m pytest")[0].program.clean
    assert not calls("python -m pytest")[0].program.clean


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("pytest -q", [("pytest -q", "pytest")]),
        ("ruff check . && pytest -q", [("ruff check .", ""), ("pytest -q", "pytest")]),
        ("cd x && pytest", [("cd x && pytest", "pytest")]),
        (
            ". ./env && set -e && export A=1 && npx jest",
            [(". ./env && set -e && export A=1 && npx jest", "jest")],
        ),
        (
            "cd x && ruff check && pytest",
            [("cd x && ruff check", ""), ("pytest", "pytest")],
        ),
        (
            "pytest && render | diff - golden",
            [("pytest", "pytest"), ("render | diff - golden", "")],
        ),
        ("pytest | tee log && true", [("pytest | tee log", ""), ("true", "")]),
        ("! pytest && true", [("! pytest", ""), ("true", "")]),
        ("a && b || c", [("a && b || c", "")]),
        ("a; b && c", [("a; b && c", "")]),
        ("a & b && c", [("a & b && c", "")]),
        ("(a && b) && go test ./...", [("(a && b)", ""), ("go test ./...", "go test")]),
        ("echo 'a && b' && pytest", [("echo 'a && b'", ""), ("pytest", "pytest")]),
        ("pytest # a && b", [("pytest # a && b", "pytest")]),
        ("if a && b; then c; fi && d", [("if a && b; then c; fi", ""), ("d", "")]),
        ("a && 'unclosed", [("a && 'unclosed", "")]),
    ],
)
def test_a_line_is_split_where_programs_follow_each_other(
    line: str, parts: list[tuple[str, str]]
) -> None:
    assert [
        (part.text, part.runner.name if part.runner else "") for part in parts_of(line)
    ] == parts


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("pytest -q", ""),
        ("cd x && go test ./...", ""),
        ("python -m unittest -v", ""),
        ("npx jest --reporters=jest-junit", ""),
        ("make test", ""),
        ("npx jest", "needs the names of tests, and jest prints only their number"),
        (
            "npx vitest run",
            "needs the names of tests, and vitest prints only their number",
        ),
        (
            "python -m unittest",
            "needs the names of tests, and unittest prints only their number",
        ),
        ("ruff check && pytest", "needs a command that only runs tests"),
    ],
)
def test_lines_whose_tests_have_no_names_are_known(line: str, why: str) -> None:
    found = why_nameless(line, alone=True)
    assert found.startswith(why)
    assert bool(found) == bool(why)
