"""The goal that is stored with a run, without its secrets."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.app.goal_models import goal_redactor
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.records.markers import is_redacted
from goalrunner.records.run_folder import RunFolder

NEW_RUN = "start a new run: goal run GOAL_FILE"

# Keys that options may have set instead of the file.
_OPTIONS = (
    ("agent", "use"),
    ("agent", "model"),
    ("judge", "model"),
    ("workspace", "path"),
)
# A renewed secret must be a plain word: the command may use its variable without
# quotes.
_UNQUOTED = re.compile(r"-|.*[\s*?\[]", re.DOTALL)


@dataclass(frozen=True)
class _Text:
    """A text in a table: its name, and the table or list and the key that hold it."""

    name: str
    """Such as `validators[0].env.TOKEN`."""
    holder: Any
    key: Any

    @property
    def value(self) -> str:
        return str(self.holder[self.key])


def frozen_table(folder: RunFolder) -> dict[str, Any]:
    """Return the goal of a run as a table, without its secrets. Raise RecordError."""
    try:
        return tomllib.loads(folder.goal_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{folder.goal_file} cannot be read: {error}", NEW_RUN
        ) from error


def frozen_goal(
    folder: RunFolder,
    environ: Mapping[str, str],
    goal_file: Path | None = None,
    *,
    runnable: bool = True,
) -> Goal:
    """Return the goal of a run, with literal secrets from the goal file.

    Raise UsageError if a secret is missing there, or if a `runnable` goal has no agent
    or no check.
    """
    table = with_secrets(frozen_table(folder), goal_file, environ)
    # The run has had its model and its judge since it began.
    without_defaults = dict(environ)
    for name in ("GOAL_MODEL", "GOAL_JUDGE"):
        without_defaults.pop(name, None)
    return resolve_goal(
        table,
        {},
        without_defaults,
        folder.path,
        name=str(folder.goal_file),
        runnable=runnable,
    )


def secret_notes(frozen: str, goal_file: Path | None) -> tuple[str, ...]:
    """Return a warning if a goal holds literal secrets.

    `frozen` is the text that is stored with the run, without them.
    """
    names = [text.name for text in _redacted(tomllib.loads(frozen))]
    if not names:
        return ()
    source = goal_file or "the file of the agent"
    note = (
        f"{', '.join(names)}: a secret is not stored with the run, and goal resume "
        f"reads it from {source} again; export it as a variable, which the agent and "
        "the checks get, and write $NAME instead"
    )
    return (note,)


def with_secrets(
    table: dict[str, Any], goal_file: Path | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Return the table of a stored goal, with secrets of the goal file.

    Raise UsageError if one changed.
    """
    redacted = _redacted(table)
    if not redacted:
        return table
    source = goal_file or "the file of the agent"
    try:
        goal = _goal_with_secrets(table, goal_file, environ)
        redact = goal_redactor(goal, environ).text
    except GoalError as error:
        raise UsageError(
            "a secret that was not stored with the run cannot be read again: "
            f"{error.message}",
            f"correct {source}, or {NEW_RUN}",
        ) from error
    texts = _texts(tomllib.loads(dump_goal(goal)))
    values = {text.name: text.value for text in texts}
    for text in redacted:
        value = values.get(text.name)
        # Other values are no part of a command line.
        is_variable = text.name.startswith("validators") and ".env." in text.name
        if (
            value is None
            or redact(value) != text.value
            or (is_variable and _UNQUOTED.match(value))
        ):
            raise UsageError(
                f"{text.name} in {source} was changed after the run began",
                f"put it back, or {NEW_RUN}",
            )
        text.holder[text.key] = value
    return table


def _goal_with_secrets(
    table: dict[str, Any], goal_file: Path | None, environ: Mapping[str, str]
) -> Goal:
    """Return the goal that the goal file has now, with the options of the run."""
    options = {f"{name}.{key}": table.get(name, {}).get(key) for name, key in _OPTIONS}
    # Defaults of today are not those with which the run began.
    without_defaults = {
        name: value for name, value in environ.items() if not name.startswith("GOAL_")
    }
    if goal_file is not None:
        return load_goal(goal_file, options, without_defaults, runnable=False)
    # Without a goal file, only the user's own agents have literal secrets.
    options["objective"] = table["objective"]
    return resolve_goal({}, options, without_defaults, runnable=False)


def _texts(holder: Any, above: str = "") -> Iterator[_Text]:
    """Yield each text in a table or list; `above` is the name of that."""
    items = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for key, item in items:
        name = f"{above}.{key}".removeprefix(".")
        if isinstance(key, int):
            name = f"{above}[{key}]"
        if isinstance(item, str):
            yield _Text(name, holder, key)
        elif isinstance(item, dict | list):
            yield from _texts(item, name)


def _redacted(table: dict[str, Any]) -> list[_Text]:
    """Return the texts in which a secret was replaced."""
    texts: list[_Text] = []
    for text in _texts(table):
        # Those of [redact] are patterns, which are stored unchanged.
        if not text.name.startswith("redact.") and is_redacted(text.value):
            texts.append(text)
    return texts
