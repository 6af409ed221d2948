"""`goal batch --fleet`, and the commands of one machine about runs of the fleet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from goalrunner.cli.main import main
from goalrunner.fleet.database import Database
from goalrunner.fleet.listing import count_runs, list_runs
from goalrunner.fleet.queue import prepare_database
from tests.support.command_line import GOAL, start
from tests.support.fleet import project


@pytest.fixture
def place(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOAL_FLEET", database_url)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    root = str(tmp_path / "root")
    assert main(["fleet", "init", "--store", "store", "--root", root]) == 0
    project(tmp_path / "p", ["one", "two"], "touch $NAME")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        (["--cost", "3"], "--cost-per-day"),
        (["--tokens", "3"], "--cost-per-day"),
        (["--jobs", "3"], "goal fleet worker --jobs N"),
        (["--retries", "3"], "goal fleet retry RUN"),
        (["--max-failures", "3"], "goal fleet cancel --batch NAME"),
        (["--resume"], "goal watch BATCH"),
        (["--apply"], "goal export RUN --patch"),
    ],
)
def test_an_option_that_a_fleet_does_not_have_names_another_way(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    instead: str,
) -> None:
    assert main(["batch", "p", "--fleet", *options]) == 2
    assert instead in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--db", "postgresql://x/y"], ["--queue", "q"], ["--labels", "gpu"]]
)
def test_an_option_of_a_fleet_needs_the_fleet(
    place: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert main(["batch", "p", *option]) == 2
    assert f"{option[0]} is for a batch of a fleet" in capsys.readouterr().err


@pytest.fixture
def night(place: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A place with a batch of two queued runs."""
    assert main(["fleet", "submit", "p", "--batch", "night"]) == 0
    capsys.readouterr()
    return place


