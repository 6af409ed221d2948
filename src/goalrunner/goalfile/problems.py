"""The problems of a goal, and where each value was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import GoalFileError, Problem
from goalrunner.goalfile.toml_text import NO_POSITIONS, NOWHERE, Key, Place, Positions


@dataclass
class Problems:
    """The problems so far, and the keys that need no second message."""

    # A dict keeps the order, and holds each problem once.
    noted: dict[Problem, None] = field(default_factory=dict)
    excused: set[Key] = field(default_factory=set)

    def add(self, message: str, key: str = "", place: Place = NOWHERE) -> None:
        """Add a problem, unless it is already noted."""
        line, column = place
        problem = Problem(message=message, key=key, line=line, column=column)
        self.noted[problem] = None

    def excuses(self, *paths: Key) -> bool:
        """Return whether a problem is already noted at one of these keys.

        A problem above or below a key counts as well.
        """
        return any(
            excused[: len(path)] == path[: len(excused)]
            for excused in self.excused
            for path in paths
        )

    def raise_any(self, path: str) -> None:
        """Raise all problems at once, in the order of the file.

        Those without a line come last. Do nothing if there are none.
        """
        if not self.noted:
            return

        def place(problem: Problem) -> tuple[float, int]:
            return problem.line or float("inf"), problem.column

        raise GoalFileError(path, tuple(sorted(self.noted, key=place)))


@dataclass(frozen=True)
class ValueSource:
    """The source of values: a file, the options, or the environment."""

    problems: Problems
    base: Path = Path()
    """The folder that relative paths start from."""
    positions: Positions = NO_POSITIONS
    names: Mapping[Key, str] = field(default_factory=dict)
    """Names of keys that differ from the dotted name: `--timeout`, `GOAL_MODEL`."""
    textual: bool = False
    """Whether numbers may be text, as on a command line."""


@dataclass(frozen=True)
class Spot:
    """The place of a value in its source, to report problems there."""

    source: ValueSource
    path: Key = ()

    @property
    def label(self) -> str:
        """The name of the key for messages."""
        for length in range(len(self.path), 0, -1):
            name = self.source.names.get(self.path[:length])
            if name:
                return name
        return ".".join(str(part) for part in self.path if not isinstance(part, int))

    @property
    def header(self) -> str:
        """The name of the table as its header is written."""
        is_element = bool(self.path) and isinstance(self.path[-1], int)
        return f"[[{self.label}]]" if is_element else f"[{self.label}]"

    def item(self, step: str | int) -> Spot:
        """Return the spot of a value inside this one."""
        return Spot(self.source, (*self.path, step))

    def wrong(self, rest: str) -> None:
        """Report a wrong value; the message is the key's name and `rest`."""
        self._note(f"{self.label} {rest}", self.source.positions.value(self.path))

    def wrong_key(self, message: str) -> None:
        """Report a wrong key, or its table as a whole."""
        self._note(message, self.source.positions.key(self.path))

    def _note(self, message: str, place: Place) -> None:
        self.source.problems.add(message, self.label, place)
        self.source.problems.excused.add(self.path)
