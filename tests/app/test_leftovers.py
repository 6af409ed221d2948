"""Checkouts of dead runs go; those of living ones stay."""

from __future__ import annotations

import time
from pathlib import Path

from goalrunner.app.sandbox import CHECKOUTS, clear_leftovers
from goalrunner.records.event_log import EventLog
from goalrunner.records.files import SystemClock
from goalrunner.records.redaction import Redactor


def test_the_checkouts_of_runs_without_a_process_are_removed(tmp_path: Path) -> None:
    for name in ("dead", "living", "gone"):
        (tmp_path / CHECKOUTS / name / "now" / "checkout").mkdir(parents=True)
    for name in ("dead", "living"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    logs = {
        name: EventLog(tmp_path / "runs" / name / "events.jsonl", SystemClock(), Redactor({}))
        for name in ("dead", "living")
    }
    logs["dead"].close()
    clear_leftovers(tmp_path)
    deadline = time.monotonic() + 10
    while len(list((tmp_path / "checkouts").iterdir())) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [path.name for path in (tmp_path / "checkouts").iterdir()] == ["living"]
    assert (tmp_path / CHECKOUTS / "living" / "now" / "checkout").is_dir()
    logs["living"].close()
