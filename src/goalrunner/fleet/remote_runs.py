"""A run of a fleet seen from another machine: its log, and its folder."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from goalrunner.core.errors import GoalError
from goalrunner.core.events import RECORD, Record
from goalrunner.fleet.archives import extract
from goalrunner.fleet.database import Connection, Database
from goalrunner.fleet.store import FleetStore
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import RUNS, RunFolder

_MARK = "fleet.json"
"""In the folder of a run that was fetched: what of it was fetched."""
_POLL = 1.0

LogLines = list[tuple[int, bytes]]
"""Lines of a log with their numbers."""

# A later holder of a run went on after the last event that was stored, so the lines of
# an earlier one from there on do not belong to the log.
_LOG = """\
SELECT seq, line FROM goal_fleet_intents AS intent
WHERE run_id = %(run)s AND seq > %(after)s AND NOT EXISTS (
    SELECT FROM goal_fleet_intents AS later
    WHERE later.run_id = intent.run_id AND later.token > intent.token
        AND later.seq <= intent.seq)
ORDER BY seq
"""


def log_lines(connection: Connection, run_id: str, after: int = 0) -> LogLines:
    """Return the lines of a run's log after a number, as far as they are known."""
    parameters = {"run": run_id, "after": after}
    rows = connection.execute(_LOG, parameters).fetchall()
    return [(row["seq"], row["line"].encode("ascii")) for row in rows]


def _log_of(run_id: str, after: int, connection: Connection) -> LogLines:
    return log_lines(connection, run_id, after)


def follow(
    database: Database, run_id: str, goes_on: Callable[[], bool]
) -> Iterator[Record]:
    """Yield the records of a run; at the end of the log, wait for more.

    `goes_on` is asked then whether there can be more.
    """
    last = 0
    while True:
        # Asked first: the last lines are written before the run ends.
        has_more = goes_on()
        lines = database.call(partial(_log_of, run_id, last))
        for seq, line in lines:
            last = seq
            yield RECORD.validate_json(line)
        if not has_more:
            return
        time.sleep(_POLL)


_SHIPPED = "SELECT shipped FROM goal_fleet_runs WHERE run_id = %s"


def fetch_run(
    database: Database, store: FleetStore, run_id: str, home: Path
) -> RunFolder:
    """Bring what the store has of a run into a GOAL_HOME; return its folder there.

    Only archives that were not fetched before are fetched. Raise GoalError if nothing
    is stored.
    """
    row = database.call(
        lambda connection: connection.execute(_SHIPPED, [run_id]).fetchone()
    )
    keys = list(row["shipped"]) if row is not None else []
    if not keys:
        raise GoalError(
            f"nothing of run {run_id} is stored yet",
            f"goal fleet logs {run_id} shows what it does",
        )
    folder = RunFolder(home / RUNS / run_id)
    fetched_keys = _fetched(folder)
    # The run was stored whole again, after the store had lost its archives.
    if keys[: len(fetched_keys)] != fetched_keys:
        fetched_keys = []
    new_keys = keys[len(fetched_keys) :]
    with tempfile.TemporaryDirectory(prefix="goal-fleet-") as scratch:
        archives: list[Path] = []
        for number, key in enumerate(new_keys):
            archive = Path(scratch) / f"{number}.tar"
            store.get(key, archive)
            archives.append(archive)
        extract(archives, home)
    write_whole(folder.path / _MARK, json.dumps({"archives": keys}).encode())
    return folder


def _fetched(folder: RunFolder) -> Sequence[str]:
    try:
        values = json.loads((folder.path / _MARK).read_bytes())
        return [str(key) for key in values["archives"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def is_fetched(folder: RunFolder) -> bool:
    """Return whether a run's folder was fetched from a fleet."""
    return (folder.path / _MARK).exists()


_REQUEST = """\
INSERT INTO goal_fleet_requests (run_id, arguments, by) VALUES (%s, %s, %s)
RETURNING request_id
"""
_ANSWER = """\
SELECT answer FROM goal_fleet_requests
WHERE request_id = %s AND done_at IS NOT NULL
"""


def ask_worker(
    database: Database, run_id: str, arguments: Sequence[str], by: str, patience: float
) -> str | None:
    """Let the worker of a run perform a command of `goal`; return what it printed.

    None: it has not been performed in so many seconds, and still will be.
    """
    row = database.call(
        lambda connection: connection.execute(
            _REQUEST, [run_id, list(arguments), by]
        ).fetchone()
    )
    assert row is not None
    until = time.monotonic() + patience
    while time.monotonic() < until:
        answer = database.call(
            lambda connection: connection.execute(
                _ANSWER, [row["request_id"]]
            ).fetchone()
        )
        if answer is not None:
            return str(answer["answer"])
        time.sleep(_POLL)
    return None
