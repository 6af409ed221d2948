"""A run whose own records fail in the middle: exit 4, and every reader of an outcome gets one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell

HURTS = {
    "a foreign line in the log": 'for f in "$GOAL_HOME"/runs/*/events.jsonl; do echo intruder >> "$f"; done',
    "the log is gone": 'rm -rf "$GOAL_HOME"/runs/*',
}


@pytest.mark.parametrize("hurt", HURTS.values(), ids=HURTS.keys())
def test_the_outcome_is_handed_over_from_memory(
    tmp_path: Path, own_home: Path, hurt: str
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell(hurt)), agent("done"))
    options = [
        "--objective",
        "x",
        "--model",
        model,
        "--validator",
        "test -e never",
        "--json",
        "--output",
        "out.json",
    ]
    ended = goal("run", *options, cwd=tmp_path, env={"GOAL_HOME": str(own_home)})
    assert ended.code == 4, ended
    printed = json.loads(ended.out)
    assert json.loads((tmp_path / "out.json").read_text()) == printed
    assert (printed["status"], printed["stop_reason"]) == ("failed", "internal_error")
    assert str(own_home) in printed["message"]
    assert printed["message"].splitlines()[0] in ended.err
    assert "defect of its own" not in ended.err
    written = list((own_home / "runs").glob("*/outcome.json"))
    assert ("outcome.json" in ended.err) == bool(written)


def test_a_recording_that_is_not_there_is_2_and_nothing_is_run(
    tmp_path: Path, own_home: Path
) -> None:
    options = ["--objective", "x", "--model", "scripted/nofile", "--validator", "true"]
    for more in ([], ["--json", "--output", "out.json"], ["--dry-run"]):
        ended = goal("run", *options, *more, cwd=tmp_path)
        assert (ended.code, ended.out) == (2, ""), ended
        assert "nofile cannot be read: No such file or directory" in ended.err
    assert not (own_home / "runs").exists()
    assert list(tmp_path.iterdir()) == []
