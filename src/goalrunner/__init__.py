"""Run an AI agent in rounds until its goal is verified.

Start with run_goal: an agent, an objective, and what decides if it is met.

    from goalrunner import chat_conversation, run_goal

    def short(response):
        return len(response["content"][0]["text"]) < 400

    agent = chat_conversation("openai/gpt-5-mini")
    outcome = run_goal(agent, "Explain rainbows.", validators=short)
    print(outcome.status, outcome.message)

Read help(goalrunner.run_goal), and so on. Names are imported at first use.

Run a goal    run_goal, run_goal_file, resume; best_of, run_batch, apply;
              in event loops: arun_goal, arun_goal_file, aresume, abest_of,
              arun_batch, aapply. RunKeywords are their keywords.
Say what      Goal, Budget, ValidatorSpec, ValidationOutcome, JudgeConfig,
              Critic, CriticConfig; load_goal
The agent     chat_conversation, ChatConversation, LLM; of your own:
              Conversation, Recorder, RoundReply, ToolResult, Usage;
              driven by you: GoalController, GoalContinue, GoalDone
Its end       GoalOutcome, GoalStatus, GoalAttempt, GoalVerdict,
              BatchOutcome, GoalError
Its records   read_events, read_attempts, read_chat, read_state, RunState,
              Event, BatchEvent, json_schema
People        Approver, ApprovalRequest, ApprovalAnswer, QuestionReply
Judge only    judge_goal, ajudge_goal, read_transcript; for a judge of your
              own: build_judge_prompt, JudgeOutcome, JUDGE_SYSTEM_PROMPT,
              JUDGE_OUTCOME_SCHEMA

goalrunner.testing has doubles for tests, goalrunner.adapters the agents of
Strands and OpenHands. Runs log to the logger "goalrunner.run".
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from goalrunner import core

if TYPE_CHECKING:
    from goalrunner.agents.chat import ChatConversation as ChatConversation
    from goalrunner.app.controller import GoalContinue as GoalContinue
    from goalrunner.app.controller import GoalController as GoalController
    from goalrunner.app.controller import GoalDone as GoalDone
    from goalrunner.app.goal_file_runs import arun_goal_file as arun_goal_file
    from goalrunner.app.goal_file_runs import run_goal_file as run_goal_file
    from goalrunner.app.library import ajudge_goal as ajudge_goal
    from goalrunner.app.library import aresume as aresume
    from goalrunner.app.library import arun_goal as arun_goal
    from goalrunner.app.library import chat_conversation as chat_conversation
    from goalrunner.app.library import judge_goal as judge_goal
    from goalrunner.app.library import resume as resume
    from goalrunner.app.library import run_goal as run_goal
    from goalrunner.app.previous_run import read_attempts as read_attempts
    from goalrunner.app.previous_run import read_chat as read_chat
    from goalrunner.app.previous_run import read_events as read_events
    from goalrunner.app.previous_run import read_state as read_state
    from goalrunner.app.run_options import RunKeywords as RunKeywords
    from goalrunner.batches.history import BatchEvent as BatchEvent
    from goalrunner.batches.library import BatchOutcome as BatchOutcome
    from goalrunner.batches.library import abest_of as abest_of
    from goalrunner.batches.library import arun_batch as arun_batch
    from goalrunner.batches.library import best_of as best_of
    from goalrunner.batches.library import run_batch as run_batch
    from goalrunner.copies.library import aapply as aapply
    from goalrunner.copies.library import apply as apply
    from goalrunner.core.agent_ports import ApprovalAnswer as ApprovalAnswer
    from goalrunner.core.agent_ports import ApprovalRequest as ApprovalRequest
    from goalrunner.core.agent_ports import Approver as Approver
    from goalrunner.core.agent_ports import Conversation as Conversation
    from goalrunner.core.agent_ports import QuestionReply as QuestionReply
    from goalrunner.core.agent_ports import Recorder as Recorder
    from goalrunner.core.agent_ports import RoundReply as RoundReply
    from goalrunner.core.agent_ports import ToolResult as ToolResult
    from goalrunner.core.critic import Critic as Critic
    from goalrunner.core.critic import CriticConfig as CriticConfig
    from goalrunner.core.errors import GoalError as GoalError
    from goalrunner.core.events import Event as Event
    from goalrunner.core.goal import Goal as Goal
    from goalrunner.core.goal_tables import Budget as Budget
    from goalrunner.core.goal_tables import JudgeConfig as JudgeConfig
    from goalrunner.core.goal_tables import ValidatorSpec as ValidatorSpec
    from goalrunner.core.outcome import GoalAttempt as GoalAttempt
    from goalrunner.core.outcome import GoalOutcome as GoalOutcome
    from goalrunner.core.outcome import GoalStatus as GoalStatus
    from goalrunner.core.outcome import Usage as Usage
    from goalrunner.core.run_state import RunState as RunState
    from goalrunner.core.schemas import json_schema as json_schema
    from goalrunner.core.verdict import GoalVerdict as GoalVerdict
    from goalrunner.core.verdict import ValidationOutcome as ValidationOutcome
    from goalrunner.goalfile.loading import load_goal as load_goal
    from goalrunner.judge.answer_schemas import (
        JUDGE_OUTCOME_SCHEMA as JUDGE_OUTCOME_SCHEMA,
    )
    from goalrunner.judge.prompt_builder import build_judge_prompt as build_judge_prompt
    from goalrunner.judge.prompt_text import JUDGE_SYSTEM_PROMPT as JUDGE_SYSTEM_PROMPT
    from goalrunner.judge.verdict_parser import JudgeOutcome as JudgeOutcome
    from goalrunner.llm import LLM as LLM
    from goalrunner.transcripts import read_transcript as read_transcript

__version__ = core.VERSION

_NAMES = {
    "agents.chat": ("ChatConversation",),
    "app.controller": ("GoalContinue", "GoalController", "GoalDone"),
    "app.goal_file_runs": ("arun_goal_file", "run_goal_file"),
    "app.library": (
        "ajudge_goal",
        "aresume",
        "arun_goal",
        "chat_conversation",
        "judge_goal",
        "resume",
        "run_goal",
    ),
    "app.previous_run": ("read_attempts", "read_chat", "read_events", "read_state"),
    "app.run_options": ("RunKeywords",),
    "batches.history": ("BatchEvent",),
    "batches.library": (
        "BatchOutcome",
        "abest_of",
        "arun_batch",
        "best_of",
        "run_batch",
    ),
    "copies.library": ("aapply", "apply"),
    "core.agent_ports": (
        "ApprovalAnswer",
        "ApprovalRequest",
        "Approver",
        "Conversation",
        "QuestionReply",
        "Recorder",
        "RoundReply",
        "ToolResult",
    ),
    "core.critic": ("Critic", "CriticConfig"),
    "core.errors": ("GoalError",),
    "core.events": ("Event",),
    "core.goal": ("Goal",),
    "core.goal_tables": ("Budget", "JudgeConfig", "ValidatorSpec"),
    "core.outcome": ("GoalAttempt", "GoalOutcome", "GoalStatus", "Usage"),
    "core.run_state": ("RunState",),
    "core.schemas": ("json_schema",),
    "core.verdict": ("GoalVerdict", "ValidationOutcome"),
    "goalfile.loading": ("load_goal",),
    "judge.answer_schemas": ("JUDGE_OUTCOME_SCHEMA",),
    "judge.prompt_builder": ("build_judge_prompt",),
    "judge.prompt_text": ("JUDGE_SYSTEM_PROMPT",),
    "judge.verdict_parser": ("JudgeOutcome",),
    "llm": ("LLM",),
    "transcripts": ("read_transcript",),
}
"""The public names of each module."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  the keys are strings


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    # `help` would print all classes after the text above: nine thousand lines.
    return [] if _is_asked_by_help() else sorted(__all__)


def _is_asked_by_help() -> bool:
    import inspect

    frame = inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"] in (__name__, "inspect"):
        frame = frame.f_back
    return frame is not None and frame.f_globals["__name__"] == "pydoc"
