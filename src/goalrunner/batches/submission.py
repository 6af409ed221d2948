"""From goal files, folders and tables to the entries of a batch.

All problems are found here, before a run begins.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from goalrunner.batches.frozen_goal import FrozenGoal
from goalrunner.batches.plan import BatchEntry
from goalrunner.batches.templates import Row, Template, read_rows
from goalrunner.core.errors import (
    GoalFileError,
    Problem,
    UsageError,
    one_line,
    quoted,
)
from goalrunner.core.goal import Goal
from goalrunner.goalfile.loading import load_goal_text, read_goal_text
from goalrunner.goalfile.place import PYPROJECT, project_of
from goalrunner.goalfile.toml_text import parse, read_text

_TABLES = (".csv", ".jsonl")
_GOAL_KEYS = frozenset({"objective", "validator", "validators", "success_criteria"})
"""A TOML file in a folder is a goal file if it has one of these keys."""
_MOST_PROBLEMS = 30
"""So many are printed."""


@dataclass(frozen=True)
class Submission:
    """The entries of a batch, and the text of each goal file by key."""

    entries: tuple[BatchEntry, ...]
    texts: dict[str, str]


@dataclass(frozen=True)
class _Source:
    """The text of one goal, and where it comes from."""

    path: Path
    """The goal file, or the template; absolute."""
    text: str
    name: str
    """A short name; the names of several goals may be the same."""
    row: Row | None = None

    @property
    def place(self) -> str:
        """The place for messages."""
        return str(self.path) if self.row is None else self.row.place


@dataclass
class _Goals:
    """The goals so far, with the problems of those that are not valid."""

    options: Mapping[str, Any]
    environ: Mapping[str, str]
    valid: list[tuple[_Source, Goal]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, source: _Source) -> None:
        """Load one goal, or note its problems."""
        try:
            goal = load_goal_text(
                source.text,
                str(source.path),
                self.options,
                self.environ,
                base=source.path.parent,
                workspace=project_of(source.path),
            )
        except GoalFileError as error:
            self.note(error, source.row)
        else:
            self.valid.append((source, goal))

    def note(self, error: GoalFileError, row: Row | None = None) -> None:
        """Note the problems of a goal; those of each row name it."""
        for line in str(error).splitlines():
            self.problems.append(line if row is None else f"{row.place}: {line}")

    def raise_problems(self) -> None:
        """Raise GoalFileError with the problems of all goals, if there are any."""
        if not self.problems:
            return
        lines = list(dict.fromkeys(self.problems))
        more = len(lines) - _MOST_PROBLEMS
        if more > 1:
            # A mistake in the template is one of each row.
            lines[_MOST_PROBLEMS:] = [f"... and {more:,} more problems"]
        raise GoalFileError("", tuple(Problem(message=line) for line in lines))


def submit(
    paths: Sequence[Path],
    template: Path | None,
    options: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
) -> Submission:
    """Return the goals of files, folders, and tables with a template.

    `options` replace keys of each goal file. Raise GoalFileError with the problems of
    all goals, and UsageError.
    """
    goals = _Goals(options, environ)
    for source in _distinct(_sources(paths, template, goals)):
        goals.add(source)
    goals.raise_problems()
    if not goals.valid:
        raise UsageError("there is no goal to run", "name goal files or folders")
    names = _unique_names([source for source, _ in goals.valid])
    keys: dict[str, str] = {}
    for number, (source, _) in enumerate(goals.valid, 1):
        # A row of a table has no file of its own, by which another goal could name it.
        if source.row is None:
            keys[os.path.realpath(source.path)] = str(number)
    entries: list[BatchEntry] = []
    texts: dict[str, str] = {}
    for number, (source, goal) in enumerate(goals.valid, 1):
        frozen = FrozenGoal(goal, source.text, str(source.path), options)
        after = _keys_before(source, goal, keys)
        entry = frozen.entry(number, names[number - 1], after=after)
        entries.append(entry)
        texts[entry.key] = source.text
    refuse_cycles(entries)
    return Submission(tuple(entries), texts)


def _sources(
    paths: Sequence[Path], template: Path | None, goals: _Goals
) -> Iterable[_Source]:
    tables = [path for path in paths if path.suffix.lower() in _TABLES]
    if template is not None and not tables:
        raise UsageError(
            "--template is given, but no table with its columns",
            "name a CSV or JSONL file: goal batch goals.csv --template goal.toml",
        )
    if tables and template is None:
        raise UsageError(
            f"{tables[0]} is a table, and needs a goal file for its rows",
            f"goal batch {tables[0]} --template goal.toml",
        )
    for path in paths:
        if path in tables:
            assert template is not None
            yield from _rows(path, Template.read(template), goals)
            continue
        files = _goal_files(path) if path.is_dir() else [path]
        for file in files:
            absolute = file.absolute()
            try:
                text = read_goal_text(file)
            except GoalFileError as error:
                goals.note(error)
            else:
                yield _Source(absolute, text, absolute.stem)


def _rows(table: Path, template: Template, goals: _Goals) -> Iterable[_Source]:
    rows = read_rows(table)
    for row in rows:
        name = row.values.get("name", "").strip() or f"{table.stem}-{row.number}"
        try:
            text = template.filled(row)
        except GoalFileError as error:
            goals.note(error)
            # The columns of all rows are the same.
            return
        yield _Source(template.path, text, one_line(name, 40), row)


def _goal_files(folder: Path) -> list[Path]:
    """Return the goal files in a folder, without those of folders below it."""
    files = []
    for path in sorted(folder.glob("*.toml")):
        if path.name == PYPROJECT or not path.is_file():
            continue
        table, _ = parse(read_text(path), str(path))
        if _GOAL_KEYS & table.keys():
            files.append(path)
    if not files:
        raise UsageError(
            f"there is no goal file in {folder}", "a goal file ends with .toml"
        )
    return files


def _distinct(sources: Iterable[_Source]) -> list[_Source]:
    """Return the goals. Raise UsageError if one of them is listed twice."""
    earlier: dict[tuple[str, str], _Source] = {}
    for source in sources:
        file = os.path.realpath(source.path)
        # All rows share the file of their template, and differ in their texts.
        identity = (file, "" if source.row is None else source.text)
        if identity in earlier:
            first = earlier[identity]
            again = "is listed twice"
            if source.row is not None:
                again = f"makes the same goal as {first.place}"
            raise UsageError(f"{source.place} {again}", "list each goal once")
        earlier[identity] = source
    return list(earlier.values())


def _unique_names(sources: Sequence[_Source]) -> list[str]:
    """Return a name for each goal: as short as it can be."""
    uses = Counter(source.name for source in sources)
    numbers: Counter[str] = Counter()
    # In their order, and fast to search: all rows may have the same name.
    names: dict[str, None] = {}
    for source in sources:
        name = source.name
        if uses[name] > 1 and source.row is None:
            name = os.path.relpath(source.path).removesuffix(".toml")
        numbered = name
        while numbered in names:
            numbers[name] += 1
            numbered = f"{name}-{numbers[name] + 1}"
        names[numbered] = None
    return list(names)


def _keys_before(
    source: _Source, goal: Goal, keys: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the keys of the entries that a goal comes after. Raise UsageError."""
    before = []
    for name in goal.after:
        path = os.path.realpath(source.path.parent / name)
        if path not in keys:
            raise UsageError(
                f"{source.place}: after names {quoted(name)}, "
                "which is not a goal of this batch",
                f"add {path} to the batch, or remove it from after",
            )
        before.append(keys[path])
    return tuple(before)


def refuse_cycles(entries: Sequence[BatchEntry]) -> None:
    """Raise UsageError if entries wait for each other."""
    names = {entry.key: entry.name for entry in entries}
    order = TopologicalSorter({entry.key: entry.after for entry in entries})
    try:
        order.prepare()
    except CycleError as error:
        # Each key in it is one that the next one comes after.
        circle = [names[key] for key in reversed(error.args[1])]
        raise UsageError(
            f"the goals wait for each other: {' after '.join(circle)}",
            "remove one of these names from after",
        ) from None
