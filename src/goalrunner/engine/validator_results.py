"""The results of validators, and their observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.events import ValidatorsFinished
from goalrunner.core.observation import (
    VALIDATOR,
    ArtifactRef,
    Observation,
    Snapshot,
    names_in,
)
from goalrunner.core.ports import CheckRun
from goalrunner.core.verdict import SuiteRecord, ValidatorResult
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.output_store import OutputStore

Answer = tuple[ValidatorResult, Path | None]
"""A validator's result, and the file with its output."""

NAMED_BYTES = 1 << 16
"""Bytes of each end of an output in which names of files are looked up."""


@dataclass(frozen=True)
class Results:
    """The results of one run of validators in an environment."""

    answers: tuple[Answer, ...]
    flaky: tuple[str, ...] = ()
    """The names of validators whose result was decided by a third run."""
    changed: tuple[str, ...] = ()
    """Files of the snapshot that validators wrote; the workspace has not changed."""
    written: tuple[str, ...] = ()
    """All files that validators wrote, without caches and outputs."""

    def __add__(self, other: Results) -> Results:
        """Return both as the results of one run."""
        return Results(
            (*self.answers, *other.answers),
            (*self.flaky, *other.flaky),
            (*self.changed, *other.changed),
            (*self.written, *other.written),
        )

    @property
    def results(self) -> tuple[ValidatorResult, ...]:
        return tuple(result for result, _ in self.answers)

    @property
    def green(self) -> bool:
        """Whether there are results and all are green."""
        return bool(self.answers) and all(result.passed for result in self.results)


def check_run(
    answers: Sequence[Answer],
    finished: ValidatorsFinished | None = None,
    diff: str = "",
) -> CheckRun:
    """Return the results of validators as an event, with their output files.

    The other fields of the event are those of `finished`.
    """
    results = tuple(result for result, _ in answers)
    outputs = tuple(output for _, output in answers)
    if finished is None:
        # The run replaces the number of the round.
        finished = ValidatorsFinished(round=0, results=())
    event = finished.model_copy(update={"results": results})
    return CheckRun(event, outputs, diff)


async def observe(
    ran: CheckRun, journal: RunJournal, snapshot: Snapshot | None = None
) -> ValidatorsFinished:
    """Store the outputs, and number the results as observations on `snapshot`.

    Return the event with both.
    """
    # Storing hundreds of megabytes must not exceed the deadline, so a cancellation
    # shortens it.
    store = OutputStore(journal.artifacts)
    refs: list[ArtifactRef | None] = []
    for output in ran.outputs:
        refs.append(None if output is None else await store.take(output))
    store.raise_cancellation()
    results: list[ValidatorResult] = []
    visible: list[Observation] = []
    concealed: list[Observation] = []
    for result, stored in zip(ran.finished.results, refs, strict=True):
        # A Python validator has no output; its feedback is what a judge can quote.
        ref = stored or journal.artifacts.put(result.feedback.encode(errors="replace"))
        identifier = journal.next_observation(ahead=len(results))
        update = {"output": ref, "observation": identifier, "suite": SuiteRecord()}
        results.append(result.model_copy(update=update))
        observations = concealed if result.hidden else visible
        observation = _observation(identifier, result, ref, journal, snapshot)
        observations.append(observation)
    numbered = {
        "results": tuple(results),
        "observations": tuple(visible),
        "concealed": tuple(concealed),
    }
    return ran.finished.model_copy(update=numbered)


def _observation(
    identifier: str,
    result: ValidatorResult,
    output: ArtifactRef,
    journal: RunJournal,
    snapshot: Snapshot | None,
) -> Observation:
    # Validators do not change the workspace, so both snapshots are the same.
    snapshot_id = snapshot.id if snapshot else None
    return Observation(
        id=identifier,
        source=f"{VALIDATOR}{result.name}",
        facts=result_facts(result),
        names=names_in(*journal.artifacts.ends(output, NAMED_BYTES)),
        command=result.command,
        round=journal.state.round,
        output=output,
        before=snapshot_id,
        after=snapshot_id,
    )


def result_facts(result: ValidatorResult) -> tuple[str, ...]:
    """Return what the runner itself knows about a result: ("exit 0", "green")."""
    colour = "green" if result.passed else "red"
    if result.reason == "flaky":
        return ("flaky", colour)
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    if result.reason in ("passed", "red"):
        return (colour,)
    return (result.reason.replace("_", " "), colour)
