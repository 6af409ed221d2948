"""The functions of the library for many goals, and for several runs of one goal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import AwareDatetime, Field, ValidationError

from goalrunner.app.library import run_blocking, value_refusal
from goalrunner.app.previous_run import load_run
from goalrunner.batches.batch_folder import BatchFolder, event_time
from goalrunner.batches.candidates import GroupChoice
from goalrunner.batches.displays import BatchDisplay, BatchView
from goalrunner.batches.frozen_goal import FrozenGoal
from goalrunner.batches.group_runs import group_runs
from goalrunner.batches.history import BatchEvent
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.batches.rows import BatchMoment
from goalrunner.batches.scheduler import Scheduler
from goalrunner.batches.submission import Submission, submit
from goalrunner.core.constructors import shows_keywords
from goalrunner.core.errors import (
    UsageError,
    kind_of,
    one_line,
    unexpected_keyword,
)
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.records.run_folder import RUNS, RunFolder, goal_home
from goalrunner.records.run_search import new_run_id

GoalSource = Goal | Path | str
"""A goal, or the path of a goal file, of a folder of them, or of a table."""

_GROUP_SIZE = 3
"""The runs of `best_of` if nothing says how many."""


@dataclass(frozen=True)
class BatchOutcome:
    """How a batch of goals, or a group of runs of one goal, ended.

    >>> from goalrunner import BatchOutcome
    >>> BatchOutcome("night", "/batches/night", passed=True, runs={}).winner is None
    True
    """

    batch_id: str
    """Its name: `goal batch --resume NAME` goes on with it."""
    path: str
    """Its folder."""
    passed: bool
    """Whether enough runs are complete: all, `at_least`, or one of a group."""
    runs: Mapping[str, GoalOutcome]
    """The outcome of each run by the name of its entry, in the order of the goals. Runs
    that never began are missing.
    """
    ranking: tuple[GoalOutcome, ...] = ()
    """The verified runs of a group, the best first; empty for a batch of goals."""
    stopped: str = ""
    """Why the batch was stopped, such as a limit; empty: it was not."""

    @property
    def winner(self) -> GoalOutcome | None:
        """The best verified run of a group; None if there is none."""
        return self.ranking[0] if self.ranking else None

    @property
    def total(self) -> Usage:
        """What all runs together used."""
        return sum((outcome.total for outcome in self.runs.values()), Usage())


class SharedKeywords(TypedDict, total=False):
    """The keywords that `run_batch` and `best_of` have in common."""

    judge: str | None
    """The judge's model; None: that of each goal."""
    cost_usd: float | None
    """US dollars of all runs together; None: no limit."""
    tokens: int | None
    """Tokens of all runs together; None: no limit."""
    until: datetime | None
    """When all runs stop, with a time zone; None: never."""
    name: str
    """Of the batch; empty: a new one."""
    on_event: Callable[[BatchEvent], None] | None
    """Called with each event of the batch."""
    home: Path | str | None
    """Where the records are made; None: GOAL_HOME."""


class BatchKeywords(SharedKeywords, total=False):
    """The keywords of `run_batch`."""

    jobs: int
    """The most runs at the same time."""
    template: Path | str | None
    """The goal file for the rows of tables."""
    agent: str | None
    """None: that of each goal."""
    model: str | None
    """None: that of each goal."""
    max_failures: int | None
    """No goal begins after so many without success; None: no limit."""
    retries: int
    """How often a failed run is resumed."""
    at_least: int | None
    """Complete goals that are a success; None: all."""


class GroupKeywords(SharedKeywords, total=False):
    """The keywords of `best_of`."""

    agents: Sequence[str] | str
    """Used in turn; empty: that of the goal."""
    models: Sequence[str] | str
    """Used in turn; empty: that of the goal."""
    first: bool
    """Whether the first verified run ends the others."""


