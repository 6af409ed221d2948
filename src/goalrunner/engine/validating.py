"""Running validators, numbering their results as observations, and finding those that contradict themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.errors import GoalError, RecordError
from goalrunner.core.events import Colour, Content
from goalrunner.core.observation import Observation, Snapshot, names_in
from goalrunner.core.ports import ValidationContext, Validator
from goalrunner.core.verdict import Critique, SuiteRecord, UnusableCritiqueError, ValidatorResult, failed_critique
from goalrunner.engine.journal import Journal, OutputStore

Answer = tuple[ValidatorResult, Path | None]


class InterruptedByValidatorError(Exception):
    """A validator raised KeyboardInterrupt; an ordinary exception, since a bare one would tear down the event loop."""


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


async def observe(answers: Sequence[Answer], journal: Journal, seen: Snapshot | None = None) -> dict[str, Any]:
    """Store the outputs, and number the results as observations on `seen`; return both as fields of an event."""
    store = OutputStore(journal.artifacts)  # the deadline is kept, even for hundreds of megabytes
    refs = [None if output is None else await store.take(output) for _, output in answers]
    store.settle()
    results: list[ValidatorResult] = []
    visible: list[Observation] = []
    concealed: list[Observation] = []
    for ahead, ((result, _), kept) in enumerate(zip(answers, refs, strict=True)):
        ref = kept or journal.artifacts.put(result.feedback.encode(errors="replace"))
        identifier = journal.next_observation(ahead)
        update = {"output": ref, "observation": identifier, "test_ids": (), "suite": SuiteRecord()}
        results.append(result.model_copy(update=update))
        (concealed if result.hidden else visible).append(
            Observation(
                id=identifier,
                source=f"validator {result.name}",
                facts=result_facts(result),
                names=names_in(*journal.artifacts.ends(ref, 1 << 16)),
                command=result.command,
                round=journal.state.round,
                output=ref,
                before=seen.id if seen else None,
                after=seen.id if seen else None,
            )
        )
    return {"results": tuple(results), "observations": tuple(visible), "concealed": tuple(concealed)}


def result_facts(result: ValidatorResult) -> tuple[str, ...]:
    colour = "green" if result.passed else "red"
    if result.reason == "flaky":
        return ("flaky", colour)
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    return (colour,) if result.reason in ("passed", "red") else (result.reason.replace("_", " "), colour)


async def usable(review: Awaitable[Any]) -> Critique:
    """Return the critique, one without a score if the critic fails. Raise CancelledError and RecordError."""
    try:
        said = await review
    except RecordError:
        raise
    except KeyboardInterrupt:
        raise InterruptedByValidatorError from None
    except (GoalError, UnusableCritiqueError) as error:
        return failed_critique(str(error).partition("\n")[0])
    except (Exception, SystemExit) as error:
        return failed_critique(f"{type(error).__name__}: {error}")
    return said if isinstance(said, Critique) else failed_critique(f"the critic returned a {type(said).__name__}")


class Flakiness:
    """The results of one run by content. A content is a snapshot with the ignored files and the plan of the check."""

    def __init__(self) -> None:
        self._contents: list[Content] = []  # oldest first; the last one is being checked

    def recall(self, contents: Iterable[Content]) -> None:
        self._contents += contents

    def begin(self, key: str, when: str) -> None:
        """Start a check of a content; `when` is for people ("round 2")."""
        self._contents.append(Content(key=key, when=when))

    def contradicted(self, result: ValidatorResult, where: str = "") -> str:
        """Return when the validator had the opposite result on this content, in this environment; empty if never."""
        # The result of a missing program does not depend on the content.
        if not result.steady or result.reason == "not_found":
            return ""
        opposite, key = Colour(name=f"{result.name}{where}", passed=not result.passed), self.content().key
        return next((item.when for item in self._contents if item.key == key and opposite in item.said), "")

    def note(self, result: ValidatorResult, where: str = "") -> None:
        """Remember a result on the content at hand."""
        if result.steady and result.reason not in ("not_found", "flaky"):
            said = (*self.content().said, Colour(name=f"{result.name}{where}", passed=result.passed))
            self._contents[-1] = self.content().model_copy(update={"said": said})

    def content(self) -> Content:
        """Return what was noted since `begin`, for the log."""
        return self._contents[-1]


def flaky_red(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return a result that contradicts an earlier one as a failed result."""
    was, now = ("failed", "passed") if result.passed else ("passed", "failed")
    said = (
        f"it {was} in {earlier} and {now} now on the same files; with [[validators]] retries = 0 that counts as failed"
    )
    update = {"passed": False, "reason": "flaky", "summary": f"flaky: {now} now, {was} in {earlier} on the same files"}
    return result.model_copy(update={**update, "feedback": f"{said}\n\n{result.feedback}".strip()})


@dataclass(frozen=True)
class Results:
    """The results of one run in an environment, and which of them a third run decided."""

    answers: tuple[Answer, ...]
    flaky: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # files of the snapshot that validators wrote; the workspace has not changed

    @property
    def green(self) -> bool:
        """Return whether there are results and all are green."""
        return bool(self.answers) and all(result.passed for result, _ in self.answers)
