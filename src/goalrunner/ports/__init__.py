"""The ports: what the loop needs from the world, as Protocols. Owns no behaviour; adapters and doubles implement them."""

from __future__ import annotations

from goalrunner.ports.checks import (
    Audit,
    AuditRequest,
    Checker,
    CheckRun,
    Confirmation,
    Judge,
    ValidationContext,
    Validator,
    Workspace,
)
from goalrunner.ports.launcher import Completion, Confinement, Connection, Connector, Jail, Launcher
from goalrunner.ports.parts import Observer, Parts, Rejoining
from goalrunner.ports.people import ApprovalAnswer, ApprovalRequest, Approver, QuestionReply
from goalrunner.ports.stores import Artifacts, Clock, Ids, Log, Message, Transcript
from goalrunner.ports.work import (
    AgentRun,
    Closing,
    Conversation,
    Pausing,
    ProposedPlan,
    Recorded,
    Recorder,
    Resumable,
    RoundReply,
    ToolResult,
    Unfinished,
)

__all__ = [
    "AgentRun",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Approver",
    "Artifacts",
    "Audit",
    "AuditRequest",
    "CheckRun",
    "Checker",
    "Clock",
    "Closing",
    "Completion",
    "Confinement",
    "Confirmation",
    "Connection",
    "Connector",
    "Conversation",
    "Ids",
    "Jail",
    "Judge",
    "Launcher",
    "Log",
    "Message",
    "Observer",
    "Parts",
    "Pausing",
    "ProposedPlan",
    "QuestionReply",
    "Recorded",
    "Recorder",
    "Rejoining",
    "Resumable",
    "RoundReply",
    "ToolResult",
    "Transcript",
    "Unfinished",
    "ValidationContext",
    "Validator",
    "Workspace",
]
