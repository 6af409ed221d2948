"""What the runner itself writes into the workspace makes no evidence stale."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.app.sandbox import runner_outputs


def test_a_recording_and_streams_in_the_workspace_are_named_exactly(
    tmp_path: Path,
) -> None:
    workspace = tmp_path.resolve() / "ws"
    (workspace / "logs").mkdir(parents=True)
    (workspace / "link").symlink_to(workspace / "logs")
    log = os.open(workspace / "logs" / "a*[b].txt", os.O_CREAT | os.O_WRONLY)
    outside = os.open(tmp_path / "outside.txt", os.O_CREAT | os.O_WRONLY)
    reading, writing = os.pipe()
    try:
        found = runner_outputs(
            workspace, workspace / "link" / "rec.jsonl", (log, outside, writing, 987)
        )
    finally:
        for number in (log, outside, reading, writing):
            os.close(number)
    assert found == ("/logs/a\\*\\[b\\].txt", "/logs/rec.jsonl")
    assert runner_outputs(workspace, tmp_path / "rec.jsonl", ()) == ()


def test_a_file_that_was_removed_has_no_name(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    (tmp_path / "log").unlink()
    assert runner_outputs(tmp_path.resolve(), None, (log,)) == ()
    os.close(log)
