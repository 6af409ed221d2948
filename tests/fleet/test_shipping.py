"""The folder of a run in the store, also if the store has lost what it had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from goalrunner.fleet.database import Database
from goalrunner.fleet.remote_runs import fetch_run
from goalrunner.fleet.run_place import WorkerPlace
from goalrunner.fleet.shipping import Shipping
from goalrunner.fleet.store import FleetStore
from tests.support.fleet_rows import submit, taken, worker

_PATIENCE = 1.0


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    made = FleetStore((tmp_path / "store").as_uri())
    made.try_out()
    return made


@pytest.fixture
def place(tmp_path: Path) -> WorkerPlace:
    made = WorkerPlace(tmp_path / "root", "r1")
    made.run.path.mkdir(parents=True)
    (made.run.path / "first").write_text("1")
    return made


def shipped(database: Database) -> list[str]:
    row = database.call(
        lambda connection: connection.execute(
            "SELECT shipped FROM goal_fleet_runs"
        ).fetchone()
    )
    assert row is not None
    return list(row["shipped"])


def test_a_run_is_stored_whole_again_if_the_store_has_lost_an_archive(
    database: Database, store: FleetStore, place: WorkerPlace, tmp_path: Path
) -> None:
    submit(database)
    taken_run = taken(database, worker(database, "a"))
    shipping = Shipping(database, store, taken_run, place)
    shipping.finish(_PATIENCE)
    (place.run.path / "second").write_text("2")
    shipping.finish(_PATIENCE)
    assert len(shipped(database)) == 2
    shutil.rmtree(tmp_path / "store/runs")
    (place.run.path / "third").write_text("3")
    shipping.finish(_PATIENCE)
    (key,) = shipped(database)
    assert store.names("runs/r1") >= {key.rpartition("/")[2]}
    folder = fetch_run(database, store, "r1", tmp_path / "home")
    names = {path.name for path in folder.path.iterdir()}
    assert names >= {"first", "second", "third"}
    # From here on, only what is new is stored.
    (place.run.path / "fourth").write_text("4")
    shipping.finish(_PATIENCE)
    assert len(shipped(database)) == 2


def test_a_worker_that_takes_a_run_again_stores_what_is_lost(
    database: Database, store: FleetStore, place: WorkerPlace, tmp_path: Path
) -> None:
    submit(database)
    first = taken(database, worker(database, "a"))
    Shipping(database, store, first, place).finish(_PATIENCE)
    shutil.rmtree(tmp_path / "store/runs")
    database.call(
        lambda connection: connection.execute(
            "UPDATE goal_fleet_runs SET state = 'queued'"
        )
    )
    second = taken(database, worker(database, "b"))
    Shipping(database, store, second, place).finish(_PATIENCE)
    folder = fetch_run(database, store, "r1", tmp_path / "home")
    assert (folder.path / "first").read_text() == "1"
