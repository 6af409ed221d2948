"""A decision from another terminal, and a kill -9 of the run or of the command that gives it, at a random moment."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tests.support.command_line import only_run, start
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow

LONGEST = 1.2
"""Seconds within which something is killed; the command takes about half of them."""


@pytest.mark.parametrize("seed", range(6))
def test_a_decision_is_not_lost_and_counts_once(
    tmp_path: Path, own_home: Path, seed: int
) -> None:
    place = tmp_path / "work"
    place.mkdir()
    moments = random.Random(seed)
    model = recording(
        place.parent / "r.jsonl",
        agent("", shell("echo once >> done")),
        agent("made it"),
    )
    path = place.parent / "goal.toml"
    path.write_text(
        f'objective = "make done"\nmodel = "{model}"\nvalidator = "test -e done"\n'
        f'[workspace]\npath = "{place}"\n[approvals]\nrequire = ["shell"]\n'
    )
    with Terminal("run", path, cwd=place) as terminal:
        terminal.wait_for("[y]es / [n]o")
        run = only_run(own_home)
        approving = start("approve", run.name, cwd=place)
        time.sleep(moments.uniform(0, LONGEST))
        if seed % 2:
            approving.kill()
        terminal.kill()
    _, said = approving.communicate(timeout=20)
    if (
        approving.returncode
    ):  # it was killed, or the run was complete before it gave the decision
        goal("approve", run.name, cwd=place)
    ended = goal("resume", run.name, cwd=place)
    effect = (place / "done").read_text() if (place / "done").exists() else ""
    # A command that was cut has an unknown effect, and is never run again.
    assert effect == "once\n" or "interrupted" in (run / "events.jsonl").read_text(), (
        said,
        ended,
    )
    events = [
        json.loads(line)["event"]
        for line in (run / "events.jsonl").read_text().splitlines()
    ]
    assert [
        one["decision"] for one in events if one["type"] == "approval_recorded"
    ] == ["approved"]
    assert list((run / "decisions").glob("*.json")) == []
    assert goal("verify", run.name, cwd=place).code == 0
