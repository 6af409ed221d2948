"""A small goal for the real model: a word that only the validator tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.events import Event, RunEnded, ToolCalled, ValidatorsFinished
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.outcome import GoalOutcome, GoalStatus

KEY_VARIABLE = "LOCAL_MODEL_KEY"
MODEL = "openai/smollm2"
OBJECTIVE = "Write the word that the check wants into the file hello.txt."
"""It does not say which word: the first round must fail, and only the feedback can make a later one succeed."""
WANTED = "banana"
FEEDBACK = f"The file hello.txt must say {WANTED}."
MAX_ITERATIONS = 10

SEEDS = (2, 3, 4, 5, 6)
"""Tried in this order. Arithmetic differs from processor to processor, so no single one is relied on."""

_CHECK = f"""\
test "$(cat hello.txt 2>/dev/null)" = {WANTED} && exit 0
echo "{FEEDBACK}"
exit 1
"""


@dataclass(frozen=True)
class Workplace:
    """Where the goal is worked on. `programs` is the whole PATH of the agent's commands: a shell and no program."""

    root: Path
    programs: Path
    api_base: str

    def workspace(self, name: str) -> Path:
        """A new, empty folder."""
        folder = self.root / name
        folder.mkdir()
        return folder

    def validator(self) -> ValidatorSpec:
        """The check. Its file lies outside the workspaces: a model that writes at random must not empty it."""
        script = self.root / "check.sh"
        script.write_text(_CHECK)
        return ValidatorSpec(
            name="check", run='sh "$CHECK"', env={"CHECK": str(script)}
        )


def red_then_green(outcome: GoalOutcome, events: list[Event]) -> bool:
    """Whether a run is the wanted one; False where it ended at its cap, as it may with a model so small.

    Whatever the model did, the run must be in order: the validator's results and the outcome say the same, round by
    round, and no other judge was asked.
    """
    checks = [event for event in events if isinstance(event, ValidatorsFinished)]
    passed = [all(result.passed for result in check.results) for check in checks]
    assert [check.round for check in checks] == list(range(1, outcome.iterations + 1))
    assert [attempt.passed for attempt in outcome.attempts] == passed
    assert not any(
        event.type in ("audit_started", "audit_failed", "verdict_recorded")
        for event in events
    )
    assert outcome.verdict is not None
    assert outcome.verdict.source == "validators"
    assert set(outcome.usage) == {"agent"}
    assert outcome.usage["agent"].calls == outcome.iterations
    assert {event.tool for event in events if isinstance(event, ToolCalled)} == {
        "shell"
    }
    ending = events[-1]
    assert isinstance(ending, RunEnded)
    if outcome.status is GoalStatus.CAPPED:
        assert (passed, ending.status) == ([False] * MAX_ITERATIONS, "capped")
        return False
    assert outcome.status is GoalStatus.COMPLETE, outcome.message
    assert ending.status == "complete"
    assert passed == [False] * (len(passed) - 1) + [True]
    return len(passed) > 1


def told(outcome: GoalOutcome, events: list[Event]) -> str:
    """A line on a run that did not go as wanted: its end, and what the model did."""
    commands = [event.summary for event in events if isinstance(event, ToolCalled)]
    return f"{outcome.status} after {outcome.iterations} rounds: {commands}"
