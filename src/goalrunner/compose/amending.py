"""An event that another process adds to a run which is not living. Owns lock, fold and files; decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goalrunner.artifacts import ArtifactStore
from goalrunner.compose.earlier import frozen_goal
from goalrunner.compose.parts import goal_secrets, withheld
from goalrunner.compose.system import SystemClock
from goalrunner.driver.journal import Journal
from goalrunner.eventlog import EventLog, TranscriptFile, read_records
from goalrunner.events import Event
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder
from goalrunner.state import RunState
from goalrunner.state.outcome import summary_of

Amendment = Callable[[Journal], Event]
"""From the journal of the run, as it stands, to the event that is to be added. Raises GoalError where none may be."""


def amend(folder: RunFolder, environ: Mapping[str, str], amendment: Amendment) -> RunState:
    """Add one event to a run's log, and write summary and outcome anew; gives the state with it.

    Raises RecordError where a living process has the run, naming it, and whatever `amendment` raises.
    """
    goal = frozen_goal(folder, environ)
    redactor = Redactor({**environ, **goal_secrets(goal)}, names=withheld(goal))
    with (
        EventLog(folder.events, SystemClock(), redactor) as log,
        TranscriptFile(folder.transcript, redactor) as transcript,
    ):
        journal = Journal(log, transcript, ArtifactStore(folder.artifacts, redactor))
        for record in read_records(folder.events):
            journal.replay(record)
        journal.append(amendment(journal))
        folder.write_json(folder.summary, {**summary_of(journal.state), "path": str(folder.path)})
        folder.write_json(folder.outcome, journal.outcome(str(folder.path)).model_dump(mode="json"))
        return journal.state
