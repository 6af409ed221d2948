"""The audit of one saved transcript."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from goalrunner.app.goal_models import goal_judge, goal_redactor, redacted_events
from goalrunner.audits.kept_verdicts import EvidenceSource, Result, TranscriptAudit
from goalrunner.audits.revision_checks import RevisionChecks
from goalrunner.audits.spending import Spending, SpendingRecorder
from goalrunner.core import VERSION
from goalrunner.core.events import VerdictRecorded
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.audit import LLMJudge
from goalrunner.judge.prompt_builder import audit_form, audit_request
from goalrunner.judge.verdict_check import CheckedVerdict, check_verdict
from goalrunner.judge.verdict_parser import JudgeOutcome, missing_of
from goalrunner.llm import LLM
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts import SavedTrail, read_transcript

Policy = Literal["bounded", "whole", "no-citations"]
"""How a verdict is made.

"bounded" is as in a run, "whole" with as much evidence as the model accepts,
"no-citations" without checking citations.
"""


@dataclass(frozen=True)
class AuditJob:
    """A transcript and the goal to judge it by."""

    path: Path | str
    goal: Goal
    format: str | None = None
    policy: Policy = "bounded"
    is_from_folder: bool = False
    """Whether it was found in a folder, where other files may be as well."""

    def read(self) -> SavedTrail:
        """Return the transcript.

        Raise UsageError if it cannot be read, RecordError for damaged records of a run.
        """
        return read_transcript(
            self.path, deliverable=self.goal.deliverable, format=self.format
        )

    def key(self, trail: SavedTrail) -> str:
        """Return the key of a kept verdict.

        It is a hash of the transcript, the goal, the judge's settings and the rules.
        """
        goal = self.goal
        settings: list[Any] = [
            goal.objective,
            goal.success_criteria,
            goal.constraints,
            goal.deliverable,
            # A judge without a model of its own uses that of the agent.
            goal.agent.model,
            goal.judge.model_dump(mode="json"),
            repr(audit_form(goal.judge.system_prompt)),
            self.policy,
            VERSION,
            self.format,
            trail.format,
            trail.partial,
        ]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for item in trail.items:
            text = trail.read(item).encode(errors="replace")
            # With the length before it, no text can be mistaken for the next item.
            digest.update(f"\n{item.model_dump_json()}\n{len(text)}\n".encode())
            digest.update(text)
        return digest.hexdigest()[:32]

    def without_verdict(
        self, result: Result, problem: str, key: str = ""
    ) -> TranscriptAudit:
        """Return the record of an audit that ended without a verdict."""
        return TranscriptAudit(
            key=key, transcript=path_text(self.path), result=result, problem=problem
        )


def path_text(path: Path | str) -> str:
    """Return a path as text that can be encoded."""
    return os.fsencode(path).decode(errors="replace")


async def audit_transcript(
    job: AuditJob, checks: RevisionChecks | None = None
) -> TranscriptAudit:
    """Audit one transcript ("-" is standard input).

    If a validator of `checks` failed, the judge is not asked. If a part of the
    transcript cannot be read, the verdict is never complete. Raise UsageError if
    nothing can be read, RecordError if the records of a run are damaged, and ModelError
    if the judge cannot be asked.
    """
    # A long transcript takes seconds, in which the event loop must run.
    saved = await asyncio.to_thread(job.read)
    recorder = SpendingRecorder(Spending())
    return await audit_trail(job, saved, goal_judge(job.goal), recorder, checks)


async def audit_trail(
    job: AuditJob,
    saved: SavedTrail,
    llm: LLM,
    recorder: SpendingRecorder,
    checks: RevisionChecks | None = None,
) -> TranscriptAudit:
    """Audit a transcript that was read; `recorder` counts the usage of the judge."""
    began = time.monotonic()
    trail: Trail = saved
    if checks is not None:
        trail = checks.added_to(saved)
    redactor = goal_redactor(job.goal, os.environ)
    if checks is not None and not checks.verdict.complete:
        verdict = checks.verdict
    else:
        verdict = await _ask_judge(job, trail, llm, recorder, redactor)
    if saved.partial and verdict.complete:
        verdict = _not_complete(verdict, saved.partial)
    problem = ""
    result: Result = "complete" if verdict.complete else "not complete"
    # A fallback stands for a verdict if no answer of the judge could be read.
    if verdict.source == "fallback":
        result = "judge failed"
        problem = f"the judge's answers could not be read: {recorder.problem}"
    # The judge's words may repeat a secret of the transcript.
    redacted_verdict = redactor.json(verdict.model_dump(mode="json"))
    forgeable = frozenset(saved.forgeable)
    return TranscriptAudit(
        transcript=path_text(job.path),
        result=result,
        verdict=GoalVerdict.model_validate(redacted_verdict),
        problem=redactor.text(problem),
        format=saved.format,
        partial=saved.partial,
        evidence=_evidence_source(trail),
        forgeable=tuple(name for name in verdict.cited if name in forgeable),
        validators=checks.results if checks else (),
        labels=(*(checks.labels if checks else ()), *saved.warnings),
        judge=llm.model,
        usage=recorder.used,
        seconds=time.monotonic() - began,
    )


def _not_complete(verdict: GoalVerdict, partial: str) -> GoalVerdict:
    """Return a complete verdict on a partial transcript as one that is not complete."""
    missing = (
        f"The transcript was read only partly: {partial}. "
        "What is missing could contradict the rest."
    )
    return verdict.model_copy(update={"complete": False, "missing": missing})


async def _ask_judge(
    job: AuditJob,
    trail: Trail,
    llm: LLM,
    recorder: SpendingRecorder,
    redactor: Redactor,
) -> GoalVerdict:
    check = _accept_citations if job.policy == "no-citations" else check_verdict
    judge = LLMJudge(llm, job.goal.judge, redact=redactor.text, check=check)
    request = audit_request(job.goal, redacted_events(trail, redactor))
    return (await judge.audit(request, recorder)).verdict


def _accept_citations(outcome: JudgeOutcome, request: AuditRequest) -> CheckedVerdict:
    """Return the judge's verdict without a check of its citations."""
    verdict = GoalVerdict(
        score=outcome.score,
        complete=outcome.passed,
        missing="" if outcome.passed else missing_of(outcome),
        criteria=tuple(outcome.criteria),
        blocked=outcome.blocked.strip(),
    )
    return CheckedVerdict(VerdictRecorded(round=request.round, verdict=verdict))


def _evidence_source(trail: Trail) -> EvidenceSource:
    """Return the source of the tool results.

    Observations that contain only words of the agent do not count.
    """
    by_runner = by_transcript = False
    for item in trail.items:
        if isinstance(item, Observation) and item.shows:
            if item.reported_by:
                by_transcript = True
            else:
                by_runner = True
    if not by_runner:
        return "transcript"
    return "both" if by_transcript else "runner"
