"""Audits of many transcripts within one budget."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from goalrunner.app.goal_models import goal_judge
from goalrunner.audits.kept_verdicts import KeptVerdicts, Result, TranscriptAudit
from goalrunner.audits.spending import Spending, SpendingRecorder
from goalrunner.audits.transcript_audits import AuditJob, audit_trail, path_text
from goalrunner.core.errors import (
    AuthenticationFailed,
    GoalError,
    ModelError,
    ModelNotFound,
    UsageError,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.judge.prompt_builder import check_room
from goalrunner.llm import LLM
from goalrunner.system.event_loop import in_thread
from goalrunner.transcripts import NoTranscript, SavedTrail

OnEnd = Callable[[int, int, TranscriptAudit], None]
"""Called at the end of an audit with its number, the number of all, and the audit."""


@dataclass
class Auditor:
    """Audits many transcripts within one budget and keeps the verdicts.

    Errors are not kept: a later command tries again. With `measuring`, the audits
    measure the judge: answers that cannot be read are kept as well, and a verdict does
    not count if the budget was spent before the last question of its audit. `model`
    makes the judge of a goal.
    """

    verdicts: KeptVerdicts
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
        """Audit transcripts, `at_once` at a time, in the order of `jobs`.

        Raise AuthenticationFailed or ModelNotFound if the judge cannot be asked at all,
        and RecordError if verdicts cannot be kept.
        """
        results: dict[int, TranscriptAudit] = {}
        # The tasks share the iterator, so each job is taken once.
        waiting = iter(enumerate(jobs))

        async def work() -> None:
            # An LLM object serves one audit at a time, so each task makes its own.
            models: dict[str, LLM] = {}
            for index, job in waiting:
                audit = await self._result(job, models)
                results[index] = audit
                if self.on_end is not None:
                    self.on_end(len(results), len(jobs), audit)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(jobs))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            # Callers expect the error of one audit, as without a group.
            raise errors.exceptions[0] from None
        return [results[index] for index in range(len(jobs))]

    async def _result(self, job: AuditJob, models: dict[str, LLM]) -> TranscriptAudit:
        """Return the kept audit, or make one. An error becomes a result."""
        try:
            saved = await in_thread(job.read)
            key = await in_thread(job.key, saved)
        except NoTranscript as error:
            result: Result = "skipped" if job.is_from_folder else "unreadable"
            return job.without_verdict(result, error.message)
        except GoalError as error:
            return job.without_verdict("unreadable", error.message)
        except OSError as error:
            return job.without_verdict("unreadable", str(error))
        # Equal transcripts are judged once: the second waits for the verdict.
        async with self._locks[key]:
            earlier = self.verdicts.get(key)
            if earlier is not None:
                update = {"transcript": path_text(job.path), "was_kept": True}
                return earlier.model_copy(update=update)
            stop_reason = self.spending.stop_reason
            if stop_reason:
                return job.without_verdict("not audited", stop_reason, key)
            settings = _settings(job.goal)
            if settings not in models:
                models[settings] = self.model(job.goal)
            return await self._new_audit(job, saved, key, models[settings])

    async def _new_audit(
        self, job: AuditJob, saved: SavedTrail, key: str, llm: LLM
    ) -> TranscriptAudit:
        """Make an audit and keep its verdict."""
        recorder = SpendingRecorder(self.spending)
        try:
            audit = await audit_trail(job, saved, llm, recorder)
            audit = audit.model_copy(update={"key": key})
        except (AuthenticationFailed, ModelNotFound):
            # They would fail every other audit as well.
            raise
        except ModelError as error:
            audit = job.without_verdict("judge failed", error.message, key)
        except GoalError as error:
            audit = job.without_verdict("unreadable", error.message, key)
        # An audit that was cut before its last question may still have a verdict: a
        # measurement must not use it.
        if recorder.is_cut and (self.measuring or audit.verdict is None):
            return job.without_verdict("not audited", self.spending.stop_reason, key)
        is_final = self.measuring or audit.result != "judge failed"
        if audit.verdict is not None and is_final:
            self.verdicts.add(audit)
        return audit


def check_judges(jobs: Sequence[AuditJob], budget: Budget) -> None:
    """Raise GoalError for a judge that cannot be asked.

    Raise UsageError if it has no price and the budget is in dollars.
    """
    needs_price = budget.cost_usd is not None and "cost_usd" not in budget.unenforced
    goals = {_settings(job.goal): job.goal for job in jobs}
    for goal in goals.values():
        check_room(goal)
        llm = goal_judge(goal)
        llm.check()
        if needs_price and not llm.has_price():
            message = f"model {llm.model} has no known price, so --cost cannot be kept"
            raise UsageError(message, "limit --tokens instead")


def _settings(goal: Goal) -> str:
    """Return the settings that the judge's model depends on, as text."""
    return f"{goal.judge.model_dump_json()} {goal.agent.model_dump_json()}"