_SHARED_DEFAULTS = {
    "judge": None,
    "cost_usd": None,
    "tokens": None,
    "until": None,
    "name": "",
    "on_event": None,
    "home": None,
}
_BATCH_DEFAULTS = {
    **_SHARED_DEFAULTS,
    "jobs": 4,
    "template": None,
    "agent": None,
    "model": None,
    "max_failures": None,
    "retries": 0,
    "at_least": None,
}
_GROUP_DEFAULTS = {**_SHARED_DEFAULTS, "agents": (), "models": (), "first": True}


class _Settings(Frozen):
    """The checked values of these keywords."""

    jobs: int = Field(default=4, ge=1)
    cost_usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=1)
    until: AwareDatetime | None = None
    max_failures: int | None = Field(default=None, ge=1)
    retries: int = Field(default=0, ge=0)
    at_least: int | None = Field(default=None, ge=1)
    # The same names as those of `goal batch --name`: a folder and a branch have it.
    name: str = Field(default="", pattern="^([A-Za-z0-9][A-Za-z0-9_-]{0,59})?$")

    @property
    def limits(self) -> BatchLimits:
        return BatchLimits(
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            until=self.until.isoformat() if self.until else None,
            max_failures=self.max_failures,
        )


@shows_keywords(BatchKeywords, _BATCH_DEFAULTS)
def run_batch(
    goals: GoalSource | Iterable[GoalSource], **options: Unpack[BatchKeywords]
) -> BatchOutcome:
    """Run `arun_batch`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop.

    >>> from goalrunner import run_batch
    >>> outcome = run_batch(["a.toml", "b.toml"], jobs=2)  # doctest: +SKIP
    >>> {name: run.status for name, run in outcome.runs.items()}  # doctest: +SKIP
    """
    return run_blocking(arun_batch(goals, **options), "run_batch", "arun_batch")


@shows_keywords(BatchKeywords, _BATCH_DEFAULTS)
async def arun_batch(
    goals: GoalSource | Iterable[GoalSource], **options: Unpack[BatchKeywords]
) -> BatchOutcome:
    """Run many goals, each in a copy of its workspace, several at a time.

    `goals` are Goal objects and paths: of goal files, of folders with goal files, or of
    tables (.csv, .jsonl) whose rows fill the columns of `template`. Each run has a
    process of its own, so a Goal may not have a judge that is an object. `jobs` is the
    most runs at the same time. `cost_usd` (US dollars), `tokens` and `until` (a
    datetime with a time zone) are limits of all runs together; at one of them, all runs
    stop so that they can be resumed. No goal begins after `max_failures` ended without
    success. A failed run is resumed up to `retries` times. `agent`, `model` and `judge`
    replace those of each goal. `on_event` is called with each event once it is on disk.
    The records are made under `home` (default: GOAL_HOME).

    Return the outcome of each run; nothing is written into the workspaces. If the
    returned coroutine is cancelled, the runs end so that `goal batch --resume` can go
    on. Raise GoalFileError with the problems of all goals, UsageError and RecordError.

    >>> import asyncio
    >>> from goalrunner import arun_batch
    >>> work = arun_batch(["a.toml", "b.toml"], jobs=2, cost_usd=5)  # doctest: +SKIP
    >>> asyncio.run(work).passed  # doctest: +SKIP
    True
    """
    settings = _settings(options, "arun_batch")
    overrides = {
        "agent.use": options.get("agent"),
        "agent.model": options.get("model"),
        "judge.model": options.get("judge"),
    }
    submission = _submitted(
        _listed(goals), options.get("template"), _with_values(overrides)
    )
    entries = submission.entries
    if settings.at_least is not None and settings.at_least > len(entries):
        raise UsageError(
            f"at_least is {settings.at_least}, and there are {len(entries)} goals",
            "pass more goals, or a smaller number",
        )
    home = _home(options)
    plan = BatchPlan(
        batch_id=settings.name or new_run_id(home, entries[0].objective),
        created_at=event_time(),
        entries=entries,
        jobs=settings.jobs,
        limits=settings.limits,
        retries=settings.retries,
        at_least=settings.at_least,
    )
    folder = BatchFolder.create(home, plan, submission.texts)
    return await _driven(folder, options)


