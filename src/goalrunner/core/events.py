"""The typed events of a run's log, with their schema version.

Each event has its own tag (`type`). Large content lies in transcript and artifacts;
events hold references. The tags goal_created, step_started, tool_result_recorded,
approval_recorded, question_opened, question_answered and run_ended (blocked, completed,
cancelled) are those of the Goals and State pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from goalrunner.core.agent_preset import BudgetName

# The events of the critic stand beside its rules, and are read from here as all others.
from goalrunner.core.critic import CriticRule as CriticRule
from goalrunner.core.critic import Critique as Critique
from goalrunner.core.critic import CritiqueFinished as CritiqueFinished
from goalrunner.core.critic import CritiqueStarted as CritiqueStarted
from goalrunner.core.critic import RefinementStarted as RefinementStarted
from goalrunner.core.errors import some
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import ApprovalKind, Approvals, approvals_in_log
from goalrunner.core.labels import Label
from goalrunner.core.observation import (
    ArtifactRef,
    DiffStat,
    Observation,
    Snapshot,
    TranscriptRef,
)
from goalrunner.core.outcome import (
    AgentSession,
    GoalStatus,
    RecordStatus,
    StopReason,
    Usage,
)
from goalrunner.core.verdict import GoalVerdict, ValidatorResult

RiskClass = Literal["low", "medium", "high", "critical"]
Account = Literal["agent", "judge", "critic"]
PromptKind = Literal["first", "retry", "neutral", "stalled", "resumed", "refine"]
Standing = Literal["green", "red", "cannot_run", "differs"]
Decision = Literal["approved", "denied", "expired"]
MemoryKind = Literal["event", "fact", "preference", "policy_reference"]
"""What may be promoted. (Source: the promotion rules of Goals and State.)"""


# The goal and its rules, as the events hold them.


class GoalRecord(Frozen):
    """The goal in events and state. (Source: AgentGoal of Goals and State.)"""

    goal_id: str
    run_id: str
    parent: str = ""
    """Id of the run that it is a part of."""
    owner: str = ""
    description: str
    success_criteria: tuple[str, ...] = ()
    derived_criteria: tuple[str, ...] = ()
    """By audits, if it has no criteria of its own."""
    constraints: tuple[str, ...] = ()
    risk_class: RiskClass = "low"
    status: RecordStatus = "active"
    created_at: str
    updated_at: str


class RunRules(Frozen):
    """What the decisions need to know of the goal: limits, validators, judge."""

    max_iterations: int | None = None
    """None: no limit."""
    timeout: float | None = None
    """Seconds of active time; None: no limit."""
    tokens: int | None = None
    cost_usd: float | None = None
    unenforced: tuple[BudgetName, ...] = ()
    """Budgets that count only what is known."""
    validators: tuple[str, ...] = ()
    """Names of those that are not hidden."""
    hidden: tuple[str, ...] = ()
    """Names of the hidden ones."""
    has_judge: bool = False
    critic: CriticRule | None = None
    minimum_score: float = 0.0
    require: Literal["any", "runner"] = "any"
    """Whether reported observations count as evidence."""
    takes_baseline: bool = False
    """Whether the validators run once before round 1."""
    wants_red: bool = False
    """Whether a green baseline is refused."""
    needs_round: bool = False
    """Whether the agent works after a green baseline in any case."""
    checks_response: bool = False
    """Whether a callable checks the response."""
    protects: tuple[str, ...] = ()
    """The goal's patterns of protected paths."""
    editable: tuple[str, ...] = ()
    """The goal's patterns of paths that may change."""
    stall_rounds: int | None = None
    """Equal rounds in a row that count as a stall."""
    deliverable: Literal["workspace", "response"] = "workspace"
    wait: float | None = 0.0
    """Seconds that the run may wait in all for limits to reset; None: no limit."""
    agents: tuple[str, ...] = ()
    """Names of the agents of a run with several: the next one takes over where one
    cannot go on."""
    self_judging: tuple[str, ...] = ()
    """Those of them that are the judge as well."""
    approvals: Annotated[Approvals, BeforeValidator(approvals_in_log)] = Field(
        default_factory=Approvals
    )
    """What waits for a person."""

    @property
    def is_scored(self) -> bool:
        """Whether each round is scored before it is checked."""
        return self.critic is not None

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits by name; None: no limit."""
        return {
            "max_iterations": self.max_iterations,
            "timeout": self.timeout,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
        }


# The run as a whole.


class GoalCreated(Frozen):
    """The first event of every log."""

    type: Literal["goal_created"] = "goal_created"
    goal: GoalRecord
    plan: RunRules


class ProgramRecord(Frozen):
    """A program that answers as a model, at the start of a run."""

    path: str
    """Its real path."""
    files: dict[str, str] = Field(default={})
    """SHA-256 of its settings, memory, hooks and plugins, by path."""


class RunStarted(Frozen):
    """The run started in a process."""

    type: Literal["run_started"] = "run_started"
    workspace: str
    models: dict[str, str] = Field(default={})
    """By account; the judge "agent" is already resolved."""
    isolated: bool = False
    """Whether the agent works in a copy of the workspace."""
    clone: str = ""
    """The path of the copy; empty: it has the path of the workspace."""
    agent_command: str = ""
    """An external agent and its command, for people."""
    version: str
    """Of goalrunner."""
    labels: tuple[str, ...] = ()
    """What weakens the proof: "self-judged", ..."""
    check_environment: str = ""
    """The kind of check environment; empty: none is needed."""
    checks: str = ""
    """For people: kind of check environment, and what is protected."""
    notes: tuple[str, ...] = ()
    """Warnings before the first round."""
    deadline_at: str | None = None
    """ISO 8601, UTC; without waiting for a person."""
    handed: tuple[str, ...] = ()
    """Parts that only the calling program can provide."""
    goal_file: str = ""
    """Where the goal was read from; always protected."""
    goal_sha256: str = ""
    """Of the frozen goal.toml: a resumed run takes no other."""
    continues: str = ""
    """Id of the run whose conversation goes on in this one."""
    sandbox: str = "none"
    """The sandbox of the agent's commands and the validators."""
    programs: dict[Account, ProgramRecord] = Field(default={})
    """Programs of agents that are judge or critic."""


