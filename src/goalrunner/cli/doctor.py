"""`goal doctor`: whether an agent can be used here, and what to type where it cannot. Asks no provider."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from goalrunner.survey.doctor import Patient


def diagnose(agent: str | None, goal_file: Path | None, *, json: bool = False) -> int:
    """Print what was found; gives exit code 0 where the agent can be used, else 4. Raises UsageError for none of that name."""
    from goalrunner.reports.diagnosis import diagnosis_json, diagnosis_text
    from goalrunner.reports.outcome import json_text
    from goalrunner.survey.doctor import examine

    diagnosis = examine(_patient(agent, goal_file), os.environ)
    if json:
        output.say(json_text(diagnosis_json(diagnosis)))
    else:
        output.say(diagnosis_text(diagnosis, output.columns(sys.stdout)))
    return int(ExitCode.COMPLETE if diagnosis.usable else ExitCode.FAILED)


def _patient(name: str | None, goal_file: Path | None) -> Patient:
    """The agent that is named, else that of the goal, else of GOAL_AGENT, else the built-in one."""
    from goalrunner.goalfile import load_goal, resolve_goal
    from goalrunner.goalfile.agents import Known
    from goalrunner.model.goal import CHAT, AgentConfig
    from goalrunner.presets import user_files
    from goalrunner.survey.doctor import Patient

    # Who is named needs no variable that names another.
    environ = {key: value for key, value in os.environ.items() if name is None or key != "GOAL_AGENT"}
    goal = (
        resolve_goal({}, {"objective": "doctor"}, environ, runnable=False)
        if goal_file is None
        else load_goal(goal_file, {}, environ, runnable=False)
    )
    known = Known(goal.agents, user_files(environ))
    if name is None or name == goal.agent.use:
        return Patient(goal.agent, known.preset(goal.agent.use), goal.workspace, goal.agents)
    _refuse_unknown(name, known.names)
    model = (environ.get("GOAL_MODEL") or environ.get("LLM_MODEL") or "") if name == CHAT else ""
    return Patient(AgentConfig(use=name, model=model), known.preset(name), goal.workspace, goal.agents)


def _refuse_unknown(name: str, names: tuple[str, ...]) -> None:
    from goalrunner.goalfile.wording import listed, nearest, quoted
    from goalrunner.presets import ACP, COMMAND

    if name in (ACP, COMMAND):
        raise UsageError(
            f'the agent "{name}" needs a command, which the goal file gives',
            f"goal doctor --goal FILE, with [agent] use = {quoted(name)}",
        )
    if name not in names:
        near = nearest(name, names)
        guess = f"did you mean {quoted(near)}? " if near else ""
        raise UsageError(f"unknown agent {quoted(name)}", f"{guess}valid: {listed(names)}")
