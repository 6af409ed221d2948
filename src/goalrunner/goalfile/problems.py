"""Problems of a goal file: where they are, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from goalrunner.core.agent_preset import PARSERS
from goalrunner.core.errors import GoalFileError, Problem
from goalrunner.core.field_types import InnerError
from goalrunner.core.wording import kind, listed, nearest, quoted, shown
from goalrunner.goalfile.positions import NOWHERE, Key, Positions
from goalrunner.goalfile.schema import Schema


class GoalInputError(GoalFileError):
    """Errors of a goal. An error of an option or a variable has its name in place of the file's."""

    def _line(self, problem: Problem) -> str:
        own_name = problem.key.startswith("--") or problem.key.isupper()
        if not self.path or (own_name and not problem.line):
            return problem.message
        return super()._line(problem)


MOST = 100
"""Problems that are shown; the others are counted."""


@dataclass
class Problems:
    """The problems found so far, and the keys that need no second message."""

    found: dict[Problem, None] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)
    unsaid: int = 0
    """The number of problems that are not shown."""

    @property
    def full(self) -> bool:
        """Whether no further problem is shown."""
        return len(self.found) >= MOST

    def add(self, message: str, key: str = "", place: tuple[int, int] = NOWHERE) -> None:
        """Add one problem; the same one twice counts once."""
        problem = Problem(message=message, key=key, line=place[0], column=place[1])
        if self.full and problem not in self.found:
            self.unsaid += 1
        else:
            self.found[problem] = None

    def excuses(self, *paths: Key) -> bool:
        """Return whether a problem is already known at, above or below one of these keys."""
        return any(known[: len(path)] == path[: len(known)] for known in self.excused for path in paths)

    def raise_any(self, path: str) -> None:
        """Raise all problems at once, in the order of the file, those without a line last. Do nothing if there are none."""
        if self.found:
            ordered = sorted(self.found, key=lambda problem: (problem.line or float("inf"), problem.column))
            more = (Problem(message=f"and {self.unsaid} more problems"),) if self.unsaid else ()
            raise GoalInputError(path, (*ordered, *more))


@dataclass(frozen=True)
class Source:
    """The source of values: a file, the options, or the environment."""

    base: Path
    """The folder that relative paths start from."""
    positions: Positions | None = None
    names: Mapping[Key, str] = field(default_factory=dict)
    """Names of keys that differ from the dotted name: `--timeout`, `GOAL_MODEL`."""
    textual: bool = False
    """Whether numbers may be text, as on a command line."""

    def label(self, path: Key) -> str:
        """Return the name of the key for messages."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.names:
                return self.names[path[:length]]
        return ".".join(str(part) for part in path if not isinstance(part, int))


@dataclass(frozen=True)
class Spot:
    """The place of a value in its source, to report problems there."""

    source: Source
    problems: Problems
    path: Key = ()

    @property
    def label(self) -> str:
        """The name of the key for messages."""
        return self.source.label(self.path)

    @property
    def parent(self) -> Spot:
        """The spot of the table or list around this value."""
        return Spot(self.source, self.problems, self.path[:-1])

    def item(self, step: str | int) -> Spot:
        """Return the spot of a value inside this one."""
        return Spot(self.source, self.problems, (*self.path, step))

    def wrong(self, rest: str) -> None:
        """Report a wrong value; the message is the key's name and `rest`."""
        positions = self.source.positions
        place = positions.value(self.path) if positions else NOWHERE
        self._note(f"{self.label} {rest}", place)

    def wrong_key(self, message: str) -> None:
        """Report a wrong key, or its table as a whole."""
        positions = self.source.positions
        self._note(message, positions.key(self.path) if positions else NOWHERE)

    def _note(self, message: str, place: tuple[int, int]) -> None:
        self.problems.add(message, self.label, place)
        self.problems.excused.add(self.path)


_CLEAN_PROOF = (
    "was removed: validators run in the check environment in each round; remove it, or write "
    '[workspace] check = "in-place" to run them in the workspace itself'
)

REMOVED: dict[Key, str] = {
    ("critic",): "is not available in this version; remove it",
    ("clean_proof",): _CLEAN_PROOF,
    ("workspace", "clean_proof"): _CLEAN_PROOF,
    ("workspace", "link"): (
        "was removed: validators see .venv, node_modules and other ignored folders as they are; remove it, or "
        'name folders of installed packages with dependencies = ["..."]'
    ),
}
"""Keys that this version does not have, with what to write instead."""