class NoteAdded(Frozen):
    """A warning about the run that came up after its start."""

    type: Literal["note_added"] = "note_added"
    note: str


class StartKept(Frozen):
    """Files about the start were written into the run's folder.

    A resumed run uses these files.
    """

    type: Literal["start_kept"] = "start_kept"
    files: dict[str, str]
    """Path below the folder's `start` -> SHA-256 of its content."""


class SnapshotTaken(Frozen):
    """A snapshot of the workspace was taken."""

    type: Literal["snapshot_taken"] = "snapshot_taken"
    snapshot: Snapshot
    moment: Literal[
        "start", "tool", "round", "validators", "resumed", "approval", "complete"
    ]


class SecretsReplaced(Frozen):
    """How many secrets were replaced since the last such event.

    All that was written counts.
    """

    type: Literal["secrets_replaced"] = "secrets_replaced"
    counts: dict[str, int]
    """By kind."""


class RunResumed(Frozen):
    """Another process resumed the run."""

    type: Literal["run_resumed"] = "run_resumed"
    plan: RunRules
    """The limits as they are from now on."""
    version: str
    """Of goalrunner."""
    note: str = ""
    """A message of the user to the agent."""
    snapshot: Snapshot | None = None
    """The workspace now."""
    changed: tuple[str, ...] = ()
    """Paths that changed while the run was interrupted."""
    cut: tuple[str, ...] = ()
    """Tool calls that had begun and have no result."""
    abandoned: tuple[str, ...] = ()
    """Calls of a round that was lost with its machine, for people: "shell: make". It is
    not known what they changed outside of the workspace."""
    in_flight: dict[str, Usage] = Field(default={})
    """By account: estimates for interrupted model calls."""
    deadline_at: str | None = None
    """ISO 8601, UTC."""
    notes: tuple[str, ...] = ()
    """Warnings about how the run goes on."""
    sandbox: str = "none"
    """The sandbox from now on."""


class RunEnded(Frozen):
    """The run ends; `decide` returns it as the last step."""

    type: Literal["run_ended"] = "run_ended"
    stop_reason: StopReason
    message: str = ""
    '''Why it ended; for a complete run, the proof: "verdict of round 3"'''
    signal: int | None = None
    """Number of the signal that interrupted the run."""

    @property
    def status(self) -> GoalStatus:
        return self.stop_reason.status