@shows_keywords(GroupKeywords, _GROUP_DEFAULTS)
def best_of(
    goal: GoalSource, n: int | None = None, **options: Unpack[GroupKeywords]
) -> BatchOutcome:
    """Run `abest_of`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop.

    >>> from goalrunner import apply, best_of
    >>> result = best_of("goal.toml", agents=["claude", "codex"])  # doctest: +SKIP
    >>> apply(result.winner)  # doctest: +SKIP
    """
    return run_blocking(abest_of(goal, n, **options), "best_of", "abest_of")


@shows_keywords(GroupKeywords, _GROUP_DEFAULTS)
async def abest_of(
    goal: GoalSource, n: int | None = None, **options: Unpack[GroupKeywords]
) -> BatchOutcome:
    """Work on one goal in `n` copies of its workspace at once.

    `goal` is a Goal or the path of a goal file. `agents` and `models` are used in turn;
    `n` None is as many runs as there are agents or models, or three. The first verified
    run ends the others; with `first=False`, all runs go on to their end. The verified
    ones are ranked: by the failures of hidden validators, the judge's score, the size
    of the change, the cost in US dollars, and the tokens. The other keywords are those
    of `arun_batch`.

    Return the outcome of each run, with the `ranking` and the `winner`. Nothing is
    written into the workspace; `apply(outcome.winner)` does that. Raise as `arun_batch`
    does.

    >>> import asyncio
    >>> from goalrunner import aapply, abest_of
    >>> result = asyncio.run(abest_of("goal.toml", 3))  # doctest: +SKIP
    >>> asyncio.run(aapply(result.winner))  # doctest: +SKIP
    ('src/parser.py',)
    """
    settings = _settings(options, "abest_of")
    agents, models = _names(options, "agents"), _names(options, "models")
    if n is None and max(len(agents), len(models)) < 2:
        n = _GROUP_SIZE
    choice = GroupChoice(agents, models, n, options.get("first"))
    # Wrong numbers are refused before the goal file is read.
    choice.is_group()
    # A goal may have no agent of its own: it is loaded with the first one.
    overrides = {
        "agent.use": next(iter(agents), None),
        "agent.model": next(iter(models), None),
        "judge.model": options.get("judge"),
    }
    frozen = _frozen(goal, _with_values(overrides))
    home = _home(options)
    name = settings.name or new_run_id(home, frozen.goal.objective)
    plan = choice.plan(frozen, settings.limits, name)
    texts = {entry.key: frozen.text for entry in plan.entries}
    return await _driven(BatchFolder.create(home, plan, texts), options)


def _settings(options: Mapping[str, Any], function: str) -> _Settings:
    """Return the checked values.

    Raise UsageError, and TypeError for an unknown keyword.
    """
    keywords = GroupKeywords if function == "abest_of" else BatchKeywords
    unknown = sorted(options.keys() - keywords.__annotations__.keys())
    if unknown:
        # The error that Python raises for a function with named parameters.
        raise unexpected_keyword(unknown[0], keywords.__annotations__)
    names = _Settings.model_fields.keys() & options.keys()
    try:
        return _Settings.model_validate({name: options[name] for name in names})
    except ValidationError as error:
        raise value_refusal(error, function) from None


def _names(options: Mapping[str, Any], keyword: str) -> tuple[str, ...]:
    """Return the agents or models of a call. Raise UsageError for something else."""
    value = options.get(keyword) or ()
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(
                f"{keyword} has {kind_of(name)}, which is no name",
                f'pass names: {keyword}=["claude", "codex"]',
            )
    return names


