"""Running the validators of a round: side by side, serial ones alone. Owns the order; judges no result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from goalrunner.driver.journal import Journal
from goalrunner.model.observation import Observation
from goalrunner.model.validation import ValidatorResult
from goalrunner.ports import ValidationContext, Validator

Answer = tuple[ValidatorResult, Path | None]


async def run_validators(validators: Sequence[Validator], context: ValidationContext) -> list[Answer]:
    """Every validator's answer, in the order of the goal. Those marked serial run one by one after the others."""
    answers: dict[int, Answer] = {}

    async def run(index: int) -> None:
        answers[index] = await validators[index].validate(context)

    async with asyncio.TaskGroup() as group:
        for index, validator in enumerate(validators):
            if not validator.serial:
                group.create_task(run(index))
    for index, validator in enumerate(validators):
        if validator.serial:
            await run(index)
    return [answers[index] for index in range(len(validators))]


def observe(
    answers: Sequence[Answer], journal: Journal, redact: Callable[[str], str]
) -> tuple[list[ValidatorResult], list[Observation]]:
    """Keep the outputs and number the results, so that the judge can cite them like any other observation."""
    results, observations = [], []
    for ahead, (raw, output) in enumerate(answers):
        shown = {name: redact(getattr(raw, name)) for name in ("feedback", "command", "summary")}
        result = raw.model_copy(update=shown)
        ref = journal.artifacts.adopt(output) if output else journal.artifacts.put(result.feedback.encode())
        identifier = journal.next_observation(ahead)
        results.append(result.model_copy(update={"output": ref, "observation": identifier}))
        observations.append(
            Observation(
                id=identifier,
                source=f"validator {result.name}",
                facts=_facts(result),
                command=result.command,
                round=journal.state.round,
                output=ref,
            )
        )
    return results, observations


def _facts(result: ValidatorResult) -> tuple[str, ...]:
    colour = "green" if result.passed else "red"
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    return (colour,) if result.reason in ("passed", "red") else (result.reason.replace("_", " "), colour)
