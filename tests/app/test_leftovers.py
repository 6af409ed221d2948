"""Temporary files of dead runs go; those of living runs and of checks stay."""

from __future__ import annotations

import time
from pathlib import Path

from goalrunner.app.sandbox import TEMPORARY, clear_leftovers
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder


def test_the_files_of_runs_without_a_process_are_removed(tmp_path: Path) -> None:
    for name in ("dead", "living", "gone", "check"):
        (tmp_path / TEMPORARY / name / "agent-tmp").mkdir(parents=True)
    logs = {}
    for name, kind in (("dead", RUNS), ("living", RUNS), ("check", CHECKS)):
        folder = RunFolder.create(tmp_path, name, kind)
        logs[name] = EventLog(folder.events, SystemClock(), Redactor({}))
    logs["dead"].close()
    clear_leftovers(tmp_path)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "tmp").iterdir())) > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(path.name for path in (tmp_path / "tmp").iterdir()) == [
        "check",
        "living",
    ]
    assert (tmp_path / TEMPORARY / "living" / "agent-tmp").is_dir()
    logs["living"].close()
    logs["check"].close()
