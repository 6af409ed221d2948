"""Goal Runner: drive an agent round after round until the runner itself holds the proof that it is done.

Importing this package runs nothing and loads nothing; each name is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from goalrunner.agents import ChatConversation as ChatConversation
    from goalrunner.api import GoalContinue as GoalContinue
    from goalrunner.api import GoalController as GoalController
    from goalrunner.api import GoalDone as GoalDone
    from goalrunner.api import ajudge_goal as ajudge_goal
    from goalrunner.api import arun_goal as arun_goal
    from goalrunner.api import chat_conversation as chat_conversation
    from goalrunner.api import judge_goal as judge_goal
    from goalrunner.api import run_goal as run_goal
    from goalrunner.errors import GoalError as GoalError
    from goalrunner.goalfile import load_goal as load_goal
    from goalrunner.judge import JUDGE_SYSTEM_PROMPT as JUDGE_SYSTEM_PROMPT
    from goalrunner.judge import JudgeOutcome as JudgeOutcome
    from goalrunner.judge import build_judge_prompt as build_judge_prompt
    from goalrunner.llm import LLM as LLM
    from goalrunner.model.goal import Goal as Goal
    from goalrunner.model.goal import JudgeConfig as JudgeConfig
    from goalrunner.model.goal import ValidatorSpec as ValidatorSpec
    from goalrunner.model.outcome import GoalAttempt as GoalAttempt
    from goalrunner.model.outcome import GoalOutcome as GoalOutcome
    from goalrunner.model.outcome import GoalStatus as GoalStatus
    from goalrunner.model.usage import Usage as Usage
    from goalrunner.model.validation import ValidationOutcome as ValidationOutcome
    from goalrunner.model.verdict import GoalVerdict as GoalVerdict
    from goalrunner.ports import ApprovalAnswer as ApprovalAnswer
    from goalrunner.ports import ApprovalRequest as ApprovalRequest
    from goalrunner.ports import Approver as Approver
    from goalrunner.ports import QuestionReply as QuestionReply
    from goalrunner.transcripts import read_transcript as read_transcript

_HOMES = {
    "ApprovalAnswer": "ports",
    "ApprovalRequest": "ports",
    "Approver": "ports",
    "ChatConversation": "agents",
    "Goal": "model.goal",
    "GoalAttempt": "model.outcome",
    "GoalContinue": "api",
    "GoalController": "api",
    "GoalDone": "api",
    "GoalError": "errors",
    "GoalOutcome": "model.outcome",
    "GoalStatus": "model.outcome",
    "GoalVerdict": "model.verdict",
    "JUDGE_SYSTEM_PROMPT": "judge",
    "JudgeConfig": "model.goal",
    "JudgeOutcome": "judge",
    "LLM": "llm",
    "QuestionReply": "ports",
    "Usage": "model.usage",
    "ValidationOutcome": "model.validation",
    "ValidatorSpec": "model.goal",
    "ajudge_goal": "api",
    "arun_goal": "api",
    "build_judge_prompt": "judge",
    "chat_conversation": "api",
    "judge_goal": "api",
    "load_goal": "goalfile",
    "read_transcript": "transcripts",
    "run_goal": "api",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  the table names every one of them


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
