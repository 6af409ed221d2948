"""Collecting errors of a goal file, with their positions and wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import GoalFileError, Problem
from goalrunner.goalfile.positions import NOWHERE, Key, Positions


class GoalInputError(GoalFileError):
    """A goal does not hold. A problem of an option or a variable bears its own name instead of the file's."""

    def _line(self, problem: Problem) -> str:
        own_name = problem.key.startswith("--") or problem.key.isupper()
        if not self.path or (own_name and not problem.line):
            return problem.message
        return super()._line(problem)


MOST = 100
"""Problems that are shown one by one."""


@dataclass
class Problems:
    """The problems found so far, and the keys that need no second complaint."""

    found: dict[Problem, None] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)
    unsaid: int = 0
    """How many more there are than a person would read."""

    @property
    def full(self) -> bool:
        """Whether there are as many as a person would read."""
        return len(self.found) >= MOST

    def add(self, message: str, key: str = "", place: tuple[int, int] = NOWHERE) -> None:
        """Note one problem; the same one twice is noted once."""
        problem = Problem(message=message, key=key, line=place[0], column=place[1])
        if self.full and problem not in self.found:
            self.unsaid += 1
        else:
            self.found[problem] = None

    def excuses(self, *paths: Key) -> bool:
        """Whether something is already known to be wrong at, above or below one of these keys."""
        return any(known[: len(path)] == path[: len(known)] for known in self.excused for path in paths)

    def raise_any(self, path: str) -> None:
        """Raise all of them at once, in the order of the file, those without a line last. Nothing when there are none."""
        if self.found:
            ordered = sorted(self.found, key=lambda problem: (problem.line or float("inf"), problem.column))
            more = (Problem(message=f"and {self.unsaid} more problems"),) if self.unsaid else ()
            raise GoalInputError(path, (*ordered, *more))


@dataclass(frozen=True)
class Source:
    """Where values come from: a file, the options, or the environment."""

    base: Path
    """The folder that relative paths start from."""
    positions: Positions | None = None
    names: Mapping[Key, str] = field(default_factory=dict)
    """What a key is called here, where not by its dotted name: `--timeout`, `GOAL_MODEL`."""
    textual: bool = False
    """Whether numbers may come as text, as they do on a command line."""

    def label(self, path: Key) -> str:
        """The name by which a person knows the key."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.names:
                return self.names[path[:length]]
        return ".".join(str(part) for part in path if not isinstance(part, int))


@dataclass(frozen=True)
class Spot:
    """One value's place in its source; what is wrong there is said here."""

    source: Source
    problems: Problems
    path: Key = ()

    @property
    def label(self) -> str:
        """The name of the key, as the person knows it."""
        return self.source.label(self.path)

    @property
    def parent(self) -> Spot:
        """The spot of the table or list around this value."""
        return Spot(self.source, self.problems, self.path[:-1])

    def item(self, step: str | int) -> Spot:
        """The spot of a value inside this one."""
        return Spot(self.source, self.problems, (*self.path, step))

    def wrong(self, rest: str) -> None:
        """The value is wrong: the message is the key's name and `rest`."""
        positions = self.source.positions
        place = positions.value(self.path) if positions else NOWHERE
        self._note(f"{self.label} {rest}", place)

    def wrong_key(self, message: str) -> None:
        """The key itself is wrong, or what stands under it as a whole."""
        positions = self.source.positions
        self._note(message, positions.key(self.path) if positions else NOWHERE)

    def _note(self, message: str, place: tuple[int, int]) -> None:
        self.problems.add(message, self.label, place)
        self.problems.excused.add(self.path)
