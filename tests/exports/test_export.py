"""`goal export` after real runs: what git makes of the patch, the branch, and the text for a pull request."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.cli.main import main
from goalrunner.goalfile.loading import load_goal
from tests.support.recordings import agent, recording, shell
from tests.support.workspaces import listing

pytestmark = pytest.mark.slow

START = {
    "keep.txt": b"kept\n",
    "gone.txt": b"gone\n",
    "old name.txt": b"moved\n" * 20,
    "windows.txt": b"one\r\ntwo\r\n",
    "open.txt": b"no line break at the end",
    "data.bin": bytes(range(256)),
    "run.sh": b"#!/bin/sh\n",
    "place": b"a file\n",
    "sub/grüße.txt": b"hallo\n",
}
"""A workspace with everything that patches make difficult."""

WORK = r"""
rm gone.txt place; mkdir place; echo inside > place/file; mv 'old name.txt' 'new name.txt'
printf 'one\r\n2\r\n' > windows.txt; printf 'still none' > open.txt; printf '\000\001\377' > data.bin
chmod +x run.sh; ln -s keep.txt link; printf 'servus\n' > sub/grüße.txt; : > empty.txt
printf 'tab\n' > "$(printf 'a\ttab.txt')"; mkdir __pycache__; echo x > __pycache__/x.pyc
"""

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """What git prints there."""
    argv = ["git", "-C", str(folder), *IDENTITY, *arguments]
    return subprocess.run(
        argv, input=stdin, capture_output=True, check=True
    ).stdout.decode()


def written(folder: Path) -> Path:
    """A folder with the files of the start."""
    for name, content in START.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def committed(root: Path, workspace: Path) -> Path:
    """A repository with the files of the start in `workspace`, in one commit."""
    written(workspace)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return workspace


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go back to the present folder at the end."""
    monkeypatch.chdir(tmp_path)


def worked(
    root: Path,
    workspace: Path,
    home: Path,
    work: str = WORK,
    validator: str = "test -e link",
    outputs: str = "[]",
) -> str:
    """The id of a run in which the agent runs one script; its workspace becomes the current folder."""
    model = recording(root / "models.jsonl", agent("", shell(work)), agent("Done."))
    goal = root / "goal.toml"
    goal.write_text(
        f'objective = "Tidy up the files."\nmodel = "{model}"\nvalidator = "{validator}"\nmax_iterations = 1\n'
        f'[workspace]\npath = "{workspace}"\noutputs = {outputs}\n'
    )
    os.chdir(workspace)
    return asyncio.run(arun(load_goal(goal), RunOptions(home=home))).run_id


def without_caches(folder: Path) -> dict[str, object]:
    """The files of a workspace, but for what patches leave out."""
    return {
        name: held
        for name, held in listing(folder).items()
        if not name.startswith((".git", "__pycache__"))
    }