class LimitReached(Frozen):
    """A limit ends the run. What the agent has done so far is checked once before."""

    type: Literal["limit_reached"] = "limit_reached"
    end: RunEnded
    """How the run ends if that check does not prove the goal."""
    resets_at: str = ""
    """When the limit resets (ISO 8601), if it is one of the agent, and that is
    known."""


class MemoryPromoted(Frozen):
    """A fact of this run was kept for later runs."""

    type: Literal["memory_promoted"] = "memory_promoted"
    memory_id: str
    kind: MemoryKind
    source_ref: str
    """The observation or event that it rests on."""


# The agent's turn.


class StepStarted(Frozen):
    """A step of the runner starts."""

    type: Literal["step_started"] = "step_started"
    step_id: str
    '''"validate-2"'''
    description: str


class RoundStarted(Frozen):
    """A prompt is about to go to the agent."""

    type: Literal["round_started"] = "round_started"
    round: int = Field(ge=1)
    prompt: PromptKind


class MessageRecorded(Frozen):
    """A chat message was written to the transcript."""

    type: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    text: TranscriptRef
    has_text: bool = True
    """False for an assistant message that holds tool calls alone."""


class UserSaid(Frozen):
    """A person wrote to the agent: not a prompt of the runner."""

    type: Literal["user_said"] = "user_said"
    text: str
    """The text; both ends of a long one."""


class PlanProposed(Frozen):
    """The agent's plan. A step counts as completed only with evidence."""

    type: Literal["plan_proposed"] = "plan_proposed"
    current: str = ""
    pending: tuple[str, ...] = ()
    completed: dict[str, str] = Field(default={})
    """Step -> id of the observation that shows it."""
    refused: tuple[str, ...] = ()
    """Steps claimed as completed without existing evidence."""
    stop_reason: str = ""
    """Why the agent says that it may stop."""


class ToolCalled(Frozen):
    """The agent's tool call is about to run."""

    type: Literal["tool_called"] = "tool_called"
    tool_call_id: str
    tool: str
    summary: str
    """One line for people: the command, or the path."""


class ToolResultRecorded(Frozen):
    """A tool call ended."""

    type: Literal["tool_result_recorded"] = "tool_result_recorded"
    tool_call_id: str
    evidence_ref: str
    """The observation's id."""
    observation: Observation
    duration: float = Field(default=0.0, ge=0)
    """Seconds."""
    summary: str = ""
    '''One short line for people: "exit 1", "+4 −1"'''


class BlockReported(Frozen):
    """The agent claims that it cannot continue. This alone does not end the run."""

    type: Literal["block_reported"] = "block_reported"
    reason: str


class UsageRecorded(Frozen):
    """A model call was answered, or given up after retries."""

    type: Literal["usage_recorded"] = "usage_recorded"
    account: Account
    usage: Usage


class AgentRan(Frozen):
    """A process of an external agent has ended.

    Its output is no evidence; after an interruption, both ends are kept.
    """

    type: Literal["agent_ran"] = "agent_ran"
    agent: str
    """Its name."""
    ending: str
    """How it ended: "exit 0", "killed by SIGKILL", "cut"; not evidence."""
    duration: float = Field(default=0.0, ge=0)
    """Seconds."""
    output: ArtifactRef | None = None
    """Stdout; None where it was empty."""
    errors: ArtifactRef | None = None
    """Stderr; None where it was empty."""
    note: str = ""
    """A note for people."""


class SessionOpened(Frozen):
    """An external agent's own session; written again when its totals have grown."""

    type: Literal["session_opened"] = "session_opened"
    session: AgentSession


