"""What a copy of a workspace costs, against what git takes for a work tree and its status."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from goalrunner.copies.entering import make_copy
from goalrunner.records.run_folder import RunFolder
from tests.bench.large import large_repository
from tests.bench.measuring import Pairs, hold, pairs, process_seconds, remark
from tests.support.workspaces import git

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("copies")
    yield large_repository(root / "ws", 20_000)
    shutil.rmtree(root)


def _copy_seconds(home: Path, name: str, workspace: Path) -> float:
    run = RunFolder.create(home, name)
    began = time.perf_counter()
    make_copy(run, workspace, home, os.environ)
    return time.perf_counter() - began


def test_the_first_base_and_a_copy_on_it(workspace: Path) -> None:
    top = workspace.parent
    numbers = count()

    def first_base() -> float:
        home = top / f"home{next(numbers)}"
        seconds = _copy_seconds(home, "a000-run", workspace)
        shutil.rmtree(home)
        return seconds

    def work_tree() -> float:
        tree = str(top / "tree")
        command = ["git", "-C", str(workspace), "worktree", "add", "-q", tree]
        seconds = process_seconds([*command, "--detach"])
        git(workspace, "worktree", "remove", "--force", tree)
        return seconds

    status = ["git", "-C", str(workspace), "status", "--porcelain"]
    hold(
        "the frozen base of 20,000 files / git worktree add",
        pairs(first_base, work_tree, 2),
    )
    home = top / "home"
    _copy_seconds(home, "a000-run", workspace)
    names = (f"a{number:03}-run" for number in count(1))
    before = git(workspace, "status", "--porcelain=v2", "--branch")
    opened = pairs(
        lambda: _copy_seconds(home, next(names), workspace),
        lambda: process_seconds(status),
        9,
    )
    hold("a copy of 20,000 files on its base / git status", opened)
    assert git(workspace, "status", "--porcelain=v2", "--branch") == before
    (workspace / "part0" / "module0" / "f5.py").write_text("changed\n")
    remark("after one change", [_copy_seconds(home, "b000-run", workspace)])
    copy = home / "runs" / "a001-run" / "copy"
    usage = subprocess.run(["du", "-sk", copy], check=True, capture_output=True)
    kilobytes = float(usage.stdout.split()[0])
    hold("a copy on disk / 1 MB", Pairs([kilobytes], [1000.0]), "kB")
