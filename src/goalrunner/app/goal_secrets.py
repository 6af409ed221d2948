"""Secrets of a goal: what replaces them, and literal ones in a goal file, which are not kept with the run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from goalrunner.app.external_agent import ResolvedAgent
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.goalfile import dump_goal, load_goal, place_in, resolve_goal
from goalrunner.llm import LLM
from goalrunner.records.redaction import Redactor
from goalrunner.records.token_formats import is_redacted
from goalrunner.system.environment import credentials_of


def withheld(goal: Goal, agent: ResolvedAgent | None = None, llms: Iterable[object] = ()) -> tuple[str, ...]:
    """Return the names of environment variables that hold the keys of models and agent; no child process gets them."""
    keys = (goal.agent.api_key_env, goal.judge.api_key_env, *(llm.api_key_env for llm in llms if isinstance(llm, LLM)))
    named = (*(name for name in keys if name), *(agent.keys if agent else ()))
    return (*named, *credentials_of(goal.agent.model), *credentials_of(goal.judge.model))


def goal_redactor(goal: Goal, environ: Mapping[str, str], names: Iterable[str]) -> Redactor:
    """Return what replaces secrets in everything that a run of the goal writes. Raise UsageError for a wrong [redact].

    `names` are variables that hold secrets whatever their names look like.
    """
    return Redactor({**environ, **_values(goal)}, names=tuple(names), extra=goal.redact.extra, allow=goal.redact.allow)


def _values(goal: Goal) -> dict[str, str]:
    """Return the values that the goal file itself gives, by key; the redactor looks for secrets among them."""
    found = {f"agent.env.{name}": value for name, value in goal.agent.env.items()}
    for spec in goal.validators:
        found |= {f"validators.env.{name}": value for name, value in spec.env.items()}
    for agent, preset in goal.agents.items():
        found |= {f"agents.{agent}.env.{name}": value for name, value in (preset.env | preset.jailed_env).items()}
    for table, config in (("agent", goal.agent), ("judge", goal.judge)):
        found |= {f"{table}.params.{name}": value for name, value in config.params.items() if isinstance(value, str)}
        if password := urlsplit(config.api_base or "").password:
            found[f"{table}.api_base.PASSWORD"] = password
    return found


Place = tuple[str | int, ...]
"""Where a text is in a goal: keys, and positions in lists."""

NEW_RUN = "start a new run: goal run GOAL_FILE"
_OPTIONS = (("agent", "use"), ("agent", "model"), ("judge", "model"), ("workspace", "path"))
"""Keys that options may have set instead of the file."""
_MARK = re.compile(r"\[redacted:[^\]]*\]")
_WORD = r"""[^\s|&;<>()`"'\\]+"""
"""What a secret in a longer text may be."""
_PLAIN = r"[A-Za-z0-9_+/][A-Za-z0-9_.+/=:@,%-]{5,}"
"""What a secret in a command may be: no option, and nothing that a shell reads as more than a part of one word."""
_IN_ADDRESS = r"[^\s/:@?#\"'\\<>|&;()`]+"
"""What a secret before `@` may be: it must not change the host of the address."""
_PLAIN_IN_ADDRESS = r"[A-Za-z0-9_+][A-Za-z0-9_.+=,%-]{5,}"
_VALUE = r"(?!-)[^\s*?\[]+"
"""What a variable of a validator may be: one word also where the command does not quote it."""


def secret_notes(frozen: str, goal: Goal, goal_file: Path | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if the goal holds literal secrets, which the text kept with the run does not."""
    table = tomllib.loads(frozen)
    places = list(_redacted(table))
    if not places:
        return ()
    try:
        found = _goal_table(goal_file, table, environ)
        kept = tomllib.loads(dump_goal(goal))
        again = all(
            (text := _text(found, place)) == _text(kept, place)
            and text is not None
            and _is_same(place, _text(table, place) or "", text)
            for place in places
        )
    except GoalError:
        again = False
    where = goal_file or "the agent's own file"
    resume = f"goal resume reads it from {where} again" if again else "this run cannot be resumed"
    advice = "export it as a variable, which the agent and the checks get, and write $NAME instead"
    return (f"{_names(places)}: a secret is not stored with the run, and {resume}; {advice}",)


def with_secrets(frozen: str, kept: Path, goal_file: Path | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the table of a goal that was kept with a run, with the secrets of the goal file. `kept` is its file.

    Raise UsageError if a secret is missing there, if the text around it is not what it was, or if the secret could change
    what a command does.
    """
    table = tomllib.loads(frozen)
    places = list(_redacted(table))
    try:
        found = _goal_table(goal_file, table, environ) if places else {}
    except GoalError as error:
        raise UsageError(
            f"{_names(places)}: a secret that was not stored with the run cannot be read again: {error.message}",
            f"correct {goal_file or 'the file of the agent'}, or {NEW_RUN}",
        ) from error
    for place in places:
        text = _text(found, place)
        if text is None or is_redacted(text):
            raise UsageError(
                f"{_names([place])} of {kept} contained a secret that was not stored, and no goal file contains it now",
                NEW_RUN,
            )
        if not _is_same(place, _text(table, place) or "", text):
            where = f"{place_in(goal_file, place)} " if goal_file is not None else ""
            why = "was changed after the run began"
            if _is_command(place):
                why += ", or its secret is not a plain word: 6 or more letters, digits and _ - . / + = : @ , %"
            raise UsageError(f"{where}{_names([place])} {why}", f"put it back, or {NEW_RUN}")
        target: Any = table
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = text
    return table


def _is_command(place: Place) -> bool:
    if place[0] == "agents":
        return not {"env", "jailed_env"} & set(place)
    return place[0] == "validators" and "env" not in place


def _is_same(place: Place, before: str, text: str) -> bool:
    """Return whether a text is what it was, apart from the secrets, which may be renewed."""
    command = _is_command(place)
    parts = _MARK.split(before)
    pattern = re.escape(parts[0])
    for part in parts[1:]:
        if part.startswith("@"):
            secret = _PLAIN_IN_ADDRESS if command else _IN_ADDRESS
        elif command:
            secret = _PLAIN
        elif place[0] == "validators":
            secret = _VALUE
        else:
            secret = _WORD if any(parts) else ".+"
        pattern += secret + re.escape(part)
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _redacted(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places where something was replaced; what `[redact]` says is kept as it is."""
    match value:
        case str():
            if is_redacted(value):
                yield place
        case Mapping():
            for key, item in value.items():
                if place or key != "redact":
                    yield from _redacted(item, (*place, key))
        case list():
            for number, item in enumerate(value):
                yield from _redacted(item, (*place, number))


def _goal_table(goal_file: Path | None, table: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the goal in the file, in the long form; without one, only the user's own agents. Raise GoalError."""
    options = {f"{name}.{key}": table.get(name, {}).get(key) for name, key in _OPTIONS}
    without = {name: value for name, value in environ.items() if not name.startswith("GOAL_")}
    if goal_file is not None:
        goal = load_goal(goal_file, options, without, runnable=False)
    else:
        goal = resolve_goal({}, {**options, "objective": table["objective"]}, without, runnable=False)
    return tomllib.loads(dump_goal(goal))


def _text(value: Any, place: Place) -> str | None:
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value if isinstance(value, str) else None


def _names(places: list[Place]) -> str:
    """Return the keys as a person writes them: `validators[0].env.TOKEN`."""
    named = [
        "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
        for place in places[:3]
    ]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(named) + more
