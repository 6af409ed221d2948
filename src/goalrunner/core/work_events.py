"""Events of the work and of the checks: rounds, tool calls, questions, snapshots, validators, audits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.core.field_types import Frozen
from goalrunner.core.observation import ArtifactRef, DiffStat, Observation, Snapshot, TranscriptRef
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.verdict import GoalVerdict, ValidatorResult

Account = Literal["agent", "judge", "critic"]
PromptKind = Literal["first", "retry", "neutral", "stalled", "resumed", "refine"]


class SnapshotTaken(Frozen):
    """A snapshot of the workspace was taken."""

    type: Literal["snapshot_taken"] = "snapshot_taken"
    snapshot: Snapshot
    moment: Literal["start", "tool", "round", "validators", "resumed", "approval", "complete"]


class BlockReported(Frozen):
    """The agent claims that it cannot continue. This alone does not end the run."""

    type: Literal["block_reported"] = "block_reported"
    reason: str


class StepStarted(Frozen):
    """A step of the runner starts."""

    type: Literal["step_started"] = "step_started"
    step_id: str = Field(description='"validate-2"')
    description: str


class RoundStarted(Frozen):
    """A prompt is about to go to the agent."""

    type: Literal["round_started"] = "round_started"
    round: int = Field(ge=1)
    prompt: PromptKind


class PlanProposed(Frozen):
    """The agent's plan. A step counts as completed only with evidence."""

    type: Literal["plan_proposed"] = "plan_proposed"
    current: str = ""
    pending: tuple[str, ...] = ()
    completed: dict[str, str] = Field({}, description="step -> id of the observation that shows it")
    refused: tuple[str, ...] = Field((), description="steps claimed as completed without existing evidence")
    stop_reason: str = Field("", description="why the agent says that it may stop")


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
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation | None = Field(None, description="None where a tool result holds the answer")
    by: str = Field("", description="who answered: user@host")


class SecretsReplaced(Frozen):
    """How many secrets were replaced since the last such event, in everything that was written."""

    type: Literal["secrets_replaced"] = "secrets_replaced"
    counts: dict[str, int] = Field(description="by kind")


class MessageRecorded(Frozen):
    """A chat message was written to the transcript."""

    type: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    text: TranscriptRef
    has_text: bool = Field(True, description="False for an assistant message that holds tool calls alone")


class ToolCalled(Frozen):
    """The agent's tool call is about to run."""

    type: Literal["tool_called"] = "tool_called"
    tool_call_id: str
    tool: str
    summary: str = Field(description="one line for people: the command, or the path")


class ToolResultRecorded(Frozen):
    """A tool call ended."""

    type: Literal["tool_result_recorded"] = "tool_result_recorded"
    tool_call_id: str
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation
    duration: float = Field(0.0, ge=0, description="seconds")
    summary: str = Field("", description='one short line for people: "exit 1", "+4 −1"')


class UsageRecorded(Frozen):
    """A model call was answered, or given up after retries."""

    type: Literal["usage_recorded"] = "usage_recorded"
    account: Account
    usage: Usage


class RoundFinished(Frozen):
    """The agent's turn is over, successful or not."""

    type: Literal["round_finished"] = "round_finished"
    round: int = Field(ge=1)
    reason: Literal["answered", "max_steps"] = "answered"
    steps: int = Field(0, ge=0, description="model calls")
    response: Observation | None = Field(None, description="the response, where it is the deliverable")
    said: str = Field("", description="SHA-256 of the response, where a callable checks it")
    snapshot: Snapshot | None = Field(None, description="the workspace at the end of the round")
    idle: bool = Field(False, description="whether the workspace is as it was at the start of the round")
    left: tuple[str, ...] = Field((), description="names of processes that the agent left")
    changes: DiffStat | None = Field(None, description="since the start of the round; None: not known")
    total: DiffStat | None = Field(None, description="since the start of the run; None: not known")


class AgentRan(Frozen):
    """A process of an external agent has ended. Its output is no evidence; after an interruption, both ends are kept."""

    type: Literal["agent_ran"] = "agent_ran"
    agent: str = Field(description="its name")
    ending: str = Field(description='how it ended: "exit 0", "killed by SIGKILL", "cut"; not evidence')
    duration: float = Field(0.0, ge=0, description="seconds")
    output: ArtifactRef | None = Field(None, description="stdout; None where it was empty")
    errors: ArtifactRef | None = Field(None, description="stderr; None where it was empty")
    note: str = Field("", description="a note for people")


