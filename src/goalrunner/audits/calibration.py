"""Calibrations: how good judges are, by their audits of labelled transcripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from goalrunner.app.goal_models import goal_judge
from goalrunner.audits.auditor import Auditor, OnEnd
from goalrunner.audits.dataset import Sample, read_dataset
from goalrunner.audits.judge_statistics import (
    Agreement,
    JudgeStatistics,
    LabelledAudit,
    Series,
    agreement_of,
    statistics_of,
)
from goalrunner.audits.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.audits.spending import Spending
from goalrunner.audits.transcript_audits import AuditJob, Policy
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.llm import LLM
from goalrunner.transcripts import SavedTrail

# The highest `[judge] max_tokens`. An audit takes at most half of the model's context
# window, so this value stands for "as much as the model accepts".
_WHOLE = 10_000_000


class Fault(Frozen):
    """A sample that does not count for a judge under a policy.

    If judge and policy are None, it counts for none.
    """

    line: int
    path: str
    message: str
    judge: str | None = None
    policy: Policy | None = None


class Audits(Frozen):
    """How many audits one call made, and how many it did not make."""

    asked: int
    left: int
    stopped: str
    """Why audits were not made; empty if none are left."""


class Calibration(Frozen):
    """The result of one call, as `goal judge calibrate --json` prints it."""

    dataset: str
    results: str
    samples: dict[str, int]
    """How many samples have each label."""
    judges: tuple[JudgeStatistics, ...]
    agreement: tuple[Agreement, ...]
    faults: tuple[Fault, ...]
    audits: Audits
    usage: Usage
    """The usage of this call."""


class _WholeJob(AuditJob):
    """The audit of a transcript that must be readable from its beginning to its end."""

    def read(self) -> SavedTrail:
        saved = super().read()
        # The missing part could contain the proof, so the label says nothing about
        # the judge.
        if saved.partial:
            raise UsageError(f"the transcript is not whole: {saved.partial}")
        return saved


def _job(sample: Sample, series: Series) -> AuditJob:
    """Return the audit of a sample. Raise GoalFileError."""
    options: dict[str, Any] = {"judge.model": series.judge}
    if sample.goal is not None:
        goal_file = sample.folder / sample.goal
        goal = load_goal(goal_file, options, os.environ, runnable=False)
    else:
        options = {"objective": sample.objective, **options}
        goal = resolve_goal({}, options, os.environ, runnable=False)
    # A calibration looks for a minimum score, so none may cut the scores off.
    update: dict[str, Any] = {"minimum_score": 0.0}
    if series.policy == "whole":
        update["max_tokens"] = _WHOLE
    goal = goal.model_copy(update={"judge": goal.judge.model_copy(update=update)})
    return _WholeJob(sample.folder / sample.path, goal, policy=series.policy)


class _Tally:
    """The audits that count and the faults, collected sample by sample."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.counted: dict[Series, dict[int, LabelledAudit]] = {
            one: {} for one in series
        }
        self._first_lines: dict[str, int] = {}
        # By line and series; the series is None for a fault of the sample itself,
        # which every series reports.
        self._faults: dict[tuple[int, Series | None], Fault] = {}

    def add(self, sample: Sample, series: Series, audit: TranscriptAudit) -> None:
        """Count an audit, or note why it does not count."""
        line = sample.line
        # Without a key the transcript could not be read, so it equals no other.
        first_line = self._first_lines.setdefault(audit.key or str(line), line)
        if first_line != line:
            message = (
                f"the same transcript and goal as line {first_line}; "
                "it is not counted again"
            )
            fault = Fault(line=line, path=sample.path, message=message)
            self._faults[line, None] = fault
            return
        fault = Fault(line=line, path=sample.path, message=audit.problem)
        if audit.result == "unreadable":
            self._faults[line, None] = fault
        elif audit.verdict is not None:
            self.counted[series][line] = LabelledAudit(sample.label, audit)
        elif audit.result != "not audited":
            self._faults[line, series] = fault.model_copy(update=series._asdict())

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults by line."""
        return tuple(sorted(self._faults.values(), key=lambda fault: fault.line))


async def calibrate_judges(
    dataset: Path,
    series: Sequence[Series],
    results: KeptVerdicts,
    target: float | None = None,
    *,
    jobs: int = 4,
    budget: Budget = Budget(),  # noqa: B008  frozen and empty
    model: Callable[[Goal], LLM] = goal_judge,
    on_end: OnEnd | None = None,
) -> Calibration:
    """Make the audits that have no verdict yet and return statistics of all verdicts.

    `jobs` audits are made at a time. Unreadable transcripts and failed audits are
    faults. Of equal samples, only the first one counts. With a `target` for false
    accepts, the statistics have a threshold. Raise UsageError for an invalid dataset,
    GoalFileError for an invalid goal, AuthenticationFailed or ModelNotFound for a judge
    that cannot be asked at all, RecordError if verdicts cannot be kept.
    """
    samples = read_dataset(dataset)
    pairs = [(sample, one) for sample in samples for one in series]
    spending = Spending(budget)
    auditor = Auditor(results, spending, model, measuring=True, on_end=on_end)
    audits = await auditor.run([_job(*pair) for pair in pairs], jobs)
    tally = _Tally(series)
    for (sample, one), audit in zip(pairs, audits, strict=True):
        tally.add(sample, one, audit)
    complete = sum(sample.label for sample in samples)
    return Calibration(
        dataset=str(dataset),
        results=str(results.path),
        samples={"complete": complete, "incomplete": len(samples) - complete},
        judges=tuple(
            statistics_of(one, of_series, target)
            for one, of_series in tally.counted.items()
        ),
        agreement=_agreements(tally),
        faults=tally.faults,
        audits=_audits_of_call(audits),
        usage=spending.total,
    )


def _agreements(tally: _Tally) -> tuple[Agreement, ...]:
    """Return how far each two judges with the same policy agree."""
    agreements = []
    for one, other in combinations(tally.counted, 2):
        if one.policy == other.policy:
            first, second = tally.counted[one], tally.counted[other]
            agreements.append(agreement_of(one, other, first, second))
    return tuple(agreements)


def _audits_of_call(audits: Sequence[TranscriptAudit]) -> Audits:
    remaining = [audit for audit in audits if audit.result == "not audited"]
    asked = 0
    for audit in audits:
        # An audit without a key is of a transcript that could not be read.
        if audit.key and audit.result != "not audited" and not audit.was_kept:
            asked += 1
    stopped = remaining[0].problem if remaining else ""
    return Audits(asked=asked, left=len(remaining), stopped=stopped)
