"""Many goals and several runs of one goal, from Python."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import goalrunner
from goalrunner import Goal, GoalError, JudgeConfig
from goalrunner.batches.batch_folder import BatchFolder, batch_names
from goalrunner.batches.frozen_goal import FrozenGoal
from goalrunner.batches.history import BatchEvent, EntryEnded, EntryStarted
from goalrunner.checking.overlay import probe
from goalrunner.cli.main import main
from goalrunner.core.errors import GoalFileError, UsageError
from tests.support.workspaces import git, make_repository


def goal_in(workspace: Path, script: str, **fields: Any) -> Goal:
    agent = {"use": "command", "command": ["sh", "-c", script]}
    return Goal.model_validate(
        {
            "objective": "done.txt exists",
            "validators": [{"name": "done", "run": "test -e done.txt"}],
            "agent": agent,
            "max_iterations": 1,
            "workspace": {"path": str(workspace)},
            **fields,
        }
    )


@pytest.fixture
def workspace(tmp_path: Path, own_home: Path) -> Path:
    root = make_repository(tmp_path / "ws", {"readme.txt": "x\n"})
    if why := probe(root, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    return root


@pytest.mark.slow
def test_goals_of_files_and_of_the_program_run_at_once(workspace: Path) -> None:
    file = workspace / "b.toml"
    file.write_text(
        'objective = "done.txt exists"\nvalidator = "test -e done.txt"\n'
        '[agent]\nuse = "command"\ncommand = ["sh", "-c", "touch done.txt"]\n'
    )
    events: list[BatchEvent] = []
    outcome = goalrunner.run_batch(
        [goal_in(workspace, "touch done.txt"), str(file), goal_in(workspace, "true")],
        jobs=2,
        at_least=2,
        name="night",
        on_event=events.append,
    )
    assert outcome.passed, outcome
    assert outcome.batch_id == "night"
    statuses = {name: run.status.value for name, run in outcome.runs.items()}
    assert statuses == {
        "b": "complete",
        "done.txt exists": "complete",
        "done.txt exists-2": "capped",
    }
    assert (outcome.winner, outcome.stopped) == (None, "")
    assert git(workspace, "status", "--porcelain").split() == ["??", "b.toml"]
    assert sum(isinstance(event, EntryStarted) for event in events) == 3
    assert sum(isinstance(event, EntryEnded) for event in events) == 3
    with pytest.raises(UsageError, match="there is a batch night already"):
        goalrunner.run_batch([file], name="night")


@pytest.mark.slow
def test_the_best_of_several_runs_is_applied_in_a_running_loop(
    workspace: Path,
) -> None:
    goal = goal_in(workspace, "seq $((GOAL_SLOT + 2)) > done.txt")

    async def work() -> goalrunner.BatchOutcome:
        with pytest.raises(UsageError, match=r"await abest_of"):
            goalrunner.best_of(goal, 2)
        result = await goalrunner.abest_of(goal, 2, first=False)
        assert result.winner is not None
        assert await goalrunner.aapply(result.batch_id) == ("done.txt",)
        assert await goalrunner.aapply(result.winner) == ()
        return result

    result = asyncio.run(work())
    assert result.passed
    assert len(result.ranking) == 2
    assert (workspace / "done.txt").read_text() == "1\n2\n"
    assert result.total.tokens == sum(run.total.tokens for run in result.runs.values())


@pytest.mark.slow
def test_a_cancelled_batch_ends_its_runs_and_can_be_resumed(
    workspace: Path, own_home: Path
) -> None:
    began = workspace.parent / "began"
    goal = goal_in(
        workspace, f"[ -e {began} ] || {{ touch {began}; sleep 99; }}; touch done.txt"
    )

    async def work() -> None:
        task = asyncio.create_task(goalrunner.arun_batch([goal], name="night"))
        while not began.exists():
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    batch = BatchFolder(own_home / "batches" / "night")
    assert [entry.status for entry in batch.state().entries.values()] == ["stopped"]
    assert main(["batch", "--resume", "night"]) == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"jobs": 0}, "jobs"),
        ({"cost_usd": -1}, "cost_usd"),
        ({"tokens": 0}, "tokens"),
        ({"retries": -1}, "retries"),
        ({"at_least": 2}, "at_least is 2, and there are 1 goals"),
        ({"name": "../night"}, "name"),
        ({"until": datetime(2026, 1, 1)}, "until"),  # noqa: DTZ001
        ({"agent": "nosuch"}, '"nosuch" is unknown'),
    ],
)
def test_wrong_values_are_refused_before_anything_runs(
    options: Any, problem: str, tmp_path: Path, own_home: Path
) -> None:
    with pytest.raises((UsageError, GoalFileError), match=problem):
        goalrunner.run_batch([goal_in(tmp_path, "true")], **options)
    assert batch_names(own_home) == []


def test_an_unknown_keyword_is_the_error_of_python(tmp_path: Path) -> None:
    goal = goal_in(tmp_path, "true")
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        goalrunner.run_batch([goal], job=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'jobs'"):
        goalrunner.best_of(goal, jobs=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("goals", [[], [1], 1, [b"x.toml"]])
def test_what_is_no_goal_is_refused(goals: Any, own_home: Path) -> None:
    with pytest.raises((UsageError, TypeError)):
        goalrunner.run_batch(goals)


def test_groups_that_make_no_sense_are_refused(tmp_path: Path, own_home: Path) -> None:
    goal = goal_in(tmp_path, "true")
    for n in (0, 1, 99):
        with pytest.raises(UsageError):
            goalrunner.best_of(goal, n)
    with pytest.raises(UsageError, match="2 runs are fewer than the 3 agents"):
        goalrunner.best_of(goal, 2, agents=["claude", "codex", "gemini"])
    with pytest.raises(UsageError, match="agents has an int, which is no name"):
        goalrunner.best_of(goal, agents=["claude", 1])  # type: ignore[list-item]
    with pytest.raises(GoalFileError, match='"nosuch" is unknown'):
        goalrunner.best_of(goal, agents=["command", "nosuch"])
    with pytest.raises(UsageError, match="is not a goal"):
        goalrunner.best_of(7)  # type: ignore[arg-type]
    with pytest.raises(GoalFileError, match=r"missing\.toml"):
        goalrunner.best_of(tmp_path / "missing.toml")
    assert batch_names(own_home) == []


def test_a_judge_of_the_program_cannot_be_used_by_another_process(
    tmp_path: Path, own_home: Path
) -> None:
    goal = goal_in(tmp_path, "true", judge=JudgeConfig(lambda messages: ""))
    with pytest.raises(UsageError, match="has a process of its own"):
        goalrunner.best_of(goal, 2)


def test_a_run_that_does_not_exist_cannot_be_applied(own_home: Path) -> None:
    with pytest.raises(GoalError):
        goalrunner.apply("nothing")


def test_a_moment_with_a_time_zone_is_a_limit(tmp_path: Path, own_home: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(UsageError, match="at_least"):
        goalrunner.run_batch([goal_in(tmp_path, "true")], until=later, at_least=5)


def test_a_relative_workspace_begins_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path)

    frozen = FrozenGoal.of_object(goal_in(Path("ws"), "true"), {})

    assert frozen.goal.workspace.path == str(tmp_path / "ws")
