"""Audits of one saved transcript, or of many within a budget. Finished verdicts are kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from goalrunner.app.goal_models import goal_judge, goal_redactor, redacted_events
from goalrunner.audits.kept_verdicts import (
    EvidenceSource,
    KeptVerdicts,
    Result,
    Spending,
    SpendingRecorder,
    TranscriptAudit,
)
from goalrunner.audits.revision_checks import RevisionChecks
from goalrunner.core import VERSION
from goalrunner.core.errors import (
    AuthenticationFailed,
    GoalError,
    ModelError,
    ModelNotFound,
    UsageError,
)
from goalrunner.core.events import VerdictRecorded
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.audit import LLMJudge
from goalrunner.judge.citations import CheckedVerdict, check_verdict
from goalrunner.judge.prompt_builder import audit_form, audit_request, check_room
from goalrunner.judge.verdict_parser import JudgeOutcome, missing_of
from goalrunner.llm import LLM
from goalrunner.system.launcher import in_thread
from goalrunner.transcripts import SavedTrail, read_transcript

Policy = Literal["bounded", "whole", "no-citations"]
"""How a verdict is made: as in a run, with as much evidence as the model accepts, or without checking citations."""


@dataclass(frozen=True)
class AuditJob:
    """A transcript and the goal to judge it by."""

    path: Path | str
    goal: Goal
    format: str | None = None
    policy: Policy = "bounded"

    def read(self) -> SavedTrail:
        """Return the transcript. Raise UsageError if it cannot be read, RecordError for damaged records of a run."""
        return read_transcript(
            self.path, deliverable=self.goal.deliverable, format=self.format
        )

    def key(self, trail: SavedTrail) -> str:
        """Return the key of a kept verdict: a hash of the transcript, the goal, the judge's settings and the rules."""
        goal, judge, found = self.goal, self.goal.judge, hashlib.sha256()
        about: list[Any] = [
            *(
                goal.objective,
                goal.success_criteria,
                goal.constraints,
                goal.deliverable,
            ),
            goal.agent.model,
        ]
        about += [
            judge.model_dump(mode="json"),
            repr(audit_form(judge.system_prompt)),
            self.policy,
            VERSION,
        ]
        found.update(
            json.dumps([*about, self.format, trail.format, trail.partial]).encode()
        )
        for item in trail.items:
            text = trail.read(item).encode(errors="replace")
            found.update(f"\n{item.model_dump_json()}\n{len(text)}\n".encode())
            found.update(text)
        return found.hexdigest()[:32]

    def result(self, result: Result, problem: str, key: str = "") -> TranscriptAudit:
        """Return an audit without a verdict."""
        return TranscriptAudit(
            key=key, transcript=_shown(self.path), result=result, problem=problem
        )


def _shown(path: Path | str) -> str:
    return os.fsencode(path).decode(errors="replace")


async def audit_transcript(
    job: AuditJob, checks: RevisionChecks | None = None
) -> TranscriptAudit:
    """Audit one transcript ("-" is standard input). If a validator of `checks` failed, the judge is not asked.

    If a part of the transcript cannot be read, the verdict is never complete. Raise UsageError if nothing can be read,
    RecordError if the records of a run are damaged, and ModelError if the judge cannot be asked.
    """
    saved = await asyncio.to_thread(job.read)
    return await _audited(
        job, saved, goal_judge(job.goal), SpendingRecorder(Spending()), checks
    )


async def _audited(
    job: AuditJob,
    saved: SavedTrail,
    llm: LLM,
    recorder: SpendingRecorder,
    checks: RevisionChecks | None = None,
) -> TranscriptAudit:
    began, goal = time.monotonic(), job.goal
    trail = checks.added_to(saved) if checks is not None else saved
    redactor = goal_redactor(goal, os.environ)
    if checks is not None and not checks.verdict.complete:
        verdict = checks.verdict
    else:
        check = _unchecked if job.policy == "no-citations" else check_verdict
        judge = LLMJudge(llm, goal.judge, redact=redactor.text, check=check)
        request = audit_request(goal, redacted_events(trail, redactor))
        verdict = (await judge.audit(request, recorder)).verdict
    if saved.partial and verdict.complete:
        missing = f"The transcript was read only partly: {saved.partial}. What is missing could contradict the rest."
        verdict = verdict.model_copy(update={"complete": False, "missing": missing})
    failed = verdict.source == "fallback"
    return TranscriptAudit(
        transcript=_shown(job.path),
        result="judge failed"
        if failed
        else "complete"
        if verdict.complete
        else "not complete",
        verdict=GoalVerdict.model_validate(
            redactor.json(verdict.model_dump(mode="json"))
        ),
        problem=redactor.text(
            f"the judge's answers could not be read: {recorder.problem}"
        )
        if failed
        else "",
        format=saved.format,
        partial=saved.partial,
        evidence=_evidence(trail),
        forgeable=tuple(name for name in verdict.cited if name in set(saved.forgeable)),
        validators=checks.results if checks is not None else (),
        labels=checks.labels if checks is not None else (),
        judge=llm.model,
        usage=recorder.used,
        seconds=time.monotonic() - began,
    )


