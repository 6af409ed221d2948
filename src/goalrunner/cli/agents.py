"""`goal agents`: the agents that a goal may name, and what of them is here. Starts nothing but their version commands."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import GoalFileError

if TYPE_CHECKING:
    from goalrunner.survey.agents import Candidate


def list_agents(goal_file: Path | None, *, json: bool = False) -> int:
    """Print the agents as a table, or as a JSON list; gives exit code 0, and 2 where a user's file does not hold."""
    from goalrunner.reports.agents import agents_text
    from goalrunner.reports.outcome import json_text
    from goalrunner.survey import survey
    from goalrunner.survey.agents import CHAT_FACTS

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
    from goalrunner.goalfile import load_goal
    from goalrunner.goalfile.agents import Known
    from goalrunner.presets import builtin_names, user_files
    from goalrunner.survey.agents import Candidate, Origin

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
