"""Protocols of what checks a run: validators, check environment, judge, reviewer.

The Protocol of child processes, which all of them start, is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, Required, TypedDict, Unpack

from goalrunner.core.agent_ports import Conversation, Recorder
from goalrunner.core.events import (
    ChangedChecks,
    ChecksReviewed,
    ConfirmationRecorded,
    Content,
    Critique,
    ValidatorsFinished,
    VerdictRecorded,
)
from goalrunner.core.observation import ArtifactRef, Snapshot, Trail
from goalrunner.core.verdict import UnreadAnswer, ValidatorResult


@dataclass(frozen=True)
class ValidationContext:
    """The arguments of a validator."""

    run_id: str
    iteration: int
    objective: str
    workspace: Path
    response: str
    """Text of the round's last message."""
    conversation: Conversation
    scratch: Callable[[str], Path]
    """A fresh path in the run's own folder; the argument is a suffix."""
    criteria: tuple[str, ...] = ()
    """The goal's criteria and constraints."""


class Validator(Protocol):
    """A check. An error inside of it becomes a failed result with the reason."""

    name: str
    command: str
    """The command line or callable, for people."""
    serial: bool
    """Whether it must not run in parallel with others."""
    hidden: bool
    """Whether it runs only once the others are green; the agent never sees its name,
    command or output."""

    async def validate(
        self, context: ValidationContext
    ) -> tuple[ValidatorResult, Path | None]:
        """Run the check.

        Return the result and the file with its whole output, if any.
        """


@dataclass(frozen=True)
class AuditRequest:
    """Everything that a judge receives, without the agent's system prompt."""

    objective: str
    success_criteria: tuple[str, ...]
    """Of the goal, or those that the judge derived at its first audit."""
    constraints: tuple[str, ...]
    deliverable: Literal["workspace", "response"]
    round: int
    trail: Trail
    minimum_score: float = 0.0
    require: Literal["any", "runner"] = "any"
    stale: Mapping[str, str] = field(default_factory=dict)
    """By observation id: why it no longer counts ("src/a.py changed after o12"). Other
    observations are fresh."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the start of the run."""
    left: tuple[str, ...] = ()
    """Names of processes that the agent left running at the end of its last turn."""
    unread: UnreadAnswer | None = None
    """The answer to the audit before this one, of the same evidence, if it could not be
    read."""


@dataclass(frozen=True)
class ChecksReviewRequest:
    """What a judge receives for a review of changed checks.

    That is the goal and the changes, nothing that the agent said.
    """

    objective: str
    success_criteria: tuple[str, ...]
    """Of the goal, without those that a judge derived."""
    constraints: tuple[str, ...]
    round: int
    changed: ChangedChecks
    diff: str
    """The whole diff of the changed checks."""
    refused: frozenset[str] = frozenset()
    """Hashes of hunks that were refused before."""
    reviews: int = 0
    """How often the judge was asked for a review before."""


# It returns events, so that what the log holds and what the run uses are the same.
class Judge(Protocol):
    """Audits a run; each call is fresh, without memory.

    The run records the events that it returns.
    """

    async def audit(self, request: AuditRequest, recorder: Recorder) -> VerdictRecorded:
        """Audit once.

        Answers that cannot be parsed give a fallback verdict. Raise ModelError if the
        model cannot be reached.
        """

    async def confirm(
        self, request: AuditRequest, claim: str, recorder: Recorder
    ) -> ConfirmationRecorded:
        """Give a second opinion on the claim that the goal is blocked.

        It is given without any verdict. Raise ModelError.

        An opinion that cannot be parsed does not confirm the claim.
        """

    async def review(
        self, request: ChecksReviewRequest, recorder: Recorder
    ) -> ChecksReviewed:
        """Review changed checks.

        An answer that cannot be parsed accepts nothing. Raise ModelError.
        """


class Reviewer(Protocol):
    """Gives the critique of a round; one without a score if it fails."""

    async def review(
        self, context: ValidationContext, evidence: AuditRequest, recorder: Recorder
    ) -> Critique: ...


