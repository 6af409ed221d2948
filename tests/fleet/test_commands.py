"""`goal fleet` on a real database, with a worker that is a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main
from goalrunner.fleet.database import Database
from tests.support.command_line import GOAL, start
from tests.support.fleet import project
from tests.support.workspaces import write


@pytest.fixture
def place(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOAL_FLEET", database_url)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fleet_place(place: Path) -> Path:
    """The same with an empty fleet."""
    assert (
        main(["fleet", "init", "--store", "store", "--root", str(place / "root")]) == 0
    )
    return place


def submit(place: Path, *options: str) -> list[str]:
    """Submit two goals; return the ids of their runs."""
    project(place / "p", ["one", "two"], "touch $NAME")
    assert main(["fleet", "submit", "p", "--json", *options]) == 0
    return sorted(run["run_id"] for run in fleet_status()["runs"])


def fleet_status() -> dict[str, Any]:
    words = [*GOAL, "fleet", "status", "--json"]
    done = subprocess.run(words, capture_output=True, check=True)
    return dict(json.loads(done.stdout))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_every_command_needs_a_database(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GOAL_FLEET", raising=False)
    for words in (["init"], ["status"], ["worker"], ["logs", "x"], ["drain"]):
        assert main(["fleet", *words]) == 2
        assert "export GOAL_FLEET=" in capsys.readouterr().err


def test_a_database_without_a_fleet_names_the_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "status"]) == 2
    assert "goal fleet init" in capsys.readouterr().err


def test_a_fleet_needs_a_store_that_works(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "init"]) == 2
    assert "--store" in capsys.readouterr().err
    assert main(["fleet", "init", "--store", "/proc/nowhere"]) == 4
    assert "cannot be made" in capsys.readouterr().err
    assert main(["fleet", "init", "--store", "gibberish://x"]) != 0


def test_init_can_be_called_again_and_keeps_what_is_not_named(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["fleet", "init"]) == 0
    text = capsys.readouterr().out
    assert (fleet_place / "store").as_uri() in text
    assert str(fleet_place / "root") in text


def test_the_store_cannot_move_while_runs_are_queued(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(fleet_place)
    assert main(["fleet", "init", "--store", "other"]) == 2
    assert "cannot change" in capsys.readouterr().err


def test_submitted_goals_are_listed(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = submit(fleet_place, "--queue", "night", "--priority", "3")
    capsys.readouterr()
    assert main(["fleet", "status"]) == 0
    text = said(capsys)
    assert all(run_id in text for run_id in ids)
    assert "2 queued" in text
    assert "No worker is running" in text
    assert main(["fleet", "status", ids[0][:4]]) == 4


def test_a_queued_run_is_cancelled_at_once_and_can_not_be_retried(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = submit(fleet_place)
    assert main(["fleet", "cancel", first, "--reason", "not needed"]) == 0
    assert main(["fleet", "cancel", first]) == 2
    assert main(["fleet", "retry", first]) == 2
    assert "final" in capsys.readouterr().err


def test_an_unknown_run_is_an_error(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["status"], ["logs"], ["cancel"], ["retry"], ["fetch"]):
        assert main(["fleet", *words, "zzzz"]) == 2
        assert "no run" in capsys.readouterr().err


def test_a_run_after_one_that_does_not_exist_is_refused(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(fleet_place / "p", ["one"], "touch $NAME")
    assert main(["fleet", "submit", "p", "--after", "zzzz"]) == 2
    assert "no run zzzz" in capsys.readouterr().err
    assert fleet_status()["runs"] == []


def test_a_goal_outside_of_a_repository_is_refused(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = 'objective = "x"\nvalidator = "true"\nmodel = "openai/gpt-5"\n'
    write(fleet_place, {"goal.toml": goal})
    assert main(["fleet", "submit", "goal.toml"]) == 2
    assert "no git repository" in capsys.readouterr().err


def test_a_worker_needs_the_secrets_that_it_names(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "worker", "--secret", "NOT_SET_HERE"]) == 2
    assert "NOT_SET_HERE" in capsys.readouterr().err


def test_a_label_must_be_a_word(
    fleet_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "worker", "--labels", "gpu,a b"]) == 2
    assert "label" in capsys.readouterr().err


@pytest.fixture
def worker(fleet_place: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = ("fleet", "worker", "--name", "w1", "--no-sandbox", "--labels", "gpu")
    process = start(*arguments, cwd=fleet_place, env=dict(os.environ))
    yield process
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def wait_for_ends() -> dict[str, str]:
    """Wait until no run is queued or running; return how each ended."""
    until = time.monotonic() + 60
    while True:
        runs = fleet_status()["runs"]
        if all(run["state"] in ("ended", "dead") for run in runs):
            return {run["run_id"]: run["status"] for run in runs}
        assert time.monotonic() < until, runs
        time.sleep(0.5)


@pytest.mark.slow
def test_a_run_is_seen_from_another_machine(
    fleet_place: Path,
    worker: subprocess.Popen[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _ = submit(fleet_place, "--labels", "gpu")
    assert set(wait_for_ends().values()) == {"complete"}
    monkeypatch.setenv("GOAL_HOME", str(fleet_place / "other-home"))
    capsys.readouterr()
    assert main(["fleet", "logs", first]) == 0
    assert "complete" in said(capsys)
    assert main(["fleet", "fetch", first]) == 0
    assert main(["show", first]) == 0
    assert main(["export", first, "--patch"]) == 0
    assert "new file mode" in said(capsys)
    assert main(["fleet", "drain", "w1"]) == 0
    assert worker.wait(60) == 0


@pytest.mark.slow
def test_a_person_decides_from_another_machine(
    fleet_place: Path,
    worker: subprocess.Popen[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = project(fleet_place / "p", ["one"], "touch $NAME")
    with (folder / "one.toml").open("a") as file:
        file.write('[approvals]\nrequire = ["complete"]\n')
    assert main(["fleet", "submit", "p", "--labels", "gpu"]) == 0
    until = time.monotonic() + 60
    while "decision" not in (run := fleet_status()["runs"][0])["waits_for"]:
        assert time.monotonic() < until, run
        time.sleep(0.5)
    monkeypatch.setenv("GOAL_HOME", str(fleet_place / "other-home"))
    capsys.readouterr()
    assert main(["show", run["run_id"]]) == 0
    assert main(["note", run["run_id"], "well done"]) == 0
    assert main(["approve", run["run_id"], "a1"]) == 0
    assert "a1" in said(capsys)
    assert set(wait_for_ends().values()) == {"complete"}


@pytest.mark.slow
def test_a_worker_takes_no_run_that_needs_what_it_does_not_have(
    fleet_place: Path, worker: subprocess.Popen[str], database_url: str
) -> None:
    submit(fleet_place, "--secret", "SOME_KEY")
    project(fleet_place / "q", ["three"], "touch $NAME")
    assert main(["fleet", "submit", "q"]) == 0
    until = time.monotonic() + 60
    while True:
        states = sorted(run["state"] for run in fleet_status()["runs"])
        if "ended" in states:
            break
        assert time.monotonic() < until
        time.sleep(0.5)
    assert states == ["ended", "queued", "queued"]
    with Database(database_url) as database:
        database.call(
            lambda connection: connection.execute("DELETE FROM goal_fleet_runs")
        )
