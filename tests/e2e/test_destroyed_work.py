"""Files that were not committed at the start and are gone or reverted are named, with the command that restores them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.records.run_folder import RunFolder
from tests.support.recordings import agent, recording, shell
from tests.support.workspaces import git, listing, make_repository, write

GOAL = """\
objective = "Write a file with the word hello."
model = "{model}"
validator = "grep -q hello hello.txt"
max_iterations = 1
"""

STARTED = {
    "a.py": b"- mine\n",
    "new file.txt": b"- draft\n",
    "sub/note.md": b"- note\n",
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a changed file, two untracked ones, a clean one and an ignored one."""
    folder = make_repository(
        tmp_path / "work",
        {"a.py": "old\n", "clean.py": "same\n", ".gitignore": "*.log\n"},
    )
    write(
        folder,
        {
            "a.py": "mine\n",
            "new file.txt": "draft\n",
            "sub/note.md": "note\n",
            "x.log": "log\n",
        },
    )
    monkeypatch.chdir(folder)
    return folder


def run(tmp_path: Path, *commands: str) -> tuple[str, int]:
    """Run the goal with an agent that runs these commands; return the id of the run and its exit code."""
    model = recording(
        tmp_path / "models.jsonl", agent("", *map(shell, commands)), agent("Done.")
    )
    (tmp_path / "goal.toml").write_text(
        GOAL.format(model=model) + f'[workspace]\npath = "{tmp_path / "work"}"\n'
    )
    code = main(["run", str(tmp_path / "goal.toml")])
    [folder] = (tmp_path / "home" / "runs").iterdir()
    return folder.name, code


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "home"


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q . && git clean -fdq",
        "git stash -qu",
        "git add -A && git reset -q --hard",
        "rm -rf .git a.py sub *file.txt",
    ],
)
def test_it_is_named_in_the_round_and_at_the_end_and_can_be_restored(
    command: str, tmp_path: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = "git -c user.name=n -c user.email=e@x"
    name, code = run(
        tmp_path,
        command.replace("git", config, 1) if ".git" not in command else command,
        "echo hello > hello.txt",
    )
    printed = capsys.readouterr().out
    assert code == 0, printed
    named = "gone or reverted since the start, and not committed then: a.py, new file.txt, sub/note.md"
    restoring = (
        f"goal restore {name} 0 --path a.py --path 'new file.txt' --path sub/note.md"
    )
    assert printed.count(named) == printed.count(restoring) == 2
    outcome = json.loads(
        (tmp_path / "home" / "runs" / name / "outcome.json").read_text()
    )
    assert outcome["gone_or_reverted"] == ["a.py", "new file.txt", "sub/note.md"]
    assert main(["status", name]) == 0
    assert restoring in capsys.readouterr().out
    main(["show", name])
    assert restoring in capsys.readouterr().out

    assert main([*shlex.split(restoring)[1:], "--yes"]) == 0
    files = listing(workspace)
    assert {path: files[path] for path in STARTED} == STARTED
    assert files["hello.txt"] == b"- hello\n"


@pytest.mark.parametrize(
    "command",
    [
        "git rm -q -f clean.py",
        "echo more >> a.py; echo more >> 'new file.txt'",
        "git add -A && git -c user.name=n -c user.email=e@x commit -qm two",
        "git mv -f a.py b.py; mv sub/note.md note.md",
        "rm x.log",
        "git -c user.name=n -c user.email=e@x stash -qu && git stash pop -q",
    ],
)
def test_ordinary_work_is_not_named(
    command: str, tmp_path: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, code = run(tmp_path, command, "echo hello > hello.txt")
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "gone or reverted" not in printed
    outcome = json.loads(
        RunFolder(tmp_path / "home" / "runs" / name).outcome.read_text()
    )
    assert outcome["gone_or_reverted"] == []


def test_many_paths_are_counted(
    tmp_path: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(workspace, {f"draft{number}": "x" * number for number in range(1, 9)})
    name, _ = run(tmp_path, "rm draft*", "echo hello > hello.txt")
    printed = capsys.readouterr().out
    assert "draft1, draft2, draft3, draft4, draft5 and 3 more" in printed
    assert f"goal restore {name} 0 --path draft1" in printed
    assert git(workspace, "status", "--porcelain")
