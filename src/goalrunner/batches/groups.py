"""Several runs of one goal as a batch: what is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from goalrunner.batches.candidates import Candidate
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.core.errors import one_line
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import Goal


@dataclass(frozen=True)
class GroupGoal:
    """The goal of a group, as it was when the group was submitted."""

    goal: Goal
    """The goal that text and options make."""
    text: str
    """That of the goal file; empty for options alone."""
    source: str
    """The goal file, absolute; empty for options alone."""
    options: Mapping[str, Any]
    """What replaces keys of the goal file, by dotted key."""

    @property
    def agent_name(self) -> str:
        """The name of a run whose agent and model are those of the goal."""
        agent = self.goal.agent
        return ",".join(agent.names) if agent.external else agent.model

    def frozen_options(self) -> dict[str, Any]:
        """Return the options without paths that depend on the current folder."""
        options = {**self.options, "workspace.path": self.goal.workspace.path}
        models = {
            "agent.model": self.goal.agent.model,
            "judge.model": self.goal.judge.model,
        }
        for key, model in models.items():
            if str(options.get(key, "")).startswith(SCRIPTED):
                options[key] = model
        return options

    def plan(
        self,
        batch_id: str,
        runs: Sequence[Candidate],
        limits: BatchLimits,
        *,
        ends_at_first: bool,
    ) -> BatchPlan:
        """Return the plan of a group, whose runs all begin at once."""
        entries = [self._entry(number, run) for number, run in enumerate(runs, 1)]
        return BatchPlan(
            batch_id=batch_id,
            kind="group",
            created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            entries=tuple(entries),
            jobs=len(entries),
            limits=limits,
            ends_at_first=ends_at_first,
        )

    def _entry(self, number: int, run: Candidate) -> BatchEntry:
        return BatchEntry(
            key=str(number),
            name=run.name,
            source=self.source,
            objective=one_line(self.goal.objective),
            workspace=self.goal.workspace.path,
            clone=self.goal.workspace.isolate == "clone",
            options={**self.frozen_options(), **run.options},
        )