_TRIAL = "was removed: goal doctor --try runs one real round with the agent's own provider; remove it"

REMOVED_FROM_AGENTS: dict[str, str] = {
    **dict.fromkeys(("wire", "server", "server_args", "server_files"), _TRIAL),
    **dict.fromkeys(("rules", "session_after"), f"was removed; {PARSERS}"),
}
"""The same for the keys of an agent in [agents.NAME], or in a file of its own."""


def report(error: ValidationError, schema: Schema, spot_of: Callable[[Key], Spot]) -> None:
    """Note every problem of a validation but a missing objective; `spot_of` finds the spot of a value's path in the model."""
    for detail in error.errors(include_url=False):
        path, reason = detail["loc"], detail.get("ctx", {}).get("error")
        if path == ("objective",) and detail["type"] == "missing":
            continue
        if isinstance(reason, InnerError):
            _report_inner(spot_of((*path, *reason.path)), reason)
        elif path and path[-1] == "[key]" and reason is not None:
            _report_name(spot_of(path[:-1]), reason)
        elif path and path[-1] == "[key]":
            _report_unknown(spot_of(path[:-1]), spot_of(path[:-2]), schema)
        elif detail["type"] == "extra_forbidden":
            _report_unknown(spot_of(path), spot_of(path[:-1]), schema)
        else:
            _report_value(spot_of(path), detail, schema)


def _report_name(spot: Spot, reason: Exception) -> None:
    """Report a name that a key of the user's own must not have."""
    spot.wrong_key(f"{quoted(str(spot.path[-1]))} in {_header(spot.parent)} {reason}")


def _report_unknown(spot: Spot, table: Spot, schema: Schema) -> None:
    key = str(spot.path[-1])
    is_agent = "argv" in schema.keys(table.path)
    if removed := REMOVED_FROM_AGENTS.get(key) if is_agent else REMOVED.get(spot.path):
        spot.wrong_key(f"{spot.label} {removed}")
        return
    valid, homes = schema.keys(table.path), schema.homes(key)
    near = None if homes or spot.problems.full else nearest(key, valid)
    if homes:
        remedy = f"it belongs {' or '.join(homes).replace(' or in ', ' or ')}"
    elif near:
        remedy = f"did you mean {quoted(near)}?"
        spot.problems.excused.add((*table.path, near))
    else:
        remedy = f"valid: {', '.join(sorted(valid))}"
    where = f" in {_header(table)}" if table.path else ""
    spot.wrong_key(f"unknown key {quoted(key)}{where}; {remedy}")


def _report_value(spot: Spot, detail: Any, schema: Schema) -> None:
    value, path = detail["input"], spot.path
    match detail["type"]:
        case "value_error":
            spot.wrong(str(detail["ctx"]["error"]))
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal" | "finite_number":
            limits = detail.get("ctx", {})
            why = "is not above zero" if limits.get("gt") == 0 or limits.get("ge") == 1 else "is out of range"
            spot.wrong(f"{shown(value)} {why}; {schema.remedy(path)}")
        case "literal_error" if isinstance(value, str):
            choices = schema.choices(path)
            near = nearest(value, choices)
            guess = f"; did you mean {quoted(near)}?" if near else ";"
            spot.wrong(f"{quoted(value)} is unknown{guess} valid: {listed(choices)}")
        case _:
            wanted = schema.wanted(path)
            is_scalar = wanted == "a string" and isinstance(value, bool | int | float)
            replacement = f"; write {quoted(shown(value))}" if is_scalar else ""
            spot.wrong(f"must be {wanted}, not {kind(value)}{replacement}")


def _report_inner(spot: Spot, error: InnerError) -> None:
    if error.key:
        spot.wrong_key(error.reason if error.whole else f"{spot.label} {error.reason}".lstrip())
    else:
        spot.wrong(error.reason)


def _header(table: Spot) -> str:
    """Return the name of a table as its header is written."""
    return f"[[{table.label}]]" if table.path and isinstance(table.path[-1], int) else f"[{table.label}]"