class RoundFinished(Frozen):
    """The agent's turn is over, successful or not."""

    type: Literal["round_finished"] = "round_finished"
    round: int = Field(ge=1)
    reason: Literal["answered", "max_steps", "interrupted"] = "answered"
    ending: str = ""
    """Why an interrupted turn ended, for people and the agent: "no output for 15
    min"."""
    steps: int = Field(default=0, ge=0)
    """Model calls."""
    response: Observation | None = None
    """The response, where it is the deliverable."""
    said: str = ""
    """SHA-256 of the response, where a callable checks it."""
    snapshot: Snapshot | None = None
    """The workspace at the end of the round."""
    idle: bool = False
    """Whether the workspace is as it was at the start of the round."""
    left: tuple[str, ...] = ()
    """Names of processes that the agent left."""
    changes: DiffStat | None = None
    """Since the start of the round; None: not known."""
    total: DiffStat | None = None
    """Since the start of the run; None: not known."""
    gone_or_reverted: tuple[str, ...] = ()
    """Paths whose content at the start of the run was not committed, and that are gone
    or have the committed content now."""
    touched: dict[str, int] | None = None
    """By path: when it last changed in this round, in nanoseconds since 1970. A folder
    ends with a slash; None: not known."""


# Failures that pass, waits for that, and agents that take over.


class FailureFacts(Frozen):
    """The facts about a failure that event and state have in common."""

    account: Account
    kind: Literal["limit", "overload", "permanent"]
    """A limit resets, an overload passes; "permanent": only another agent can go on."""
    reason: str
    """For people, in a few words: "usage limit, five hours", "529 overloaded"."""
    resets_at: str = ""
    """When a limit ends (ISO 8601); empty: not known."""
    was_retried: bool = False
    """Whether the call was repeated already."""
    stop_reason: StopReason
    """How the run ends if it cannot wait."""
    message: str
    """The error and its hint, for people."""


class WorkFailed(FailureFacts):
    """The agent, or a model of the run, could not go on."""

    type: Literal["work_failed"] = "work_failed"


class WaitFacts(Frozen):
    """The facts about a wait that event and state have in common."""

    account: Account
    """Whose work goes on afterwards."""
    kind: Literal["limit", "retry"]
    """"limit": the time does not count as active time. "retry": a short pause, which
    counts."""
    reason: str
    until: str
    """ISO 8601, UTC."""
    number: int = Field(default=1, ge=1)
    """How often this work failed in a row."""


class WaitStarted(WaitFacts):
    """The run waits. No process of the agent runs."""

    type: Literal["wait_started"] = "wait_started"


class WaitEnded(Frozen):
    """The wait is over, and the work goes on."""

    type: Literal["wait_ended"] = "wait_ended"
    deadline_at: str | None = None
    """When the time limit is reached from now on (ISO 8601, UTC)."""


class AgentSwitched(Frozen):
    """Another agent of the goal takes the round over."""

    type: Literal["agent_switched"] = "agent_switched"
    round: int = Field(ge=1)
    index: int = Field(ge=0)
    """Its place among the agents of the goal."""
    agent: str
    """Its name."""
    before: str
    """The name of the agent that cannot go on."""
    reason: str
    """Why it cannot."""


# Validators and their results.


class Colour(Frozen):
    """Whether a validator passed in one run of it."""

    name: str
    passed: bool


class Content(Frozen):
    """The content that validators ran on, and their results.

    With it, a resumed run still detects a flaky validator.
    """

    key: str
    """Identifies the content: a snapshot, and a hash of the ignored files."""
    when: str
    """For people: in which round."""
    said: tuple[Colour, ...] = ()


class ChangedTest(Frozen):
    """A test that ends otherwise with the agent's checks than with the original ones.

    An ending is "absent" where the test does not exist.
    """

    test: str
    change: Literal["lost", "skipped", "red", "changed", "added"]
    start: str = ""
    """How it ended at the baseline; empty: unknown."""
    delivered: str = ""
    """How it ended on everything as the agent left it."""
    original: str = ""
    """How it ended with the original checks."""
    on_start: str = ""
    """How the agent's version ended on the original source."""
    moved_to: str = ""
    """The file that has the test now; empty: it has not moved."""

    @property
    def delivered_name(self) -> str:
        """The test in what was delivered."""
        if not self.moved_to:
            return self.test
        return f"{self.moved_to}::{self.test.partition('::')[2]}"

    @property
    def happened(self) -> str:
        """The test, and what happened to it."""
        # An id may contain line breaks: runners put the values of parameters into it.
        test = " ".join(self.test.split())
        if self.moved_to:
            return f"{test} moved to {self.moved_to}"
        return f"{self.change}: {test}"

    @property
    def text(self) -> str:
        """What happened to the test, and how it ended on each side, in one line."""
        sides = {
            "at the start": self.start,
            "as delivered": self.delivered,
            "with the original checks": self.original,
            "as delivered, on the original source": self.on_start,
        }
        endings = [f"{side}: {ending}" for side, ending in sides.items() if ending]
        return f"{self.happened} ({'; '.join(endings)})" if endings else self.happened


