"""A calibration: how good judges are, by their audits of labelled transcripts. Known verdicts are used again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)

from goalrunner.app.goal_models import goal_judge
from goalrunner.audits.judge_statistics import (
    Agreement,
    JudgeStatistics,
    LabelledAudit,
    Series,
    agreement_of,
    statistics_of,
)
from goalrunner.audits.kept_verdicts import KeptVerdicts, Spending, TranscriptAudit
from goalrunner.audits.transcript_audits import AuditJob, Auditor, OnEnd, Policy
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen, first_problem
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.llm import LLM
from goalrunner.transcripts import SavedTrail

_WHOLE = 10_000_000  # the highest `[judge] max_tokens`; an audit takes at most half of the model's context window
_FORM = 'Each line is a JSON object: {"path": "chat.jsonl", "objective": "The tests pass.", "label": true}'
_LABELS = {"complete": True, "incomplete": False}

_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Label = Annotated[
    bool,
    BeforeValidator(
        lambda value: _LABELS.get(value, value) if isinstance(value, str) else value
    ),
]


class Sample(BaseModel, frozen=True, strict=True, hide_input_in_errors=True):
    """A line of the dataset: a transcript, its objective or goal file, and whether the work is really complete."""

    path: _Text
    objective: _Text | None = None
    goal: _Text | None = None
    label: _Label
    line: int = 0
    folder: Path = Path()  # of the dataset; paths are relative to it

    @model_validator(mode="after")
    def _has_one_goal(self) -> Self:
        if (self.objective is None) == (self.goal is None):
            raise ValueError("either objective or goal (a goal file) is needed")
        return self


def read_dataset(path: Path) -> list[Sample]:
    """Return the samples. Raise UsageError with the line of the first invalid sample."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read the dataset: {error}", _FORM) from None
    samples = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            sample = Sample.model_validate_json(text)
        except ValidationError as error:
            raise UsageError(
                f"{path}:{number}  {first_problem(error)}", _FORM
            ) from None
        samples.append(
            sample.model_copy(update={"line": number, "folder": path.parent})
        )
    if not samples:
        raise UsageError(f"{path}: the dataset has no samples", _FORM)
    return samples


class Fault(Frozen):
    """A sample that does not count for a judge under a policy; if these are None, for any."""

    line: int
    path: str
    message: str
    judge: str | None = None
    policy: Policy | None = None


class Audits(Frozen):
    """The audits of one call: how many were made, how many are left, and why; empty if none are."""

    asked: int
    left: int
    stopped: str


class Calibration(Frozen):
    """The result of one call, as `goal judge calibrate --json` prints it."""

    dataset: str
    results: str
    samples: dict[str, int]  # by label
    judges: tuple[JudgeStatistics, ...]
    agreement: tuple[Agreement, ...]
    faults: tuple[Fault, ...]
    audits: Audits
    usage: Usage  # of this call


class _WholeJob(AuditJob):
    """The audit of a transcript that is not judged if a part of it cannot be read."""

    def read(self) -> SavedTrail:
        saved = super().read()
        if saved.partial:
            raise UsageError(f"the transcript is not whole: {saved.partial}")
        return saved


def _job(sample: Sample, series: Series) -> AuditJob:
    """Return the audit of a sample, without a minimum score: a calibration looks for one. Raise GoalFileError."""
    given: dict[str, Any] = {"judge.model": series.judge}
    if sample.goal is not None:
        goal = load_goal(sample.folder / sample.goal, given, os.environ, runnable=False)
    else:
        goal = resolve_goal(
            {}, {"objective": sample.objective, **given}, os.environ, runnable=False
        )
    update = {
        "minimum_score": 0.0,
        **({"max_tokens": _WHOLE} if series.policy == "whole" else {}),
    }
    goal = goal.model_copy(update={"judge": goal.judge.model_copy(update=update)})
    return _WholeJob(sample.folder / sample.path, goal, policy=series.policy)


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
    """Make the audits that have no verdict yet, `jobs` at a time, and return statistics of all verdicts.

    Unreadable transcripts and failed audits are faults. Of equal samples, only the first one counts. With a `target`
    for false accepts, the statistics have a threshold. Raise UsageError for an invalid dataset, GoalFileError for an
    invalid goal, AuthenticationFailed or ModelNotFound for a judge that cannot be asked at all, RecordError if verdicts
    cannot be kept.
    """
    samples = read_dataset(dataset)
    todo = [(sample, one) for sample in samples for one in series]
    spending = Spending(budget)
    auditor = Auditor(results, spending, model, measuring=True, on_end=on_end)
    audits = await auditor.run([_job(*one) for one in todo], jobs)
    counted: dict[Series, dict[int, LabelledAudit]] = {one: {} for one in series}
    first_lines: dict[str, int] = {}  # by key
    faults: dict[tuple[int, Series | None], Fault] = {}
    for (sample, one), audit in zip(todo, audits, strict=True):
        line = sample.line
        fault = Fault(line=line, path=sample.path, message=audit.problem)
        first = first_lines.setdefault(audit.key or str(line), line)
        if first != line:
            message = (
                f"the same transcript and goal as line {first}; it is not counted again"
            )
            faults[line, None] = fault.model_copy(update={"message": message})
        elif audit.result == "unreadable":
            faults[line, None] = fault
        elif audit.verdict is not None:
            counted[one][line] = LabelledAudit(sample.label, audit)
        elif audit.result != "not audited":
            faults[line, one] = fault.model_copy(update=one._asdict())
    complete = sum(sample.label for sample in samples)
    pairs = [
        pair for pair in combinations(counted, 2) if pair[0].policy == pair[1].policy
    ]
    return Calibration(
        dataset=str(dataset),
        results=str(results.path),
        samples={"complete": complete, "incomplete": len(samples) - complete},
        judges=tuple(
            statistics_of(one, of_series, target) for one, of_series in counted.items()
        ),
        agreement=tuple(
            agreement_of(one, other, counted[one], counted[other])
            for one, other in pairs
        ),
        faults=tuple(sorted(faults.values(), key=lambda fault: fault.line)),
        audits=_audits_of_call(audits),
        usage=spending.total,
    )


def _audits_of_call(audits: Sequence[TranscriptAudit]) -> Audits:
    remaining = [audit for audit in audits if audit.result == "not audited"]
    new = [
        audit
        for audit in audits
        if audit.key and not audit.is_known and audit.result != "not audited"
    ]
    stopped = remaining[0].problem if remaining else ""
    return Audits(asked=len(new), left=len(remaining), stopped=stopped)