class SessionOpened(Frozen):
    """An external agent's own session; written again when its totals have grown."""

    type: Literal["session_opened"] = "session_opened"
    session: AgentSession


Standing = Literal["green", "red", "cannot_run", "differs"]


class Colour(Frozen):
    """Whether a validator passed in one run of it."""

    name: str
    passed: bool


class Content(Frozen):
    """The content that validators ran on, and their results: a resumed run still detects a flaky validator."""

    key: str = Field(description="identifies the content: a snapshot, and a hash of the ignored files")
    when: str = Field(description="for people: in which round")
    said: tuple[Colour, ...] = ()


class ChangedChecks(Frozen):
    """Validators that are green only with the agent's versions of existing tests or test-runner configuration."""

    key: str = Field(description="hash over the paths and their content: an approval is for exactly this")
    paths: tuple[str, ...] = Field(description="the files that the agent changed")
    diff: ArtifactRef | None = Field(None, description="what the agent changed in them")
    results: tuple[ValidatorResult, ...] = Field(description="the results with the agent's versions")


class BaselineTaken(Frozen):
    """The validators ran once before round 1, in the check environment."""

    type: Literal["baseline_taken"] = "baseline_taken"
    standing: Standing
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = Field((), description="of hidden validators; shown to no model")
    reason: str = Field("", description="why validators cannot run, or what differs and what to type")
    snapshot: Snapshot | None = Field(None, description="what it ran on, where that is not the start")
    content: Content | None = Field(None, description="None if no workspace is watched")


class ValidatorsFinished(Frozen):
    """The validators ran in the check environment after a round."""

    type: Literal["validators_finished"] = "validators_finished"
    round: int = Field(ge=0)
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = Field((), description="of hidden validators; shown to no model")
    refusal: str = Field("", description="why the results do not count, for the agent; else empty")
    hint: str = Field("", description="what a person can do about the refusal")
    leaked: tuple[str, ...] = Field((), description="paths that changed in the workspace while they ran")
    snapshot: Snapshot | None = Field(None, description="the workspace afterwards, if it changed meanwhile")
    protected_changes: tuple[str, ...] = Field((), description="protected paths that differ, a line each")
    differing: tuple[str, ...] = Field((), description="the paths of `protected_changes`")
    labels: tuple[str, ...] = Field((), description="what weakens a completion that rests on these results")
    changed_checks: ChangedChecks | None = Field(None, description="set if only the agent's versions are green")
    content: Content | None = Field(None, description="None if no workspace is watched")


class WorkspaceChanged(Frozen):
    """The workspace has changed since the check; the checks run again."""

    type: Literal["workspace_changed"] = "workspace_changed"
    paths: tuple[str, ...]
    snapshot: Snapshot


class ConfirmationRecorded(Frozen):
    """A second, independent opinion on whether the goal is blocked."""

    type: Literal["confirmation_recorded"] = "confirmation_recorded"
    claim: str
    confirmed: bool
    reason: str = ""


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


class VerdictRecorded(Frozen):
    """The judge's verdict, after the runner checked its citations."""

    type: Literal["verdict_recorded"] = "verdict_recorded"
    round: int = Field(ge=0)
    verdict: GoalVerdict
    citations_checked: int = Field(0, ge=0)
    stale_only: bool = Field(False, description="whether only outdated evidence keeps it from being complete")
    refusals: tuple[str, ...] = Field((), description="why a citation did not count, one sentence each")
    stale: dict[str, str] = Field({}, description="by id of a cited observation: why it no longer counted")


WorkEvent = (
    SnapshotTaken
    | BaselineTaken
    | BlockReported
    | StepStarted
    | RoundStarted
    | PlanProposed
    | SecretsReplaced
    | MessageRecorded
    | ToolCalled
    | ToolResultRecorded
    | UsageRecorded
    | RoundFinished
    | SessionOpened
    | AgentRan
    | ValidatorsFinished
    | WorkspaceChanged
    | ConfirmationRecorded
    | AuditStarted
    | AuditFailed
    | VerdictRecorded
    | QuestionOpened
    | QuestionAnswered
)
