"""A calibration: each judge audits labelled transcripts under each policy. Known verdicts are used again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, StringConstraints, ValidationError, model_validator

from goalrunner.app.audits import AuditJob, Auditor, Policy
from goalrunner.app.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.app.run_options import goal_judge
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.llm import LLM

_WHOLE = 10_000_000  # the highest `[judge] max_tokens`; an audit takes at most half of the model's context window
_FORM = 'Each line is a JSON object: {"path": "chat.jsonl", "objective": "The tests pass.", "label": true}'
_LABELS = {"complete": True, "incomplete": False}

_Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_Label = Annotated[bool, BeforeValidator(lambda value: _LABELS.get(value, value) if isinstance(value, str) else value)]


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

    @property
    def file(self) -> Path:
        return self.folder / self.path


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
            first = error.errors(include_url=False, include_input=False)[0]
            where = "".join(f"{key}: " for key in first["loc"][:1])
            raise UsageError(f"{path}:{number}  {where}{first['msg'].removeprefix('Value error, ')}", _FORM) from None
        samples.append(sample.model_copy(update={"line": number, "folder": path.parent}))
    if not samples:
        raise UsageError(f"{path}: the dataset has no samples", _FORM)
    return samples


class Series(NamedTuple):
    """One judge under one policy."""

    judge: str
    policy: Policy


class Fault(NamedTuple):
    """A sample that does not count in a series, or, if `series` is None, in any."""

    sample: Sample
    message: str
    series: Series | None = None


Verdicts = Sequence[tuple[Sample, TranscriptAudit]]


@dataclass(frozen=True)
class Calibration:
    """The verdicts of each series with their samples, and what was left out."""

    samples: Sequence[Sample]
    verdicts: Mapping[Series, Verdicts]
    faults: Sequence[Fault]
    asked: int  # audits of this call; the other verdicts were known
    left: int  # audits that were not made, because the budget was spent
    stopped: str  # why audits are left; empty if none are
    spent: Usage  # by this call


def _job(sample: Sample, series: Series) -> AuditJob:
    """Return the audit of a sample, without a minimum score: a calibration looks for one. Raise GoalFileError."""
    given: dict[str, Any] = {"judge.model": series.judge}
    if sample.goal is not None:
        goal = load_goal(sample.folder / sample.goal, given, os.environ, runnable=False)
    else:
        goal = resolve_goal({}, {"objective": sample.objective, **given}, os.environ, runnable=False)
    update = {"minimum_score": 0.0, **({"max_tokens": _WHOLE} if series.policy == "whole" else {})}
    goal = goal.model_copy(update={"judge": goal.judge.model_copy(update=update)})
    return AuditJob(sample.file, goal, policy=series.policy)


async def calibrate(
    samples: Sequence[Sample],
    series: Sequence[Series],
    results: KeptVerdicts,
    *,
    jobs: int = 4,
    budget: Budget = Budget(),  # noqa: B008  frozen and empty
    model: Callable[[Goal], LLM] = goal_judge,
    on_end: Callable[[TranscriptAudit], None] = lambda _: None,
) -> Calibration:
    """Make the audits that have no verdict yet, `jobs` at a time, and return all verdicts.

    Unreadable transcripts and failed audits are faults. Of equal samples, only the first one counts. Raise
    GoalFileError for an invalid goal, AuthenticationFailed or ModelNotFound for a judge that cannot be asked at all,
    RecordError if verdicts cannot be kept. `on_end` is called after each audit or known verdict.
    """
    todo = [(sample, one) for sample in samples for one in series]
    auditor = Auditor(results, budget, model=model, measuring=True, on_end=on_end)
    found = await auditor.run([_job(*one) for one in todo], jobs)
    verdicts: dict[Series, list[tuple[Sample, TranscriptAudit]]] = {one: [] for one in series}
    first: dict[str, Sample] = {}
    faults: dict[Sample | tuple[Sample, Series], Fault] = {}
    for (sample, one), audit in zip(todo, found, strict=True):
        same = first.setdefault(audit.key or str(sample.line), sample)
        if same is not sample:
            what = f"the same transcript and goal as line {same.line}; it is not counted again"
            faults[sample] = Fault(sample, what)
        elif audit.result == "unreadable":
            faults[sample] = Fault(sample, audit.problem)
        elif audit.verdict is not None:
            verdicts[one].append((sample, audit))
        elif audit.result != "not audited":
            faults[sample, one] = Fault(sample, audit.problem, one)
    left = [audit for audit in found if audit.result == "not audited"]
    return Calibration(
        samples=samples,
        verdicts=verdicts,
        faults=sorted(faults.values(), key=lambda fault: fault.sample.line),
        asked=sum(not audit.is_known for audit in found if audit.key) - len(left),
        left=len(left),
        stopped=left[0].problem if left else "",
        spent=auditor.spending.total,
    )
