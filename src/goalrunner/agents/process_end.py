"""The end of an agent's process, and what it means for the turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goalrunner.agents.agent_errors import (
    LONGEST_ENDING,
    NOT_STARTED,
    SHORT_ANSWER,
    denied,
    failed,
    first_lines,
    last_lines,
    not_installed,
)
from goalrunner.agents.error_kinds import ErrorMeaning
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.parser import Failed
from goalrunner.agents.turn import CommandTurn
from goalrunner.core.agent_preset import TEXT, ExitMeaning
from goalrunner.core.errors import AgentError, Outage, one_line
from goalrunner.core.ports import Completion
from goalrunner.system.child import describe_status

ENDED_EARLY = "ended, because retrying could not help"
"""The recorded end of a process that was stopped after it reported a permanent
failure."""

NO_END = "its output ended without a result"
"""The end of a turn of an agent that should have reported it."""

EXIT_MEANINGS: Mapping[ExitMeaning | None, ErrorMeaning] = {
    "limit": ErrorMeaning(Outage("limit", "usage limit")),
    "overload": ErrorMeaning(Outage("overload", "provider overloaded")),
    "sign_in": ErrorMeaning(obstacle="sign_in"),
}
"""What exit codes say about later turns, by their meaning in the preset."""


@dataclass(frozen=True)
class ProcessEnd:
    """How the process of a turn ended."""

    completion: Completion | None
    """None if the runner ended the process early, after a permanent failure."""
    stderr: str
    """The end of its stderr."""
    meaning: ExitMeaning | None
    """What the preset says about the exit code."""

    @property
    def words(self) -> str:
        """How the process ended, in a few words: "exit 1"."""
        if self.completion is None:
            return ENDED_EARLY
        return ending_of(self.completion)

    @property
    def duration(self) -> float:
        """Seconds; 0 if they were not measured."""
        return 0.0 if self.completion is None else self.completion.duration

    @property
    def survivors(self) -> tuple[str, ...]:
        """Names of processes that the agent left running."""
        return () if self.completion is None else self.completion.survivors


def ending_of(completion: Completion) -> str:
    """Return the exit code as text, or why the process was ended."""
    if completion.exit_code is None:
        return completion.error or "ended by a signal"
    return describe_status(completion.exit_code)


def failure_of(
    agent: ExternalAgent, turn: CommandTurn, end: ProcessEnd
) -> AgentError | None:
    """Return the error of a turn that failed, else None."""
    completion, stderr = end.completion, end.stderr
    has_spoken = bool(turn.text or turn.calls)
    # A program that has spoken may itself end with these codes.
    if completion and completion.exit_code in NOT_STARTED and not has_spoken:
        return not_installed(agent, completion.error or first_lines(stderr))
    reported = turn.failure or Failed("")
    meaning = ErrorMeaning(reported.outage, reported.obstacle)
    # What the agent says in typed form is more precise than its exit code.
    if meaning.is_unknown:
        meaning = EXIT_MEANINGS.get(end.meaning, meaning)
    printed = last_lines(stderr) or last_lines(turn.noise)
    if completion is None or turn.failure is not None or not meaning.is_unknown:
        message = reported.message or printed
        return failed(agent, message, end.words, stderr, meaning)
    unreported = _unreported_failure(agent, turn, completion, printed)
    if unreported is not None:
        return failed(agent, unreported, end.words, stderr)
    # Some agents print a refused key as their answer, and end with exit 0.
    is_idle = not turn.calls and not turn.tokens
    is_short = len(turn.text) <= SHORT_ANSWER
    if is_idle and is_short and denied(agent, turn.text + stderr):
        return failed(agent, turn.text, end.words, stderr)
    return None


def _unreported_failure(
    agent: ExternalAgent, turn: CommandTurn, completion: Completion, printed: str
) -> str | None:
    """Return the message of a failure that the agent did not report; None if it worked.

    `printed` is the end of its stderr, or of the output that was not understood.
    """
    code = completion.exit_code
    # What the agent said last is missing.
    if code is None and completion.error.startswith("output limit"):
        return f"it was cut: {completion.error}"
    # With an answer, a wrong exit code only interrupts the turn.
    if code != 0 and not turn.text:
        return printed
    # An agent that prints JSON reports at least a message or its tokens.
    if agent.preset.stream != TEXT and not turn.worked:
        return printed or "its output could not be parsed"
    return None


def interruption_of(
    turn: CommandTurn, end: ProcessEnd, failure: AgentError | None, reports_end: bool
) -> str:
    """Return why a turn ended without success, in a few words; empty if it is finished.

    `reports_end`: the output of a finished turn says that the turn is over.
    """
    if end.meaning == "turns":
        return f"the agent reached its limit of turns ({end.words})"
    if turn.failure is not None:
        return turn.failure.ending or one_line(turn.failure.message, LONGEST_ENDING)
    if end.completion is not None and end.completion.exit_code != 0:
        return end.words
    if failure is not None:
        return one_line(failure.message, LONGEST_ENDING)
    if reports_end and not turn.has_ended:
        return NO_END
    return ""
