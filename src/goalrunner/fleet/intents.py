"""The log of a run in the database: each line is the intent of the effect after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from goalrunner.core.errors import RecordError
from goalrunner.fleet.database import Connection, Database, DatabaseUnreachable
from goalrunner.fleet.runs import TakenRun

_PATIENCE = 120.0
"""Seconds to try again while the database does not answer. They may be more than a
lease: another worker can take the run meanwhile, and then no line is written here.
"""
_PAUSE = 0.5

# In one statement. The lock on the row makes a takeover wait for lines that are being
# written, so that its reader sees every intent whose effect may happen.
_WRITE = """\
WITH lease AS (
    SELECT run_id, token FROM goal_fleet_runs
    WHERE run_id = %(run)s AND token = %(token)s AND state = 'running' FOR SHARE
), written AS (
    INSERT INTO goal_fleet_intents (run_id, token, seq, line)
    SELECT lease.run_id, lease.token, lines.seq, lines.line
    FROM lease, unnest(%(seqs)s::bigint[], %(lines)s::text[]) AS lines (seq, line)
    ON CONFLICT DO NOTHING
    RETURNING seq
)
SELECT (SELECT count(*) FROM lease) AS leases, (SELECT count(*) FROM written) AS written
"""
# The same number with another text was written by a second process with this token,
# whose log is not the one here.
_COUNT_SAME = """\
SELECT count(*) AS same FROM goal_fleet_intents AS intent
JOIN unnest(%(seqs)s::bigint[], %(lines)s::text[]) AS lines (seq, line)
    ON intent.seq = lines.seq AND intent.line = lines.line
WHERE intent.run_id = %(run)s AND intent.token = %(token)s
"""
_READ = """\
SELECT seq, line FROM goal_fleet_intents
WHERE run_id = %s AND token = %s ORDER BY seq
"""
# A later holder went on after the last stored event, so that the lines of an earlier
# one from there on are in no log any more.
_READ_LOST = """\
SELECT seq, line, EXISTS (
    SELECT FROM goal_fleet_intents AS later
    WHERE later.run_id = intent.run_id AND later.token > intent.token
        AND later.seq <= intent.seq) AS replaced
FROM goal_fleet_intents AS intent
WHERE run_id = %s AND token >= %s AND seq > %s ORDER BY token, seq
"""


class IntentRefused(RecordError):
    """A line was not written, so its effect must not happen; nothing is wrong with the
    run, which can go on later.
    """


class TokenLost(IntentRefused):
    """Another worker has taken the run: this one must not cause any further effect."""


@dataclass
class IntentWriter:
    """Writes the lines of a log before each effect; a `LogMirror`.

    It raises TokenLost if another worker has the run, and IntentRefused if the database
    does not answer in time. Then the effect does not happen.
    """

    database: Database
    run_id: str
    token: int
    """What the worker got when it took the run."""

    def __call__(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Write lines, given with their numbers. Writing the same again is no error."""
        parameters = {
            "run": self.run_id,
            "token": self.token,
            "seqs": [seq for seq, _ in lines],
            "lines": [line.decode("ascii") for _, line in lines],
        }

        def write(connection: Connection) -> bool:
            row = connection.execute(_WRITE, parameters).fetchone()
            assert row is not None
            if not row["leases"]:
                # Fenced: a higher token is in the row, so another worker goes on.
                return False
            if row["written"] == len(lines):
                return True
            # An earlier try may have been committed, although its answer was lost.
            same = connection.execute(_COUNT_SAME, parameters).fetchone()
            return same is not None and same["same"] == len(lines)

        # This blocks the event loop, so that the run does nothing at all before the
        # line is written.
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                has_written = self.database.call(write)
            except DatabaseUnreachable as error:
                if time.monotonic() > until:
                    raise IntentRefused(error.message, error.hint) from error
                time.sleep(_PAUSE)
            else:
                break
        if not has_written:
            raise TokenLost(
                f"another worker has taken run {self.run_id}, so it ends here",
                f"goal fleet status {self.run_id} shows where it goes on",
            )


def lines_of(
    connection: Connection, run_id: str, token: int
) -> list[tuple[int, bytes]]:
    """Return the lines that one holder of the run has written, with their numbers."""
    rows = connection.execute(_READ, [run_id, token]).fetchall()
    return [(row["seq"], row["line"].encode("ascii")) for row in rows]


@dataclass(frozen=True)
class LostLine:
    """A line of a run that was written after the run was stored for the last time."""

    seq: int
    line: bytes
    is_replaced: bool
    """A later worker began again before this line, and knew what it had used."""


def lost_lines(connection: Connection, taken_run: TakenRun) -> list[LostLine]:
    """Return what all workers have written since the last stored event."""
    parameters = [taken_run.run_id, taken_run.shipped_token, taken_run.shipped_seq]
    lines: list[LostLine] = []
    for row in connection.execute(_READ_LOST, parameters):
        line = row["line"].encode("ascii")
        lines.append(LostLine(row["seq"], line, row["replaced"]))
    return lines
