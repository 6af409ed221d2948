"""A fleet whose store is an S3 bucket, in a server of its own."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("s3fs", reason="s3fs is not installed")
pytest.importorskip("moto.server", reason="moto[server] is not installed")

import s3fs

from goalrunner.fleet.database import Database
from goalrunner.fleet.remote_runs import fetch_run
from goalrunner.fleet.store import FileLost, FleetStore, StoreUnavailable
from goalrunner.records.event_log import read_records
from tests.support.fleet import Fleet, effects, fleet, processes_left, project
from tests.support.postgres import free_port

pytestmark = pytest.mark.slow
_BUCKET = "goals"


@dataclass
class Bucket:
    """A bucket, and how processes reach it."""

    system: Any
    environ: dict[str, str]

    @property
    def store(self) -> FleetStore:
        return FleetStore(f"s3://{_BUCKET}/fleet")

    def make(self) -> None:
        self.system.mkdir(_BUCKET)

    def lose(self) -> None:
        self.system.rm(_BUCKET, recursive=True)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1"]
        server = subprocess.Popen([*command, "-p", str(port)], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while not answers(url):
            assert time.monotonic() < until
            assert server.poll() is None
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with s3_server(tmp_path) as url:
        environ = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        made = Bucket(s3fs.S3FileSystem(skip_instance_cache=True), environ)
        made.make()
        yield made


def test_files_of_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    store = bucket.store
    store.try_out()
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content")
    store.put(source, "runs/one.tar")
    store.get("runs/one.tar", target)
    assert target.read_bytes() == b"content"
    assert store.names("runs") == {"one.tar"}
    assert store.names("nothing") == set()
    with pytest.raises(FileLost, match=r"has lost runs/two\.tar"):
        store.get("runs/two.tar", target)
    bucket.lose()
    with pytest.raises(StoreUnavailable, match="cannot be stored"):
        store.put(source, "runs/one.tar")
    with pytest.raises(StoreUnavailable):
        store.get("runs/one.tar", target)


def test_a_run_waits_for_a_bucket_that_is_lost_and_comes_back(
    bucket: Bucket, database_url: str, tmp_path: Path
) -> None:
    with fleet(database_url, tmp_path) as machines:
        wait_for_the_end_of_a_run(machines, bucket, tmp_path)
    assert processes_left(tmp_path) == []


def wait_for_the_end_of_a_run(machines: Fleet, bucket: Bucket, tmp_path: Path) -> None:
    machines.other_store = bucket.store
    done, gate = tmp_path / "done", tmp_path / "gate"
    command = (
        f"echo $NAME >>{done}; touch $NAME; while [ ! -e {gate} ]; do sleep 0.1; done"
    )
    (run_id,) = machines.submit(project(tmp_path / "p", ["g1"], command))
    machines.start_worker("a", env=bucket.environ)
    machines.wait(lambda rows: effects(done) == ["g1"])
    bucket.lose()
    gate.touch()
    machines.wait(lambda rows: machines.ends_of(run_id) == ["complete"])
    time.sleep(2)
    assert machines.rows()[run_id]["state"] == "running"
    bucket.make()
    row = machines.wait_for_ends()[run_id]
    assert (row["status"], row["token"], row["deaths"]) == ("complete", 1, 0)
    # What was stored before was lost with the bucket, and is stored again.
    with Database(machines.url) as database:
        folder = fetch_run(database, bucket.store, run_id, tmp_path / "home")
    records = list(read_records(folder.events))
    assert records[0].event.type == "goal_created"
    assert records[-1].event.type == "run_ended"
    bucket.lose()
    bucket.make()
    # If no worker has the folder any more, that is said.
    with (
        Database(machines.url) as database,
        pytest.raises(FileLost, match="has lost"),
    ):
        fetch_run(database, bucket.store, run_id, tmp_path / "other_home")
