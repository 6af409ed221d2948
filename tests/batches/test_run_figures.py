"""The figures of the runs of a batch are read when they change."""

from __future__ import annotations

import json
from pathlib import Path

from goalrunner.batches.history import EntryEnded, after, batch_state
from goalrunner.batches.run_figures import RunFigures
from tests.support.batch_moments import AT, RUN_IDS, plan_of, started
from tests.support.told_run import summary


def write(home: Path, **changes: object) -> None:
    """Replace the figures of the first run, as a run does."""
    file = home / "runs" / RUN_IDS[0] / "summary.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(summary(**changes)))
    new.replace(file)


def test_new_figures_are_read_until_the_run_has_ended(tmp_path: Path) -> None:
    figures = RunFigures(tmp_path)
    state = batch_state(plan_of("a", "b"), started(1))
    run_id = RUN_IDS[0]
    assert figures.of(state) == {}
    write(tmp_path, iterations=1)
    assert figures.of(state)[run_id].iterations == 1
    write(tmp_path, iterations=2)
    assert figures.of(state)[run_id].iterations == 2
    write(tmp_path, iterations=3)
    state = after(state, EntryEnded(at=AT, key="1", status="failed"))
    assert figures.of(state)[run_id].iterations == 3
    # A retry goes on with the same run.
    state = after(state, started(1)[0])
    write(tmp_path, iterations=4)
    assert figures.of(state)[run_id].iterations == 4
