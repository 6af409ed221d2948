"""Protocols of validators, check environment, judge and watched workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from goalrunner.core.agent_ports import Conversation, Recorder
from goalrunner.core.base import Snapshot
from goalrunner.core.events import ChangedChecks, Content
from goalrunner.core.observation import Trail
from goalrunner.core.verdict import GoalVerdict, ValidatorResult


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


class Validator(Protocol):
    """A check. An error inside of it becomes a red result with its reason."""

    @property
    def name(self) -> str: ...

    @property
    def command(self) -> str:
        """The command line or callable, for people."""

    @property
    def serial(self) -> bool:
        """Whether it must not run in parallel with others."""

    @property
    def hidden(self) -> bool:
        """Whether it runs only once the others are green; the agent never sees its name, command or output."""

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Run the check; gives the result and the file with its whole output, where there is one."""


@dataclass(frozen=True)
class AuditRequest:
    """Everything that a judge receives, without the agent's system prompt."""

    objective: str
    success_criteria: tuple[str, ...]
    """The criteria of the goal, or those that the judge derived at its first audit."""
    constraints: tuple[str, ...]
    deliverable: Literal["workspace", "response"]
    round: int
    trail: Trail
    minimum_score: float = 0.0
    require: Literal["any", "runner"] = "any"
    """With "runner", reported observations are no evidence."""
    stale: Mapping[str, str] = field(default_factory=dict)
    """By observation id: why it no longer counts ("src/a.py changed after o12"). What is not in it is fresh."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the start of the run, for the judge's list of changed files."""
    left: tuple[str, ...] = ()
    """Names of processes that the agent left running at the end of its last turn, and that were ended."""


@dataclass(frozen=True)
class Audit:
    """A verdict after the runner's own check of its citations."""

    verdict: GoalVerdict
    citations_checked: int = 0
    refusals: tuple[str, ...] = ()
    stale_only: bool = False
    """Whether only outdated evidence keeps it from being complete."""


@dataclass(frozen=True)
class Confirmation:
    """A second opinion on the claim that a goal is blocked."""

    confirmed: bool
    """Also False if the opinion could not be parsed: in doubt the run goes on."""
    reason: str


class Judge(Protocol):
    """Audits a run; each call is fresh, without memory."""

    async def audit(self, request: AuditRequest, recorder: Recorder) -> Audit:
        """Audit once. Answers that cannot be parsed give a fallback verdict. Raise ModelError if the model cannot be reached."""

    async def confirm(self, request: AuditRequest, claim: str, recorder: Recorder) -> Confirmation:
        """Give a second opinion, without any verdict, on the claim that the goal is blocked. Raise ModelError."""


class Workspace(Protocol):
    """The snapshots of the folder in which the agent works."""

    async def snapshot(self) -> Snapshot:
        """Take one now. Raises WorkspaceError when the folder is gone or cannot be read at all."""

    async def differences(self, snapshots: Sequence[Snapshot]) -> Sequence[Mapping[str, tuple[str, str]]]:
        """Compare each of these with the next one; return by path what identifies its content before and after.

        It is empty where the path does not exist. Ignored files, caches and the goal's `outputs` are left out.
        """

    async def diff(self, old: Snapshot, new: Snapshot) -> str:
        """Return a unified patch of what differs."""


@dataclass(frozen=True)
class CheckRun:
    """The results of the validators in the check environment."""

    results: tuple[tuple[ValidatorResult, Path | None], ...] = ()
    """Those that are not hidden, in the order of the goal; then the hidden ones, if the others are green."""
    refusal: str = ""
    """Why nothing that ran would count, in words for the agent; empty otherwise."""
    hint: str = ""
    """What a person can do about the refusal."""
    protected_changes: tuple[str, ...] = ()
    """Protected paths that differ from the start, one line each; validators saw their original content."""
    differing: tuple[str, ...] = ()
    """These paths alone."""
    labels: tuple[str, ...] = ()
    changed_checks: ChangedChecks | None = None
    """Set if the results are red, and green with the agent's versions of the checks."""
    diff: str = ""
    """What the agent changed in these checks, as a patch."""
    leaked: tuple[str, ...] = ()
    """Ignored files that changed in the workspace meanwhile."""
    content: Content | None = None


class Checker(Protocol):
    """Runs the validators in the check environment."""

    def recall(self, contents: Sequence[Content]) -> None:
        """Take over the results that an earlier process recorded, oldest first."""

    async def remember(self, base: Snapshot) -> None:
        """Record what no snapshot holds about the start, before the agent works. Raises WorkspaceError."""

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: frozenset[str] = frozenset(),
    ) -> CheckRun:
        """Run every validator on `now`; `base` is the start. At iteration 0 the results become those of the start.

        `approved` are keys of changed checks that a person has accepted. Raises GoalError if the environment fails.
        """

    async def compare(self, now: Snapshot, red: Sequence[ValidatorResult], context: ValidationContext) -> str:
        """Return why the environment itself makes these baseline results red, with the line that helps; else empty."""
