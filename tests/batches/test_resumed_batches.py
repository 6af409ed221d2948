"""A resumed batch records how its runs have ended since."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.displays import BatchView, LineDisplay
from goalrunner.batches.history import BatchEvent, BatchResumed
from goalrunner.batches.plan import BatchLimits
from goalrunner.batches.scheduler import Scheduler
from goalrunner.cli.main import main
from tests.support.batch_moments import AT, RUN_IDS, ended, plan_of, started
from tests.support.told_run import summary


def with_outcome(home: Path, status: str) -> None:
    """Write the end of the first run, an hour after its last start."""
    folder = home / "runs" / RUN_IDS[0]
    folder.mkdir(parents=True)
    finished_at = datetime.fromisoformat(AT) + timedelta(hours=1)
    values = summary(
        run_id=RUN_IDS[0],
        status=status,
        exit_code=0 if status == "complete" else 1,
        finished_at=finished_at.isoformat(),
    )
    (folder / "summary.json").write_text(json.dumps(values))
    (folder / "outcome.json").write_text("{}")


@pytest.mark.parametrize(
    "events", [started(1), [*started(1), ended(1, "blocked", "question open")]]
)
def test_a_run_that_is_complete_by_now_is_recorded_and_not_started(
    events: list[BatchEvent], own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = BatchFolder.create(own_home, plan_of("a"), {})
    with_outcome(own_home, "complete")
    stream = io.StringIO()
    with folder.writing() as log:
        for event in events:
            log.append(event)
    assert main(["status", "night"]) != 0
    assert "continue   goal batch --resume night" in capsys.readouterr().out
    with folder.writing() as log:
        view = BatchView(LineDisplay(stream, environ={}))
        scheduler = Scheduler(folder, log, view)
        resumed = BatchResumed(at=AT, limits=BatchLimits(), jobs=1)
        asyncio.run(scheduler.run(resumed, takes_signals=False))
    assert scheduler.exit_code == 0
    assert folder.state().is_success
    labels = [line.split()[0] for line in stream.getvalue().splitlines()]
    assert labels[:4] == ["batch", "complete", "resumed", "complete"]


def test_a_run_that_ended_as_it_is_recorded_is_left_as_it_is(own_home: Path) -> None:
    folder = BatchFolder.create(own_home, plan_of("a"), {})
    with_outcome(own_home, "capped")
    with folder.writing() as log:
        for event in (*started(1), ended(1, "capped")):
            log.append(event)
        before = len(list(folder.events()))
        view = BatchView(LineDisplay(io.StringIO(), environ={}))
        asyncio.run(Scheduler(folder, log, view).run(takes_signals=False))
    assert len(list(folder.events())) == before
