"""A test of judges: their answers about copies of a trail that prove nothing."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from goalrunner.app.goal_models import goal_judge, goal_redactor
from goalrunner.app.previous_run import load_state
from goalrunner.audits.canary_copies import MUTATIONS, Part, copies_of
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Claim, Observation, trail_with
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest
from goalrunner.judge.audit import LLMJudge
from goalrunner.judge.prompt_builder import audit_request
from goalrunner.judge.verdict_check import CheckedVerdict, check_verdict
from goalrunner.judge.verdict_parser import JudgeOutcome
from goalrunner.llm import LLM
from goalrunner.llm.scripted import is_scripted
from goalrunner.records.run_folder import RunFolder
from goalrunner.transcripts import read_transcript

# Copies that a judge is asked about at the same time. A recording is played in its
# order, one at a time.
_AT_ONCE = 4


class CanaryAnswer(Frozen):
    """The answer of a judge about one copy."""

    name: str
    sentence: str
    """What is different in the copy."""
    judge_accepts: bool | None
    """Whether the judge called the copy complete, before its citations were checked.

    None if no answer could be read.
    """
    complete_after_check: bool
    """Whether the verdict is complete after the check of its citations."""
    missing: str


class CanaryReport(Frozen):
    """The answers of a judge about the unchanged trail and about each copy.

    `--json` prints it.
    """

    judge: str
    misses: tuple[str, ...]
    """The copies that the judge accepted."""
    unreadable: tuple[str, ...]
    """The copies about which the judge gave no answer that could be read."""
    unchanged: CanaryAnswer
    copies: tuple[CanaryAnswer, ...]
    usage: Usage


async def question_judge(goal: Goal, folder: RunFolder | None = None) -> CanaryReport:
    """Ask the judge of a goal about a trail and about the copies that prove nothing.

    The trail is that of a run of the goal, or of a small built-in example. Raise
    UsageError for a goal without a judge and for a run without observations, ModelError
    if the judge cannot be asked.
    """
    llm = goal_judge(goal)
    request = _example(goal) if folder is None else _request_of_run(goal, folder)
    if not any(isinstance(item, Observation) for item in request.trail.items):
        raise UsageError(
            "the run has no observations, so there is no evidence to take out of it",
            "name a run whose agent did something, "
            "or use the built-in example: goal judge canary GOAL_FILE",
        )
    limit = asyncio.Semaphore(1 if is_scripted(llm.model) else _AT_ONCE)
    examiner = _Examiner(llm, goal, limit)
    questions = [examiner.ask("unchanged", "Nothing is changed.", request)]
    for (name, sentence), copy in zip(
        MUTATIONS.items(), copies_of(request), strict=True
    ):
        questions.append(examiner.ask(name, sentence, copy))
    unchanged, *answers = await asyncio.gather(*questions)
    return CanaryReport(
        judge=llm.model,
        misses=tuple(one.name for one in answers if one.judge_accepts),
        unreadable=tuple(one.name for one in answers if one.judge_accepts is None),
        unchanged=unchanged,
        copies=tuple(answers),
        usage=llm.usage,
    )


@dataclass(frozen=True)
class _Examiner:
    """Asks the judge of a goal about copies; `limit` allows some at the same time."""

    llm: LLM
    goal: Goal
    limit: asyncio.Semaphore

    async def ask(self, name: str, sentence: str, copy: AuditRequest) -> CanaryAnswer:
        """Return the answer about one copy."""
        # Whether each answer of the judge itself, before the check, is complete.
        own_verdicts: list[bool] = []

        def check(outcome: JudgeOutcome, request: AuditRequest) -> CheckedVerdict:
            own_verdicts.append(outcome.passed)
            return check_verdict(outcome, request)

        redact = goal_redactor(self.goal, os.environ).text
        judge = LLMJudge(self.llm, self.goal.judge, redact=redact, check=check)
        async with self.limit:
            verdict = (await judge.audit(copy)).verdict
        accepts: bool | None = any(own_verdicts)
        # No answer could be read, so the judge neither accepted nor refused the copy.
        if not accepts and verdict.source == "fallback":
            accepts = None
        return CanaryAnswer(
            name=name,
            sentence=sentence,
            judge_accepts=accepts,
            complete_after_check=verdict.complete,
            missing=verdict.missing,
        )


def _request_of_run(goal: Goal, folder: RunFolder) -> AuditRequest:
    trail = read_transcript(folder.path, deliverable=goal.deliverable)
    # The judge may have derived the criteria, which the goal then does not list.
    criteria = load_state(folder).criteria
    return audit_request(goal, trail, success_criteria=criteria)


def refuse_credulous_judge(report: CanaryReport) -> None:
    """Raise GoalError for a judge that accepts a copy or answers unreadably."""
    if report.misses:
        names = ", ".join(report.misses)
        problem = (
            f"the judge {report.judge} accepts {len(report.misses)} of "
            f"{len(report.copies)} examples that prove nothing: {names}"
        )
    elif report.unreadable:
        names = ", ".join(report.unreadable)
        problem = f"answers of the judge {report.judge} could not be read: {names}"
    else:
        return
    raise GoalError(
        problem,
        "use another model: --judge MODEL; "
        "goal judge canary GOAL_FILE shows each answer",
    )


EXAMPLE = "Make parse() accept empty input."
"""The objective of the built-in example."""

_CRITERIA = ("parse('') returns an empty Document", "all tests pass")
_RED = """\
F.......................                                                 [100%]
FAILED tests/test_parser.py::test_empty_input - IndexError: string index out of range
1 failed, 23 passed in 0.34s
"""
_DIFF = """\
--- src/parser.py
+++ src/parser.py
@@ -8,2 +8,4 @@
 def parse(text):
+    if not text:
+        return Document(children=[])
     first = text[0]
"""
_GREEN = """\
........................                                                 [100%]
24 passed in 0.31s
"""
_PRINT = """python -c "from parser import parse; print(repr(parse('')))\""""


def _example(goal: Goal) -> AuditRequest:
    """Return the request for an audit of a small finished task.

    It has the settings of the goal's judge.
    """
    claim = "parse('') returns an empty Document now, and all tests pass."
    before = _observation(1, "validator tests", "pytest -q", "exit 1", "red")
    edit = _observation(2, "edit_file", "src/parser.py", "1 replacement")
    call = _observation(3, "shell", _PRINT, "exit 0")
    after = _observation(4, "validator tests", "pytest -q", "exit 0", "green")
    parts: list[Part] = [
        (before, _RED),
        (edit, _DIFF),
        (call, "Document(children=[])\n"),
        (Claim(round=1), claim),
        (after, _GREEN),
    ]
    task = Goal(objective=EXAMPLE, success_criteria=_CRITERIA, judge=goal.judge)
    return audit_request(task, trail_with(parts))


def _observation(number: int, source: str, command: str, *facts: str) -> Observation:
    return Observation(
        id=f"o{number}",
        source=source,
        facts=facts,
        command=command,
        # The first observation is the baseline, before the only round.
        round=min(number - 1, 1),
    )
