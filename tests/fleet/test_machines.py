"""A run whose machine is lost goes on at another one, from the last stored round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main
from goalrunner.core.events import Record
from goalrunner.fleet.database import Database
from goalrunner.fleet.remote_runs import fetch_run
from goalrunner.records.event_log import read_records
from tests.support.fleet import (
    Fleet,
    can_have_machines,
    effects,
    fleet,
    processes_left,
)
from tests.support.recordings import agent, judge, recording, shell
from tests.support.workspaces import git, make_repository

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not can_have_machines(), reason="namespaces of mounts and processes are refused"
    ),
]
_USAGE = {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.01}


@pytest.fixture
def machines(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as running:
        yield running
    assert processes_left(tmp_path) == []


def three_rounds(folder: Path, done: Path, gates: Path) -> Path:
    """A project whose goal takes three rounds; the second and third wait for a gate."""
    goal = 'objective = "Make r3."\nvalidator = "test -e r3"\n'
    limits = 'model = "scripted/replies.jsonl"\nmax_iterations = 6\n'
    make_repository(folder, {"goal.toml": goal + limits})
    turns: list[dict[str, Any]] = []
    for number in (1, 2, 3):
        wait = f"[ -e {gates}/{number} ] || {{ touch lost{number}; sleep 300; }}"
        work = shell(f"echo {number} >>{done}; touch r{number}; {wait}")
        turns.append(agent("", work, usage=_USAGE))
        turns.append(agent(f"Round {number} is done.", usage=_USAGE))
    recording(folder / "replies.jsonl", *turns)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "replies")
    return folder


def of_type(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record.event.type == kind]


def test_a_run_goes_on_where_its_machines_are_lost_one_after_another(
    machines: Fleet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done, gates = tmp_path / "done", tmp_path / "gates"
    gates.mkdir()
    (gates / "1").touch()
    (run_id,) = machines.submit(three_rounds(tmp_path / "p", done, gates))

    first = machines.start_worker("a", machine="first")
    machines.wait(lambda rows: effects(done) == ["1", "2"])
    machines.lose(first)
    (gates / "2").touch()
    second = machines.start_worker("b", machine="second")
    machines.wait(lambda rows: effects(done) == ["1", "2", "2", "3"])
    machines.lose(second)
    (gates / "3").touch()
    # The files of its first round are still there, and are not the newest.
    machines.start_worker("c", machine="first")
    (row,) = machines.wait_for_ends(seconds=120).values()

    assert (row["state"], row["status"]) == ("ended", "complete"), machines.output()
    # The agent itself has called again what was lost: each effect has an intent.
    assert effects(done) == ["1", "2", "2", "3", "3"], machines.output()
    assert machines.calls_of(run_id) == 5
    files = {path.name for path in (tmp_path / "first/runs" / run_id).glob("project/*")}
    assert files >= {"r1", "r2", "r3"}
    assert not files & {"lost2", "lost3"}

    with Database(machines.url) as database:
        folder = fetch_run(database, machines.store, run_id, tmp_path / "home")
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    assert main(["verify", run_id]) == 0, capsys.readouterr()
    records = list(read_records(folder.events))
    assert len(of_type(records, "run_ended")) == 1
    assert len(of_type(records, "run_resumed")) == 2
    assert len(of_type(records, "round_finished")) == 3
    prompts = folder.transcript.read_text()
    for number in (2, 3):
        assert f"- shell: echo {number} >>" in prompts
    # No person has said it.
    assert "The owner says" not in prompts
    outcome = json.loads(folder.outcome.read_bytes())
    # Four turns were whole, and two calls were lost with their machines.
    assert outcome["usage"]["agent"]["cost_usd"] == pytest.approx(0.08)
    first, second = (label for label in outcome["labels"] if "unknown" in label)
    assert first.startswith("unknown effects: shell: echo 2 >>")
    assert second.startswith("unknown effects: shell: echo 3 >>")
    capsys.readouterr()
    for words in (["show", run_id], ["show", run_id, "--events", "--json"]):
        assert main(words) == 0
        assert "shell: echo 3 >>" in capsys.readouterr().out, words
    assert main(["report", run_id]) == 0
    page = (folder.path / "report.html").read_text()
    assert "unknown effects: shell: echo 3" in page


def test_a_run_that_is_lost_in_its_first_round_tells_what_was_called(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gates = tmp_path / "done", tmp_path / "gates"
    gates.mkdir()
    project = three_rounds(tmp_path / "p", done, gates)
    # Without validators there is no baseline, after which the run would be stored.
    goal = 'objective = "Make r3."\njudge = "scripted/judge.jsonl"\n'
    limits = 'model = "scripted/replies.jsonl"\nmax_iterations = 1\n'
    (project / "goal.toml").write_text(goal + limits)
    recording(project / "judge.jsonl", judge(("Make r3.", []), missing="r3"))
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "a judge")
    (run_id,) = machines.submit(project)
    first = machines.start_worker("a", machine="first")
    machines.wait(lambda rows: effects(done) == ["1"] and rows[run_id]["shipped"])
    machines.lose(first)
    (gates / "1").touch()
    machines.start_worker("b", machine="second")
    (row,) = machines.wait_for_ends(seconds=120).values()
    assert (row["state"], row["status"]) == ("ended", "capped"), machines.output()
    assert effects(done) == ["1", "1"]
    labels = row["summary"]["labels"]
    assert any("unknown effects: shell: echo 1 >>" in label for label in labels)
