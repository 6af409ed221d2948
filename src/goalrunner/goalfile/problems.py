"""Collecting errors of a goal file, with their positions and wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import GoalFileError, Problem
from goalrunner.goalfile.positions import NOWHERE, Key, Positions


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
