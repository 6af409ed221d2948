"""What a snapshot costs: unchanged against `git status`, the first one against `git add -A`, and the store on disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.snapshots.store import SnapshotStore
from tests.bench.large import large_repository
from tests.bench.measuring import (
    Pairs,
    cpu_seconds,
    hold,
    pairs,
    process_seconds,
    remark,
)
from tests.support.workspaces import git

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("many")
    yield large_repository(root / "ws", 50_000)
    shutil.rmtree(root)


def test_an_unchanged_workspace_is_looked_at_about_as_fast_as_by_git_status(
    workspace: Path,
) -> None:
    home = workspace.parent / "home"
    store = SnapshotStore(workspace, home)
    with asyncio.Runner() as runner:
        runner.run(store.snapshot())
        time.sleep(2.5)  # what was read in its own second is read once more
        first = runner.run(store.snapshot())

        def unchanged() -> float:
            began = time.perf_counter()
            assert runner.run(store.snapshot()) == first
            return time.perf_counter() - began

        status = ["git", "-C", str(workspace), "status", "--porcelain"]
        hold(
            "a snapshot of 50,000 unchanged files / git status",
            pairs(unchanged, lambda: _seconds(status), 15),
        )
        (workspace / "part0" / "module0" / "f0.py").write_text("changed\n")
        began = time.perf_counter()
        runner.run(store.snapshot())
        remark("a snapshot after one change", [time.perf_counter() - began])
        store.close()
        began = time.perf_counter()
        runner.run(SnapshotStore(workspace, home).snapshot())
        remark("the first one of a later run", [time.perf_counter() - began])


def test_the_first_snapshot_takes_over_what_git_knows(workspace: Path) -> None:
    numbers = iter(range(100))

    def first_snapshot() -> float:
        home = workspace.parent / f"home{next(numbers)}"
        store = SnapshotStore(workspace, home)
        seconds = cpu_seconds(lambda: asyncio.run(store.snapshot()))
        store.close()
        shutil.rmtree(home)
        os.sync()
        return seconds

    status = ["git", "-C", str(workspace), "status", "--porcelain"]
    measured = pairs(first_snapshot, lambda: cpu_seconds(lambda: _seconds(status)), 7)
    hold("the first snapshot of 50,000 committed files / git status", measured)


def test_the_first_snapshot_without_a_repository_is_about_as_fast_as_git_add(
    workspace: Path,
) -> None:
    numbers = iter(range(100))
    aside = workspace.parent / "repository"

    def first_snapshot() -> float:
        home = workspace.parent / f"plain{next(numbers)}"
        store = SnapshotStore(workspace, home)
        seconds = cpu_seconds(lambda: asyncio.run(store.snapshot()))
        store.close()
        shutil.rmtree(home)
        os.sync()
        return seconds

    def add() -> float:
        place = workspace.parent / f"git{next(numbers)}"
        git(workspace.parent, "init", "-q", "--bare", str(place))
        command = [
            "git",
            f"--git-dir={place}",
            "-C",
            str(workspace),
            f"--work-tree={workspace}",
            "add",
            "-A",
        ]
        seconds = cpu_seconds(lambda: _seconds(command))
        shutil.rmtree(place)
        os.sync()
        return seconds

    (workspace / ".git").rename(aside)
    try:
        hold(
            "the first snapshot of 50,000 files / git add -A",
            pairs(first_snapshot, add, 2),
        )
    finally:
        aside.rename(workspace / ".git")


def test_the_store_grows_with_what_changes(workspace: Path) -> None:
    home = workspace.parent / "growing"
    store = SnapshotStore(workspace, home)
    with asyncio.Runner() as runner:
        runner.run(store.snapshot())
        before = _kilobytes(home)
        for turn in range(20):
            for file in range(3):
                (
                    workspace / f"part{turn}" / f"module{turn * 100}" / f"f{file}.py"
                ).write_text(f"turn = {turn}\n" * 50)
                runner.run(store.snapshot())
        after = _kilobytes(home)
    store.close()
    remark("grown over 20 rounds", [after - before], "kB")
    hold(
        "the store after 20 rounds / after the first snapshot",
        Pairs([after], [before]),
        "kB",
    )


def _seconds(command: list[str]) -> float:
    return process_seconds(command, env=PLAIN)


def _kilobytes(folder: Path) -> float:
    return float(
        subprocess.run(
            ["du", "-sk", folder], check=True, capture_output=True
        ).stdout.split()[0]
    )
