"""A run in the log of the program: the logger `goalrunner.run` of Python's logging.

INFO has the milestones of a run: rounds, results, verdicts, waits. DEBUG has every
event, with commands and files. No line has the text of a prompt, of an answer or of an
output, and events contain no secrets any more when they come here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from goalrunner.core.activity import Activity, CommandStarted, RetryScheduled
from goalrunner.core.errors import one_line
from goalrunner.core.events import (
    BaselineTaken,
    Event,
    Record,
    RunEnded,
    RunStarted,
    ToolResultRecorded,
    UsageRecorded,
    ValidatorsFinished,
    VerdictRecorded,
)
from goalrunner.core.observation import ArtifactRef, Observation, TranscriptRef
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.run_folder import RunFolder

LOGGER = logging.getLogger("goalrunner.run")
# A library prints nothing by itself: the program decides where its log goes.
LOGGER.addHandler(logging.NullHandler())

_MILESTONES = frozenset(
    {
        "run_started",
        "run_resumed",
        "round_started",
        "round_finished",
        "baseline_taken",
        "validators_finished",
        "verdict_recorded",
        "work_failed",
        "wait_started",
        "wait_ended",
        "agent_switched",
        "limit_reached",
        "run_ended",
    }
)
"""The types of the events that are logged at INFO."""

_NAMES = ("round", "prompt", "account", "kind", "agent", "status", "stop_reason")
"""Fields with names and numbers of the runner itself, for all levels."""

_DETAILS = (
    "role",
    "step_id",
    "tool",
    "summary",
    "moment",
    "ending",
    "duration",
    "idle",
    "steps",
    "until",
    "number",
    "action",
    "decision",
    "confirmed",
)
"""Fields for DEBUG: commands and paths, but no text that a model or person wrote."""

_LONGEST = 200
"""Characters of a field."""


class RunLog:
    """An observer that logs each event and activity of a run."""

    def __init__(self, run_id: str, folder: RunFolder | None) -> None:
        """`folder` is the run's; None if nothing of the run is kept."""
        self._run_id = run_id
        self._folder = folder

    def on_record(self, record: Record) -> None:
        """Log an event, and the files that belong to it."""
        event = record.event
        level = logging.INFO if event.type in _MILESTONES else logging.DEBUG
        if not LOGGER.isEnabledFor(level):
            return
        details = LOGGER.isEnabledFor(logging.DEBUG)
        words = " ".join(_words(event, details=details))
        self._log(level, f"{event.type} {words}".rstrip())
        if details:
            for line in self._files(event):
                self._log(logging.DEBUG, line)

    def on_activity(self, activity: Activity) -> None:
        """Log commands of the runner, and repeated model calls."""
        if isinstance(activity, CommandStarted):
            line = f"command_started name={activity.name} output={activity.output}"
            self._log(logging.DEBUG, line)
        elif isinstance(activity, RetryScheduled):
            self._log(
                logging.DEBUG,
                f"retry_scheduled number={activity.retry} of={activity.retries} "
                f"seconds={activity.seconds:g}",
            )

    def _log(self, level: int, line: str) -> None:
        LOGGER.log(level, "run %s: %s", self._run_id or "-", line)

    def _files(self, event: Event) -> Iterator[str]:
        """Yield a line for each file that the runner has written for an event."""
        if self._folder is None:
            return
        folder = self._folder
        if isinstance(event, RunStarted):
            yield f"files folder={folder.path}"
        elif isinstance(event, RunEnded):
            yield f"files outcome={folder.outcome}"
        for output in _outputs(event):
            yield f"files artifact={folder.artifacts / output.sha256} {output.size} B"


def _outputs(event: Event) -> Iterator[ArtifactRef]:
    observations: Iterable[Observation] = getattr(event, "observations", ())
    if isinstance(event, ToolResultRecorded):
        observations = (event.observation,)
    for observation in observations:
        if observation.output is not None:
            yield observation.output


def _words(event: Event, *, details: bool) -> Iterator[str]:
    """Yield what a line says about an event: "round=2", "tests:passed"."""
    names = (*_NAMES, *_DETAILS) if details else _NAMES
    for name in names:
        value = getattr(event, name, None)
        if isinstance(value, str | int | float) and value != "":
            shown = one_line(str(value), _LONGEST)
            yield f"{name}={shown}"
    if isinstance(event, ValidatorsFinished | BaselineTaken):
        yield from map(_result, event.results)
    elif isinstance(event, VerdictRecorded):
        verdict = event.verdict
        yield f"score={verdict.score:.2f} complete={verdict.complete}"
        yield f"citations={event.citations_checked}"
    elif isinstance(event, UsageRecorded):
        usage = event.usage
        yield f"tokens={usage.known_tokens} cost_usd={usage.cost_usd}"
    text = getattr(event, "text", None)
    if isinstance(text, TranscriptRef):
        yield f"bytes={text.length}"


def _result(result: ValidatorResult) -> str:
    return f"{result.name}:{result.reason}:{result.duration:.1f}s"
