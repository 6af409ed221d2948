"""A run that nobody drives, opened to write down what a person says of it. Owns the files of such a visit; runs nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from goalrunner.artifacts import ArtifactStore
from goalrunner.compose.earlier import frozen_goal
from goalrunner.compose.parts import goal_redactor
from goalrunner.compose.system import SystemClock
from goalrunner.driver.journal import Journal
from goalrunner.errors import GoalError, RecordError
from goalrunner.eventlog import EventLog, TornTail, TranscriptFile, read_records
from goalrunner.events import RunStarted
from goalrunner.model.outcome import GoalStatus
from goalrunner.ports import Clock
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder, read_summary
from goalrunner.state.outcome import summary_of


@dataclass(frozen=True)
class Visit:
    """The journal of a run, folded to its end."""

    folder: RunFolder
    journal: Journal
    clock: Clock

    def save(self) -> None:
        """Let summary and outcome say what the log says now; the process that drove the run stays named."""
        state = self.journal.state
        kept = {"pid": read_summary(self.folder).get("pid", 0), "path": str(self.folder.path)}
        self.folder.write_json(self.folder.summary, {**summary_of(state), **kept})
        if state.status is not GoalStatus.RUNNING:
            outcome = self.journal.outcome(str(self.folder.path)).model_dump(mode="json")
            self.folder.write_json(self.folder.outcome, outcome)


@contextlib.contextmanager
def visit(
    folder: RunFolder, environ: Mapping[str, str], on_torn: Callable[[TornTail], None] | None = None
) -> Iterator[Visit]:
    """Open a run's log for writing. Raises LogInUse where a process drives it, RecordError for a damaged one."""
    clock, redactor = SystemClock(), run_redactor(folder, environ)
    with EventLog(folder.events, clock, redactor, on_torn=on_torn) as log, log.paused():
        transcript = TranscriptFile(folder.transcript, redactor)
        try:
            journal = Journal(log, transcript, ArtifactStore(folder.artifacts, redactor))
            for record in read_records(folder.events):
                journal.replay(record)
            yield Visit(folder, journal, clock)
        finally:
            transcript.close()


def run_redactor(folder: RunFolder, environ: Mapping[str, str]) -> Redactor:
    """What replaces secrets as in the run itself. One that its goal file does not give any more is not known."""
    try:
        return goal_redactor(frozen_goal(folder, environ, _start_of(folder)), environ)
    except GoalError:
        return Redactor(dict(environ))


def _start_of(folder: RunFolder) -> RunStarted | None:
    """How it was started, where its log says so."""
    with contextlib.suppress(RecordError, OSError):
        return next(
            (record.event for record in read_records(folder.events) if isinstance(record.event, RunStarted)), None
        )
    return None