def _with_values(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options that have a value."""
    return {key: value for key, value in overrides.items() if value is not None}


def _home(options: Mapping[str, Any]) -> Path:
    return Path(options.get("home") or goal_home(os.environ))


def _listed(goals: GoalSource | Iterable[GoalSource]) -> list[GoalSource]:
    """Return the goals as a list. Raise UsageError for something else."""
    # A text is iterable, and would be taken for a list of letters.
    listed = [goals] if isinstance(goals, Goal | Path | str) else list(goals)
    for goal in listed:
        if not isinstance(goal, Goal | Path | str):
            raise UsageError(
                f"{kind_of(goal)} is not a goal", "pass Goal objects and paths"
            )
    if not listed:
        raise UsageError("there is no goal to run", "pass Goal objects and paths")
    return listed


def _submitted(
    goals: Sequence[GoalSource], template: Path | str | None, values: Mapping[str, Any]
) -> Submission:
    """Return the entries of all goals: those of files come first."""
    paths = [Path(goal) for goal in goals if not isinstance(goal, Goal)]
    entries: list[BatchEntry] = []
    texts: dict[str, str] = {}
    if paths:
        submission = submit(paths, Path(template) if template else None, values)
        entries += submission.entries
        texts |= submission.texts
    # Outcomes are returned by name, so no two entries may have the same.
    names = {entry.name for entry in entries}
    for goal in goals:
        if isinstance(goal, Goal):
            frozen = FrozenGoal.of_object(goal, values)
            name = _unused(one_line(frozen.goal.objective, 40), names)
            names.add(name)
            entry = frozen.entry(len(entries) + 1, name)
            entries.append(entry)
            texts[entry.key] = frozen.text
    return Submission(tuple(entries), texts)


def _unused(name: str, names: set[str]) -> str:
    """Return the name, with a number if another entry has it."""
    number, numbered = 1, name
    while numbered in names:
        number += 1
        numbered = f"{name}-{number}"
    return numbered


def _frozen(goal: GoalSource, values: Mapping[str, Any]) -> FrozenGoal:
    if isinstance(goal, Goal):
        return FrozenGoal.of_object(goal, values)
    if isinstance(goal, Path | str):
        return FrozenGoal.of_file(Path(goal), values, os.environ)
    raise UsageError(
        f"{kind_of(goal)} is not a goal", "pass a Goal, or the path of a goal file"
    )


async def _driven(folder: BatchFolder, options: SharedKeywords) -> BatchOutcome:
    """Drive a batch to its end, and return how it ended."""
    display = _Listener(options.get("on_event"))
    with folder.writing() as log:
        scheduler = Scheduler(folder, log, BatchView(display))
        # Signals are those of the calling program: a notebook has its own handlers.
        await scheduler.run(takes_signals=False)
    return _outcome(folder)


def _outcome(folder: BatchFolder) -> BatchOutcome:
    state = folder.state()
    outcomes: dict[str, GoalOutcome] = {}
    for entry in state.entries.values():
        run = RunFolder(folder.home / RUNS / entry.run_id)
        if entry.run_id and run.events.exists():
            outcomes[entry.entry.name] = load_run(run).outcome(run)
    ranking: list[GoalOutcome] = []
    if state.plan.kind == "group":
        for ranked_run in group_runs(folder, folder.home):
            if ranked_run.is_verified:
                ranking.append(outcomes[ranked_run.name])
    return BatchOutcome(
        folder.batch_id,
        str(folder.path),
        state.is_success,
        outcomes,
        tuple(ranking),
        state.stopped.reason if state.stopped else "",
    )


class _Listener(BatchDisplay):
    """Passes the events of a batch to a function."""

    def __init__(self, on_event: Callable[[BatchEvent], None] | None) -> None:
        self._on_event = on_event

    def begin(self, moment: BatchMoment) -> None:
        """Do nothing."""

    def on_event(self, event: BatchEvent, moment: BatchMoment) -> None:
        """Call the function."""
        if self._on_event is not None:
            self._on_event(event)

    def on_look(self, moment: BatchMoment) -> None:
        """Do nothing."""

    def finish(self, moment: BatchMoment) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
