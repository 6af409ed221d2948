"""Running validators side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from goalrunner.core.errors import RecordError
from goalrunner.core.ports import ValidationContext, Validator
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.validator_results import Answer

_LONGEST_SUMMARY = 200  # characters


class InterruptedByValidatorError(Exception):
    """A validator raised KeyboardInterrupt.

    That error itself would stop the event loop; this one is an ordinary exception.
    """


def is_hidden(validator: Validator) -> bool:
    """Return whether a validator is hidden.

    Validators of a caller need no such attribute.
    """
    return bool(getattr(validator, "hidden", False))


async def run_validators(
    validators: Sequence[Validator], context: ValidationContext
) -> list[Answer]:
    """Return every validator's result in the order of the goal.

    Serial ones run one by one after the others.
    """
    answers: dict[int, Answer] = {}

    async def run(index: int) -> None:
        answers[index] = await _answer(validators[index], context)

    try:
        async with asyncio.TaskGroup() as group:
            for index, validator in enumerate(validators):
                if not validator.serial:
                    group.create_task(run(index))
    except BaseExceptionGroup as group_error:
        # Only errors that end the run come here, and the run handles single ones.
        raise group_error.exceptions[0] from None
    # A serial validator may need all cores, a port or a database.
    for index, validator in enumerate(validators):
        if validator.serial:
            await run(index)
    return [answers[index] for index in range(len(validators))]


async def _answer(validator: Validator, context: ValidationContext) -> Answer:
    """Return the result under the validator's own name.

    A validator that raises is red.
    """
    try:
        result, output = await validator.validate(context)
    except RecordError:
        raise
    except KeyboardInterrupt:
        raise InterruptedByValidatorError from None
    except (Exception, SystemExit) as error:
        return _crashed(validator, error), None
    return result.model_copy(update={"name": validator.name}), output


def _crashed(validator: Validator, error: BaseException) -> ValidatorResult:
    message = f"{type(error).__name__}: {error}"
    return ValidatorResult(
        name=validator.name,
        passed=False,
        reason="crashed",
        feedback=message,
        summary=message.splitlines()[0][:_LONGEST_SUMMARY],
        command=validator.command,
    )