@dataclass(frozen=True)
class CheckRun:
    """A run of the validators in the check environment.

    It is the event, and the outputs that the run stores and numbers. The results of the
    event are those that are not hidden, in the order of the goal; then the hidden ones,
    if the others are green. Its `leaked` are ignored files that changed in the
    workspace meanwhile.
    """

    finished: ValidatorsFinished
    outputs: tuple[Path | None, ...] = ()
    """The file with the output of each result, if there is one."""
    diff: str = ""
    """The agent's changes of the checks, as a patch, if only its versions are green."""
    changed: tuple[str, ...] = ()
    """The changed paths that are not source: what labels are about."""
    age: float | None = None
    """Seconds since an earlier command ran the validators; None: they ran now."""


class Checker(Protocol):
    """Runs the validators in the check environment."""

    def recall(self, contents: Sequence[Content]) -> None:
        """Take over the results that an earlier process recorded, oldest first."""

    async def remember(self, base: Snapshot) -> None:
        """Record what no snapshot holds about the start. Raises WorkspaceError."""

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: Mapping[str, str] = MappingProxyType({}),
    ) -> CheckRun:
        """Run every validator on `now`; `base` is the start.

        `approved` are keys of changed checks that were accepted, with the reviewer for
        `ChangedChecks.label`. Raises GoalError if the environment fails.
        """

    async def added_test_fails_on_start(
        self, base: Snapshot, now: Snapshot, context: ValidationContext
    ) -> bool | None:
        """Run the checks of `now` on the source of the start.

        Return whether a test that was added fails on it. None if no test was added.
        """

    def keep_baseline(
        self,
        now: Snapshot,
        outputs: Mapping[str, ArtifactRef],
        read: Callable[[ArtifactRef], bytes],
    ) -> None:
        """Keep the baseline's results on `now` for later commands, if that is safe.

        `outputs` are those of the validators, by name; `read` returns their content.
        """

    def protected(self) -> tuple[str, ...]:
        """Return the protected files in short.

        These are names, and patterns with the number of files. Empty before the
        baseline.
        """

    def warnings(self, results: Sequence[ValidatorResult]) -> tuple[str, ...]:
        """Return what a person should know before the agent works.

        It is about protected files, and tests that do not exist.
        """

    async def environment_fault(
        self, red: Sequence[ValidatorResult], context: ValidationContext
    ) -> str:
        """Return why these results of the baseline fail only in the environment.

        The text has the line to type. It is empty if they fail in the workspace too.
        """


HIDDEN = "not found in the sandbox"
"""The error about a program that exists outside of the sandbox."""


@dataclass(frozen=True)
class Completion:
    """A child process that has ended. `exit_code` is None if a signal ended it."""

    exit_code: int | None
    duration: float
    timed_out: bool
    output: Path
    error: str = ""
    """Why it could not be started or was ended; empty if it ended by itself."""
    survivors: tuple[str, ...] = ()
    """Names of processes that it left."""


class LaunchOptions(TypedDict, total=False):
    """The arguments of `Launcher.launch` beside the command line."""

    cwd: Required[Path]
    env: Required[Mapping[str, str]]
    """The whole environment."""
    output: Required[Path]
    """The file that stdout and stderr go to as they come."""
    timeout: float | None
    """Seconds."""
    stdin: bytes | None
    errors: Path | None
    """A separate file for stderr; None: stderr goes to `output`."""
    shared: Sequence[Path]
    """Files of the runner that are visible in a sandbox."""
    on_start: Callable[[Callable[[], float]], None] | None
    """Called when it has started, with a function that returns the processor time of
    its processes in seconds."""


class Launcher(Protocol):
    """Starts child processes, and ends their descendants with them."""

    async def launch(
        self, argv: Sequence[str], **options: Unpack[LaunchOptions]
    ) -> Completion:
        """Run `argv` to its end, its deadline or cancellation.

        Then every process that it started is ended. A missing program gives
        `exit_code=127` and an `error`.
        """
