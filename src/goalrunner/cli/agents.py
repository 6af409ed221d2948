"""`goal agents` and `goal doctor`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.core.errors import ExitCode, GoalFileError, UsageError

if TYPE_CHECKING:
    from goalrunner.app.agents import Candidate
    from goalrunner.app.doctor import Patient


def list_agents(goal_file: Path | None, *, json: bool = False) -> int:
    """Print the agents as a table, or as a JSON list; gives exit code 0, and 2 where a user's file does not hold."""
    from goalrunner.app.agents import CHAT_FACTS, survey
    from goalrunner.reports.summary import json_text
    from goalrunner.reports.tables import agents_text

    candidates, wrong = _candidates(goal_file)
    facts = (CHAT_FACTS, *survey(candidates, os.environ))
    if json:
        output.say(json_text([{**asdict(one), "installed": one.installed} for one in facts]))
    else:
        output.say(agents_text(facts, columns=output.columns(sys.stdout)))
    for error in wrong:
        output.complain(str(error))
    return int(wrong[0].exit_code) if wrong else 0


def _candidates(goal_file: Path | None) -> tuple[list[Candidate], list[GoalFileError]]:
    """Every agent but the built-in one, and what is wrong in the user's files."""
    from goalrunner.app.agents import Candidate, Origin
    from goalrunner.goalfile import load_goal
    from goalrunner.goalfile.parsing import Known
    from goalrunner.presets import builtin_names, user_files

    files = user_files(os.environ)
    own = load_goal(goal_file, {}, os.environ, runnable=False).agents if goal_file is not None else {}
    known = Known(own, files)
    origins: dict[str, Origin] = {
        **dict.fromkeys(builtin_names(), "built in"),
        **dict.fromkeys(files, "user"),
        **{name: "goal file" for name in own if name not in files},
    }
    candidates, wrong = [], []
    for name, origin in sorted(origins.items()):
        try:
            candidates.append(Candidate(name, known.preset(name), origin))
        except GoalFileError as error:
            wrong.append(error)
    return candidates, wrong


def diagnose(agent: str | None, goal_file: Path | None, *, json: bool = False) -> int:
    """Print what was found; gives exit code 0 where the agent can be used, else 4. Raises UsageError for none of that name."""
    from goalrunner.app.doctor import examine
    from goalrunner.reports.summary import json_text
    from goalrunner.reports.tables import diagnosis_json, diagnosis_text

    diagnosis = examine(_patient(agent, goal_file), os.environ)
    if json:
        output.say(json_text(diagnosis_json(diagnosis)))
    else:
        output.say(diagnosis_text(diagnosis, output.columns(sys.stdout)))
    return int(ExitCode.COMPLETE if diagnosis.usable else ExitCode.FAILED)


def _patient(name: str | None, goal_file: Path | None) -> Patient:
    """The agent that is named, else that of the goal, else of GOAL_AGENT, else the built-in one."""
    from goalrunner.app.doctor import Patient
    from goalrunner.core.goal import CHAT, AgentConfig
    from goalrunner.goalfile import load_goal, resolve_goal
    from goalrunner.goalfile.parsing import Known
    from goalrunner.presets import user_files

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
    from goalrunner.goalfile.problems import listed, nearest, quoted
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
