"""What people and agents read about protected files."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.app.protected_files import (
    allowing,
    blamed_files,
    named_files,
    protected_groups,
)
from goalrunner.core import events
from tests.support.arena import CALC, RIGHT, Arena
from tests.support.recordings import shell


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    arena = Arena(tmp_path)
    arena.write({**CALC, "src/calc.py": RIGHT.replace("+", "-")})
    return arena


TESTS = tuple(f"tests/test_{number}.py" for number in range(12))


def test_protected_files_are_listed_in_short() -> None:
    paths = (
        *TESTS,
        "src/a.go",
        "src/a_test.go",
        "src/b_test.go",
        "src/x/c_test.go",
        "pytest.ini",
        "web/a.ts",
    )
    held = (
        *TESTS,
        "src/a_test.go",
        "src/b_test.go",
        "src/x/c_test.go",
        "pytest.ini",
        "web/a.spec.ts",
    )
    assert protected_groups(held, (*paths, "web/a.spec.ts")) == (
        "tests/ (12 files)",
        "src/**/*_test.go (3 files)",
        "pytest.ini",
        "web/a.spec.ts",
    )
    assert protected_groups((), paths) == ()


@pytest.mark.parametrize(
    ("output", "blamed"),
    [
        ("Makefile:3: *** missing separator.  Stop.", ["Makefile"]),
        ("make: *** [Makefile:4: test] Error 1", []),
        (
            "ImportError while loading conftest '/w/tests/conftest.py'.",
            ["tests/conftest.py"],
        ),
        ("ERROR: /w/pytest.ini:1: no section header defined", ["pytest.ini"]),
        ("tests/conftest.py:12: in client\n    return Client()", []),
        ("tests/test_a.py:7: AssertionError", []),
        ("tests/test_a.py:7: error: Incompatible types", ["tests/test_a.py"]),
        ("configfile: pytest.ini", []),
    ],
)
def test_an_error_in_a_protected_file_is_told_from_one_that_it_reports(
    output: str, blamed: list[str]
) -> None:
    files = ["Makefile", "pytest.ini", "tests/conftest.py", "tests/test_a.py"]
    assert list(blamed_files(output, files)) == blamed


def test_a_goal_names_a_file_by_its_path_or_its_name() -> None:
    files = ["tests/test_a.py", "Makefile", "pytest.ini"]
    assert list(named_files(["Update test_a.py and pytest.ini."], files)) == [
        "tests/test_a.py",
        "pytest.ini",
    ]
    assert (
        list(named_files(["Write tests/test_a.pyc; the Makefile stays"], files)) == []
    )
    assert allowing(["a.py", 'b"c']) == '[workspace] allow = ["a.py", "b\\"c"]'


async def test_the_prompt_lists_what_is_protected_and_a_note_says_that_the_goal_names_it(
    arena: Arena,
) -> None:
    ending = await arena.fight(
        (),
        objective="Make tests/test_calc.py right.",
        validators=[{"run": "pytest -q"}],
    )
    assert (
        "Change what they contain only where the objective asks for it:\\n- pyproject.toml\\n- tests/test_calc.py"
        in (ending.told())
    )
    (baseline,) = [
        item.event
        for item in ending.records
        if isinstance(item.event, events.BaselineTaken)
    ]
    (note,) = baseline.notes
    assert note.startswith(
        "the goal names tests/test_calc.py, which is protected: a change of it waits for a person;"
    )
    assert note.endswith('[workspace] allow = ["tests/test_calc.py"]')


async def test_red_output_that_points_at_a_protected_file_is_noted_before_round_1(
    arena: Arena,
) -> None:
    arena.write({"tests/conftest.py": "import no_such_module\n"})
    ending = await arena.fight(
        (), objective="Make add() right.", validators=[{"run": "pytest -q"}]
    )
    (baseline,) = [
        item.event
        for item in ending.records
        if isinstance(item.event, events.BaselineTaken)
    ]
    (note,) = baseline.notes
    assert note.startswith("the output of pytest points at tests/conftest.py;")
    assert note.endswith('[workspace] allow = ["tests/conftest.py"]')


@pytest.mark.parametrize(
    "work",
    [
        "rm tests/test_calc.py",
        pytest.param("echo x >> pyproject.toml", marks=pytest.mark.slow),
    ],
)
async def test_a_run_names_protected_files_that_stay_changed_also_if_its_checks_saw_them(
    work: str, arena: Arena
) -> None:
    path = work.split()[-1]
    ending = await arena.fight(
        (shell(work),), objective="Make add() right.", validators=[{"run": "pytest -q"}]
    )
    assert not ending.outcome.passed
    assert ending.outcome.left_changed == (path,)
    assert f"protected files changed: {path}" in ending.outcome.labels


SUITE = """
def test_new(): assert 0
def test_old(): assert 0
"""


@pytest.mark.parametrize(
    ("fixes", "says"),
    [
        pytest.param([], (), marks=pytest.mark.slow),
        (["tests/test_l.py::test_new"], ()),
        (["tests/test_l.py::test_come"], ("tests/test_l.py::test_come",)),
        pytest.param(
            ["tests/test_m.py::test_first"],
            ("tests/test_m.py::test_first",),
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_note_names_tests_that_are_still_to_be_written_and_no_file_of_failing_ones(
    arena: Arena, fixes: list[str], says: tuple[str, ...]
) -> None:
    arena.write({"tests/test_l.py": SUITE})
    validator = {
        "run": "pytest -q --tb=line",
        "fixes": fixes,
        "known_failures": "baseline",
    }
    ending = await arena.fight(
        (), objective="Make add() right.", validators=[validator]
    )
    (baseline,) = [
        item.event
        for item in ending.records
        if isinstance(item.event, events.BaselineTaken)
    ]
    start = "fixes of pytest names what is not there, so the agent has to add it: "
    assert baseline.notes == tuple(f"{start}{name}" for name in says)