REVIEWED = "reviewed by the judge"
"""The reviewer in the label of changes that the judge accepted."""


class ChangedChecks(Frozen):
    """Validators that are green only with the agent's versions of the checks."""

    key: str
    """Hash over the paths and their content: an approval is for exactly this."""
    paths: tuple[str, ...]
    """The files that the agent changed."""
    diff: ArtifactRef | None = None
    """What the agent changed in them."""
    results: tuple[ValidatorResult, ...]
    """The results with the agent's versions."""
    tests: tuple[ChangedTest, ...] = ()
    """The tests that were lost, skipped, changed or added, or that are red with the
    original checks."""
    why: str = ""
    """Why the changes need a review, in one sentence."""
    hint: str = ""
    """The line of the goal file that allows them: `allow = ["Makefile"]`."""

    labels: tuple[str, ...] = ()
    """Labels of green results that the goal lets review; empty: the results are red
    without the changes."""

    @property
    def action(self) -> str:
        """What is to be accepted, in one line."""
        return ", ".join(self.labels) or self.label()

    def label(self, reviewer: str = "") -> str:
        """Return the label of a result that rests on these changes.

        `reviewer` is REVIEWED, or empty for a person.
        """
        names = some(self.paths or [item.test for item in self.tests])
        about = f"{names} ({reviewer})" if reviewer else names
        return Label.CHECKS_CHANGED.about(about)


class BaselineTaken(Frozen):
    """The validators ran once before round 1, in the check environment."""

    type: Literal["baseline_taken"] = "baseline_taken"
    standing: Standing
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = ()
    """Of hidden validators; shown to no model."""
    reason: str = ""
    """Why validators cannot run, or what differs and what to type."""
    written: tuple[str, ...] = ()
    """Files that validators wrote: their changes make no evidence outdated."""
    snapshot: Snapshot | None = None
    """What it ran on, where that is not the start."""
    content: Content | None = None
    """None if no workspace is watched."""
    notes: tuple[str, ...] = ()
    """What a person should know before the agent works."""
    age: float | None = Field(default=None, ge=0)
    """Seconds since an earlier command ran the validators; None: they ran now."""


class ValidatorsFinished(Frozen):
    """The validators ran in the check environment after a round."""

    type: Literal["validators_finished"] = "validators_finished"
    round: int = Field(ge=0)
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = ()
    """Of hidden validators; shown to no model."""
    refusal: str = ""
    """Why the results do not count, for the agent; else empty."""
    hint: str = ""
    """What a person can do about the refusal."""
    leaked: tuple[str, ...] = ()
    """Paths that changed in the workspace while they ran."""
    written: tuple[str, ...] = ()
    """Files that validators wrote: their changes make no evidence outdated."""
    left: tuple[str, ...] = ()
    """Files that validators made in the workspace, in place; they are no work of the
    agent until it changes them."""
    snapshot: Snapshot | None = None
    """The workspace afterwards, if it changed meanwhile."""
    protected_changes: tuple[str, ...] = ()
    """Protected paths that differ, a line each."""
    differing: tuple[str, ...] = ()
    """The paths of `protected_changes`"""
    left_changed: tuple[str, ...] = ()
    """Protected paths that differ in the workspace, whatever the validators saw."""
    labels: tuple[str, ...] = ()
    """What weakens a completion that rests on these results."""
    changed_checks: ChangedChecks | None = None
    """Set if only the agent's versions are green."""
    content: Content | None = None
    """None if no workspace is watched."""


class WorkspaceChanged(Frozen):
    """The workspace has changed since the check; the checks run again."""

    type: Literal["workspace_changed"] = "workspace_changed"
    paths: tuple[str, ...]
    snapshot: Snapshot


# The review of changed checks.


class ChecksReviewStarted(Frozen):
    """The judge is about to review changed checks."""

    type: Literal["checks_review_started"] = "checks_review_started"
    round: int = Field(ge=0)
    key: str
    """Of the ChangedChecks."""


