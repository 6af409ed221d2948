"""The attributes of spans: what telemetry says about each event.

Without content these are names and numbers alone: no text of a goal, of a model or of
a person, no command, no path and no output. What is None or empty is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from goalrunner.core import events
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.core.verdict import ValidatorResult
from goalrunner.telemetry import conventions as names
from goalrunner.telemetry.content import SentContent, in_unicode

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]

# The first four characters of an id name the run; the others are words of the
# objective.
_MADE_ID = re.compile(r"([a-z][a-z0-9]{3})-.*")


@dataclass(frozen=True)
class RunFacts:
    """What telemetry has to know of a run besides its events."""

    run_id: str
    agent: str
    """Its name."""
    models: Mapping[str, str]
    """By account."""
    calls_models: bool
    """Whether each usage of the agent is one model call, as for the built-in agent."""

    @property
    def short_id(self) -> str:
        """The run's id without words of the objective; all commands accept it."""
        made = _MADE_ID.fullmatch(self.run_id)
        return made[1] if made else self.run_id

    def model_of(self, account: events.Account) -> dict[str, str]:
        """Return the attributes of the model of an account."""
        return names.model_attributes(self.models.get(account, ""))


def present(attributes: Mapping[str, Value | None]) -> Attributes:
    """Return the attributes that have a value, as far as it can be sent."""
    values: Attributes = {}
    for name, value in attributes.items():
        if value is None or value in ("", []):
            continue
        values[name] = in_unicode(value) if isinstance(value, str) else value
    return values


def started_attributes(event: events.RunStarted, content: SentContent) -> Attributes:
    """Return how a run began."""
    return present(
        {
            "goal.version": event.version,
            "goal.sandbox": event.sandbox,
            "goal.isolated": event.isolated,
            "goal.check_environment": event.check_environment,
            "goal.labels": content.labels(event.labels),
            "goal.workspace": content.text(event.workspace),
        }
    )


def ended_attributes(event: events.RunEnded, content: SentContent) -> Attributes:
    """Return how a run ended. A run that failed is an error."""
    is_failed = event.status is GoalStatus.FAILED
    return present(
        {
            "goal.status": str(event.status),
            "goal.stop_reason": str(event.stop_reason),
            "goal.signal": event.signal,
            "goal.message": content.text(event.message),
            names.ERROR: str(event.stop_reason) if is_failed else "",
        }
    )


def usage_attributes(used: Usage) -> Attributes:
    """Return tokens and dollars."""
    return present(
        {
            names.INPUT_TOKENS: used.input_tokens,
            names.OUTPUT_TOKENS: used.output_tokens,
            "goal.cost_usd": used.cost_usd,
            "goal.retries": used.retries or None,
        }
    )


def turn_attributes(event: events.RoundFinished) -> Attributes:
    """Return how a turn of the agent ended. One that was interrupted is an error."""
    attributes: dict[str, Value | None] = {
        "goal.turn.reason": event.reason,
        "goal.turn.steps": event.steps,
        "goal.turn.idle": event.idle,
    }
    if event.changes is not None:
        attributes["goal.changes.files"] = event.changes.files
        attributes["goal.changes.added"] = event.changes.added
        attributes["goal.changes.removed"] = event.changes.removed
    if event.reason == "interrupted":
        attributes[names.ERROR] = event.reason
    return present(attributes)


def validator_attributes(result: ValidatorResult, content: SentContent) -> Attributes:
    """Return the result of a validator."""
    return present(
        {
            "goal.validator.name": result.name,
            "goal.validator.result": result.reason,
            "goal.validator.hidden": result.hidden,
            "goal.validator.exit_code": result.exit_code,
            "goal.validator.tests_run": result.tests_run,
            "goal.validator.tests_failed": result.tests_failed,
            "goal.validator.command": content.text(result.command),
            "goal.validator.output": content.output(result.output),
        }
    )


def evaluation_attributes(result: ValidatorResult, content: SentContent) -> Attributes:
    """Return the result of a validator as the event of an evaluation."""
    return present(
        {
            names.EVALUATION_NAME: result.name,
            names.SCORE: float(result.passed),
            names.SCORE_LABEL: "pass" if result.passed else "fail",
            names.EXPLANATION: content.text(result.feedback),
        }
    )


def check_attributes(
    event: events.ValidatorsFinished, content: SentContent
) -> Attributes:
    """Return what a check of all validators says."""
    red = sum(not result.passed for result in event.results)
    return present(
        {
            "goal.validators.red": red,
            "goal.validators.green": len(event.results) - red,
            "goal.validators.refused": bool(event.refusal),
            "goal.validators.changed_checks": event.changed_checks is not None,
            "goal.labels": content.labels(event.labels),
        }
    )


def verdict_attributes(
    event: events.VerdictRecorded, content: SentContent
) -> Attributes:
    """Return the verdict of a judge as the event of an evaluation."""
    is_complete = event.verdict.complete
    return present(
        {
            names.EVALUATION_NAME: "judge",
            names.SCORE: event.verdict.score,
            names.SCORE_LABEL: "complete" if is_complete else "incomplete",
            names.EXPLANATION: content.text(event.verdict.missing),
        }
    )


def critique_attributes(
    event: events.CritiqueFinished, content: SentContent
) -> Attributes:
    """Return the score of a critic as the event of an evaluation."""
    return present(
        {
            names.EVALUATION_NAME: "critic",
            names.SCORE: event.score,
            names.EXPLANATION: content.text(event.feedback),
        }
    )


def failure_attributes(event: events.WorkFailed, content: SentContent) -> Attributes:
    """Return why an agent or a model could not go on."""
    return present(
        {
            "goal.account": event.account,
            "goal.failure.kind": event.kind,
            "goal.failure.reason": content.text(event.reason),
            "goal.stop_reason": str(event.stop_reason),
        }
    )
