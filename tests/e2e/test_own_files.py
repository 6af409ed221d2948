"""A log or a recording of the run that lies in the workspace: it grows all the time, and no evidence is stale for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_streams import line
from tests.support.recordings import agent, judge, quote, recording, shell


@pytest.mark.parametrize(
    "more",
    ["", "--record rec.jsonl", "> log.txt", "--json 2> log.txt", "--quiet &> log.txt"],
)
def test_what_the_run_writes_itself_is_no_change(tmp_path: Path, more: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell("touch done")),
        agent("", shell("ls")),
        agent("made"),
        judge(("done exists", [quote("o3", "done")])),
    )
    (place / "goal.toml").write_text(
        f'objective = "x"\nsuccess_criteria = ["done exists"]\nmodel = "{model}"\njudge = "{model}"\n'
        'validator = "test -e done"\nmax_iterations = 1\n'
    )
    ended = line(place, f"goal run goal.toml {more}")
    assert ended.code == 0, (
        ended,
        (place / "log.txt").read_text() if "log" in more else "",
    )
