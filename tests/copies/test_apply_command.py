"""`goal apply` of a finished run: onto a branch, with conflicts, and onto trees that are not ready for it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.checking.overlay import probe
from goalrunner.cli.main import main
from goalrunner.goalfile.loading import load_goal
from tests.support.workspaces import git, listing, make_repository, write

_AGENT = "printf '2 * 3\\n' > mul.txt; mkdir -p made; echo new > made/file"
_MUL = "grep -q '2 \\\\* 3' mul.txt"


@dataclass(frozen=True)
class Finished:
    """A run whose change is no longer in its workspace."""

    run: str
    workspace: Path
    capsys: pytest.CaptureFixture[str]

    def apply(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code of `goal apply`, and what it printed."""
        self.capsys.readouterr()
        code = main(["apply", self.run, *arguments])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    @property
    def files(self) -> Mapping[str, bytes | str]:
        """The files of the workspace."""
        return listing(self.workspace)


_CHECKS = f"""\
[[validators]]
name = "mul"
run = "{_MUL} && test ! -e broken"

[[validators]]
name = "secret"
run = "test ! -e secret"
hidden = true
"""


async def finish(
    root: Path,
    checks: str = _CHECKS,
    agent: str = _AGENT,
    workspace: Path | None = None,
    home: Path | None = None,
) -> str:
    """Run a goal in a repository, put its files back, and return the id of the run."""
    files = {"mul.txt": "2 + 3\n", ".gitignore": "ignored\n", "keep": "1\n"}
    workspace = make_repository(workspace or root / "ws", files)
    git(workspace, "config", "user.name", "n")
    git(workspace, "config", "user.email", "e@x")
    goal, script = root / "goal.toml", root / "agent.sh"
    script.write_text(agent)
    goal.write_text(
        f'objective = "It multiplies."\nmax_iterations = 1\n{checks}\n'
        f'[agent]\nuse = "command"\ncommand = ["sh", "{script}"]\n\n'
        f'[workspace]\npath = "{workspace}"\n'
    )
    outcome = await arun(load_goal(goal), RunOptions(home=home or root / "home"))
    git(workspace, "tag", "start")
    git(workspace, "checkout", "-q", ".")
    git(workspace, "clean", "-fdq")
    return outcome.run_id


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a workspace and a home, and the run that all tests apply."""
    root = tmp_path_factory.mktemp("apply")
    return root, asyncio.run(finish(root))


@pytest.fixture
def finished(
    place: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Finished]:
    root, run = place
    workspace = root / "ws"
    monkeypatch.setenv("GOAL_HOME", str(root / "home"))
    monkeypatch.chdir(workspace)
    yield Finished(run, workspace, capsys)
    git(workspace, "checkout", "-qf", "main")
    git(workspace, "reset", "-q", "--hard", "start")
    git(workspace, "clean", "-fdq")


@pytest.fixture
def overlay(tmp_path: Path) -> None:
    if why := probe(make_repository(tmp_path / "ws", {}), tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")


def test_a_branch_gets_the_change_and_the_workspace_stays(finished: Finished) -> None:
    write(finished.workspace, {"keep": "mine\n"})
    before = finished.files
    code, printed, _ = finished.apply("--branch", "work", "--json")
    assert code == 0
    value = json.loads(printed)
    assert value["changed"] == ["made/file", "mul.txt"]
    assert value["commit"] == git(finished.workspace, "rev-parse", "work").strip()
    assert finished.files == before
    shown = git(finished.workspace, "show", "--format=%B", "--name-status", "work")
    assert f"Goal-Run: {finished.run}" in shown
    assert "A\tmade/file" in shown
    again = finished.apply("--branch", "work")
    assert again[0] == 2
    assert "the branch work exists already" in again[2]


@pytest.mark.slow
@pytest.mark.usefixtures("overlay")
def test_a_branch_is_checked_if_wanted_with_hidden_validators(
    finished: Finished,
) -> None:
    code, _, errors = finished.apply("--branch", "checked", "--check")
    assert code == 0, errors
    write(finished.workspace, {"secret": "x\n"})
    code, _, errors = finished.apply()
    assert code == 2
    assert "nothing was written: secret fails: exit 1" in errors
    assert (finished.workspace / "mul.txt").read_text() == "2 + 3\n"
    # What is only in the workspace is not in the tree of a branch.
    code, _, errors = finished.apply("--branch", "other", "--check")
    assert code == 0, errors


@pytest.mark.slow
@pytest.mark.usefixtures("overlay")
def test_a_branch_has_what_git_add_would_write_and_is_checked_as_git_checks_it_out(
    finished: Finished,
) -> None:
    git(finished.workspace, "config", "filter.times.clean", "sed 's/[*]/times/'")
    git(finished.workspace, "config", "filter.times.smudge", "sed 's/times/*/'")
    attributes = finished.workspace / ".git" / "info" / "attributes"
    attributes.write_text("mul.txt filter=times\n")
    code, _, errors = finished.apply("--branch", "converted", "--check")
    attributes.unlink()
    assert code == 0, errors
    assert git(finished.workspace, "show", "converted:mul.txt") == "2 times 3\n"


@pytest.mark.slow
@pytest.mark.usefixtures("overlay")
def test_what_another_process_wrote_into_the_frozen_base_is_not_checked(
    finished: Finished,
) -> None:
    write(finished.workspace, {"broken": "x\n"})
    assert finished.apply()[0] == 2
    home = Path(os.environ["GOAL_HOME"])
    (mirrored,) = home.glob("bases/*/*/tree/broken")
    mirrored.unlink()
    code, _, errors = finished.apply()
    assert code == 2
    assert "nothing was written: mul fails: exit 1" in errors


@pytest.mark.usefixtures("overlay")
def test_a_judge_alone_verifies_no_merged_tree(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    (tmp_path / "judge.jsonl").touch()
    judge = '[judge]\nmodel = "scripted/judge.jsonl"\n'
    run = asyncio.run(finish(tmp_path, judge))
    finished = Finished(run, tmp_path / "ws", capsys)
    write(finished.workspace, {"keep": "mine\n"})
    code, _, errors = finished.apply("--incomplete")
    assert code == 2
    assert "nothing was written: no validator runs on it" in errors
    assert finished.apply("--incomplete", "--no-check")[0] == 0
    assert (finished.workspace / "mul.txt").read_text() == "2 * 3\n"


def test_conflicts_keep_the_change_as_a_patch(finished: Finished) -> None:
    write(finished.workspace, {"mul.txt": "2 - 3\n"})
    before = finished.files
    code, _, errors = finished.apply()
    assert code == 2
    assert "mul.txt: the run and you changed the same lines" in errors
    assert "nothing was written" in errors
    assert finished.files == before
    patch = errors.split("git apply --3way ")[1].split()[0]
    git(finished.workspace, "checkout", "-q", ".")
    git(finished.workspace, "apply", "--3way", patch)
    assert (finished.workspace / "mul.txt").read_text() == "2 * 3\n"


def test_unresolved_conflicts_are_resolved_first(finished: Finished) -> None:
    root = finished.workspace
    write(root, {"mul.txt": "1\n"})
    git(root, "stash", "-q")
    write(root, {"mul.txt": "2\n"})
    git(root, "commit", "-qam", "two")
    with pytest.raises(Exception, match="stash"):
        git(root, "stash", "pop", "-q")
    code, _, errors = finished.apply()
    assert code == 2
    assert "has unresolved conflicts: mul.txt" in errors


def test_an_unfinished_command_of_git_is_finished_first(finished: Finished) -> None:
    for left, what in (("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick")):
        mark = finished.workspace / ".git" / left
        mark.write_text(git(finished.workspace, "rev-parse", "HEAD"))
        code, _, errors = finished.apply()
        mark.unlink()
        assert code == 2
        assert f"a {what} is not finished" in errors


def test_without_a_branch_the_change_is_applied_and_not_committed(
    finished: Finished,
) -> None:
    git(finished.workspace, "checkout", "-q", "--detach")
    code, _, errors = finished.apply("--commit")
    assert code == 2
    assert "no branch is checked out" in errors
    assert (finished.workspace / "mul.txt").read_text() == "2 + 3\n"
    assert finished.apply()[0] == 0
    assert (finished.workspace / "mul.txt").read_text() == "2 * 3\n"


def test_another_repository_at_the_path_is_not_changed(
    finished: Finished, tmp_path: Path
) -> None:
    repository, aside = finished.workspace / ".git", tmp_path / "git"
    other = make_repository(tmp_path / "other", {"mul.txt": "2 + 3\n"})
    git(other, "commit", "-q", "--amend", "-m", "another")
    before = finished.files
    repository.rename(aside)
    (other / ".git").rename(repository)
    refusals = [finished.apply(), finished.apply("--branch", "elsewhere")]
    shutil.rmtree(repository)
    aside.rename(repository)
    for code, _, errors in refusals:
        assert code == 2
        assert "another repository than when the run began" in errors
    assert finished.files == before


def test_a_second_apply_changes_nothing(finished: Finished) -> None:
    assert finished.apply()[0] == 0
    code, printed, _ = finished.apply()
    assert code == 0
    assert f"has the change of {finished.run} already" in printed


_SWAPS = """\
rm -r folder && ln -s "$PWD/../outside" folder
rm link && mkdir link && echo mine > link/file
printf '2 * 3\\n' > mul.txt
"""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        pytest.param(("--commit",), marks=pytest.mark.slow),
        pytest.param(("--branch", "swapped"), marks=pytest.mark.slow),
    ],
)
def test_a_folder_and_a_link_out_of_the_workspace_change_places(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    write(tmp_path / "outside", {"file": "outside\n"})
    workspace = tmp_path / "ws"
    write(workspace, {"folder/file": "1\n"})
    (workspace / "link").symlink_to(tmp_path / "outside")
    run = asyncio.run(finish(tmp_path, agent=_SWAPS))
    finished = Finished(run, workspace, capsys)
    code, _, errors = finished.apply(*arguments, "--no-check")
    assert code == 0, errors
    if arguments[:1] == ("--branch",):
        git(workspace, "checkout", "-q", "swapped")
    assert (workspace / "folder").is_symlink()
    assert (workspace / "link" / "file").read_text() == "mine\n"
    assert listing(tmp_path / "outside") == {"file": b"- outside\n"}
    if arguments:
        tracked = git(workspace, "ls-files").split()
        assert "folder" in tracked
        assert "link/file" in tracked
        assert git(workspace, "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.usefixtures("overlay")
def test_what_rests_on_ignored_files_of_a_copy_is_checked_without_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "ignored"
    files = {
        ".gitignore": "generated.py\n",
        "main.py": "from generated import made\n",
        "check.py": "import main\nassert main.made\n",
    }
    workspace = make_repository(root / "ws", files)
    goal, script = root / "goal.toml", root / "agent.sh"
    script.write_text("echo made=1 > generated.py; echo '# made' >> main.py\n")
    goal.write_text(
        'objective = "It is made."\nvalidator = "python3 check.py"\n'
        f'[agent]\nuse = "command"\ncommand = ["sh", "{script}"]\n'
        f'[workspace]\npath = "{workspace}"\n'
    )
    home = root / "home"
    environ = {**os.environ, "GOAL_HOME": str(home)}
    command = [sys.executable, "-m", "goalrunner", "run", str(goal), "--isolate"]
    done = subprocess.run(
        command, env=environ, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setenv("GOAL_HOME", str(home))
    (folder,) = (home / "runs").iterdir()
    finished = Finished(folder.name, workspace, capsys)
    code, _, errors = finished.apply()
    assert code == 2, errors
    assert "Running the validators on the merged tree" in errors
    assert "the result rests on changed files: generated.py" in errors
    assert "# made" not in (workspace / "main.py").read_text()
    write(workspace, {"generated.py": "made=1\n"})
    code, _, errors = finished.apply()
    assert code == 0, errors
    assert "# made" in (workspace / "main.py").read_text()
