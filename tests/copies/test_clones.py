"""Runs in a local clone, where no overlay is possible: another path, and the workspace stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goalrunner.copies.clone import make_clone
from goalrunner.copies.entering import goal_command, inner_command, make_copy
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.records.run_folder import RunFolder
from tests.support import forking
from tests.support.command_line import GOAL, Ended, environment, only_run
from tests.support.sandboxes import needs_sandbox
from tests.support.workspaces import git, listing, make_repository, write

_AGENT = """\
test ! -e deps && test -e mine.txt && test ! -e gone.txt || exit 3
git diff --cached --quiet staged.txt && exit 4
sed 's/+/*/' mul.txt > new && cat new > mul.txt && rm new
git add -A && git -c user.name=a -c user.email=a@x commit -qm agent && git branch agents
mkdir -p made && echo "$GOAL_SLOT" > made/slot && pwd > made/place
"""
_GOAL = """\
objective = "mul.txt multiplies"
validator = "grep -q '2 \\\\* 3' mul.txt && test ! -e broken"

[agent]
use = "command"
command = ["sh", "agent.sh"]
"""
_CLONE = '\n[workspace]\nisolate = "clone"\n'
_FILES = {
    "mul.txt": "2 + 3\n\n\n\n\nlast\n",
    "gone.txt": "removed, not committed\n",
    "agent.sh": _AGENT,
    "goal.toml": _GOAL,
    ".gitignore": "deps/\n",
}
_NO_NAMESPACES = (
    *(
        "bwrap",
        "--unshare-user",
        "--disable-userns",
        "--cap-drop",
        "ALL",
        "--bind",
        "/",
        "/",
    ),
    *("--dev", "/dev", "--proc", "/proc"),
)
"""A process in it cannot make a namespace, and cannot mount."""


def _goal(
    *arguments: str, cwd: Path, home: Path, before: tuple[str, ...] = ()
) -> Ended:
    env = {"GOAL_HOME": str(home)}
    if not before:
        return forking.goal(*arguments, cwd=cwd, env=env)
    done = subprocess.run(
        [*before, *GOAL, *arguments],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def _state(root: Path) -> tuple[object, ...]:
    """What a person sees of a work tree and its repository."""
    return (
        listing(root),
        git(root, "status", "--porcelain=v2", "--branch"),
        git(root, "for-each-ref"),
        git(root, "stash", "list"),
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "ws", _FILES)
    write(root, {"deps/lib.txt": "live\n", "mine.txt": "not committed\n"})
    write(root, {"staged.txt": "staged\n"})
    git(root, "add", "staged.txt")
    (root / "gone.txt").unlink()
    return root


@pytest.mark.slow
def test_without_namespaces_a_run_works_in_a_clone(workspace: Path, home: Path) -> None:
    if subprocess.run([*_NO_NAMESPACES, "true"], check=False).returncode != 0:
        pytest.skip("bwrap cannot refuse namespaces here")
    state = _state(workspace)
    ran = _goal("run", "--isolate", cwd=workspace, home=home, before=_NO_NAMESPACES)
    assert ran.code == 0, ran.err + ran.out
    assert _state(workspace) == state
    assert "in a clone" in ran.out
    assert "no overlay here" in ran.out
    assert "the clone has no ignored files: deps/" in ran.out
    run = only_run(home)
    assert str(run / "copy") in (_goal("diff", cwd=workspace, home=home).out)
    assert "Copies of 1 of these runs" in _goal("list", cwd=workspace, home=home).err
    write(workspace, {"mul.txt": "2 + 3\n\n\n\n\nmy last\n"})
    applied = _goal("apply", cwd=workspace, home=home, before=_NO_NAMESPACES)
    assert applied.code == 0, applied.err
    assert (workspace / "mul.txt").read_text() == "2 * 3\n\n\n\n\nmy last\n"
    assert "agents" not in git(workspace, "branch", "--list")
    assert _goal("discard", "--yes", cwd=workspace, home=home).code == 0
    assert not (run / "copy").exists()
    prune = ("prune", "--older-than", "0s", "--yes")
    assert _goal(*prune, cwd=workspace, home=home).code == 0
    assert not run.exists()


@pytest.mark.slow
def test_a_clone_that_was_killed_goes_on(workspace: Path, home: Path) -> None:
    started = workspace.parent / "started"
    script = f"[ -e {started} ] || {{ echo > {started}; sleep 60; }}\n{_AGENT}"
    write(workspace, {"agent.sh": script, "goal.toml": _GOAL + _CLONE})
    process = subprocess.Popen(
        [*GOAL, "run"],
        cwd=workspace,
        env=environment(GOAL_HOME=str(home)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    busy = _goal("resume", cwd=workspace, home=home)
    assert "is in use by another process" in busy.err
    process.send_signal(signal.SIGKILL)
    process.wait()
    write(workspace, {"mul.txt": "2 - 3\n", "broken": "x\n"})
    state = _state(workspace)
    resumed = _goal("resume", cwd=workspace, home=home)
    assert resumed.code == 0, resumed.err + resumed.out
    assert _state(workspace) == state
    refused = _goal("apply", cwd=workspace, home=home)
    assert "mul.txt: the run and you changed the same lines" in refused.err


@pytest.mark.slow
def test_variables_with_paths_of_the_workspace_name_the_clone(
    workspace: Path, home: Path
) -> None:
    link = workspace.with_name("link")
    link.symlink_to(workspace)
    home.with_name("real-home").mkdir()
    home.symlink_to("real-home")
    write(workspace, {"agent.sh": 'echo "$X:$Y" > seen\n' + _AGENT})
    write(workspace, {"goal.toml": _GOAL + _CLONE})
    bin_folder = f"{workspace}/.venv/bin"
    before = ("env", f"X=/usr/bin:{bin_folder}:{link}/bin", f"Y={workspace}x")
    ran = _goal("run", cwd=workspace, home=home, before=before)
    assert ran.code == 0, ran.err + ran.out
    clone = only_run(home).resolve() / "copy" / "clone" / "ws"
    words = f"/usr/bin:{clone}/.venv/bin:{clone}/bin:{workspace}x\n"
    assert (clone / "seen").read_text() == words
    summary = json.loads((only_run(home) / "summary.json").read_text())
    assert summary["workspace"] == str(workspace)
    assert summary["goal_file"] == str(workspace / "goal.toml")


def test_a_work_tree_is_cloned_with_its_repository(
    workspace: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    git(workspace, "worktree", "add", "-q", "-b", "feature", str(tree))
    roots = (tree, workspace / ".git")
    before = _state(workspace), _state(tree)
    clone, _ = make_clone(roots, tmp_path / "clone", "", os.environ)
    copied = Path(clone.places[str(tree)])
    write(copied, {"mul.txt": "2 * 3\n"})
    git(copied, "commit", "-qam", "in the clone")
    assert git(copied, "log", "-1", "--format=%s") == "in the clone\n"
    assert str(copied) in git(copied, "worktree", "list")
    assert (_state(workspace), _state(tree)) == before


def test_submodules_are_cloned(workspace: Path, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner", {"a.txt": "a\n"})
    allow = ("-c", "protocol.file.allow=always")
    git(workspace, *allow, "submodule", "add", "-q", str(inner), "sub")
    git(workspace, "commit", "-qm", "sub")
    # As old versions of git wrote it.
    git(workspace / "sub", "config", "core.worktree", str(workspace / "sub"))
    before = _state(workspace), _state(workspace / "sub")
    clone, _ = make_clone((workspace,), tmp_path / "clone", "", os.environ)
    copied = Path(clone.places[str(workspace)])
    write(copied, {"sub/a.txt": "b\n"})
    git(copied / "sub", "commit", "-qam", "in the clone")
    git(copied, "commit", "-qam", "of the submodule")
    assert (_state(workspace), _state(workspace / "sub")) == before
    # The submodule itself as the workspace.
    roots = (workspace / "sub", workspace / ".git" / "modules" / "sub")
    clone, _ = make_clone(roots, tmp_path / "other", "", os.environ)
    copied = Path(clone.places[str(workspace / "sub")])
    write(copied, {"a.txt": "c\n"})
    git(copied, "commit", "-qam", "in the clone")
    assert (_state(workspace), _state(workspace / "sub")) == before


def test_a_work_tree_of_another_repository_inside_is_refused(
    workspace: Path, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "other", {"a.txt": "a\n"})
    git(other, "worktree", "add", "-q", str(workspace / "nested"))
    with pytest.raises(EnvironmentFailed, match="which a clone would share"):
        make_clone((workspace,), tmp_path / "clone", "", os.environ)


@pytest.mark.slow
def test_a_folder_without_a_repository_is_cloned(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "plain"
    plain = "sed 's/+/*/' mul.txt > new && mv new mul.txt\n"
    write(folder, {**_FILES, "agent.sh": plain, "goal.toml": _GOAL + _CLONE})
    before = listing(folder)
    assert _goal("run", cwd=folder, home=home).code == 0
    assert listing(folder) == before
    assert _goal("apply", cwd=folder, home=home).code == 0
    assert (folder / "mul.txt").read_text().startswith("2 * 3\n")


@pytest.mark.slow
def test_a_full_disk_is_reported_once(tmp_path: Path, workspace: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk")
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("this root may not mount")
    try:
        write(workspace, {"large.bin": "x" * 600_000})
        for settings in ("\n[workspace]\nisolate = true\n", _CLONE):
            write(workspace, {"goal.toml": _GOAL + settings})
            ran = _goal("run", cwd=workspace, home=disk / "home")
            assert ran.err.count("Error:") == 1, ran.err
            assert "no space left" in ran.err.lower()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_setup_runs_in_a_clone_before_the_agent(workspace: Path, home: Path) -> None:
    setup = "mkdir deps && pwd > deps/installed && echo changed > mul.txt"
    agent = 'cp deps/installed made.txt; test "$(cat made.txt)" = "$PWD"\n'
    goal = _GOAL.replace("test ! -e broken", "test -e deps/installed")
    write(workspace, {"goal.toml": f'{goal}{_CLONE}setup = "{setup}"\n'})
    write(workspace, {"agent.sh": agent + _AGENT.partition("\n")[2]})
    state = _state(workspace)
    ran = _goal("run", cwd=workspace, home=home)
    assert ran.code == 0, ran.err + ran.out
    assert _state(workspace) == state
    assert f"Running setup in the clone: {setup}" in ran.err
    write(workspace, {"goal.toml": f'{goal}{_CLONE}setup = "exit 3"\n'})
    failed = _goal("run", cwd=workspace, home=home)
    assert failed.code == 4
    assert "setup failed (exit 3)" in failed.err
    only_run(home)


@pytest.mark.slow
def test_notes_about_the_goal_are_printed_once(workspace: Path, home: Path) -> None:
    write(workspace, {"Makefile": "test:\n\ttest -e mul.txt\n"})
    write(workspace, {"r.jsonl": '{"text": "done"}\n'})
    arguments = ("run", "--isolate", "Multiply the numbers.", "--max-iterations", "1")
    ran = _goal(*arguments, "--model", "scripted/r.jsonl", cwd=workspace, home=home)
    assert ran.code == 0, ran.err
    assert ran.err.count("Validator: make test") == 1
    assert ran.err.count("goal.toml is not used") == 1


@needs_sandbox
@pytest.mark.slow
def test_a_sandbox_keeps_the_agent_in_its_clone(workspace: Path, home: Path) -> None:
    agent = f"""{_AGENT}
