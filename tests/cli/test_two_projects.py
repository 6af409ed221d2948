"""Two projects in one GOAL_HOME: a command without RUN means the newest run of the workspace in which it is called."""

from __future__ import annotations

import io
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import run_summaries
from tests.cli.test_afterwards import Terminal

GOAL = """\
objective = "Write {name}."
validator = "grep -qx done result.txt"
max_iterations = 1
[agent]
use = "command"
command = ["sh", "-c", "echo {word} > result.txt"]
"""
WITHOUT_RUN = (
    ["show"],
    ["show", "--state"],
    ["status"],
    ["watch"],
    ["diff"],
    ["verify"],
    ["report"],
    ["export", "--patch", "--incomplete"],
    ["restore", "0", "--yes"],
    ["resume"],
    ["cancel", "--yes"],
    ["approve", "--yes"],
    ["deny", "--yes"],
    ["answer", "yes"],
)
DECISIONS = ("approve", "deny", "answer")


@dataclass(frozen=True)
class TwoProjects:
    """Their folders, and the run of each. That of `other` is the newest of all; `third` has none."""

    own: Path
    own_run: RunFolder
    other: Path
    other_run: RunFolder
    third: Path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> TwoProjects:
    """Runs of one round that was not enough."""
    root = tmp_path_factory.mktemp("two")
    home = root / "home"
    folders = [root / name for name in ("own", "other", "third")]
    for folder in folders:
        folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOAL_HOME", str(home))
        for folder in folders[:2]:
            (folder / "goal.toml").write_text(
                GOAL.format(name=f"the {folder.name} text", word="half")
            )
            patch.chdir(folder)
            assert main(["run", "--quiet"]) == 1
    other_run, own_run = (
        RunFolder(home / "runs" / summary["run_id"]) for summary in run_summaries(home)
    )
    return TwoProjects(folders[0], own_run, folders[1], other_run, folders[2])


@pytest.fixture
def projects(both: TwoProjects, own_home: Path) -> TwoProjects:
    """The same records in the home of this test, so that each test may change them."""
    shutil.copytree(both.own_run.path.parents[1], own_home, dirs_exist_ok=True)
    for folder in (both.own, both.other):
        (folder / "result.txt").write_text("half\n")
    own_run, other_run = (
        RunFolder(own_home / "runs" / run.run_id)
        for run in (both.own_run, both.other_run)
    )
    return TwoProjects(both.own, own_run, both.other, other_run, both.third)


