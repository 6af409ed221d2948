"""What `goal prune` takes away, and what every run that stays can still do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from goalrunner.snapshots.store_folder import share_store, store_name
from tests.support.command_line import start
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, shell

PLAIN = 'objective = "make done"\nmodel = "MODEL"\nvalidator = "test -e done"\nmax_iterations = 1\n'
LONG_AGO = "2020-01-01T00:00:00+00:00"


def aged(folder: Path, **values: str | None) -> str:
    """Let a run be an old one; gives its id."""
    path = folder / "summary.json"
    times = dict.fromkeys(("started_at", "updated_at", "finished_at"), LONG_AGO)
    path.write_text(json.dumps({**json.loads(path.read_text()), **times, **values}))
    return folder.name


def run_of(goal: Goal, *commands: str) -> Path:
    """A run in which the agent does these and is not done; gives its folder."""
    goal.write(
        PLAIN,
        agent("", *map(shell, commands)),
        agent("no"),
        agent("", shell("touch done")),
        agent("yes"),
    )
    goal.run()
    return goal.folder


def store(goal: Goal) -> Path:
    """The store of the workspace."""
    return goal.home / "stores" / store_name(goal.work.resolve())


def snapshots(goal: Goal) -> set[str]:
    """What the store keeps."""
    words = [
        "git",
        f"--git-dir={store(goal)}",
        "for-each-ref",
        "--format=%(refname:lstrip=2)",
        "refs/snapshots/",
    ]
    return set(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    )


def has(goal: Goal, text: str) -> bool:
    """Whether that content is kept in the store."""
    made = subprocess.run(
        ["git", "hash-object", "--stdin"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    look = ["git", f"--git-dir={store(goal)}", "cat-file", "-e", made.stdout.strip()]
    return subprocess.run(look, check=False, capture_output=True).returncode == 0


def test_a_store_shrinks_to_what_the_runs_that_stay_name(goal: Goal) -> None:
    old = run_of(goal, "echo only the first > a", "rm a")
    young = run_of(goal, "echo of the second > b", "echo more > c")
    before = snapshots(goal)
    assert has(goal, "only the first\n")
    name = aged(old)
    done = goal.command("prune", "--older-than", "30d", "--yes")
    assert done.code == 0, done
    assert (
        f"removed  {name}  capped, max_iterations; could be resumed  {goal.work}  make done\n"
        in done.out
    )
    assert "snapshots in other stores, which no run needs" in done.out
    assert snapshots(goal) < before
    assert not has(goal, "only the first\n")
    assert has(goal, "of the second\n")
    assert "of the second" in goal.command("diff", young.name).out
    assert goal.command("verify", young.name).code == 0
    (goal.work / "b").write_text("damaged\n")
    assert goal.command("restore", young.name, "--yes").code == 0
    assert (goal.work / "b").read_text() == "of the second\n"
    assert goal.resume("--max-iterations", "3").code == 0


def test_a_store_that_a_copy_uses_keeps_all_snapshots(goal: Goal) -> None:
    aged(run_of(goal, "echo one > a"))
    run_of(goal, "echo two > b")
    before = snapshots(goal)
    handle = share_store(store(goal))
    done = goal.command("prune", "--older-than", "30d", "--yes")
    os.close(handle)
    assert done.code == 0
    assert f"a run is active in a copy of {goal.work}" in done.err
    assert snapshots(goal) == before


def test_what_a_restoration_put_aside_stays_though_no_run_names_it(goal: Goal) -> None:
    run_of(goal, "echo one > a")
    stays = run_of(goal, "echo two > b")
    (goal.work / "mine").write_text("only mine\n")
    assert goal.command("restore", stays.name, "--yes").code == 0
    for folder in (goal.home / "runs").iterdir():
        if folder != stays:
            aged(folder)
    assert goal.command("prune", "--older-than", "30d", "--yes").code == 0
    assert has(goal, "only mine\n")


def test_a_store_goes_with_the_last_run_of_its_workspace(goal: Goal) -> None:
    folder = run_of(goal, "echo one > a")
    aged(folder)
    assert goal.command("prune", "--older-than", "1ms", "--dry-run").code == 0
    assert store(goal).is_dir()
    done = goal.command("prune", "--older-than", "1ms", "--yes", "--json")
    said = json.loads(done.out)
    assert said["left"] == []
    assert (said["removed"], said["stores"]) == ([folder.name], [store(goal).name])
    assert list((goal.home / "stores").iterdir()) == []
    assert goal.run().code in (0, 1)  # and is made anew


def test_a_store_in_which_a_run_works_is_left_alone(goal: Goal) -> None:
    old = run_of(goal, "echo one > a", "rm a")
    goal.write(PLAIN, agent("", shell("touch began; sleep 30")), agent("no"))
    living = start("run", "goal.toml", cwd=goal.root)
    while not (goal.work / "began").exists():
        assert living.poll() is None
    before = snapshots(goal)
    aged(old)
    done = goal.command("prune", "--older-than", "30d", "--yes")
    living.terminate()
    living.communicate()
    assert f"removed  {old.name}" in done.out
    assert "another run is active in" in done.err
    assert before <= snapshots(goal)


def test_lost_runs_and_those_that_cannot_be_read_are_named_before_they_go(
    goal: Goal,
) -> None:
    goal.write(PLAIN, agent("", shell("echo hi")), agent("no"))
    goal.run(kill=("after", 12))
    lost = aged(goal.folder, finished_at=None)
    seen = goal.command("prune", "--older-than", "30d", "--dry-run", "--json")
    assert json.loads(seen.out)["why"][lost] == {
        "why": "lost; could be resumed",
        "resumable": True,
    }
    refused = goal.command("prune", "--older-than", "30d")
    assert (refused.code, "--dry-run" in refused.err) == (2, True)
    (goal.folder / "summary.json").write_text("{")
    seen = goal.command("prune", "--older-than", "1ms", "--dry-run")
    assert (
        f"would remove  {lost}  unreadable (summary.json is damaged); its log may still be whole  {goal.work}\n"
        in seen.out
    )


def test_no_snapshot_goes_while_a_run_may_be_of_any_workspace(goal: Goal) -> None:
    old = run_of(goal, "echo one > a", "rm a")
    before = snapshots(goal)
    aged(old)
    unknown = goal.home / "runs" / "zzzz-unknown"
    unknown.mkdir()
    (unknown / "events.jsonl").write_text("no log at all\n")
    done = goal.command("prune", "--older-than", "30d", "--yes")
    assert (
        "run zzzz-unknown does not name its workspace, so no snapshot was removed"
        in done.err
    )
    assert snapshots(goal) == before


def test_what_a_killed_prune_left_goes_with_the_next(goal: Goal) -> None:
    folder = run_of(goal, "echo one > a")
    runs, stores = folder.parent, store(goal).parent
    left, store_left = (
        runs / f".{folder.name}-0123abcd",
        stores / f".{store(goal).name}-89ab0123",
    )
    for path in (left, store_left):
        (path / "artifacts").mkdir(parents=True)
        (path / "artifacts" / "x").write_text("x")
    others = [runs / ".mine", runs / ".x-0123abcg", runs / ".link-0123abcd"]
    others[0].mkdir()
    others[1].mkdir()
    others[2].symlink_to(folder)
    seen = goal.command("prune", "--older-than", "30d", "--dry-run")
    assert (
        "would remove  what an interrupted goal prune or goal check left: 2 folders\n"
        in seen.out
    )
    assert left.is_dir()
    done = goal.command("prune", "--older-than", "30d", "--yes", "--json")
    assert json.loads(done.out)["half_removed"] == 2
    assert not left.exists()
    assert not store_left.exists()
    assert all(path.exists() for path in (folder, *others))


def test_a_prune_that_is_killed_in_the_middle_is_finished_by_the_next(
    goal: Goal,
) -> None:
    aged(run_of(goal, "echo one > a"))
    runs = goal.folder.parent
    body = f"""
import os, shutil, signal
from pathlib import Path
from goalrunner.records import removal
shutil.rmtree = lambda path, **_: os.kill(os.getpid(), signal.SIGKILL)
removal.remove_whole(Path({str(goal.folder)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", body], check=False)
    assert killed.returncode == -9
    assert [path.name[0] for path in runs.iterdir()] == ["."]
    assert goal.command("prune", "--older-than", "30d", "--yes").code == 0
    assert list(runs.iterdir()) == []
