"""Which check environment a run uses, and what is said about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from goalrunner.app import preflight
from goalrunner.app.preflight import (
    EnvironmentChoice,
    checks_line,
    choose_environment,
    needs_environment,
    why_clone,
)
from goalrunner.checking.setup import record_in_place
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.snapshots.store_folder import store_of
from tests.support.workspaces import make_repository, write

SCRATCH = Path("/scratch")


def goal(run: str = "pytest -q", **workspace: Any) -> Goal:
    return Goal.model_validate(
        {"objective": "x", "validators": [{"run": run}], "workspace": workspace}
    )


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which overlays work in the second folder that is tried."""
    monkeypatch.setattr(
        preflight,
        "scratch_candidates",
        lambda home, workspace: [Path("/full"), SCRATCH],
    )
    monkeypatch.setattr(
        preflight,
        "probe",
        lambda workspace, scratch, roots: "" if scratch == SCRATCH else "no xattr",
    )


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without user namespaces."""
    monkeypatch.setattr(
        preflight, "scratch_candidates", lambda home, workspace: [SCRATCH]
    )
    monkeypatch.setattr(
        preflight, "probe", lambda workspace, scratch, roots: "no user namespaces"
    )


def chosen(tmp_path: Path, goal: Goal) -> EnvironmentChoice:
    return choose_environment(goal, tmp_path, tmp_path / "home")


@pytest.mark.usefixtures("works")
def test_an_overlay_is_chosen_where_it_works(tmp_path: Path) -> None:
    assert chosen(tmp_path, goal()) == EnvironmentChoice("overlay", scratch=SCRATCH)
    assert chosen(tmp_path, goal(check="overlay")) == EnvironmentChoice(
        "overlay", scratch=SCRATCH
    )


@pytest.mark.usefixtures("fails")
def test_where_no_overlay_works_checks_run_in_place_and_the_reason_is_said(
    tmp_path: Path,
) -> None:
    assert chosen(tmp_path, goal()) == EnvironmentChoice(
        "in-place", "no overlay here: no user namespaces"
    )


@pytest.mark.usefixtures("fails")
def test_an_overlay_that_is_wanted_and_does_not_work_is_an_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="no user namespaces") as error:
        chosen(tmp_path, goal(check="overlay"))
    assert 'check = "in-place"' in error.value.hint


def test_without_linux_checks_run_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert chosen(tmp_path, goal()) == EnvironmentChoice(
        "in-place", "no overlay here: overlays need Linux"
    )


def test_without_a_folder_for_the_upper_layer_checks_run_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "scratch_candidates", lambda home, workspace: [])
    assert chosen(tmp_path, goal()) == EnvironmentChoice(
        "in-place",
        "no overlay here: no file system for its upper layer that is no overlay itself",
    )


@pytest.mark.usefixtures("works")
def test_in_place_is_chosen_where_the_goal_says_so(tmp_path: Path) -> None:
    assert chosen(tmp_path, goal(check="in-place")) == EnvironmentChoice("in-place")


@pytest.mark.usefixtures("works")
def test_setup_uses_an_overlay(tmp_path: Path) -> None:
    make_repository(tmp_path, {".gitignore": ".venv\n"})
    write(tmp_path, {".venv/pyvenv.cfg": ""})
    for wanted in (None, "overlay"):
        assert chosen(
            tmp_path, goal(setup="uv sync", check=wanted)
        ) == EnvironmentChoice("overlay", scratch=SCRATCH)


@pytest.mark.usefixtures("fails")
@pytest.mark.parametrize("check", [None, "in-place"])
def test_without_an_overlay_setup_needs_a_workspace_without_ignored_files(
    tmp_path: Path, check: str | None
) -> None:
    make_repository(tmp_path, {".gitignore": ".venv\n__pycache__\n"})
    write(tmp_path, {"__pycache__/a.pyc": ""})
    assert chosen(tmp_path, goal(setup="uv sync", check=check)).kind == "in-place"
    write(tmp_path, {".venv/pyvenv.cfg": ""})
    with pytest.raises(UsageError) as raised:
        chosen(tmp_path, goal(setup="uv sync", check=check))
    assert ".venv/ must not exist" in raised.value.message
    assert raised.value.hint.startswith(
        "remove setup, and the validators use the packages of the workspace"
    )
    record = record_in_place(store_of(tmp_path, tmp_path / "home"), tmp_path / "home")
    record.parent.mkdir(parents=True)
    record.touch()
    assert chosen(tmp_path, goal(setup="uv sync", check=check)).kind == "in-place", (
        "it is what setup itself installed"
    )


def test_a_checkout_is_refused_with_the_replacement() -> None:
    with pytest.raises(
        ValidationError, match='has no "checkout" any more; remove the key'
    ):
        goal(check="checkout")


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize(
    ("run", "daemon"),
    [
        ("dmypy run -- src", "dmypy"),
        ("cd app && ./gradlew test", "gradlew"),
        ("docker compose run tests", "docker"),
        ("bazel test //...", "bazel"),
        ("mypy src", ""),
        ("pytest -q docker", ""),
    ],
)
def test_programs_that_work_in_a_daemon_see_the_live_workspace(
    tmp_path: Path, run: str, daemon: str
) -> None:
    expected = (
        EnvironmentChoice(
            "in-place", f"{daemon} uses a daemon, which sees the live workspace"
        )
        if daemon
        else EnvironmentChoice("overlay", scratch=SCRATCH)
    )
    assert chosen(tmp_path, goal(run)) == expected
    assert chosen(tmp_path, goal(run, check="overlay")).kind == "overlay"
    # Nor would a daemon see the overlay of a copy.
    why = f"{daemon} uses a daemon, which does not see an overlay" if daemon else ""
    assert why_clone(goal(run)) == why
    assert why_clone(goal(run, check="in-place")) == why
    assert why_clone(goal(run, check="overlay")) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="overlays need Linux")
def test_the_choice_of_this_machine_can_be_repeated(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "ws").mkdir()
    first = choose_environment(goal(), tmp_path / "ws", home)
    assert first == choose_environment(goal(), tmp_path / "ws", home)
    assert (
        first.why == ""
        if first.kind == "overlay"
        else first.why.startswith("no overlay here: ")
    )


@pytest.mark.parametrize(
    ("workspace", "choice", "line"),
    [
        (
            {},
            EnvironmentChoice("overlay"),
            "overlay · existing tests and their configuration are protected",
        ),
        (
            {"protect": ["tests/**", "a"]},
            EnvironmentChoice("overlay"),
            "overlay · protects tests/**, a",
        ),
        (
            {"editable": ["src/**"]},
            EnvironmentChoice("in-place"),
            "in-place · only src/** may change",
        ),
        (
            {"setup": "uv sync"},
            EnvironmentChoice("overlay"),
            "overlay, with what setup installs · existing tests and their configuration are protected",
        ),
    ],
)
def test_the_line_for_people_names_kind_and_rules(
    workspace: dict[str, Any], choice: EnvironmentChoice, line: str
) -> None:
    assert checks_line(goal(**workspace), choice) == line


def test_only_goals_with_validators_for_files_need_an_environment() -> None:
    assert needs_environment(goal())
    assert not needs_environment(
        Goal.model_validate({"objective": "x", "judge": {"model": "a/b"}})
    )
    response = {
        "objective": "x",
        "deliverable": "response",
        "validators": [{"run": "true"}],
    }
    assert not needs_environment(Goal.model_validate(response))