@pytest.mark.parametrize("command", ["status", "show"])
def test_a_batch_of_the_fleet_is_printed_as_one_of_this_machine(
    night: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    # Its name may be shortened; 4 is the exit code of what has not ended.
    assert main([command, "nig"]) == 4
    printed = capsys.readouterr().out
    assert "night · 2 goals · on the fleet" in printed
    assert "2 pending" in printed
    assert main([command, "night", "--json"]) == 4
    result = json.loads(capsys.readouterr().out)
    assert (result["batch_id"], len(result["entries"])) == ("night", 2)


def test_a_batch_of_the_fleet_has_a_report_and_an_exit_code(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--batch", "night"]) == 0
    assert "2 pending" in capsys.readouterr().out
    assert main(["fleet", "cancel", "--batch", "night"]) == 0
    assert main(["status", "night", "--junit", "j.xml"]) == 1
    cases = ElementTree.parse(night / "j.xml").findall(".//testcase")
    assert [case.get("name") for case in cases] == ["one", "two"]


@pytest.mark.parametrize("command", ["status", "show", "diff"])
def test_a_run_of_which_nothing_is_stored_says_so(
    night: Path,
    database: Database,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    (run, _) = database.call(list_runs)
    assert main([command, run.run_id]) == 4
    said = capsys.readouterr().err
    assert f"nothing of run {run.run_id} is stored yet" in said
    assert f"goal fleet logs {run.run_id}" in said


def test_an_unknown_name_is_an_error_as_without_a_fleet(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "day"]) == 2
    assert "there is no run" in capsys.readouterr().err
    assert main(["list", "--batch", "day"]) == 2
    assert "no batch" in capsys.readouterr().err


def wait_for_runs(url: str, number: int, states: tuple[str, ...]) -> None:
    until = time.monotonic() + 60
    with Database(url) as database:
        while True:
            rows = database.call(
                lambda connection: connection.execute(
                    "SELECT run_id, state FROM goal_fleet_runs"
                ).fetchall()
            )
            if len([row for row in rows if row["state"] in states]) >= number:
                return
            assert time.monotonic() < until, rows
            time.sleep(0.2)


@pytest.fixture(autouse=True)
def ctrl_c_works() -> None:
    """Let programs react to Ctrl-C, which those that a shell starts in the background ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, and return what was printed until then."""
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    return printed


@pytest.mark.slow
def test_ctrl_c_ends_the_view_and_names_the_commands(
    place: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--name", "night", "--junit", "j.xml")
    needs = ("--queue", "late", "--labels", "gpu,linux")
    arguments = ("batch", "p", "--fleet", *files, *needs)
    process = start(*arguments, cwd=place, env=dict(os.environ))
    assert process.stdout is not None
    first_line = process.stdout.readline()
    assert "night · 2 goals · on the fleet" in first_line
    printed = interrupted(process)
    assert "goal fleet status --batch night" in printed
    assert "goal fleet cancel --batch night" in printed
    assert "2 pending" in printed
    cases = ElementTree.parse(place / "j.xml").findall(".//testcase")
    assert [case.get("name") for case in cases] == ["one", "two"]
    with Database(database_url) as database:
        rows = database.call(
            lambda connection: connection.execute(
                "SELECT queue, labels FROM goal_fleet_runs"
            ).fetchall()
        )
    assert rows == [{"queue": "late", "labels": ["gpu", "linux"]}] * 2
    # It is there still, and its name is taken.
    assert main(["batch", "p", "--fleet", "--name", "night"]) == 2
    assert "goal watch night" in capsys.readouterr().err
    assert main(["cancel", "night", "--yes"]) == 0
    assert "2 queued runs are cancelled" in capsys.readouterr().out
    assert main(["watch", "night"]) == 1
    assert "0 of 2 complete" in capsys.readouterr().out
    assert main(["fleet", "cancel", "--batch", "night"]) == 2


@pytest.fixture
def worker(place: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = ("fleet", "worker", "--name", "w1", "--no-sandbox")
    process = start(*arguments, cwd=place, env=dict(os.environ))
    yield process
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


@pytest.mark.slow
def test_a_batch_is_run_by_workers_and_shown_here(
    place: Path,
    worker: subprocess.Popen[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*GOAL, "batch", "p", "--fleet", "--name", "night", "--json"]
    done = subprocess.run(words, capture_output=True, cwd=place, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines].count("entry_ended") == 2
    result = lines[-1]
    assert (result["type"], result["status"]) == ("batch_result", "complete")
    assert {entry["rounds"] for entry in result["entries"]} == {1}
    run_id = result["entries"][0]["run_id"]
    capsys.readouterr()
    assert main(["watch", run_id]) == 0
    assert "complete" in capsys.readouterr().out
    assert main(["apply", run_id]) == 2
    assert f"goal export {run_id} --patch" in capsys.readouterr().err
    assert main(["list"]) == 0
    assert run_id in capsys.readouterr().out
    assert main(["list", "--status", "failed"]) == 0
    assert run_id not in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [run["source"] for run in listed] == ["fleet", "fleet"]
    assert {run["status"] for run in listed} == {"complete"}


def test_a_list_waits_two_seconds_at_most_for_the_fleet(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("GOAL_FLEET", f"postgresql://x:secret@127.0.0.1:{port}/y")
        began = time.monotonic()
        assert main(["list"]) == 0
        seconds = time.monotonic() - began
    said = capsys.readouterr().err
    assert "the runs of the fleet are missing" in said
    assert "secret" not in said
    assert seconds < 4


@pytest.mark.bench
def test_ten_thousand_runs_are_listed_in_a_second(database: Database) -> None:
    asyncio.run(prepare_database(database.url))
    database.call(
        lambda connection: connection.execute(
            "INSERT INTO goal_fleet_runs (run_id, batch, name, objective, job, state)"
            " SELECT 'r' || i, 'big', 'goal ' || i, 'Make it.', '{}',"
            " CASE WHEN i % 2 = 0 THEN 'queued' ELSE 'dead' END"
            " FROM generate_series(1, 10000) AS i"
        )
    )
    best = 99.0
    for _ in range(5):
        began = time.perf_counter()
        assert len(database.call(lambda connection: list_runs(connection, 40))) == 40
        assert sum(database.call(count_runs).values()) == 10000
        best = min(best, time.perf_counter() - began)
    assert best < 0.5
