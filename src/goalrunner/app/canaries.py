"""Whether a judge can be trusted: what it says about copies of a trail that prove nothing."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from goalrunner.app.judging import goal_judge
from goalrunner.app.previous_run import load_state
from goalrunner.app.resolve import goal_redactor, withheld
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Claim, Observation, trail_with
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest
from goalrunner.judge.audit import LLMJudge, examined
from goalrunner.judge.citations import Examination
from goalrunner.judge.mutations import MUTATIONS, UNCHANGED, Mutation, observations
from goalrunner.judge.prompt_builder import audit_request
from goalrunner.judge.verdict_schema import JudgeOutcome
from goalrunner.llm.scripted import is_scripted
from goalrunner.records.run_folder import RunFolder
from goalrunner.transcripts import read_transcript

_AT_ONCE = 4  # copies that a judge is asked about at the same time. A recording is played in its order, one at a time.


@dataclass(frozen=True)
class Answer:
    """What a judge said about one copy."""

    mutation: Mutation
    accepted: bool | None
    """Whether the judge itself called it complete, before its citations were checked; None if no answer could be read."""
    survived: bool  # whether the verdict is complete after the check of its citations
    missing: str


@dataclass(frozen=True)
class CanaryReport:
    """What a judge said about the unchanged trail and about each copy that proves nothing."""

    judge: str
    unchanged: Answer
    answers: tuple[Answer, ...]
    usage: Usage

    @property
    def misses(self) -> tuple[Answer, ...]:
        """The copies that the judge accepted."""
        return tuple(answer for answer in self.answers if answer.accepted)

    @property
    def unread(self) -> tuple[Answer, ...]:
        """The copies about which the judge gave no answer that could be read."""
        return tuple(answer for answer in self.answers if answer.accepted is None)


async def question_judge(goal: Goal, folder: RunFolder | None = None) -> CanaryReport:
    """Ask the judge of a goal about a run of the goal, or about a small built-in example, and about the mutated copies.

    Raise UsageError for a goal without a judge and for a run without observations, ModelError if the judge cannot be asked.
    """
    llm = goal_judge(goal)
    request = _example(goal)
    if folder is not None:
        trail = read_transcript(folder.path, deliverable=goal.deliverable)
        criteria = load_state(folder).criteria
        request = audit_request(goal, trail, deliverable=goal.deliverable, success_criteria=criteria)
    if not observations(request):
        raise UsageError(
            "the run has no observations, so there is no evidence to take out of it",
            "name a run whose agent did something, or use the built-in example: goal canary GOAL_FILE",
        )
    limit = asyncio.Semaphore(1 if is_scripted(llm.model) else _AT_ONCE)
    redact = goal_redactor(goal, os.environ, withheld(goal)).text

    async def answer(mutation: Mutation) -> Answer:
        said: list[bool] = []  # by the judge itself

        def examine(outcome: JudgeOutcome, request: AuditRequest) -> Examination:
            said.append(outcome.passed)
            return examined(outcome, request)

        async with limit:
            judge = LLMJudge(llm, goal.judge, redact=redact, examine=examine)
            verdict = (await judge.audit(mutation.change(request))).verdict
        accepted = any(said) or (None if verdict.source == "fallback" else False)
        return Answer(mutation, accepted, survived=verdict.complete, missing=verdict.missing)

    first, *others = await asyncio.gather(*map(answer, (UNCHANGED, *MUTATIONS)))
    return CanaryReport(llm.model, first, tuple(others), llm.usage)


def refuse_credulous_judge(report: CanaryReport) -> None:
    """Raise GoalError for a judge that accepts a copy, or whose answers could not be read."""
    names = ", ".join(answer.mutation.name for answer in report.misses or report.unread)
    hint = "use another model: --judge MODEL; goal canary GOAL_FILE shows each answer"
    if report.misses:
        number = f"{len(report.misses)} of {len(report.answers)} examples"
        raise GoalError(f"the judge {report.judge} accepts {number} that prove nothing: {names}", hint)
    if report.unread:
        raise GoalError(f"answers of the judge {report.judge} could not be read: {names}", hint)


def _example(goal: Goal) -> AuditRequest:
    """Return the request for an audit of a small finished task, with the settings of the goal's judge."""
    task = Goal(objective=EXAMPLE, success_criteria=_CRITERIA, judge=goal.judge)
    found: list[tuple[Observation | Claim, str]] = []
    for number, (source, facts, command, output) in enumerate(_SEEN, 1):
        item = Observation(id=f"o{number}", source=source, facts=facts, command=command, round=min(number - 1, 1))
        found.append((item, output))
    found.insert(-1, (Claim(round=1), _SAID))
    return audit_request(task, trail_with(found), deliverable="workspace")


EXAMPLE = "Make parse() accept empty input."  # the objective of the built-in example
_CRITERIA = ("parse('') returns an empty Document", "all tests pass")
_SAID = "parse('') returns an empty Document now, and all tests pass."
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
_GREEN = "........................                                                 [100%]\n24 passed in 0.31s\n"
_PRINT = """python -c "from parser import parse; print(repr(parse('')))\""""
_SEEN = (
    ("validator tests", ("exit 1", "red"), "pytest -q", _RED),
    ("edit_file", ("1 replacement",), "src/parser.py", _DIFF),
    ("shell", ("exit 0",), _PRINT, "Document(children=[])\n"),
    ("validator tests", ("exit 0", "green"), "pytest -q", _GREEN),
)
"""Source, facts, command and output of each observation."""
