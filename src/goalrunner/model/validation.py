"""What a validator says. Owns the result of a check; runs none."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.observation import ArtifactRef

FEEDBACK_TAIL = 4_000
"""Characters of a validator's output that go back to the agent; the last ones, where test runners put their summary."""

TEST_IDS = 20_000
"""Tests of one run that a result names at most."""
_TAIL_OF_NPM = re.compile(r"npm (?:error|ERR!)(?: \w*| (?:\w+ )?(?:A complete log|This is related to npm|/).*)?")
"""Last lines of npm that say nothing of the cause."""
_BARE = re.compile(r"exit \d+(?:, expected \d+)?")
_SHOWN = 160
"""Characters of the last line of an output that stand beside the exit code."""


class ValidationOutcome(Frozen):
    """What a Python validator may return: passed or not, and what to tell the agent. (Source: Strands' GoalLoop.)"""

    passed: bool = Field(strict=True)
    feedback: str | None = Field(default=None, description="what is wrong, in words the agent can act on")


class RunnerCount(Frozen):
    """One summary of a test runner in an output."""

    runner: str
    ran: int = Field(ge=0, description="tests that passed or failed; for go test: packages")
    skipped: int = Field(default=0, ge=0, description="tests that were skipped, pending, todo or expected to fail")
    failed: bool = Field(default=False, description="whether it reports failures")
    named: bool = Field(default=False, description="whether the ids of these tests are known")
    certain: bool = Field(default=True, description="whether it cannot be a part of what a failing test printed")


class SuiteRecord(Frozen):
    """What the output of a validator tells about its tests, for the comparison with the baseline."""

    counts: tuple[RunnerCount, ...] = Field(default=(), description="the summaries, in the order of the output")
    ended_early: str = Field(default="", description="test programs that started and printed no result")
    filters: tuple[str, ...] = Field(default=(), description="options of the validator that select tests: -k")
    varying: bool = Field(default=False, description="the selection depends on what changed: --testmon")
    whole: bool = Field(default=True, description="whether the output was read from its beginning")
    quiet: bool = Field(
        default=False, description="the summary may be missing in a green run: `pytest >log || cat log`"
    )


class ValidatorResult(Frozen):
    """One run of one validator, as the runner saw it."""

    name: str = Field(min_length=1)
    passed: bool = Field(strict=True)
    feedback: str = Field(
        default="", description=f"output tail of {FEEDBACK_TAIL} characters, or the callable's feedback"
    )
    reason: Literal["passed", "red", "timeout", "crashed", "not_found", "invalid_result", "flaky"] = "red"
    command: str = Field(default="", description="the command line, or module:function")
    exit_code: int | None = Field(default=None, description="None for callables, and for a command that a signal ended")
    duration: float = Field(default=0.0, ge=0, description="seconds")
    summary: str = Field(default="", description='one line for people: "43 passed", "exit 1", "timed out after 5 s"')
    hidden: bool = Field(default=False, description="it runs at the proof alone and is never shown to the agent")
    cannot_run: bool = Field(
        default=False,
        description="its own command line cannot work on this machine; what the workspace lacks is only red",
    )
    steady: bool = Field(
        default=False,
        description="equal content must give an equal colour: it is told of nothing but the workspace, and has no retries",
    )
    tests_run: int | None = Field(
        default=None, ge=0, description="tests that ran, skipped ones not counted; None: no report tells"
    )
    tests_failed: int | None = Field(
        default=None, ge=0, description="tests that failed or broke; None: no report tells"
    )
    test_ids: tuple[str, ...] = Field(
        default=(),
        description=f"tests that passed or failed, file::class::name, sorted, the first {TEST_IDS:,}; "
        "a file alone where it could not be collected",
    )
    suite: SuiteRecord = SuiteRecord()
    output: ArtifactRef | None = None
    observation: str = Field(default="", description='the id under which the judge sees it, "o12"')

    @property
    def remark(self) -> str:
        """What people are told in one line: the summary; beside a bare exit code the last thing that it printed."""
        said = self.summary or self.reason.replace("_", " ")
        if self.passed or not _BARE.fullmatch(said):
            return said
        lines = [" ".join(line.split()) for line in self.feedback.splitlines()]
        told = [line for line in lines if any(map(str.isalnum, line)) and not _TAIL_OF_NPM.fullmatch(line)]
        last = told[-1] if told else ""
        return f"{said}: {last if len(last) <= _SHOWN else last[: _SHOWN - 1] + '…'}" if last else said
