"""Old runs are removed when a new one begins, or has ended: which ones, and what never is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from goalrunner import Goal, arun_goal, read_events, run_goal
from goalrunner.app.pruning import old_runs, prune_runs
from goalrunner.app.retention import NewestRuns, Retention
from goalrunner.core.goal_tables import RecordsConfig
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import run_summaries
from goalrunner.records.writer_lock import WriterLock, lock_of
from tests.app.test_callers_mistakes import Agent, says

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HERE = Path("/work/here")


def ended(home: Path, run_id: str, days: float, **values: Any) -> RunFolder:
    """Make the folder of a run that ended so many days ago."""
    folder = RunFolder.create(home, run_id)
    at = (NOW - timedelta(days=days)).isoformat()
    summary = {
        "run_id": run_id,
        "workspace": str(HERE),
        "status": "complete",
        "stop_reason": "satisfied",
        "started_at": at,
        "finished_at": at,
        **values,
    }
    folder.summary.write_text(json.dumps(summary))
    folder.events.write_text("")
    return folder


def retention(home: Path, keep: str, **settings: Any) -> Retention:
    settings = {"workspace": HERE, "environ": {}, **settings}
    return Retention(home, config=RecordsConfig(keep=keep), **settings)


def names(home: Path) -> list[str]:
    """The runs that `goal list` finds, newest first."""
    return [summary["run_id"] for summary in run_summaries(home)]


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ("90d", ["today", "week"]),
        ("1h", []),
        ("last 1", ["today"]),
        ("last 2", ["today", "week"]),
        ("last 50", ["today", "week", "year", "years"]),
    ],
)
def test_what_is_older_or_beyond_the_newest_is_removed_and_named(
    tmp_path: Path, keep: str, left: list[str]
) -> None:
    for run_id, days in {"years": 900, "year": 300, "week": 7, "today": 0.1}.items():
        ended(tmp_path, run_id, days)
    notes = retention(tmp_path, keep).apply(NOW)
    assert names(tmp_path) == left
    removed = [name for name in ("years", "year", "week", "today") if name not in left]
    assert notes == tuple(
        f'removed by [records] keep = "{keep}": {", ".join(removed)}'
        for _ in removed[:1]
    )


def test_what_is_needed_stays(tmp_path: Path) -> None:
    ended(tmp_path, "elsewhere", 300, workspace="/work/there")
    ended(tmp_path, "asks", 300, status="blocked", stop_reason="question_open")
    ended(tmp_path, "waits", 300, status="blocked", stop_reason="approval_required")
    ended(tmp_path, "parent", 300)
    copied = ended(tmp_path, "copied", 300, isolated=True)
    copied.copy.mkdir()
    (copied.copy / "copy.json").write_text("{}")
    driven = ended(tmp_path, "driven", 300, status="running", stop_reason=None)
    lock = WriterLock(lock_of(driven.events))
    for keep in ("1h", "last 1"):
        kept = retention(tmp_path, keep, needed={"parent"})
        assert kept.apply(NOW) == ()
    assert len(names(tmp_path)) == 6
    lock.close()
    # Its process was killed, so nothing drives it any more.
    (note,) = retention(tmp_path, "1h", needed={"parent"}).apply(NOW)
    assert note.endswith("driven")


def test_without_time_nothing_is_removed_and_the_run_goes_on(tmp_path: Path) -> None:
    for number in range(3):
        ended(tmp_path, f"run-{number}", 300)
    for keep in ("90d", "last 1"):
        assert retention(tmp_path, keep, longest=-1).apply(NOW) == ()
    assert len(names(tmp_path)) == 3


def test_a_folder_that_cannot_be_read_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs").write_text("no folder")
    assert retention(tmp_path, "90d").apply(NOW) == ()
    assert "old runs could not be removed" in caplog.text


_REMOVE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from goalrunner.app.retention import Retention
from goalrunner.core.goal_tables import RecordsConfig

home, before = Path(sys.argv[1]), sys.argv[2]
exec(before)
config = RecordsConfig(keep="90d")
now = datetime(2026, 11, 27, 12, tzinfo=UTC)
print(*Retention(home, Path("/work/here"), config, {}, longest=60.0).apply(now))
"""

_KILLED_AT_THE_FIRST_FILE = """
import os, signal
os.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
"""


def remover(home: Path, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _REMOVE, str(home), before]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_that_is_killed_leaves_nothing_half(tmp_path: Path) -> None:
    for number in range(3):
        ended(tmp_path, f"run-{number}", 300 + number)
    with remover(tmp_path, _KILLED_AT_THE_FIRST_FILE) as killed:
        assert killed.wait() == -9
    # The folder that it was removing is whole, or is not seen any more.
    assert names(tmp_path) == ["run-0", "run-1"]
    assert len(list((tmp_path / "runs").iterdir())) == 3
    (note,) = retention(tmp_path, "90d").apply(NOW)
    assert note.endswith("run-1, run-0")
    assert not list((tmp_path / "runs").iterdir())