def test_a_branch_has_the_change_and_leaves_everything_else_alone(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "repo"
    workspace = committed(root, root / "packages" / "one")
    run = worked(tmp_path, workspace, own_home)
    before = (
        git(root, "status", "--porcelain"),
        (root / ".git" / "index").read_bytes(),
        git(root, "rev-parse", "HEAD"),
    )
    assert main(["export", "--branch", "agent/tidy"]) == 0
    after = (
        git(root, "status", "--porcelain"),
        (root / ".git" / "index").read_bytes(),
        git(root, "rev-parse", "HEAD"),
    )
    assert after == before
    assert (
        git(root, "log", "--format=%an %ae %s", "main..agent/tidy")
        == "Ada ada@example.org Tidy up the files.\n"
    )
    assert f"Goal-Run: {run}\nGoal-Status: complete" in git(
        root, "log", "-1", "--format=%b", "agent/tidy"
    )
    out = tmp_path / "out"
    git(root, "worktree", "add", "-q", str(out), "agent/tidy")
    assert without_caches(out / "packages" / "one") == without_caches(workspace)
    assert "Warning" not in capsys.readouterr().err
    assert main(["export", "--branch", "agent/tidy"]) == 2
    assert "the branch agent/tidy exists already" in capsys.readouterr().err


def test_a_folder_that_took_the_place_of_a_file_has_only_what_was_checked(
    tmp_path: Path, own_home: Path
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    script = "rm place; mkdir place; cd place; for i in $(seq 600); do echo $i > $i; done; echo x > a.log"
    worked(tmp_path, workspace, own_home, script, "test -d place", '["*.log"]')
    assert main(["export", "--branch", "many"]) == 0
    assert (
        len(git(workspace, "ls-tree", "--name-only", "many:place").splitlines()) == 600
    )


def test_a_branch_names_files_that_were_not_committed_when_the_run_began(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    (workspace / "keep.txt").write_text("changed by hand\n")
    (workspace / "goal.toml").write_text('objective = "as goal init writes it"\n')
    (workspace / ".pytest_cache").mkdir()
    (workspace / ".pytest_cache" / "README.md").write_text("of a test runner\n")
    worked(tmp_path, workspace, own_home)
    assert main(["export", "--branch", "fix"]) == 0
    assert "(keep.txt)" in capsys.readouterr().err
    assert git(workspace, "show", "fix:keep.txt") == "kept\n"


def test_a_branch_whose_base_has_other_content_is_refused(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    start = git(workspace, "rev-parse", "HEAD").strip()
    worked(tmp_path, workspace, own_home)
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "taken over")
    assert main(["export", "--branch", "fix", "--base", "main"]) == 2
    assert "the change does not apply to main" in capsys.readouterr().err
    assert "fix" not in git(workspace, "branch")
    assert main(["export", "--branch", "fix"]) == 0
    assert git(workspace, "rev-parse", "fix~1").strip() == start
    assert git(workspace, "diff", "--name-only", "fix", "main") == "__pycache__/x.pyc\n"


COMMITS = """
mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml; echo evil > evil.py
git add -A; git -c user.name=n -c user.email=e@x commit -qm more
rm -r .github evil.py; ln -s keep.txt link
"""


def test_a_branch_never_has_files_that_the_agent_committed_and_removed_again(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    start = git(workspace, "rev-parse", "HEAD").strip()
    worked(tmp_path, workspace, own_home, COMMITS)
    assert main(["export", "--branch", "fix", "--base", "HEAD"]) == 2
    assert (
        "HEAD has files that the run did not check: .github/workflows/x.yml, evil.py"
        in capsys.readouterr().err
    )
    assert "fix" not in git(workspace, "branch")
    assert main(["export", "--branch", "fix"]) == 0
    assert git(workspace, "diff", "--name-only", start, "fix") == "link\n"


def test_a_branch_has_nothing_of_what_the_agent_committed_outside_of_its_change(
    tmp_path: Path, own_home: Path
) -> None:
    root = tmp_path / "repo"
    workspace = committed(root, root / "sub")
    work = """
    sed -i '1i EVIL' keep.txt; echo evil > ../evil.py; git add -A ..; git -c user.name=n -c user.email=e@x commit -qm x
    sed -i 1d keep.txt; echo more >> keep.txt; ln -s keep.txt link
    """
    worked(tmp_path, workspace, own_home, work)
    assert main(["export", "--branch", "fix"]) == 0
    assert git(root, "show", "fix:sub/keep.txt") == "kept\nmore\n"
    assert (
        git(root, "diff", "--name-only", "main~1", "fix") == "sub/keep.txt\nsub/link\n"
    )


def test_a_repository_without_a_commit_has_no_base_for_a_branch(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = written(tmp_path / "work")
    git(workspace, "init", "-q")
    run = worked(
        tmp_path,
        workspace,
        own_home,
        "git add -A; git -c user.name=n -c user.email=e@x commit -qm x; : > link",
    )
    assert main(["export", "--branch", "fix"]) == 2
    assert "had no commit when the run began" in capsys.readouterr().err
    assert main(["resume"]) == 0  # it prints the outcome again
    assert f"keep       goal export {run} --patch\n" in capsys.readouterr().out


def test_a_snapshot_whose_content_was_replaced_is_not_exported(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    worked(
        tmp_path, workspace, own_home, "echo verified > keep.txt; ln -s keep.txt link"
    )
    content = b"verified\n"
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    (kept,) = (own_home / "stores").glob(f"*/objects/{blob[:2]}/{blob[2:]}")
    kept.chmod(0o600)
    kept.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    for arguments in (["--patch"], ["--branch", "fix"]):
        assert main(["export", *arguments]) != 0
        assert "keep.txt" in capsys.readouterr().err
    assert "fix" not in git(workspace, "branch")


def test_submodules_and_outputs_are_no_content_that_the_run_did_not_check(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = committed(tmp_path / "inner", tmp_path / "inner")
    workspace = committed(tmp_path / "work", tmp_path / "work")
    git(
        workspace,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "inner",
    )
    (workspace / "report.txt").write_text("an output of the goal\n")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-qm", "more")
    worked(
        tmp_path,
        workspace,
        own_home,
        "echo new > report.txt; ln -s keep.txt link",
        outputs='["report.txt"]',
    )
    assert main(["export", "--branch", "fix"]) == 0
    assert capsys.readouterr().err == ""
    assert git(workspace, "diff", "--name-only", "main", "fix") == "link\n"


def test_no_setting_of_the_repository_starts_a_program(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = committed(tmp_path / "work", tmp_path / "work")
    worked(tmp_path, workspace, own_home, "ln -s keep.txt link")
    ran = tmp_path / "ran"
    for key, value in {
        "extensions.partialClone": "far",
        "remote.far.url": f"ext::touch {ran}",
        "remote.far.promisor": "true",
        "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
    }.items():
        git(workspace, "config", key, value)
    tree = git(workspace, "rev-parse", "HEAD:sub").strip()
    (workspace / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert main(["export", "--branch", "fix"]) != 0
    assert not ran.exists()
    assert "fix" not in git(workspace, "branch")


@pytest.mark.parametrize("name", ["out", "folder/out"])
def test_a_link_out_of_the_current_folder_is_not_written_through(
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    workspace = written(tmp_path / "work")
    worked(
        tmp_path,
        workspace,
        own_home,
        f"ln -s {tmp_path}/out out; ln -s {tmp_path} folder; ln -s keep.txt link",
    )
    monkeypatch.chdir(workspace)
    for option in (
        ["export", "--comment", "-o"],
        ["status", "--junit"],
        ["status", "--summary"],
        ["report", "-o"],
    ):
        assert main([*option, name]) == 2
        assert "through a link" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command", [["export", "--patch"], ["export", "--comment"], ["report"]]
)
def test_a_link_in_the_workspace_is_not_written_through(
    tmp_path: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    (tmp_path / "profile").write_text("mine\n")
    workspace = written(tmp_path / "work")
    worked(
        tmp_path,
        workspace,
        own_home,
        f"ln -s {tmp_path}/profile out; ln -s keep.txt link",
    )
    assert main([*command, "-o", str(workspace / "out")]) == 2
    assert "through a link" in capsys.readouterr().err
    assert (tmp_path / "profile").read_text() == "mine\n"
    (tmp_path / "own").symlink_to(tmp_path / "elsewhere")
    assert main([*command, "-o", str(tmp_path / "own")]) == 0
    assert (tmp_path / "elsewhere").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--branch", "bad..name"], "not a valid name"),
        (["--branch", "x", "--base", "nowhere"], "has no commit nowhere"),
        (["--branch", "x", "-o", "file"], "--branch writes no file"),
        ([], "exactly one of --patch, --branch NAME, --comment, --receipt"),
    ],
)
def test_what_cannot_be_a_branch_is_refused(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worked(tmp_path, committed(tmp_path / "work", tmp_path / "work"), own_home)
    assert main(["export", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_a_repository_a_branch_is_refused_with_the_command_for_a_patch(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = worked(tmp_path, written(tmp_path / "work"), own_home)
    assert main(["export", "--branch", "fix"]) == 2
    assert f"goal export {run} --patch" in capsys.readouterr().err


def test_the_verified_files_are_exported_without_later_changes(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = written(tmp_path / "work")
    worked(tmp_path, workspace, own_home)
    (workspace / "open.txt").write_text("changed after the run")
    assert main(["export", "--patch"]) == 0
    captured = capsys.readouterr()
    assert "+still none" in captured.out
    assert "changed after the run" not in captured.out


def test_a_run_that_is_not_complete_is_refused_with_its_own_code(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = worked(
        tmp_path,
        committed(tmp_path / "work", tmp_path / "work"),
        own_home,
        validator="test -e never",
    )
    assert main(["export", "--patch"]) == 1
    captured = capsys.readouterr()
    assert not captured.out
    assert f"goal status {run}" in captured.err
    assert main(["export", "--patch", "--incomplete"]) == 0
    assert "rename" not in capsys.readouterr().out
    assert main(["export", "--branch", "half", "--incomplete"]) == 0
    assert "Goal-Status: capped" in git(
        tmp_path / "work", "log", "-1", "--format=%b", "half"
    )


def test_the_comment_has_the_evidence_and_the_files(
    tmp_path: Path, own_home: Path
) -> None:
    run = worked(tmp_path, written(tmp_path / "work"), own_home)
    assert main(["export", "--comment", "-o", str(tmp_path / "pr.md")]) == 0
    text = (tmp_path / "pr.md").read_text()
    assert "## goal: complete" in text
    assert f"`{run}`" in text
    assert "| ✅ | validator" in text
    assert "`new name.txt`" in text


def test_a_run_that_changed_nothing_has_no_patch(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worked(
        tmp_path,
        written(tmp_path / "work"),
        own_home,
        work="true",
        validator="test -e keep.txt",
    )
    assert main(["export", "--patch"]) == 2
    assert "changed no files" in capsys.readouterr().err
