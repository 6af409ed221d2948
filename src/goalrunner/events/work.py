"""What happens while the agent works."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.observation import ArtifactRef, Observation, TranscriptRef
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.usage import AgentSession, Usage

Account = Literal["agent", "judge"]
PromptKind = Literal["first", "retry", "neutral", "stalled", "resumed"]


class SnapshotTaken(Frozen):
    """The workspace was looked at, whole."""

    type: Literal["snapshot_taken"] = "snapshot_taken"
    snapshot: Snapshot
    moment: Literal["start", "tool", "round", "validators", "resumed", "approval", "complete"]


class BlockReported(Frozen):
    """The agent says that it cannot go on. A claim: it ends nothing by itself."""

    type: Literal["block_reported"] = "block_reported"
    reason: str


class StepStarted(Frozen):
    """The runner is about to do one bounded thing: intent before effect."""

    type: Literal["step_started"] = "step_started"
    step_id: str = Field(description='"validate-2"')
    description: str


class RoundStarted(Frozen):
    """A prompt is about to go to the agent."""

    type: Literal["round_started"] = "round_started"
    round: int = Field(ge=1)
    prompt: PromptKind


class PlanProposed(Frozen):
    """The agent says which steps there are. A proposal: the runner keeps it, and believes no step done without evidence."""

    type: Literal["plan_proposed"] = "plan_proposed"
    current: str = ""
    pending: tuple[str, ...] = ()
    completed: dict[str, str] = Field(default_factory=dict, description="step -> id of the observation that shows it")
    refused: tuple[str, ...] = Field(default=(), description="steps called done without evidence that exists")
    stop_reason: str = Field(default="", description="why the agent says that it may stop")


class SecretsReplaced(Frozen):
    """How many secrets were replaced since the last such event, in everything that was written."""

    type: Literal["secrets_replaced"] = "secrets_replaced"
    counts: dict[str, int] = Field(description="by kind")


class MessageRecorded(Frozen):
    """A chat message was written to the transcript."""

    type: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    text: TranscriptRef
    has_text: bool = Field(default=True, description="False for an assistant message that holds tool calls alone")


class ToolCalled(Frozen):
    """The agent's tool call is about to run."""

    type: Literal["tool_called"] = "tool_called"
    tool_call_id: str
    tool: str
    summary: str = Field(description="one line for people: the command, or the path")


class ToolResultRecorded(Frozen):
    """A tool call ended, well or badly."""

    type: Literal["tool_result_recorded"] = "tool_result_recorded"
    tool_call_id: str
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation
    duration: float = Field(default=0.0, ge=0, description="seconds")
    summary: str = Field(default="", description='one short line for people: "exit 1", "+4 −1"')


class UsageRecorded(Frozen):
    """One model call was answered, or given up after so many retries."""

    type: Literal["usage_recorded"] = "usage_recorded"
    account: Account
    usage: Usage


class RoundFinished(Frozen):
    """The agent's turn is over. Says nothing about success."""

    type: Literal["round_finished"] = "round_finished"
    round: int = Field(ge=1)
    reason: Literal["answered", "max_steps"] = "answered"
    steps: int = Field(default=0, ge=0, description="model calls")
    response: Observation | None = Field(
        default=None, description="the response as an observation, where it is the deliverable"
    )
    snapshot: Snapshot | None = Field(
        default=None, description="the workspace as the round left it: what is to be proven"
    )
    idle: bool = Field(default=False, description="whether the agent left everything as it had found it")
    left: tuple[str, ...] = Field(
        default=(), description="names of background processes that the agent left, and that were ended"
    )


class AgentRan(Frozen):
    """A process of an external agent is over. What it wrote is evidence of nothing. It is kept whole, but where the run was
    cut: then of a long output the two ends."""

    type: Literal["agent_ran"] = "agent_ran"
    agent: str = Field(description="its name")
    ending: str = Field(description='"exit 0", "killed by SIGKILL", "cut": a claim like any other')
    duration: float = Field(default=0.0, ge=0, description="seconds")
    output: ArtifactRef | None = Field(default=None, description="stdout; None where it was empty")
    errors: ArtifactRef | None = Field(default=None, description="stderr; None where it was empty")
    note: str = Field(default="", description="what people must be told of it")


class SessionOpened(Frozen):
    """An external agent keeps a memory of its own, and this is its name; written anew where its totals have grown."""

    type: Literal["session_opened"] = "session_opened"
    session: AgentSession