if touch {workspace}/escaped && test -e {workspace}/mul.txt; then exit 5; fi
"""
    goal = _GOAL.replace("&& test", "&& git log agents && test")
    sandbox = f'{_CLONE}sandbox = "bwrap"\n'
    write(workspace, {"goal.toml": goal + sandbox, "agent.sh": agent})
    state = _state(workspace)
    ran = _goal("run", cwd=workspace, home=home)
    assert ran.code == 0, ran.err + ran.out
    assert _state(workspace) == state


def test_on_another_system_than_linux_the_copy_is_a_clone(
    workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _state(workspace)
    run = RunFolder.create(home, "a001-run")
    monkeypatch.setattr(sys, "platform", "darwin")
    for name in ("setxattr", "listxattr", "removexattr", "sendfile"):
        monkeypatch.delattr(os, name)
    copy = make_copy(run, workspace, home, os.environ)
    command = inner_command(copy, home, goal_command(["run"]), os.environ)
    command.close()
    clone = copy.read().clone
    assert clone is not None
    assert clone.why == "no overlay here: overlays need Linux"
    monkeypatch.undo()
    copied = Path(clone.places[str(workspace)])
    files = listing(workspace)
    del files["deps/lib.txt"]
    assert listing(copied) == files
    assert _state(workspace) == before
