"""The library's face: one async core, and sync wrappers of one line."""

from __future__ import annotations

from goalrunner.api.controller import GoalContinue, GoalController, GoalDone
from goalrunner.api.judging import ajudge_goal, judge_goal
from goalrunner.api.loop import arun_goal, chat_conversation, run_goal
from goalrunner.api.session import aresume, arun, check
from goalrunner.compose.check_description import describe_checks

__all__ = [
    "GoalContinue",
    "GoalController",
    "GoalDone",
    "ajudge_goal",
    "aresume",
    "arun",
    "arun_goal",
    "chat_conversation",
    "check",
    "describe_checks",
    "judge_goal",
    "run_goal",
]