def _unchecked(outcome: JudgeOutcome, request: AuditRequest) -> CheckedVerdict:
    """Return the judge's verdict without a check of its citations."""
    verdict = GoalVerdict(
        score=outcome.score,
        complete=outcome.passed,
        missing="" if outcome.passed else missing_of(outcome),
        criteria=tuple(outcome.criteria),
        blocked=outcome.blocked.strip(),
    )
    return CheckedVerdict(VerdictRecorded(round=request.round, verdict=verdict))


def _evidence(trail: Trail) -> EvidenceSource:
    """Return the source of the tool results. Observations that contain only words of the agent do not count."""
    found = [
        item for item in trail.items if isinstance(item, Observation) and item.shows
    ]
    seen, reported = (
        any(not item.reported_by for item in found),
        any(item.reported_by for item in found),
    )
    return "both" if seen and reported else "runner" if seen else "transcript"


OnEnd = Callable[[int, int, TranscriptAudit], None]
"""Called with each audit when it has ended: the how many-th of how many it is, and the audit."""


@dataclass
class Auditor:
    """Audits many transcripts within one budget and keeps the verdicts. Errors are not kept: a later call tries again.

    With `measuring`, the audits measure the judge: answers that cannot be read are kept as well, and a verdict that the
    budget cut short does not count. `model` makes the judge of a goal.
    """

    kept: KeptVerdicts
    spending: Spending = field(default_factory=Spending)
    model: Callable[[Goal], LLM] = goal_judge
    measuring: bool = False
    on_end: OnEnd | None = None
    _locks: dict[str, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def run(
        self, jobs: Sequence[AuditJob], at_once: int = 4
    ) -> list[TranscriptAudit]:
        """Audit transcripts, `at_once` at a time, and return the audits in the order of `jobs`.

        Raise AuthenticationFailed or ModelNotFound if the judge cannot be asked at all, and RecordError if verdicts cannot
        be kept.
        """
        results: dict[int, TranscriptAudit] = {}
        waiting = iter(enumerate(jobs))

        async def work() -> None:
            models: dict[str, LLM] = {}  # a model makes one audit at a time
            for index, job in waiting:
                results[index] = audit = await self._result(job, models)
                if self.on_end is not None:
                    self.on_end(len(results), len(jobs), audit)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(jobs))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [results[index] for index in range(len(jobs))]

    async def _result(self, job: AuditJob, models: dict[str, LLM]) -> TranscriptAudit:
        """Return the kept audit, or make one. An error becomes a result."""
        try:
            saved = await in_thread(job.read)
            key = await in_thread(job.key, saved)
        except (GoalError, OSError) as error:
            return job.result(
                "unreadable",
                error.message if isinstance(error, GoalError) else str(error),
            )
        async with self._locks[key]:  # equal transcripts are judged once
            if known := self.kept.get(key):
                return known.model_copy(
                    update={"transcript": _shown(job.path), "is_known": True}
                )
            if stop := self.spending.stop:
                return job.result("not audited", stop, key)
            if (settings := _settings(job.goal)) not in models:
                models[settings] = self.model(job.goal)
            return await self._new(job, saved, key, models[settings])

    async def _new(
        self, job: AuditJob, saved: SavedTrail, key: str, llm: LLM
    ) -> TranscriptAudit:
        recorder = SpendingRecorder(self.spending)
        try:
            audit = (await _audited(job, saved, llm, recorder)).model_copy(
                update={"key": key}
            )
        except (AuthenticationFailed, ModelNotFound):
            raise
        except GoalError as error:
            audit = job.result(
                "judge failed" if isinstance(error, ModelError) else "unreadable",
                error.message,
                key,
            )
        if recorder.is_cut and (self.measuring or audit.verdict is None):
            return job.result("not audited", self.spending.stop, key)
        if audit.verdict is not None and (
            self.measuring or audit.result != "judge failed"
        ):
            self.kept.add(audit)
        return audit


def check_judges(jobs: Sequence[AuditJob], budget: Budget) -> None:
    """Raise GoalError for a judge that cannot be asked, or UsageError if it has no price and the budget is in dollars."""
    needs_price = budget.cost_usd is not None and "cost_usd" not in budget.unenforced
    for goal in {_settings(job.goal): job.goal for job in jobs}.values():
        check_room(goal)
        llm = goal_judge(goal)
        llm.check()
        if needs_price and not llm.has_price():
            message = f"model {llm.model} has no known price, so --cost cannot be kept"
            raise UsageError(message, "limit --tokens instead")


def _settings(goal: Goal) -> str:
    """Return the settings that the judge's model depends on, as text."""
    return f"{goal.judge.model_dump_json()} {goal.agent.model_dump_json()}"
