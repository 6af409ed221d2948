"""The library's face: one async core, and sync wrappers of one line."""

from __future__ import annotations

from goalrunner.app.check_environment import describe_checks as describe_checks
from goalrunner.app.controller import GoalContinue as GoalContinue
from goalrunner.app.controller import GoalController as GoalController
from goalrunner.app.controller import GoalDone as GoalDone
from goalrunner.app.judging import ajudge_goal as ajudge_goal
from goalrunner.app.judging import judge_goal as judge_goal
from goalrunner.app.library import arun_goal as arun_goal
from goalrunner.app.library import chat_conversation as chat_conversation
from goalrunner.app.library import run_goal as run_goal
from goalrunner.app.session import aresume as aresume
from goalrunner.app.session import arun as arun
from goalrunner.app.session import check as check
