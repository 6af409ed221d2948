"""What a process in the background does: it tells its run's id, keeps its log in the run's folder, and waits for people."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from goalrunner.cli import background
from goalrunner.cli.background import Announcer, DetachedApprover
from goalrunner.core import events
from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.run_state import Approval
from tests.support import told_run
from tests.support.told_run import numbered


def _request(expires: datetime | None) -> ApprovalRequest:
    when = expires.isoformat() if expires is not None else None
    return ApprovalRequest(
        Approval(
            id="a1",
            kind="shell",
            action="make",
            rule="because",
            requested_at="",
            expires_at=when,
        )
    )


async def test_an_approval_waits_until_it_expires() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.1)
    assert (
        await asyncio.wait_for(DetachedApprover().approve(_request(soon)), 20) is None
    )


@pytest.mark.parametrize("expires", [None, datetime.max.replace(tzinfo=UTC)])
async def test_without_a_decision_a_run_waits_on(expires: datetime | None) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(DetachedApprover().approve(_request(expires)), 0.05)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(DetachedApprover().answer("Which colour?"), 0.05)


def test_the_id_of_a_run_is_told_once_it_has_begun(tmp_path: Path) -> None:
    created = told_run.created()
    folder = tmp_path / "runs" / created.goal.run_id
    folder.mkdir(parents=True)
    log = tmp_path / "detached-1.log"
    log.write_text("goal\n")
    reader, writer = os.pipe()
    announcer = Announcer(tmp_path, writer, log)
    first, *others = numbered(created, told_run.started(), told_run.started())
    announcer.on_record(first)
    assert log.exists()
    for record in others:
        announcer.on_record(record)
    with open(reader, "rb") as told:  # noqa: PTH123
        assert told.read().decode() == created.goal.run_id
    assert ((folder / "output.log").read_text(), log.exists()) == ("goal\n", False)


def test_the_id_of_a_resumed_run_is_told_once_it_goes_on(tmp_path: Path) -> None:
    state = told_run.state_of()
    (tmp_path / "runs" / state.goal.run_id).mkdir(parents=True)
    log = tmp_path / "detached-1.log"
    log.touch()
    reader, writer = os.pipe()
    announcer = Announcer(tmp_path, writer, log)
    announcer.on_state(state)
    assert log.exists()
    resumed = events.RunResumed(plan=state.plan, version="0.1.0")
    for record in numbered(resumed, after=2):
        announcer.on_record(record)
    with open(reader, "rb") as told:  # noqa: PTH123
        assert told.read().decode() == state.goal.run_id


def test_other_processes_announce_nothing() -> None:
    assert background.announcer(Path("/nowhere")) is None