class ReviewedChange(Frozen):
    """One reviewed change: a hunk of changed checks, or one of their tests.

    `quote` has the words of the goal that ask for it.
    """

    path: str
    change: str
    """For people: the header of the hunk, or the test and what happened to it."""
    quote: str = ""
    """Words of the objective or a criterion; the runner found them there."""
    problem: str = ""
    """Why the change is refused; empty: it is accepted."""
    hunk: str = ""
    """Hash of the hunk's path and lines; empty for a test. A refused hunk is not
    reviewed again."""


class ChecksReviewed(Frozen):
    """Changed checks were reviewed by the judge."""

    type: Literal["checks_reviewed"] = "checks_reviewed"
    round: int = Field(ge=0)
    key: str
    """Of the ChangedChecks."""
    decision: Literal["accepted", "refused", "undecided"]
    """undecided: a person decides."""
    changes: tuple[ReviewedChange, ...] = ()
    reason: str = ""
    """Why a person has to decide."""
    asked: bool = True
    """Whether the judge was asked."""

    @property
    def refused_hunks(self) -> frozenset[str]:
        """Hashes of the hunks that are refused; a test has none."""
        refused = [item.hunk for item in self.changes if item.problem]
        return frozenset(filter(None, refused))

    @property
    def feedback(self) -> str:
        """What the agent reads about refused changes.

        It names the files to restore, and what is refused in each.
        """
        by_path: dict[str, list[ReviewedChange]] = {}
        for change in self.changes:
            by_path.setdefault(change.path, []).append(change)
        # The paths are in the order of their first refused change.
        paths = dict.fromkeys(item.path for item in self.changes if item.problem)
        return "\n".join(_refusal_in(path, by_path[path]) for path in paths)


def _refusal_in(path: str, changes: Sequence[ReviewedChange]) -> str:
    """Return what the agent reads about the refused changes in one file."""
    refused = [item for item in changes if item.problem]
    if not any(item.hunk for item in changes):
        what = f"the tests of {path}"
    elif refused == changes:
        what = f"restore {path}"
    else:
        what = f"undo these changes in {path}"
    lines = [f"- {what}: nothing in the goal asks for this change"]
    lines += [f"  {item.change}: {item.problem}" for item in refused]
    return "\n".join(lines)


# Audits and second opinions.


class AuditStarted(Frozen):
    """The judge is about to be asked."""

    type: Literal["audit_started"] = "audit_started"
    round: int = Field(ge=0)


class AuditFailed(Frozen):
    """The judge gave no usable answer. The agent is not informed."""

    type: Literal["audit_failed"] = "audit_failed"
    round: int = Field(ge=0)
    kind: Literal["parse", "transport", "authentication"]
    detail: str
    """Why it cannot be used, in one sentence."""
    answer: str = ""
    """Both ends of an answer that could not be read."""


class VerdictRecorded(Frozen):
    """The judge's verdict, after the runner checked its citations."""

    type: Literal["verdict_recorded"] = "verdict_recorded"
    round: int = Field(ge=0)
    verdict: GoalVerdict
    citations_checked: int = Field(default=0, ge=0)
    stale_only: bool = False
    """Whether only outdated evidence keeps it from being complete."""
    refusals: tuple[str, ...] = ()
    """Why a citation did not count, one sentence each."""
    stale: dict[str, str] = Field(default={})
    """By id of a cited observation: why it no longer counted."""


class ConfirmationRecorded(Frozen):
    """A second, independent opinion on whether the goal is blocked."""

    type: Literal["confirmation_recorded"] = "confirmation_recorded"
    claim: str
    confirmed: bool
    reason: str = ""


# What a person decides.


class QuestionOpened(Frozen):
    """A question that only a person can answer."""

    type: Literal["question_opened"] = "question_opened"
    question: str
    by: Literal["agent", "judge"] = "agent"


class QuestionAnswered(Frozen):
    """A person's answer. It is an observation for agent and judge."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    answer: str = ""
    evidence_ref: str
    """The observation's id."""
    observation: Observation | None = None
    """None where a tool result holds the answer."""
    by: str = ""
    """Who answered: user@host."""
    guarded: bool = True
    """False: a command of the agent could have given the answer."""


