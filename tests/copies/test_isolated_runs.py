"""Whole runs in a copy: the person's tree stays as it is, and the verified change is applied to it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from goalrunner.checking.overlay import probe, scratch_candidates
from goalrunner.copies import entering
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.records.run_folder import RunFolder, write_json
from goalrunner.snapshots.objects import find_snapshot
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_folder import make_store, store_name
from tests.conformance.place import living
from tests.support import forking
from tests.support.command_line import GOAL, Ended, environment, only_run, outcome_of
from tests.support.sandboxes import needs_sandbox
from tests.support.workspaces import git, listing, make_repository, write

_AGENT = """\
sed 's/+/*/' mul.txt > new && cat new > mul.txt && rm new
git add -A && git -c user.name=a -c user.email=a@x commit -qm agent && git branch agents
mkdir -p made && echo "$GOAL_SLOT" > made/slot
"""
_GOAL = """\
objective = "mul.txt multiplies"
validator = "grep -q '2 \\\\* 3' mul.txt && test ! -e broken"

[agent]
use = "command"
command = ["sh", "agent.sh"]
"""
_FILES = {
    "mul.txt": "2 + 3\n\n\n\n\nlast\n",
    "agent.sh": _AGENT,
    "goal.toml": _GOAL,
    ".gitignore": "deps/\n",
}


_GIT_USER = {
    f"GIT_{role}_{key}": "a@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for key in ("NAME", "EMAIL")
}


def _goal(
    *arguments: str, cwd: Path, home: Path, before: tuple[str, ...] = ()
) -> Ended:
    env = {**_GIT_USER, "GOAL_HOME": str(home)}
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


def _skip_without_overlays(root: Path, home: Path) -> None:
    scratch = next(scratch_candidates(home, root), home / "checks")
    if why := probe(root, scratch):
        pytest.skip(f"no overlay works here: {why}")


@pytest.fixture
def workspace(tmp_path: Path, home: Path) -> Path:
    root = make_repository(tmp_path / "ws", _FILES)
    _skip_without_overlays(root, home)
    write(root, {"deps/lib.txt": "live\n", "mine.txt": "not committed\n"})
    return root


_WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-sys_admin")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="as-it-is"),
        pytest.param(_WITHOUT_RIGHTS, id="no-rights", marks=pytest.mark.slow),
    ],
)
def test_a_run_in_a_copy_leaves_the_workspace_as_it_is(
    workspace: Path, home: Path, before: tuple[str, ...]
) -> None:
    if before and (os.geteuid() != 0 or not shutil.which("setpriv")):
        pytest.skip("this user has no rights to drop")
    state = _state(workspace)
    ran = _goal("run", "--isolate", cwd=workspace, home=home, before=before)
    assert ran.code == 0, ran.err + ran.out
    assert _state(workspace) == state
    assert "in a copy" in ran.out
    run = only_run(home).name
    assert f"goal apply {run}" in ran.out
    assert str(home) not in Path("/proc/self/mounts").read_text()
    write(workspace, {"mul.txt": "2 + 3\n\n\n\n\nmy last\n"})
    applied = _goal("apply", cwd=workspace, home=home)
    assert applied.code == 0, applied.err
    assert (workspace / "mul.txt").read_text() == "2 * 3\n\n\n\n\nmy last\n"
    assert (workspace / "made" / "slot").read_text() == "0\n"
    assert "agents" not in git(workspace, "branch", "--list")
    undo = applied.out.split("goal restore ")[1].split()
    assert _goal("restore", *undo, "--yes", cwd=workspace, home=home).code == 0
    assert (workspace / "mul.txt").read_text() == "2 + 3\n\n\n\n\nmy last\n"


@pytest.mark.slow
def test_a_conflict_and_a_red_merged_tree_change_nothing(
    workspace: Path, home: Path
) -> None:
    assert _goal("run", "--isolate", cwd=workspace, home=home).code == 0
    write(workspace, {"mul.txt": "2 - 3\n\n\n\n\nlast\n"})
    before = _state(workspace)
    refused = _goal("apply", cwd=workspace, home=home)
    assert refused.code == 2
    assert "mul.txt: the run and you changed the same lines" in refused.err
    assert _state(workspace) == before
    write(workspace, {"mul.txt": _FILES["mul.txt"], "broken": "x\n"})
    before = _state(workspace)
    red = _goal("apply", cwd=workspace, home=home)
    assert red.code == 2
    assert "the merged tree is not verified, and nothing was written" in red.err
    assert _state(workspace) == before
    assert _goal("apply", "--no-check", cwd=workspace, home=home).code == 0
    assert (workspace / "mul.txt").read_text().startswith("2 * 3\n")


def _is_at_work(process: psutil.Process) -> bool:
    """Return whether a process lives; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_run_goes_on_in_its_copy(workspace: Path, home: Path) -> None:
    started = workspace.parent / "started"
    mark = f"echo $$ > {started}.new; mv {started}.new {started}"
    script = f"[ -e {started} ] || {{ {mark}; sleep 60; }}\n{_AGENT}"
    write(workspace, {"agent.sh": f"cat deps/lib.txt > seen\n{script}"})
    process = subprocess.Popen(
        [*GOAL, "run", "--isolate"],
        cwd=workspace,
        env=environment(GOAL_HOME=str(home)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    # Not its number alone: on a busy machine, another process may get that soon.
    agent = psutil.Process(int(started.read_text()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The agent and its namespace end with the run.
    # The watchdog is a Python program, which a busy machine starts slowly.
    deadline = time.monotonic() + 60
    while _is_at_work(agent) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_at_work(agent)
    # What the person does meanwhile is not in the copy.
    write(workspace, {"mul.txt": "2 - 3\n", "broken": "x\n"})
    before = _state(workspace)
    applied = _goal("apply", "--incomplete", cwd=workspace, home=home)
    assert "changed in its interrupted turn is in the copy alone" in applied.err
    assert "has recorded no change" in applied.out
    resumed = _goal("resume", cwd=workspace, home=home)
    assert resumed.code == 0, resumed.err + resumed.out
    assert outcome_of(home)["status"] == "complete"
    assert _state(workspace) == before
    upper = RunCopy.of(RunFolder(only_run(home))).read().layer(0) / "u"
    assert (upper / "made" / "slot").read_text() == "0\n"


@pytest.mark.slow
def test_the_work_tree_of_another_repository_is_copied_with_its_repository(
    workspace: Path, home: Path
) -> None:
    tree = workspace.parent / "tree"
    git(workspace, "worktree", "add", "-q", "-b", "feature", str(tree))
    refs = git(workspace, "for-each-ref")
    before = _state(tree)
    assert _goal("run", "--isolate", cwd=tree, home=home).code == 0
    assert _state(tree) == before
    assert git(workspace, "for-each-ref") == refs
    assert _goal("apply", "--commit", cwd=tree, home=home).code == 0
    assert "Goal-Run: " in git(tree, "log", "-1", "--format=%B")
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_folder_without_a_repository_is_copied(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "plain"
    plain_agent = _AGENT.replace("git ", ": ")
    write(folder, {**_FILES, "agent.sh": plain_agent})
    _skip_without_overlays(folder, home)
    before = listing(folder)
    assert _goal("run", "--isolate", cwd=folder, home=home).code == 0
    assert listing(folder) == before
    assert _goal("apply", cwd=folder, home=home).code == 0
    assert (folder / "mul.txt").read_text().startswith("2 * 3\n")


_TOGETHER = """\
meet() { echo > $1; while [ $(ls ${{1%/*}} | wc -l) -lt {runs} ]; do sleep 0.1; done; }}
meet {gate}/began/$$
mkdir -p made && echo > made/${{GOAL_SLOT:-live}}
meet {gate}/wrote/$$
echo "${{GOAL_SLOT:-live}} ${{GOAL_PORT:-0}}" > {gate}/seen/$$
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_runs_in_copies_and_a_run_of_the_person_go_on_at_once(
    workspace: Path, home: Path
) -> None:
    copies = 6
    gate = workspace.parent / "gate"
    for name in ("began", "wrote", "seen"):
        (gate / name).mkdir(parents=True)
    together = _TOGETHER.replace("() {", "() {{").format(runs=copies + 1, gate=gate)
    write(workspace, {"agent.sh": together + _AGENT})
    git(workspace, "commit", "-qam", "waits")
    ways = [["run", "--isolate"]] * copies + [["run"]]
    processes = [
        subprocess.Popen(
            [*GOAL, *way, "--json"],
            cwd=workspace,
            env=environment(GOAL_HOME=str(home)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for way in ways
    ]
    outcomes = [
        json.loads(process.communicate(timeout=280)[0]) for process in processes
    ]
    assert {(outcome["status"], outcome["message"]) for outcome in outcomes} == {
        ("complete", "validators of round 1")
    }
    seen = dict(path.read_text().split() for path in (gate / "seen").iterdir())
    assert sorted(seen) == sorted([*map(str, range(copies)), "live"])
    assert len(set(seen.values())) == copies + 1
    assert (workspace / "made" / "slot").read_text() == "\n"
    for run in (home / "runs").iterdir():
        if (copy := RunCopy.of(RunFolder(run))).exists:
            os.close(copy.lock())  # free
            made = copy.read().layer(0) / "u" / "made"
            written = {path.name for path in made.iterdir() if path.is_file()}
            assert written == {"slot", (made / "slot").read_text().strip()}
    deadline = time.monotonic() + 60
    while living(f"GOAL_HOME={home}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not living(f"GOAL_HOME={home}")
    assert str(home) not in Path("/proc/self/mounts").read_text()


@pytest.mark.slow
def test_a_run_whose_copy_is_discarded_is_applied_and_not_resumed(
    workspace: Path, home: Path
) -> None:
    red = _GOAL.replace("broken", "broken && test -e never")
    write(workspace, {"goal.toml": f"max_iterations = 1\n{red}"})
    assert _goal("run", "--isolate", cwd=workspace, home=home).code == 1
    run = only_run(home)
    assert _goal("discard", cwd=workspace, home=home).code == 2
    assert (run / "copy").exists()
    assert _goal("discard", "--yes", cwd=workspace, home=home).code == 0
    assert not (run / "copy").exists()
    before = _state(workspace)
    refused = _goal("resume", "--max-iterations", "2", cwd=workspace, home=home)
    assert refused.code == 2
    assert "worked in a copy, which was removed" in refused.err
    # In the workspace itself, the agent would have changed files of the person.
    assert _state(workspace) == before
    assert _goal("apply", "--incomplete", cwd=workspace, home=home).code == 0
    none = _goal("discard", "--yes", cwd=workspace, home=home)
    assert none.code == 2
    assert "has no copy" in none.err


@pytest.mark.slow
def test_an_unfinished_rebase_and_a_run_that_is_not_complete_are_refused(
    workspace: Path, home: Path
) -> None:
    assert _goal("run", "--isolate", cwd=workspace, home=home).code == 0
    (workspace / ".git" / "rebase-merge").mkdir()
    refused = _goal("apply", cwd=workspace, home=home)
    assert refused.code == 2
    assert "a rebase is not finished" in refused.err


def test_a_home_inside_of_the_workspace_is_refused(workspace: Path) -> None:
    refused = _goal("run", "--isolate", cwd=workspace, home=workspace / "runs")
    assert refused.code == 4
    assert "set GOAL_HOME to another folder" in refused.err


@pytest.mark.slow
def test_the_list_a_restore_and_prune_know_copies(workspace: Path, home: Path) -> None:
    assert _goal("run", "--isolate", cwd=workspace, home=home).code == 0
    run = only_run(home)
    listed = _goal("list", cwd=workspace, home=home)
    assert "Copies of 1 of these runs use " in listed.err
    assert " COPY " in listed.out
    refused = _goal("restore", "0", "--yes", cwd=workspace, home=home)
    assert refused.code == 2
    assert "worked in a copy" in refused.err
    prune = ("prune", "--older-than", "1ms", "--yes")
    pruned = _goal(*prune, "--copies", cwd=workspace, home=home)
    assert f"removed  copy of {run.name}" in pruned.out
    assert "removed  1 frozen base, which no copy uses" in pruned.out
    assert not (run / "copy").exists()
    assert _goal("apply", cwd=workspace, home=home).code == 0


@pytest.mark.slow
def test_an_apply_that_was_killed_is_undone_by_the_next_one(
    workspace: Path, home: Path
) -> None:
    assert _goal("run", "--isolate", cwd=workspace, home=home).code == 0
    first = _goal("apply", "--json", cwd=workspace, home=home)
    assert first.code == 0
    run = only_run(home)
    # As a kill leaves it: the journal is there, and only some files are written.
    store = SnapshotStore(workspace, home)
    target = asyncio.run(store.snapshot())
    before = asyncio.run(find_snapshot(store.git, json.loads(first.out)["before"]))
    store.close()
    (workspace / "made" / "slot").unlink()
    journal = {
        "run": run.name,
        "before": before.model_dump(),
        "target": target.model_dump(),
        "paths": ["mul.txt", "made/slot"],
    }
    write_json(home / "applies" / f"{store.folder.name}.json", journal)
    write(workspace, {"mul.txt": "edited since\n"})
    again = _goal("apply", cwd=workspace, home=home)
    assert again.code == 0, again.err
    assert "had been interrupted; its files were put back" in again.err
    assert (workspace / "mul.txt").read_text().startswith("2 * 3\n")
    assert (workspace / "made" / "slot").read_text() == "0\n"
    assert not list((home / "applies").iterdir())
    assert "changed since then, and put back as well: mul.txt" in again.err
    edit = again.err.split("goal restore ")[1].splitlines()[0].split()
    assert _goal("restore", *edit, "--yes", cwd=workspace, home=home).code == 0
    assert (workspace / "mul.txt").read_text() == "edited since\n"


@pytest.mark.slow
@needs_sandbox
def test_git_works_in_a_copy_with_a_sandbox(workspace: Path, home: Path) -> None:
    goal = _GOAL.replace("&& test", "&& git log agents && ! test -e escaped && test")
    agent = f"""{_AGENT}
if touch "$(cat .git/objects/info/alternates)/x"; then touch escaped; fi
for folder in {home}/runs {home}/stores {home}/bases/*/*/tree; do
    if ls $folder; then touch escaped; fi
done
# Each process that it sees has its own copy as the workspace, and no other process is.
for root in /proc/[0-9]*/root; do touch $root/{workspace}/reached; done
if umount {workspace} || [ -e /proc/{os.getpid()} ]; then touch escaped; fi
"""
    sandbox = '\n[workspace]\nsandbox = "bwrap"\n'
    write(workspace, {"goal.toml": goal + sandbox, "agent.sh": agent})
    state = _state(workspace)
    ran = _goal("run", "--isolate", cwd=workspace, home=home)
    assert ran.code == 0, ran.err + ran.out
    assert _state(workspace) == state


def test_on_an_overlay_the_layers_lie_on_another_file_system(
    workspace: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "memory"
    gone, elsewhere = "gone-run", store_name(tmp_path / "another-home")
    left = other / "copies" / store_name(home.resolve()) / gone
    write(left, {"x": "1\n"})
    write(other / "copies" / elsewhere / gone, {"x": "1\n"})
    (other / "copies").chmod(0o700)
    left.parent.chmod(0o700)
    monkeypatch.setattr(entering, "is_overlay", lambda place: home in place.parents)
    monkeypatch.setattr(
        entering, "scratch_candidates", lambda *_: iter([other / "checks"])
    )
    run = RunFolder.create(home, "a001-run")
    copy = entering.make_copy(run, workspace, home, os.environ)
    layers = Path(copy.read().layers)
    assert layers == left.with_name("a001-run")
    assert not left.exists()
    assert (other / "copies" / elsewhere / gone / "x").exists()
    shutil.rmtree(layers)
    with pytest.raises(EnvironmentFailed, match="in its copy is gone"):
        entering.inner_command(copy, home, [], os.environ)
    layers.mkdir()
    copy.discard()
    assert not layers.exists()


def test_a_clean_up_in_a_copy_leaves_the_snapshots_of_the_workspace(
    workspace: Path, home: Path
) -> None:
    store = SnapshotStore(workspace, home)
    kept = asyncio.run(store.snapshot())
    store.close()
    copy = entering.make_copy(
        RunFolder.create(home, "a001-run"), workspace, home, os.environ
    )
    make_store(copy.store)
    subprocess.run(["git", f"--git-dir={copy.store}", "gc", "--quiet"], check=True)
    assert asyncio.run(find_snapshot(store.git, kept.id)) == kept
