"""The options that `goal batch` and `goal fleet` share, and the values of limits.

This imports little, so that the commands of a fleet start fast.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from goalrunner.cli.options import Text, argument, checked, goal_files, option

GOALS = "Goal files, folders of goal files, or tables (.csv, .jsonl)"
"""What the argument of a command with many goals can name."""
AgentModel = Annotated[Text, option("NAME", "The model of the agents.")]


def goals_argument(text: str) -> Any:
    """Return the argument for the goals of a batch, with the text of its help."""
    return argument("GOALS", text, goal_files)


def goal_keys(
    agent: str | None, model: str | None, judge: str | None
) -> dict[str, str]:
    """Return the keys of each goal file that options replace, by dotted key."""
    values = {"agent.use": agent, "agent.model": model, "judge.model": judge}
    return {key: value for key, value in values.items() if value is not None}


def _moment(text: str) -> str | None:
    """Return the moment of `--until` in ISO 8601, with a time zone."""
    now = datetime.now().astimezone()
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})", text)
    if clock is None:
        moment = datetime.fromisoformat(text)
        # Without a zone, it is a time on the clock of the person.
        return (moment if moment.tzinfo else moment.astimezone()).isoformat()
    moment = now.replace(
        hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0
    )
    # A time of day that is over today is that of tomorrow.
    return (moment if moment > now else moment + timedelta(days=1)).isoformat()


def _dollars(text: str) -> float | None:
    value = float(text)
    return value if value > 0 else None


def _token_count(text: str) -> float | None:
    value = float(text)
    return value if value >= 1 and (value == math.inf or value.is_integer()) else None


UNTIL = checked(_moment, '"07:30" or "2026-01-31T07:30"')
DOLLARS = checked(_dollars, "dollars, such as 2.50, or inf")
TOKENS = checked(_token_count, "a whole number from 1, or inf")
