"""Running the validators of a round, and storing their output as artifacts."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.base import Snapshot
from goalrunner.core.check_ports import ValidationContext, Validator
from goalrunner.core.errors import RecordError
from goalrunner.core.observation import ArtifactRef, Observation
from goalrunner.core.ports import Artifacts
from goalrunner.core.verdict import SuiteRecord, ValidatorResult
from goalrunner.engine.journal import Journal

_SMALL = 4_000_000
"""Bytes of an output that are stored without a thread."""


class OutputStore:
    """Stores output files as artifacts, large ones in a thread, so that the deadline is kept.

    If the task is cancelled, only both ends of the remaining files are stored. The cancellation is deferred until
    `settle`, so that the caller can still record what was stored.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._hurried = threading.Event()
        self._cut: asyncio.CancelledError | None = None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            self._hurried.set()

    async def adopt(self, path: Path) -> ArtifactRef | None:
        """Store a file and remove it; return None if it is empty or missing. Raise RecordError."""
        try:
            size = path.stat().st_size
        except OSError:
            return None
        if not size:
            path.unlink(missing_ok=True)
            return None
        return await self.take(path)

    async def take(self, path: Path) -> ArtifactRef:
        """Store a file and remove it. Raise RecordError, also if it is missing."""
        if not path.exists() or path.stat().st_size < _SMALL:
            return self._artifacts.adopt(path)
        storing = asyncio.ensure_future(asyncio.to_thread(self._artifacts.adopt, path, self._hurried.is_set))
        while not storing.done():
            try:
                await asyncio.wait((storing,))
            except asyncio.CancelledError as cut:
                self._cut = cut
                self._hurried.set()
        return storing.result()

    def settle(self) -> None:
        """Raise the CancelledError that was deferred, if there is one."""
        if self._cut is not None:
            raise self._cut


class InterruptedByValidatorError(Exception):
    """A validator raised KeyboardInterrupt; an ordinary exception, since a bare one would tear down the event loop."""


Answer = tuple[ValidatorResult, Path | None]


@dataclass(frozen=True)
class Results:
    """The results of one run in an environment, and which of them a third run decided."""

    answers: tuple[Answer, ...]
    flaky: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files of the snapshot that validators wrote with another content; the workspace has not changed."""

    @property
    def green(self) -> bool:
        """Return whether there are results and all are green."""
        return bool(self.answers) and all(result.passed for result, _ in self.answers)


def is_hidden(validator: Validator) -> bool:
    """Return whether a validator is hidden; custom validators need no such attribute."""
    return bool(getattr(validator, "hidden", False))


async def run_validators(validators: Sequence[Validator], context: ValidationContext) -> list[Answer]:
    """Return every validator's result in the order of the goal. Serial ones run one by one after the others."""
    answers: dict[int, Answer] = {}

    async def run(index: int) -> None:
        answers[index] = await _answer(validators[index], context)

    try:
        async with asyncio.TaskGroup() as group:
            for index, validator in enumerate(validators):
                if not validator.serial:
                    group.create_task(run(index))
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    for index, validator in enumerate(validators):
        if validator.serial:
            await run(index)
    return [answers[index] for index in range(len(validators))]


async def _answer(validator: Validator, context: ValidationContext) -> Answer:
    """Return the result under the validator's own name. A validator that raises is red."""
    try:
        result, output = await validator.validate(context)
    except RecordError:
        raise
    except KeyboardInterrupt:
        raise InterruptedByValidatorError from None
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        result, output = ValidatorResult(name=validator.name, passed=False, reason="crashed", feedback=said), None
        result = result.model_copy(update={"summary": said.splitlines()[0][:200], "command": validator.command})
    return result.model_copy(update={"name": validator.name}), output


async def observe(
    answers: Sequence[Answer], journal: Journal, redact: Callable[[str], str], seen: Snapshot | None = None
) -> tuple[tuple[ValidatorResult, ...], tuple[Observation, ...], tuple[Observation, ...]]:
    """Store the outputs and number the results, so that the judge can cite them like any other observation.

    Return the results, their observations, and those of hidden validators. `seen` is the snapshot that they ran on. A
    cancellation takes effect before anything is numbered.
    """
    refs = await _kept(answers, journal)
    results: list[ValidatorResult] = []
    visible: list[Observation] = []
    concealed: list[Observation] = []
    for ahead, ((raw, _), kept) in enumerate(zip(answers, refs, strict=True)):
        shown = {name: redact(getattr(raw, name)) for name in ("feedback", "command", "summary")}
        result = raw.model_copy(update=shown)
        ref = kept or journal.artifacts.put(result.feedback.encode(errors="replace"))
        identifier = journal.next_observation(ahead)
        update = {"output": ref, "observation": identifier, "test_ids": (), "suite": SuiteRecord()}
        results.append(result.model_copy(update=update))
        (concealed if result.hidden else visible).append(
            Observation(
                id=identifier,
                source=f"validator {result.name}",
                facts=_facts(result),
                command=result.command,
                round=journal.state.round,
                output=ref,
                before=seen.id if seen else None,
                after=seen.id if seen else None,
            )
        )
    return tuple(results), tuple(visible), tuple(concealed)


async def _kept(answers: Sequence[Answer], journal: Journal) -> list[ArtifactRef | None]:
    """Return the stored outputs, None where there is none. The deadline is kept, even for hundreds of megabytes."""
    store = OutputStore(journal.artifacts)
    refs = [None if output is None else await store.take(output) for _, output in answers]
    store.settle()
    return refs


def _facts(result: ValidatorResult) -> tuple[str, ...]:
    colour = "green" if result.passed else "red"
    if result.reason == "flaky":
        return ("flaky", colour)
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    return (colour,) if result.reason in ("passed", "red") else (result.reason.replace("_", " "), colour)


def kept_traceback(scratch: Callable[[str], Path], redact: Callable[[str], str]) -> str:
    """Write the traceback of the current exception into the run's folder; return its last line and the path."""
    text = redact(traceback.format_exc())
    said = text.strip().splitlines()[-1]
    path = scratch(".traceback.txt")
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:  # such as a full disk
        return f"{said}\nits traceback could not be written: {error.strerror}"
    return f"{said}\nthe traceback is in {path}"
