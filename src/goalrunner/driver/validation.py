"""Running the validators of a round: side by side, serial ones alone. Owns the order; judges no result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.driver.journal import Journal
from goalrunner.driver.keeping import Keeping
from goalrunner.errors import RecordError
from goalrunner.model.observation import ArtifactRef, Observation
from goalrunner.model.validation import SuiteRecord, ValidatorResult
from goalrunner.ports import ValidationContext, Validator


class InterruptedByValidatorError(Exception):
    """A validator raised KeyboardInterrupt; an ordinary exception, since a bare one would tear down the event loop."""


Answer = tuple[ValidatorResult, Path | None]


@dataclass(frozen=True)
class Results:
    """The answers of one run in an environment, and which of them a third run decided."""

    answers: tuple[Answer, ...]
    flaky: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files of the snapshot that validators wrote with another content; the workspace has not changed."""

    @property
    def green(self) -> bool:
        """Return whether there are results and all are green."""
        return bool(self.answers) and all(result.passed for result, _ in self.answers)


def is_hidden(validator: Validator) -> bool:
    """Whether it runs at the proof alone; a validator of somebody's own need not say."""
    return bool(getattr(validator, "hidden", False))


async def run_validators(validators: Sequence[Validator], context: ValidationContext) -> list[Answer]:
    """Every validator's answer, in the order of the goal. Those marked serial run one by one after the others."""
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
    """The validator's answer under the validator's own name. One that raises is red: a check that broke checked nothing."""
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
    answers: Sequence[Answer], journal: Journal, redact: Callable[[str], str], seen: str | None = None
) -> tuple[list[ValidatorResult], list[Observation]]:
    """Keep the outputs and number the results, so that the judge can cite them like any other observation.

    `seen` is the id of the snapshot that they ran on. Whoever is cut meanwhile is cut before anything is numbered.
    """
    refs = await _kept(answers, journal)
    results, observations = [], []
    for ahead, ((raw, _), kept) in enumerate(zip(answers, refs, strict=True)):
        shown = {name: redact(getattr(raw, name)) for name in ("feedback", "command", "summary")}
        result = raw.model_copy(update=shown)
        ref = kept or journal.artifacts.put(result.feedback.encode(errors="replace"))
        identifier = journal.next_observation(ahead)
        update = {"output": ref, "observation": identifier, "test_ids": (), "suite": SuiteRecord()}
        results.append(result.model_copy(update=update))
        observations.append(
            Observation(
                id=identifier,
                source=f"validator {result.name}",
                facts=_facts(result),
                command=result.command,
                round=journal.state.round,
                output=ref,
                before=seen,
                after=seen,
            )
        )
    return results, observations


async def _kept(answers: Sequence[Answer], journal: Journal) -> list[ArtifactRef | None]:
    """Their outputs, None for one that has none. A check may have written hundreds of megabytes: a deadline is seen."""
    keeping = Keeping(journal.artifacts)
    refs = [None if output is None else await keeping.take(output) for _, output in answers]
    keeping.settle()
    return refs


def _facts(result: ValidatorResult) -> tuple[str, ...]:
    colour = "green" if result.passed else "red"
    if result.reason == "flaky":
        return ("flaky", colour)
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    return (colour,) if result.reason in ("passed", "red") else (result.reason.replace("_", " "), colour)