def test_two_processes_remove_each_run_once(tmp_path: Path) -> None:
    runs = {f"run-{number}" for number in range(40)}
    for run_id in runs:
        ended(tmp_path, run_id, 300)
    with remover(tmp_path) as first, remover(tmp_path) as second:
        outputs = [process.communicate()[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert not list((tmp_path / "runs").iterdir())
    # Five of each are named, and the number of the others.
    assert sum(output.count("run-") for output in outputs) <= 10


def test_a_run_that_is_active_again_is_not_pruned(tmp_path: Path) -> None:
    folder = ended(tmp_path, "again", 300)
    listed = old_runs(tmp_path, 3600, NOW)
    lock = WriterLock(lock_of(folder.events))
    pruned = prune_runs(tmp_path, listed, {}, 0.0, dry_run=False)
    lock.close()
    assert pruned.left[0] == "run again is active again, or removed"
    assert names(tmp_path) == ["again"]


def test_a_goal_of_a_program_keeps_its_newest_runs(own_home: Path) -> None:
    goal = Goal(objective="x", deliverable="response", records={"keep": "last 2"})
    outcomes = [run_goal(Agent("x"), goal, validators=[says("x")]) for _ in range(4)]
    assert set(names(own_home)) == {outcome.run_id for outcome in outcomes[1:]}
    started = next(
        event for event in read_events(outcomes[3]) if event.type == "run_started"
    )
    assert started.notes == (
        f'removed by [records] keep = "last 2": {outcomes[0].run_id}',
    )


@pytest.mark.parametrize("keep", [90, "90", "last", "last 0", "0d", "ten days", True])
def test_a_retention_that_says_nothing_is_refused(keep: Any) -> None:
    with pytest.raises(ValidationError, match='write "90d", or "last 50"'):
        Goal(objective="x", records={"keep": keep})


def run_kept(records: str, **more: Any) -> str:
    """A run of a program; gives its id."""
    return run_goal(
        Agent("x"), "x", validators=[says("x")], records=records, **more
    ).run_id


def test_only_the_newest_runs_with_this_value_stay(own_home: Path) -> None:
    others = {run_kept("all"), run_kept("last:9")}
    run_ids = [run_kept("last:2") for _ in range(5)]
    assert set(names(own_home)) == {*others, *run_ids[3:]}
    assert len(list((own_home / "newest" / "2").iterdir())) == 2


def test_a_run_that_waits_for_a_person_stays(own_home: Path) -> None:
    goal = Goal(objective="x", deliverable="response", risk_class="high")
    waiting = run_goal(Agent("x"), goal, validators=[says("x")], records="last:1")
    assert waiting.stop_reason == "approval_required"
    newest = [run_kept("last:1") for _ in range(2)][-1]
    assert set(names(own_home)) == {waiting.run_id, newest}


async def test_runs_in_progress_stay_and_each_ends_with_its_outcome(
    own_home: Path,
) -> None:
    # All runs are in progress at once.
    barrier = asyncio.Barrier(6)

    class Patient(Agent):
        async def send(self, prompt: str, recorder: Any) -> str:
            await barrier.wait()
            return "x"

    runs = [
        arun_goal(Patient(), "x", validators=[says("x")], records="last:2")
        for _ in range(6)
    ]
    outcomes = await asyncio.gather(*runs)
    assert {outcome.status for outcome in outcomes} == {"complete"}
    assert len(names(own_home)) == 2


def test_a_mark_without_a_run_is_removed(own_home: Path) -> None:
    run_id = run_kept("last:1")
    RunFolder(own_home / "runs" / run_id).remove()
    newest = NewestRuns(own_home, 1)
    newest.add("later")
    newest.remove_others()
    assert _marked(own_home) == ["later"]


def _marked(home: Path) -> Sequence[str]:
    marks = (home / "newest" / "1").iterdir()
    return [mark.name.partition("-")[2] for mark in marks]


@pytest.mark.parametrize("name", [".DS_Store", f"{0:020d}-", f"{0:020d}-.."])
def test_a_file_of_another_program_beside_the_marks_names_no_run(
    tmp_path: Path, name: str
) -> None:
    newest = NewestRuns(tmp_path, 1)
    for number in range(2):
        ended(tmp_path, f"run-{number}", 1)
        newest.add(f"run-{number}")
    (tmp_path / "newest" / "1" / name).touch()
    newest.remove_others()
    assert names(tmp_path) == ["run-1"]
