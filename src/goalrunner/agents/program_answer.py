"""What an agent's program printed in one call as a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalrunner.agents.agent_errors import (
    NOT_STARTED,
    failed,
    first_lines,
    last_lines,
)
from goalrunner.agents.error_kinds import ErrorMeaning
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.json_lines import Lines, first, number, object_in
from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import Failed, Noise, Text, TextDelta, UsageReported
from goalrunner.agents.process_end import EXIT_MEANINGS, ending_of
from goalrunner.agents.program_call import ProgramChoice
from goalrunner.agents.reported_usage import usage_delta
from goalrunner.core.agent_preset import TEXT, Preset
from goalrunner.core.errors import AgentNotSignedIn, Outage
from goalrunner.core.outages import outage_of
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Completion
from goalrunner.llm.failure import FailureKind, ProviderFailure, classify

# The HTTP status in the message of a failure: `"code":429`, `last status: 429`.
_STATUS = re.compile(r"\b(?:status|code)\W{1,4}([45]\d\d)\b")

UNREPORTED = Usage(cost_usd=None, uncounted_calls=1)
"""The usage of a call that was not reported, without a count of calls."""


@dataclass
class ProgramAnswer:
    """What a program said in one call."""

    text: str = ""
    """The structured answer as JSON, or else the last message."""
    failed: Failed | None = None
    """The failure that it reported last, if no message followed."""
    status: int | None = None
    """The HTTP status of the failure, if its output names one."""
    noise: str = ""
    """The last output that was not understood."""
    usage: Usage = field(default_factory=lambda: UNREPORTED)
    """Without a count of calls; unknown if nothing was reported."""


def read_answer(preset: Preset, output: bytes) -> ProgramAnswer:
    """Return the answer in the output of a program."""
    answer = ProgramAnswer()
    reports: list[UsageReported] = []
    reader, streamed = Reader(preset.stream), ""
    for event in (*reader.feed(output), *reader.feed(b"", final=True)):
        match event:
            case Text(text=text):
                # A whole message replaces its pieces, and follows a failure that
                # passed.
                answer.text, answer.failed, streamed = text, None, ""
            case TextDelta(text=text):
                streamed += text
                answer.failed = None
            case Failed():
                answer.failed = event
            case UsageReported():
                reports.append(event)
            case Noise(text=text):
                answer.noise = text
    if streamed:
        answer.text = streamed
    objects = _objects(preset, output)
    # A structured answer has a field of its own; messages are remarks beside it.
    if preset.judge.answer:
        answer.text = _structured(_last(objects, preset.judge.answer))
    answer.status = _status(preset, objects, answer.failed)
    answer.usage = _used(reports) or answer.usage
    return answer


def _objects(preset: Preset, output: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of the output, one from a line."""
    if preset.stream == TEXT:
        return []
    values = map(object_in, Lines().feed(output + b"\n"))
    return [value for value in values if value is not None]


def _structured(value: Any) -> str:
    """Return a structured answer as JSON; empty if there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _status(
    preset: Preset, objects: Sequence[dict[str, Any]], failure: Failed | None
) -> int | None:
    """Return the HTTP status of a failure: in its own field, or else in its message."""
    if preset.judge.status:
        status = number(_last(objects, preset.judge.status))
        if status:
            return int(status)
    if failure is None:
        return None
    match = _STATUS.search(failure.message)
    return int(match[1]) if match else None


def _last(objects: Sequence[dict[str, Any]], path: str) -> Any:
    """Return the last value at a dotted path that is not null."""
    for line in reversed(objects):
        value = first(line, path)
        if value is not None:
            return value
    return None


def _used(reports: Iterable[UsageReported]) -> Usage | None:
    """Return the usage of one process by its reports; None if none is about tokens."""
    used, total, counts_tokens = Usage(), Usage(), False
    for report in reports:
        new, total = usage_delta(report, total)
        used = used + new
        counts_tokens = counts_tokens or report.tokens
    # The caller counts the call.
    return used.model_copy(update={"calls": 0}) if counts_tokens else None


class ProgramFailure(ProviderFailure):
    """A failed call of a program.

    `outage` is what the program reports of a failure that passes by itself.
    """

    def __init__(
        self,
        message: str,
        kind: FailureKind,
        status: int | None = None,
        outage: Outage | None = None,
    ) -> None:
        wait = None
        if outage is not None and outage.resets_at is not None:
            seconds = (outage.resets_at - datetime.now(UTC)).total_seconds()
            wait = max(0.0, seconds)
        super().__init__(message, status=status, retry_after=wait, kind=kind)
        self.outage = outage


def failure_in(
    choice: ProgramChoice, answer: ProgramAnswer, completion: Completion, stderr: str
) -> ProgramFailure | None:
    """Return the failure of a call; None if there is an answer, which may be empty."""
    code, how = completion.exit_code, ending_of(completion)
    if code in NOT_STARTED and not (answer.text or answer.failed):
        message = completion.error or first_lines(stderr) or how
        return ProgramFailure(message, FailureKind.MODEL)
    # A signal or a limit ended it, so what it printed may be only a part.
    if code is None:
        return ProgramFailure(completion.error or how, FailureKind.CUT)
    if answer.failed is None and (answer.text or code == 0):
        return None
    reported = answer.failed or Failed("")
    message = reported.message or last_lines(stderr) or answer.noise or how
    # The program worked, but its answer has not the form that was asked for.
    if any(text.lower() in message.lower() for text in choice.preset.judge.unfit):
        return None
    meaning = _meaning(choice.preset, reported, code, answer.status)
    external = ExternalAgent(choice.name, choice.preset, Path(), {})
    explained = failed(external, reported.message, how, stderr, meaning)
    status, outage = answer.status, meaning.outage
    # A provider that refuses a key does not always say so in words.
    is_refused = status in (401, 403) and outage is None
    if isinstance(explained, AgentNotSignedIn) or is_refused:
        return ProgramFailure(message, FailureKind.AUTHENTICATION, status)
    if outage is not None:
        kind = FailureKind.RATE_LIMIT if outage.kind == "limit" else FailureKind.SERVER
        return ProgramFailure(message, kind, status, outage)
    kind = classify(status, message) if status else FailureKind.REJECTED
    return ProgramFailure(message, kind, status)


def _meaning(
    preset: Preset, reported: Failed, code: int, status: int | None
) -> ErrorMeaning:
    """Return whether a failure passes.

    Only typed output and the exit codes of the preset say so. Other exit codes prove
    nothing.
    """
    meaning = ErrorMeaning(reported.outage, reported.obstacle)
    if not meaning.is_unknown:
        return meaning
    code_meaning = preset.exit_codes.get(code)
    if code_meaning:
        return EXIT_MEANINGS.get(code_meaning, meaning)
    return ErrorMeaning(outage_of(status))
