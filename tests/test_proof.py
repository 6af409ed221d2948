"""A checkout that is made ahead: used once, made again where it failed, removed where nobody needs it."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from goalrunner.api import arun
from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import Goal, ValidatorSpec
from goalrunner.model.snapshot import Snapshot
from goalrunner.ports import ValidationContext
from goalrunner.process import ProcessLauncher
from goalrunner.proof import ProofRoom
from goalrunner.testing import ScriptedConversation
from goalrunner.workspace.dependencies import Dependencies
from goalrunner.workspace.protection import Protection
from goalrunner.workspace.store import SnapshotStore
from tests.support.rooms import plain_environment, plant_module


class CountingStore(SnapshotStore):
    """Counts its checkouts; the first `failing` of them fail."""

    checkouts = 0
    failing = 0

    async def checkout(self, snapshot: Snapshot, folder: Path) -> None:
        self.checkouts += 1
        if self.checkouts <= self.failing:
            raise WorkspaceError("no room")
        await super().checkout(snapshot, folder)


class Arranged:
    """A room over a workspace of one file, and what a check of it needs."""

    def __init__(self, folder: Path, run: str = "test -f notes.txt") -> None:
        self.folder = folder
        self.workspace = folder / "notes"
        self.workspace.mkdir()
        (self.workspace / "notes.txt").write_text("one\n")
        self.store = CountingStore(self.workspace, folder / "home")
        self.rooms = folder / "rooms"
        launcher = ProcessLauncher()
        self.room = ProofRoom(
            self.store,
            self.workspace,
            self.rooms,
            specs=(ValidatorSpec(name="notes", run=run),),
            protection=Protection(),
            dependencies=Dependencies(self.workspace, folder / "home", launcher),
            launcher=launcher,
            env=plain_environment(PYTHONPATH=str(folder / "site")),
        )
        self.context = ValidationContext(
            run_id="r",
            iteration=0,
            objective="o",
            workspace=self.workspace,
            response="",
            conversation=ScriptedConversation(),
            scratch=lambda suffix: folder / f"scratch{suffix}",
        )

    async def check(self, snapshot: Snapshot) -> list[bool]:
        """Whether the validators are green in the clean checkout."""
        return [result.passed for result, _ in (await self.room.check(snapshot, snapshot, self.context)).results]


@pytest.fixture
def arranged(tmp_path: Path) -> Arranged:
    return Arranged(tmp_path)


async def test_a_check_takes_the_checkout_that_was_made_ahead(arranged: Arranged) -> None:
    start = await arranged.store.snapshot()
    async with arranged.room.preparing(start, start):
        (arranged.workspace / "notes.txt").unlink()
        assert await arranged.check(start) == [True]
        assert arranged.store.checkouts == 1
        assert await arranged.check(start) == [True]
    assert arranged.store.checkouts == 2
    assert not (arranged.rooms / "now").exists()


async def test_what_was_made_of_another_snapshot_is_not_taken(arranged: Arranged) -> None:
    start = await arranged.store.snapshot()
    (arranged.workspace / "notes.txt").unlink()
    later = await arranged.store.snapshot()
    async with arranged.room.preparing(start, start):
        pass
    assert await arranged.check(later) == [False]


async def test_a_checkout_that_failed_ahead_is_made_again(arranged: Arranged) -> None:
    start = await arranged.store.snapshot()
    arranged.store.failing = 1
    async with arranged.room.preparing(start, start):
        assert await arranged.check(start) == [True]
    arranged.store.failing = 4
    async with arranged.room.preparing(start, start):
        with pytest.raises(WorkspaceError, match="no room"):
            await arranged.check(start)


async def test_a_checkout_that_nobody_needs_is_removed(arranged: Arranged) -> None:
    start = await arranged.store.snapshot()
    async with arranged.room.preparing(start, start):
        pass
    assert arranged.store.checkouts == 1
    assert not (arranged.rooms / "now").exists()


async def test_nothing_is_left_at_work_when_the_run_is_cancelled(arranged: Arranged) -> None:
    start = await arranged.store.snapshot()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), arranged.room.preparing(start, start):
            await asyncio.sleep(60)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_first_checkout_is_made_while_the_validators_run_in_the_workspace(tmp_path: Path) -> None:
    workspace, home = tmp_path / "notes", tmp_path / "home"
    workspace.mkdir()
    made = f"ls {home}/checkouts/*/now/checkout/notes/notes.txt"
    (workspace / "notes.txt").write_text("one\n")
    replies = tmp_path / "replies.jsonl"
    replies.write_text("")
    goal = Goal.model_validate(
        {
            "objective": "Write notes.",
            "validators": [{"run": f"for i in $(seq 100); do {made} && exit 0; sleep 0.1; done; exit 1"}],
            "agent": {"model": f"scripted/{replies}"},
            "workspace": {"path": str(workspace)},
        }
    )
    outcome = await arun(goal, home=home)
    records = [json.loads(line)["event"] for line in Path(outcome.run_path, "events.jsonl").read_text().splitlines()]
    (baseline,) = (event for event in records if event["type"] == "baseline_taken")
    assert [result["passed"] for result in baseline["results"]] == [True]
    assert baseline["standing"] == "green"


SAYS_ONE = "python3 -c 'import installed; assert installed.x == 1'"


@pytest.fixture
def importing(tmp_path: Path) -> Arranged:
    """The check imports a module that is installed outside of the workspace, and says 1."""
    arranged = Arranged(tmp_path, SAYS_ONE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "installed.py").write_text("x = 1\n")
    return arranged


def kept(arranged: Arranged) -> list[Path]:
    """What is lent to the next checkout of the module."""
    return sorted((arranged.rooms / "kept" / "bytecode").rglob("installed.*.pyc"))


async def test_the_compiled_modules_of_the_baseline_are_lent_to_later_checkouts(importing: Arranged) -> None:
    start = await importing.store.snapshot()
    assert await importing.check(start) == [True]
    (first,) = kept(importing)
    made = first.stat().st_mtime_ns
    importing.context = replace(importing.context, iteration=1)
    assert await importing.check(start) == [True]
    (again,) = kept(importing)
    assert (again, again.stat().st_mtime_ns) == (first, made)


async def test_what_is_written_into_the_lent_modules_between_two_checks_is_never_read(importing: Arranged) -> None:
    """The agent is the same user as the runner, so it can write there; the file says 2, and Python would not look twice."""
    start = await importing.store.snapshot()
    assert await importing.check(start) == [True]
    (lent,) = kept(importing)
    before = lent.stat()
    plant_module(lent)
    os.utime(lent, ns=(before.st_atime_ns, before.st_mtime_ns))
    importing.context = replace(importing.context, iteration=1)
    assert await importing.check(start) == [True]


async def test_a_check_after_the_agent_has_worked_teaches_nothing(importing: Arranged) -> None:
    """Of a resumed run, or of another snapshot: what is compiled there might be the agent's."""
    await importing.store.snapshot()
    start = await importing.store.snapshot()
    importing.context = replace(importing.context, iteration=1)
    assert await importing.check(start) == [True]
    assert kept(importing) == []
