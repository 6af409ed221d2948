"""Commands about a batch that is named: list, status, show, watch and cancel."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import BatchEvent, EntryStarted
from goalrunner.cli.main import main
from goalrunner.records.event_log import read_records
from tests.support import batch_moments
from tests.support.batch_moments import AT, RUN_IDS, ended, plan_of, started

KILLED = (
    Path(__file__).parents[1] / "goldens" / "runs" / "a-run-whose-process-was-killed"
)
Capture = pytest.CaptureFixture[str]


def made(home: Path, *events: BatchEvent, name: str = "night") -> BatchFolder:
    """Return a batch of three goals in which these events have happened."""
    plan = plan_of("a", "b", "c").model_copy(update={"batch_id": name})
    folder = BatchFolder.create(home, plan, {})
    with folder.writing() as log:
        for event in events:
            log.append(event)
    return folder


def with_figures(home: Path, number: int) -> None:
    """Write the figures of a complete run of an entry."""
    folder = home / "runs" / RUN_IDS[number - 1]
    folder.mkdir(parents=True)
    values = batch_moments.summary_of(number).values()
    (folder / "summary.json").write_text(json.dumps(values))


def test_batches_are_listed_with_their_status(own_home: Path, capsys: Capture) -> None:
    assert main(["list", "--batch"]) == 0
    assert "No batches yet" in capsys.readouterr().err
    made(own_home, *started(1, 2, 3), ended(1), ended(2), ended(3))
    made(own_home, *started(1), ended(1), name="day")
    (made(own_home, name="broken").log).write_text("{}\n")
    assert main(["list", "--batch"]) == 0
    printed = capsys.readouterr()
    rows = [line.split()[:3] for line in printed.out.splitlines()]
    assert rows[0] == ["BATCH", "STATUS", "COMPLETE"]
    assert sorted(rows[1:]) == [["day", "lost", "1/3"], ["night", "complete", "3/3"]]
    assert "Warning: batch broken: " in printed.err
    assert main(["list", "--batch", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {value["batch_id"] for value in values} == {"day", "night"}


@pytest.mark.parametrize("line", [("status",), ("show",), ("list", "--batch")])
def test_a_batch_is_shown_with_its_goals_and_the_next_commands(
    line: tuple[str, ...], own_home: Path, capsys: Capture
) -> None:
    made(own_home, *started(1, 2), ended(1))
    with_figures(own_home, 1)
    # The beginning of a name is enough.
    code = main([*line, "ni"])
    printed = capsys.readouterr().out
    # A list is no statement about how the batch ended.
    assert code == (0 if line[0] == "list" else 4)
    assert [row.split()[:2] for row in printed.splitlines()[2:5]] == [
        ["complete", "a"],
        ["lost", "b"],
        ["pending", "c"],
    ]
    assert "continue   goal batch --resume night\n" in printed
    main([*line, "night", "--json"])
    value = json.loads(capsys.readouterr().out)
    assert [entry["state"] for entry in value["entries"]] == [
        "complete",
        "lost",
        "pending",
    ]


def test_runs_are_listed_with_the_name_of_their_batch(
    own_home: Path, capsys: Capture
) -> None:
    made(own_home, *started(1))
    with_figures(own_home, 1)
    with_figures(own_home, 2)
    assert main(["list", "--all"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    column = heading.split().index("BATCH") - len(heading.split())
    assert column == -2
    assert {row.split()[0]: "night" in row for row in rows} == {
        RUN_IDS[0]: True,
        RUN_IDS[1]: False,
    }
    assert main(["list", "--all", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [value.get("batch") for value in values] == [None, "night"]


def test_parts_of_a_run_are_not_those_of_a_batch(
    own_home: Path, capsys: Capture
) -> None:
    made(own_home)
    assert main(["show", "night", "--events"]) == 2
    assert "night is a batch" in capsys.readouterr().err
    assert main(["list", "night"]) == 2
    assert main(["list", "--batch", "noon"]) == 2
    assert "no batch" in capsys.readouterr().err


def test_a_batch_is_watched_until_its_scheduler_ends(
    own_home: Path, capsys: Capture
) -> None:
    folder = made(own_home, *started(1))
    with_figures(own_home, 1)
    is_driven = threading.Event()

    def drive() -> None:
        with folder.writing() as log:
            is_driven.set()
            for event in (ended(1), *started(2, 3), ended(2), ended(3)):
                log.append(event)

    scheduler = threading.Thread(target=drive)
    scheduler.start()
    assert is_driven.wait(10)
    assert main(["watch", "night"]) == 0
    scheduler.join()
    labels = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert labels == [
        "batch",
        "started",
        "complete",
        "started",
        "started",
        "complete",
        "complete",
        "complete",
        "total",
        "20",
    ]


def test_a_batch_without_a_scheduler_is_cancelled_with_its_runs(
    own_home: Path, capsys: Capture
) -> None:
    created = next(iter(read_records(KILLED / "events.jsonl"))).event
    run_id = created.model_dump()["goal"]["run_id"]
    shutil.copytree(KILLED, own_home / "runs" / run_id)
    never_began = EntryStarted(at=AT, key="2", run_id=RUN_IDS[1])
    folder = made(own_home, EntryStarted(at=AT, key="1", run_id=run_id), never_began)
    assert main(["cancel", "night", "--yes", "--reason", "not needed"]) == 0
    assert capsys.readouterr().out.startswith("cancelled  night  cancelled by ")
    state = folder.state()
    assert state.stopped is not None
    assert state.stopped.cancelled
    assert [entry.outcome for entry in state.entries.values()] == [
        "cancelled",
        "cancelled",
        "",
    ]
    main(["status", run_id])
    assert "cancelled" in capsys.readouterr().out
    # A second request is no mistake, and changes nothing.
    assert main(["cancel", "night", "--yes", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["status"] == "cancelled"
    assert [entry["state"] for entry in value["entries"]] == ["cancelled"] * 3
    assert folder.state() == state


def test_a_scheduler_is_asked_to_end_its_batch(own_home: Path, capsys: Capture) -> None:
    folder = made(own_home)
    is_driven = threading.Event()

    def drive() -> None:
        with folder.writing():
            is_driven.set()
            while not folder.cancellation.exists():
                threading.Event().wait(0.01)

    scheduler = threading.Thread(target=drive)
    scheduler.start()
    assert is_driven.wait(10)
    assert main(["cancel", "night", "--yes", "--reason", "enough"]) == 0
    scheduler.join()
    assert folder.cancellation.read_text().endswith(": enough")
    assert folder.state().stopped is not None


def test_a_batch_that_has_ended_is_not_cancelled(
    own_home: Path, capsys: Capture
) -> None:
    made(own_home, ended(1), ended(2), ended(3))
    assert main(["cancel", "night", "--yes"]) == 2
    assert "has ended already" in capsys.readouterr().err
    made(own_home, name="open")
    assert main(["cancel", "open"]) == 2
    assert "goal cancel asks before it ends a batch" in capsys.readouterr().err