class NoteGiven(Frozen):
    """A person's note to the agent, which is part of its next prompt."""

    type: Literal["note_given"] = "note_given"
    note_id: str
    text: str
    by: str = ""
    """Who gave it: user@host."""


class ApprovalRequested(Frozen):
    """An action waits for the approval of a person."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    '''"a1"'''
    kind: ApprovalKind
    action: str
    """The command, the path, or what is to be called complete; for people."""
    rule: str
    """The setting of the goal that requires it."""
    tool_call_id: str = ""
    """Of a tool call that waits."""
    snapshot: str = ""
    """What a completion rests on: a snapshot's id, or the hash of the response."""
    preview: ArtifactRef | None = None
    """The unified diff of what would be written."""
    evidence_refs: tuple[str, ...] = ()
    """Observations that it rests on."""
    expires_at: str | None = None
    """ISO 8601, UTC; after it the approval expires."""


class ApprovalRecorded(Frozen):
    """An approval was decided by a person, or expired."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Decision
    by: str = ""
    """Who decided: user@host; empty for an expired one."""
    reason: str = ""
    guarded: bool = True
    """False: given by a command that the agent could have run as well."""
    evidence_refs: tuple[str, ...] = ()
    """Observations that were shown to the person."""
    changed: tuple[str, ...] = ()
    """Paths that changed while a completion waited."""
    snapshot: Snapshot | None = None
    """The workspace then, where anything changed."""


# The log.


# Every field that is added has a default, so that older logs can be read.
SCHEMA_VERSION = "1.8"
"""The version of the log. Readers refuse another major number."""


Event = Annotated[
    GoalCreated
    | RunStarted
    | RunResumed
    | NoteAdded
    | StartKept
    | CritiqueStarted
    | CritiqueFinished
    | RefinementStarted
    | ApprovalRequested
    | ApprovalRecorded
    | MemoryPromoted
    | RunEnded
    | LimitReached
    | WorkFailed
    | WaitStarted
    | WaitEnded
    | AgentSwitched
    | SnapshotTaken
    | BaselineTaken
    | BlockReported
    | StepStarted
    | RoundStarted
    | PlanProposed
    | SecretsReplaced
    | MessageRecorded
    | UserSaid
    | ToolCalled
    | ToolResultRecorded
    | UsageRecorded
    | RoundFinished
    | SessionOpened
    | AgentRan
    | ValidatorsFinished
    | ChecksReviewStarted
    | ChecksReviewed
    | WorkspaceChanged
    | ConfirmationRecorded
    | AuditStarted
    | AuditFailed
    | VerdictRecorded
    | QuestionOpened
    | QuestionAnswered
    | NoteGiven,
    Field(discriminator="type"),
]
"""All events. The type checker reports a fold in which one is missing."""


def shown_observations(event: Event) -> tuple[Observation, ...]:
    """Return the observations in an event, without those of hidden validators."""
    match event:
        case ToolResultRecorded():
            return (event.observation,)
        case BaselineTaken() | ValidatorsFinished():
            return event.observations
        case RoundFinished(response=Observation() as response):
            return (response,)
        case QuestionAnswered(observation=Observation() as answer):
            return (answer,)
        case _:
            return ()


def observations_of(event: Event) -> tuple[Observation, ...]:
    """Return the observations in an event; those of hidden validators come last."""
    observations = shown_observations(event)
    if isinstance(event, BaselineTaken | ValidatorsFinished):
        return (*observations, *event.concealed)
    return observations


class Record(Frozen):
    """One line of events.jsonl: an event, its place in the log and its time."""

    v: str = SCHEMA_VERSION
    """Schema version, major.minor."""
    seq: int = Field(ge=1)
    """Place in the log, from 1, without gaps."""
    at: str
    """ISO 8601, UTC."""
    elapsed: float = Field(default=0.0, ge=0)
    """Seconds of active time since the run began."""
    p: str = Field(default="", pattern=r"^([0-9a-f]{16})?$")
    """First 16 digits of the SHA-256 of the previous line; in the first line, of an
    empty text."""
    event: Event


RECORD = TypeAdapter(Record)
"""Reads one line: `RECORD.validate_json(line)`."""