@pytest.mark.parametrize("arguments", WITHOUT_RUN, ids=" ".join)
def test_no_command_touches_the_run_of_another_project(
    projects: TwoProjects,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = projects.other_run.events.read_bytes()
    for folder in (projects.own, projects.third):
        monkeypatch.chdir(folder)
        main(arguments)
        capsys.readouterr()

    assert projects.other_run.events.read_bytes() == before
    assert (projects.other / "result.txt").read_text() == "half\n"


@pytest.mark.parametrize(
    "arguments",
    [args for args in WITHOUT_RUN if args[0] not in DECISIONS],
    ids=" ".join,
)
def test_a_folder_without_runs_names_the_newest_run_elsewhere(
    projects: TwoProjects,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.third)
    assert main(arguments) == 2
    run_id = projects.other_run.run_id
    if arguments == ["resume"]:
        assert capsys.readouterr().err == (
            f"Error: nothing to resume in {projects.third}\n"
            f'newest elsewhere: goal resume {run_id}   ({projects.other}, "Write the other text.")\n'
        )
        return
    assert capsys.readouterr().err == (
        f"Error: no run worked in {projects.third} or in a folder above it\n"
        f'the newest run elsewhere: {run_id} in {projects.other}, "Write the other text."\n'
        f"to use that run, add its id: {run_id}; goal list --all shows all runs\n"
    )


def test_the_run_of_the_folder_is_used_also_from_a_folder_below(
    projects: TwoProjects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    below = projects.own / "a" / "b"
    below.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(below)

    assert main(["status"]) == 1
    assert f"run        {projects.own_run.run_id}\n" in capsys.readouterr().out
    assert main(["watch"]) == 1
    assert "Write the own text." in capsys.readouterr().out
    assert main(["restore", "0", "--yes"]) == 0
    assert not (projects.own / "result.txt").exists()
    assert main(["resume", "--quiet"]) == 2
    assert (
        f"goal resume {projects.own_run.run_id} --max-iterations 2"
        in capsys.readouterr().err
    )


def test_the_list_has_the_runs_of_this_workspace_and_with_all_those_of_every_workspace(
    projects: TwoProjects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, other = projects.own_run.run_id, projects.other_run.run_id
    monkeypatch.chdir(projects.own)

    main(["list", "--json"])
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == [own]
    main(["list", "--all", "--json"])
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == [
        other,
        own,
    ]
    main(["list", "--all"])
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[-2:] == ["WORKSPACE", "GOAL"]
    assert [
        str(folder) in row
        for folder, row in zip((projects.other, projects.own), rows, strict=True)
    ] == [True] * 2

    monkeypatch.chdir(projects.third)
    assert main(["list"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err
        == f"No run worked in {projects.third}. goal list --all shows the runs of all workspaces.\n"
    )


def test_cancel_shows_the_run_and_asks(
    projects: TwoProjects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.own)
    shown = f"run        {projects.own_run.run_id}\ngoal       Write the own text.\nworkspace  {projects.own}\n"
    question = "End this run for good? It cannot be resumed. [y/N]\n"
    before = projects.own_run.events.read_bytes()

    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["cancel"]) == 2
    refused = "Error: goal cancel asks before it ends a run, and stdin is not a terminal\nadd --yes\n"
    assert capsys.readouterr().err == f"{shown}{refused}"
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["cancel"]) == 1
    assert capsys.readouterr().err == f"{shown}{question}nothing was changed\n"
    assert projects.own_run.events.read_bytes() == before

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main(["cancel"]) == 0
    assert capsys.readouterr().out.startswith(
        f"cancelled  {projects.own_run.run_id}  cancelled by "
    )
    assert main(["cancel"]) == 0  # once more: it is cancelled
    assert capsys.readouterr().out.startswith(
        f"cancelled  {projects.own_run.run_id}  cancelled by "
    )
    assert main(["resume"]) == 2
    assert "was cancelled, which is final" in capsys.readouterr().err


def test_prune_shows_goal_and_folder_of_each_run(
    projects: TwoProjects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.third)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["prune", "--older-than", "1ms"]) == 0
    why = "capped, max_iterations; could be resumed"
    assert capsys.readouterr().err == (
        f"{projects.own_run.run_id}  {why}  {projects.own}  Write the own text.\n"
        f"{projects.other_run.run_id}  {why}  {projects.other}  Write the other text.\n"
        "Remove 2 runs for good? [y/N]\nnothing was removed\n"
    )
    assert projects.own_run.path.exists()


def test_resuming_a_complete_run_prints_its_outcome_again(
    projects: TwoProjects,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.third)
    (projects.third / "goal.toml").write_text(GOAL.format(name="it", word="done"))
    assert main(["run", "--quiet"]) == 0
    newest = RunFolder(
        projects.own_run.path.parent
        / run_summaries(projects.own_run.path.parents[1])[0]["run_id"]
    )
    before = newest.events.read_bytes(), newest.outcome.read_bytes()
    capsys.readouterr()

    assert main(["resume"]) == 0
    assert capsys.readouterr().out.startswith("complete   1 round")
    assert main(["resume", "--max-iterations", "9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(before[1])
    assert (newest.events.read_bytes(), newest.outcome.read_bytes()) == before
    (projects.third / "goal.toml").unlink()
    newest.remove()


def test_resume_does_not_print_an_older_complete_run_after_a_run_that_did_not_start(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = project.parent / "home"
    monkeypatch.setenv("GOAL_HOME", str(home))
    (project / "goal.toml").write_text(GOAL.format(name="it", word="done"))
    assert main(["run", "--quiet"]) == 0
    (complete,) = [path.name for path in (home / "runs").iterdir()]
    older = f"made no run here; run {complete} is complete, but ended before"
    for broken in (
        ["--agent", "none-of-these"],
        ["--no-such-option"],
        ["missing.toml"],
    ):
        assert main(["run", *broken]) == 2
        capsys.readouterr()

        assert main(["resume"]) == 2
        printed = capsys.readouterr()
        assert not printed.out
        assert older in printed.err
    assert main(["resume", complete]) == 0
    assert f'run {complete}, "Write it.", is complete since' in capsys.readouterr().err

    assert main(["run", "--quiet"]) == 0
    assert main(["resume"]) == 0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_check_is_never_among_the_runs(
    projects: TwoProjects,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.own)
    names = sorted(path.name for path in (own_home / "runs").iterdir())
    beside, shown = projects.own.parent / "seen.txt", projects.own.parent / "shown.txt"
    command = f"GOAL_HOME={own_home} {sys.executable} -m goalrunner"
    listing = f"{command} show > {shown}; {command} list --all --json > {beside}"
    goal = GOAL.format(name="it", word="done").replace(
        "grep -qx done result.txt", listing
    )
    (projects.own / "check.toml").write_text(goal)

    assert main(["check", "check.toml"]) == 0, capsys.readouterr()
    assert sorted(run["run_id"] for run in json.loads(beside.read_text())) == names
    assert f"\nrun        {projects.own_run.run_id}\n" in shown.read_text()
    assert sorted(path.name for path in (own_home / "runs").iterdir()) == names
    assert not list((own_home / "check-runs").iterdir())


@pytest.mark.parametrize(
    "command", [["check"], ["run", "--quiet"], ["init", "--yes", "--validator", "true"]]
)
def test_without_git_nothing_is_left_among_the_runs(
    project: Path,
    own_home: Path,
    tmp_path: Path,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "true", "grep", "echo"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if command[0] != "init":
        (project / "goal.toml").write_text(GOAL.format(name="it", word="done"))

    main(command)
    assert "install git" in "".join(capsys.readouterr())
    for kind in ("runs", "check-runs"):
        assert not list((own_home / kind).glob("*"))


def test_what_older_versions_left_is_listed_and_pruned(
    projects: TwoProjects,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = RunFolder.create(own_home, "left-of-a-check")
    left.events.touch()
    monkeypatch.chdir(projects.own)

    assert main(["status"]) == 1  # it is not the newest run of this workspace
    capsys.readouterr()
    main(["list", "--all"])
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == [
        "left-of-a-check",
        "unreadable",
    ]
    projects.own_run.remove()
    projects.other_run.remove()
    assert main(["prune", "--older-than", "1ms", "--yes"]) == 0
    printed = capsys.readouterr()
    assert "removed  left-of-a-check  unreadable (the run never began)\n" in printed.out
    assert "snapshot stores" in printed.out
    assert printed.err == ""
