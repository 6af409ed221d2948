"""The table of files that steer a test runner from outside the tests."""

from __future__ import annotations

import pytest

from goalrunner.workspace.protection import Protection
from goalrunner.workspace.steering import PROGRAMS, RUNNER_MODULES, STANDARD_MODULES, STEERING, shadow

UNDER_TESTS = Protection(protect=["tests/**"])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("conftest.py", "steers pytest (conftest.py)"),
        ("src/deep/conftest.py", "steers pytest (conftest.py)"),
        ("pytest.ini", "steers pytest (pytest.ini)"),
        (".pytest.ini", "steers pytest (.pytest.ini)"),
        ("tox.ini", "steers pytest and other tools (tox.ini)"),
        ("setup.cfg", "steers pytest and other tools (setup.cfg)"),
        ("pyproject.toml", "steers pytest and other tools (pyproject.toml)"),
        ("evil.egg-info/entry_points.txt", "steers pytest's plugins (*.egg-info)"),
        ("sitecustomize.py", "steers Python's start (sitecustomize.py)"),
        ("a/x.pth", "steers Python's start (*.pth)"),
        (".gitignore", "steers what tools leave out (.gitignore)"),
        ("package.json", "steers Node's scripts (package.json)"),
        ("jest.config.mjs", "steers jest (jest.config.*)"),
        ("__mocks__/fs.js", "steers jest (__mocks__)"),
        ("vitest.config.ts", "steers vitest (vitest.config.*)"),
        ("Makefile", "steers make (Makefile)"),
        ("makefile", "steers make (Makefile)"),
        ("sub/Cargo.toml", "steers cargo test (Cargo.toml)"),
        (".cargo/config.toml", "steers cargo test (.cargo/config.toml)"),
        ("go.mod", "steers go test (go.mod)"),
        (".env", "steers environments (.env)"),
        ("web/.env.test", "steers environments (.env.*)"),
        (".envrc", "steers environments (.envrc)"),
        (".env.example", None),  # read by people alone
        (".env/lib/python3.11/site-packages/a.py", None),  # an environment of another kind
        ("src/slugs.py", None),
        ("README.md", None),
        ("src/config.py", None),
        ("requirements.txt", None),
    ],
)
def test_what_steers(path: str, why: str | None) -> None:
    assert UNDER_TESTS.why(path) == why


def test_without_protect_nothing_steers() -> None:
    free = Protection(protect=[])

    assert [p for row in STEERING for p in row.patterns if free.why(p.replace("*", "x").rstrip("/"))] == []


ROOTS = {"", "src", "tests"}


@pytest.mark.parametrize(
    ("path", "executable", "what"),
    [
        ("pytest.py", False, "the module pytest"),
        ("src/pytest/__init__.py", False, "the module pytest"),
        ("tests/unittest.py", False, "the module unittest"),
        ("os.cpython-311-x86_64-linux-gnu.so", False, "the module os"),
        ("_pytest/__init__.pyc", False, "the module _pytest"),
        ("json.py", False, "the module json"),
        ("tools/calendar.py", False, "the module calendar"),  # beside the script of a check
        ("tools/random/__init__.py", False, "the module random"),
        ("pytest", True, "the program pytest"),
        ("bin/python3", True, "the program python3"),
        ("node_modules/.bin/jest", False, "the program jest"),
        ("a/node_modules/.bin/jest", False, "the program jest"),
    ],
)
def test_a_shadow(path: str, executable: bool, what: str) -> None:
    assert shadow(path, ROOTS, executable=executable, scripts={"tools"}) == what


@pytest.mark.parametrize(
    ("path", "executable"),
    [
        ("src/mypackage/types.py", False),  # a module of a package shadows nothing
        ("calendar.py", False),  # what a goal may well ask for
        ("src/queue.py", False),
        ("json/data.txt", False),
        ("pytest/data.py", False),  # without an __init__, the real package is found
        ("docs/pytest", False),
        ("pytest.md", False),
        ("make", False),
        ("tools/slugs.py", False),
        ("tools/deep/json.py", False),
    ],
)
def test_no_shadow(path: str, executable: bool) -> None:
    assert shadow(path, ROOTS, executable=executable, scripts={"tools"}) is None


def test_the_names_are_those_that_the_check_compares_with() -> None:
    for name in RUNNER_MODULES | STANDARD_MODULES | PROGRAMS:
        assert name == name.casefold()
