"""Where a goal works: from folders below its file and in packages of a repository; which runs are those of a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import (
    RunPlace,
    run_summaries,
    write_first_summary,
)
from tests.support.workspaces import git

pytestmark = pytest.mark.slow

GOAL = """\
objective = "Write done into result.txt."
validator = "{validator}"
max_iterations = 1
[agent]
use = "command"
command = ["sh", "-c", "echo done > result.txt"]
"""
APPROVED = '[approvals]\nrequire = ["complete"]\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two packages, and goal files in the root, in a package, and in a folder without a project."""
    root = tmp_path / "mono"
    for folder in ("packages/api/src", "packages/web", "ci"):
        (root / folder).mkdir(parents=True)
    for package in ("api", "web"):
        (root / "packages" / package / "package.json").write_text("{}\n")
    text = GOAL.format(validator="grep -qx done result.txt")
    for name in ("goal.toml", "packages/api/goal.toml", "ci/x.toml"):
        (root / name).write_text(text)
    git(root, "init", "-q")
    return root


def _say_where(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the notes about the workspace."""
    return [
        line
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("The workspace is ")
    ]


@pytest.mark.parametrize(
    ("folder", "arguments", "workspace"),
    [
        ("packages/api/src", [], "packages/api"),
        ("packages/api", [], "packages/api"),
        ("packages/web", [], "."),
        (".", ["packages/api/goal.toml"], "packages/api"),
        (".", ["ci/x.toml"], "."),
        ("ci", ["x.toml"], "."),
        ("packages/web", ["--workspace", "."], "packages/web"),
    ],
)
def test_a_goal_works_in_the_project_of_its_file(
    repository: Path,
    folder: str,
    arguments: list[str],
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repository / folder)
    assert main(["run", "--quiet", *arguments]) == 0
    assert [path.parent for path in repository.rglob("result.txt")] == [
        repository / workspace
    ]

    notes = _say_where(capsys)
    is_elsewhere = (repository / folder).resolve() != (repository / workspace).resolve()
    assert len(notes) == is_elsewhere
    assert (
        not notes
        or f"The workspace is {(repository / workspace).resolve()}, the project of "
        in notes[0]
    )


def test_a_goal_file_in_another_repository_works_there_and_says_how_to_work_here(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = repository.parent / "here"
    here.mkdir()
    git(here, "init", "-q")
    monkeypatch.chdir(here)
    file = Path("..") / repository.name / "ci" / "x.toml"
    command = f"goal run --workspace . {file}"

    assert main(["run", "--quiet", str(file)]) == 0
    assert capsys.readouterr().err.startswith(
        f"The workspace is {repository}, the project of {file}. "
        f"To work in this folder: {command}\n"
    )
    assert (repository / "result.txt").exists()
    assert not (here / "result.txt").exists()

    assert main(command.split()[1:]) == 0
    assert "The workspace is" not in capsys.readouterr().err
    assert (here / "result.txt").exists()


def test_a_goal_file_above_is_named_as_it_is_reached_from_here(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repository / "packages" / "web")
    assert main(["run", "--dry-run"]) == 0
    assert capsys.readouterr().err.startswith("Using ../../goal.toml\n")
    assert main(["run", "goal.tml"]) == 2
    assert (
        capsys.readouterr().err
        == 'Error: goal.tml  no such file; did you mean "../../goal.toml"?\n'
    )


def test_a_validator_without_tests_says_where_it_ran(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (repository / "ci" / "x.toml").write_text(
        GOAL.format(validator="python3 -m unittest; true")
    )
    monkeypatch.chdir(repository)
    assert main(["check", "ci/x.toml"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        f"no test ran; the validator ran in {repository}; the goal file is in {repository}/ci"
        in shown
    )


def test_init_in_a_folder_without_tests_names_the_project_around_it(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = repository / "packages" / "api"
    monkeypatch.chdir(folder / "src")
    assert main(["init", "--yes"]) == 2
    assert capsys.readouterr().err.endswith(
        f"\nthe project is in {folder}: call goal init there; or"
        ' goal init --validator "CMD" names the command that verifies the result\n'
    )
    monkeypatch.chdir(folder)
    (folder / "goal.toml").unlink()
    assert main(["init", "--yes"]) == 2
    assert "\ngoal init --validator" in capsys.readouterr().err


def test_init_in_a_folder_of_a_project_names_this_folder(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for folder, is_named in (("ci", True), ("packages/web", False)):
        monkeypatch.chdir(repository / folder)
        assert (
            main(
                [
                    "init",
                    "--yes",
                    "--validator",
                    "test -e done.txt",
                    "--agent",
                    "claude",
                ]
            )
            == 0
        )
        assert ('\npath = "."' in Path("goal.toml").read_text()) is is_named
        capsys.readouterr()


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_a_decision_about_a_run_of_another_workspace_needs_its_id(
    repository: Path,
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own_home: Path,
) -> None:
    inner, elsewhere = repository / "vendor" / "inner", repository.parent / "goals"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    elsewhere.mkdir()
    text = GOAL.format(validator="grep -qx done result.txt")
    (elsewhere / "x.toml").write_text(text.replace("[agent]", f"{APPROVED}[agent]"))
    monkeypatch.chdir(repository)
    assert main(["run", "--quiet", str(elsewhere / "x.toml")]) == 3
    run = run_summaries(own_home)[0]["run_id"]

    for folder in (
        elsewhere,
        inner,
        repository.parent,
    ):  # beside the goal file, in another repository, above
        monkeypatch.chdir(folder)
        capsys.readouterr()
        assert main([verb, "--yes"]) == 2
        error = capsys.readouterr().err
        assert error.startswith(
            f"Error: no run of this workspace waits for a decision; {run} in {repository} waits: "
        )
        assert error.endswith(f"\ngoal {verb} {run}\n")
    monkeypatch.chdir(repository / "packages" / "web")
    assert main([verb, "--yes"]) == 0


def test_nothing_to_resume_names_a_run_that_can_go_on(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own_home: Path,
) -> None:
    web, api = repository / "packages" / "web", repository / "packages" / "api"
    (web / "goal.toml").write_text(GOAL.format(validator="false"))
    monkeypatch.chdir(web)
    assert main(["run", "--quiet"]) == 1
    run = run_summaries(own_home)[0]["run_id"]
    here = f'newest elsewhere: goal resume {run}   ({web}, "Write done into result.txt.")\n'

    monkeypatch.chdir(api)
    capsys.readouterr()
    assert main(["resume"]) == 2
    assert capsys.readouterr().err == f"Error: nothing to resume in {api}\n{here}"

    _began_never(own_home, api)
    assert main(["resume"]) == 2
    assert capsys.readouterr().err == (
        f"Error: nothing to resume in {api}: run zzzz-killed was ended before it began\n{here}"
    )


def _began_never(home: Path, workspace: Path) -> None:
    """Leave what a run leaves that was killed before its first event."""
    folder = RunFolder.create(home, "zzzz-killed")
    folder.events.touch()
    write_first_summary(
        folder, RunPlace(str(workspace), ""), "It was killed.", datetime.now(UTC)
    )


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"),
    reason="root may write everything",
)
def test_a_read_only_workspace_is_not_ready(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    (folder / "goal.toml").write_text(GOAL.format(validator="test -e done.txt"))
    folder.chmod(0o555)
    as_user = (
        ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    )
    for command, code in (("check", 2), ("run", 2)):
        ended = subprocess.run(
            [*as_user, sys.executable, "-m", "goalrunner", command],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "GOAL_HOME": str(tmp_path / "home"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended
        assert f"the workspace {folder} is read-only" in " ".join(
            (ended.stdout + ended.stderr).split()
        )
        assert "ready:" not in ended.stdout
