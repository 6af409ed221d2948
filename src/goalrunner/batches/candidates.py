"""What differs between the runs of a group: the agents and the models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING

from goalrunner.core.errors import UsageError, quoted
from goalrunner.reports.short_forms import model_name

if TYPE_CHECKING:
    from goalrunner.batches.frozen_goal import FrozenGoal
    from goalrunner.batches.plan import BatchLimits, BatchPlan

MOST_RUNS = 32
"""The most runs of a group. A larger number is rather a mistake than a wish."""


@dataclass(frozen=True)
class Candidate:
    """One run of a group."""

    name: str
    """Unique in the group: "codex", or "codex 2" if there are several."""
    agent: str | None
    """What the goal file's agent is replaced by; None: nothing."""
    model: str | None

    @property
    def options(self) -> dict[str, str]:
        """The keys of the goal file that it replaces, by dotted key."""
        options: dict[str, str] = {}
        if self.agent is not None:
            options["agent.use"] = self.agent
        if self.model is not None:
            options["agent.model"] = self.model
        return options


@dataclass(frozen=True)
class GroupChoice:
    """The runs of a group, as options name them."""

    agents: Sequence[str] = ()
    models: Sequence[str] = ()
    """Agents and models are used in turn. A single one is that of all runs."""
    number: int | None = None
    """None: as many as agents or models."""
    first: bool | None = None
    """Whether the others are ended when one run is verified; None: not named."""

    def is_group(self) -> bool:
        """Return whether several runs are chosen.

        Raise UsageError if the options make neither a group nor a single run.
        """
        if self.number is not None or max(len(self.agents), len(self.models)) > 1:
            # Called for its errors: they come before the goal is loaded.
            self._pairs()
            return True
        if self.first is not None:
            option = "--first" if self.first else "--all"
            raise UsageError(
                f"{option} is for several runs of one goal",
                f"add --best-of N, or several --agent; or remove {option}",
            )
        return False

    @property
    def ends_at_first(self) -> bool:
        """Whether the others are ended when one run is verified."""
        return self.first is not False

    def candidates(self, default: str) -> tuple[Candidate, ...]:
        """Return the runs; `default` names one without an agent and a model.

        Raise UsageError if they do not make a group.
        """
        pairs = self._pairs()
        chosen = list(islice(cycle(pairs), self.number or len(pairs)))
        times = Counter(chosen)
        counted: Counter[_Pair] = Counter()
        runs = []
        for pair in chosen:
            agent, model = pair
            names = [agent, model and model_name(model)]
            name = " ".join(filter(None, names)) or default
            counted[pair] += 1
            # A table and a report must tell several runs of one agent apart.
            if times[pair] > 1:
                name += f" {counted[pair]}"
            runs.append(Candidate(name, *pair))
        return tuple(runs)

    def plan(self, goal: FrozenGoal, limits: BatchLimits, name: str) -> BatchPlan:
        """Return the plan of a group of this name, whose runs all begin at once.

        Raise UsageError if the options do not make a group, and GoalFileError if the
        goal cannot be run with one of the agents.
        """
        # Slow to import, and most runs are no group.
        from goalrunner.batches.batch_folder import event_time
        from goalrunner.batches.plan import BatchPlan

        entries = []
        for number, run in enumerate(self.candidates(goal.agent_name), 1):
            # An unknown agent is reported before another one has spent something.
            goal_of_run = goal.with_options(run.options)
            entries.append(goal_of_run.entry(number, run.name))
        return BatchPlan(
            batch_id=name,
            kind="group",
            created_at=event_time(),
            entries=tuple(entries),
            # The runs compete, so none of them waits for a free job.
            jobs=len(entries),
            limits=limits,
            ends_at_first=self.ends_at_first,
        )

    def _pairs(self) -> list[_Pair]:
        """Return the agents with their models, each pair once. Raise UsageError."""
        pairs = _pairs(self.agents, self.models)
        _check_number(len(pairs) if self.number is None else self.number, len(pairs))
        return pairs


_Pair = tuple[str | None, str | None]
"""An agent and a model; None: that of the goal."""


def refuse_options(options: Mapping[str, object]) -> None:
    """Raise UsageError if an option that only a single run can have is set.

    `options` has their values by name.
    """
    for name, value in options.items():
        if value:
            raise UsageError(
                f"{name} is for a single run, and these are several", _HINTS[name]
            )


_HINTS = {
    "--record": "record one run: goal run --agent NAME --record FILE",
    "--continue-from": "goal resume RUN continues one conversation",
    "--detach": "goal run ... & or a terminal multiplexer; goal watch GROUP follows it",
    "--dry-run": "look at each agent: goal run --agent NAME --dry-run",
    "--fresh": "leave it out: each run takes its baseline anew",
    "--id": "leave it out: goal batch --resume GROUP goes on with a group",
}
"""What to do instead of an option that is for a single run."""


def _pairs(agents: Sequence[str], models: Sequence[str]) -> list[_Pair]:
    if len(agents) > 1 and len(models) > 1 and len(agents) != len(models):
        raise UsageError(
            f"{len(agents)} agents and {len(models)} models cannot be paired",
            "give one --model for all agents, or one for each --agent, in their order",
        )
    length = max(len(agents), len(models), 1)
    pairs = list(zip(_filled(agents, length), _filled(models, length), strict=True))
    repeated, times = Counter(pairs).most_common(1)[0]
    if times > 1:
        words = " with ".join(map(quoted, filter(None, repeated)))
        raise UsageError(
            f"{words} is named {times} times",
            f"for several runs of it: --best-of {times}",
        )
    return pairs


def _filled(values: Sequence[str], length: int) -> Sequence[str | None]:
    """Return a value for each pair; a single value, or else None, is that of all."""
    if len(values) > 1:
        return values
    only = next(iter(values), None)
    return [only] * length


def _check_number(number: int, pairs: int) -> None:
    if number < 2:
        raise UsageError(
            f"a group has at least 2 runs, not {number}",
            "choose 2 or more; goal run --isolate makes one run in a copy",
        )
    if number > MOST_RUNS:
        raise UsageError(
            f"{number} runs of one goal are too many; the most are {MOST_RUNS}",
            f"choose {MOST_RUNS} or less",
        )
    # The last agents would have no run, without a word about it.
    if number < pairs:
        raise UsageError(
            f"{number} runs are fewer than the {pairs} agents or models",
            f"choose {pairs} or more, or leave the number out",
        )
