"""An honest run in an ordinary project completes at the first try with a goal file of three lines.

`pytest -m projects -n 2 tests/projects` measures all; `-k smoke` ten small projects, `-k plain` one mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.projects.prepare import (
    UNAVAILABLE,
    Place,
    locked,
    prepare_in_a_process,
    restore,
)
from tests.projects.project import Project
from tests.projects.projects import PROJECTS
from tests.projects.report import ROW
from tests.projects.running import MODES, Mode, run_goal

pytestmark = [pytest.mark.projects, pytest.mark.timeout(900)]

EXCEPTIONS: Mapping[tuple[str, Mode], str] = {}
"""Projects that cannot complete in a mode, and the hint that the run must print instead."""

CASES = [
    pytest.param(
        project, mode, id=f"{project.name}-{mode}{'-smoke' if project.smoke else ''}"
    )
    for project in PROJECTS
    for mode in MODES
]

Note = Callable[[str, object], None]


@pytest.fixture
def place(project: Project, mode: Mode, record_property: Note) -> Iterator[Place]:
    """Return the prepared project, as it was before any run; skip if it cannot be installed."""
    done = prepare_in_a_process(project)
    if done.returncode == UNAVAILABLE:
        note(
            record_property,
            project,
            mode,
            result="skipped: " + " ".join(done.stderr.split()),
            skipped=True,
        )
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    with locked(project.name):
        yield restore(project)


@pytest.mark.parametrize(("project", "mode"), CASES)
def test_completes_in_one_round(
    project: Project,
    mode: Mode,
    place: Place,
    tmp_path: Path,
    own_home: Path,
    record_property: Note,
) -> None:
    result = run_goal(project, mode, place, tmp_path, own_home)
    seconds = {"bare_seconds": place.bare_seconds, "seconds": result.seconds}
    note(
        record_property,
        project,
        mode,
        result=result.short,
        environment=result.environment,
        **seconds,
    )
    hint = EXCEPTIONS.get((project.name, mode))
    if hint is not None:
        assert result.status != "complete", "it completes: take it out of EXCEPTIONS"
        assert hint in result.message + result.output
        return
    assert result.short == "complete", result.output
    assert result.exit_code == 0
    assert mode != "in-place" or result.environment == "in-place"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("path.write_text('throw 1;')\n", "capped", id="wrong-fix"),
        pytest.param(
            "path.with_name('more.js').touch()\n",
            "complete, and the tree changed: src/more.js",
            id="more-files",
        ),
    ],
)
@pytest.mark.parametrize(
    ("project", "mode"),
    [(project, "plain") for project in PROJECTS if project.name == "node-test"],
    ids=["instrument"],
)
def test_a_run_that_is_not_as_promised_is_told_apart(
    project: Project,
    mode: Mode,
    place: Place,
    tmp_path: Path,
    own_home: Path,
    script: str,
    expected: str,
) -> None:
    assert run_goal(project, mode, place, tmp_path, own_home, script).short.startswith(
        expected
    )


def note(record_property: Note, project: Project, mode: Mode, **more: object) -> None:
    order = [PROJECTS.index(project), MODES.index(mode)]
    row = {
        "project": project.name,
        "layout": project.layout,
        "mode": mode,
        "order": order,
        "skipped": False,
        **more,
    }
    record_property(ROW, json.dumps(row))
