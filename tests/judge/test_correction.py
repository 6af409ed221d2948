"""A judge can correct unfounded citations once; stale ones are for the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goalrunner.core.ports import AuditRequest
from goalrunner.judge.audit import LLMJudge
from goalrunner.judge.prompt_text import correction_prompt
from tests.support.judge_model import AuditNotes, ScriptedJudgeModel
from tests.support.trails import seen, trail

REQUEST = AuditRequest(
    objective="Make the tests pass.",
    success_criteria=("the tests pass", "it is typed"),
    constraints=(),
    deliverable="workspace",
    round=1,
    trail=trail(
        seen(1, "43 passed in 1.1s", command="pytest -q", facts=("exit 0",)),
        seen(2, "Success: no issues", command="mypy .", facts=("exit 0",)),
    ),
)
GOOD = {"observation": "o1", "quote": "43 passed"}
FALSE = {"observation": "o1", "quote": "44 passed"}
TYPED = {"observation": "o2", "fact": "exit 0"}
WHY = "a quote of fewer than 8 characters must be a whole line"
TOLD = 'the tests pass: the output of o1 does not contain "44 passed".'


def answer(
    tests: list[dict[str, str]], typed: list[dict[str, str]], **more: Any
) -> str:
    """A complete answer that cites this for the two criteria."""
    criteria = [
        {"criterion": name, "satisfied": True, "evidence": evidence, "missing": ""}
        for name, evidence in (("the tests pass", tests), ("it is typed", typed))
    ]
    return json.dumps(
        {"criteria": criteria, "score": 1.0, "complete": True, "missing": ""} | more
    )


def aged(*identifiers: str) -> AuditRequest:
    """The request with these observations out of date."""
    return AuditRequest(
        REQUEST.objective,
        REQUEST.success_criteria,
        (),
        "workspace",
        1,
        REQUEST.trail,
        stale=dict.fromkeys(identifiers, "x"),
    )


async def test_a_slip_is_mended_within_the_audit() -> None:
    model = ScriptedJudgeModel(
        [answer([FALSE, GOOD], [TYPED]), answer([GOOD], [TYPED])]
    )
    notes = AuditNotes()
    audit = await LLMJudge(model).audit(REQUEST, notes)
    assert audit.verdict.complete
    assert audit.refusals == ()
    assert (notes.failures, notes.checks, len(notes.usages)) == ([], 2, 2)
    assert model.asked[1].messages[3]["content"] == correction_prompt((TOLD,))


async def test_what_is_false_twice_counts_against_the_criterion() -> None:
    model = ScriptedJudgeModel([answer([FALSE, GOOD], [TYPED])] * 2)
    audit = await LLMJudge(model).audit(REQUEST, AuditNotes())
    assert not audit.verdict.complete
    assert [one.satisfied for one in audit.verdict.criteria] == [False, True]
    assert audit.refusals == (TOLD,)
    assert len(model.asked) == 2


@pytest.mark.parametrize(
    ("citations", "told"),
    [
        (
            [{"observation": "o9", "quote": "43 passed"}],
            'the tests pass: observation "o9" does not exist.',
        ),
        (
            [{"observation": "o1", "fact": "exit 1"}],
            'the tests pass: "exit 1" is not among the facts of o1 (exit 0).',
        ),
        (
            [{"observation": "o1", "quote": "pytest"}],
            'the tests pass: the output of o1 does not contain "pytest".',
        ),
        (
            [{"observation": "o1", "quote": "43"}],
            f'the tests pass: "43" is not a whole line of the output of o1; {WHY}.',
        ),
        ([], "the tests pass: nothing is cited for it."),
    ],
)
async def test_the_judge_gets_the_citations_that_do_not_hold(
    citations: list[dict[str, str]], told: str
) -> None:
    model = ScriptedJudgeModel([answer(citations, [TYPED]), answer([GOOD], [TYPED])])
    assert (await LLMJudge(model).audit(REQUEST, AuditNotes())).verdict.complete
    assert f"These do not hold:\n- {told}\n\n" in model.asked[1].messages[3]["content"]


async def test_what_is_out_of_date_goes_to_the_agent_at_once() -> None:
    model = ScriptedJudgeModel([answer([GOOD], [TYPED])])
    audit = await LLMJudge(model).audit(aged("o1"), AuditNotes())
    assert audit.stale_only
    assert (
        audit.verdict.missing
        == "the tests pass: Citation invalid: o1 is stale: x. Run pytest -q again."
    )
    assert len(model.asked) == 1


async def test_stale_citations_are_not_reported_to_the_judge() -> None:
    missing = {"observation": "o9", "fact": "exit 0"}
    model = ScriptedJudgeModel(
        [answer([GOOD], [missing, TYPED]), answer([GOOD], [TYPED])]
    )
    audit = await LLMJudge(model).audit(aged("o1"), AuditNotes())
    assert audit.stale_only
    assert model.asked[1].messages[3]["content"] == correction_prompt(
        ('it is typed: observation "o9" does not exist.',)
    )


async def test_a_falsehood_is_not_excused_by_freshness() -> None:
    audit = await LLMJudge(
        ScriptedJudgeModel([answer([GOOD, FALSE], [TYPED])] * 2)
    ).audit(aged("o1"), AuditNotes())
    assert not audit.stale_only
    assert not audit.verdict.complete


@pytest.mark.parametrize(
    "more",
    [
        {"complete": False, "missing": "the docs"},
        {"score": 0.1},
        {"complete": False, "blocked": "o1 shows that it is impossible"},
    ],
)
async def test_an_answer_that_is_not_complete_is_not_corrected(
    more: dict[str, Any],
) -> None:
    low = AuditRequest(
        REQUEST.objective,
        REQUEST.success_criteria,
        (),
        "workspace",
        1,
        REQUEST.trail,
        minimum_score=0.5,
    )
    model = ScriptedJudgeModel([answer([FALSE], [TYPED], **more)])
    assert not (await LLMJudge(model).audit(low, AuditNotes())).verdict.complete
    assert len(model.asked) == 1


async def test_what_could_be_read_stands_where_the_rest_can_not() -> None:
    model = ScriptedJudgeModel([answer([FALSE], [TYPED]), "no", "no", "no"])
    notes = AuditNotes()
    audit = await LLMJudge(model).audit(REQUEST, notes)
    assert (audit.verdict.source, audit.verdict.complete, audit.refusals) == (
        "judge",
        False,
        (TOLD,),
    )
    assert len(notes.failures) == 3


async def test_a_corrected_judge_may_still_ask_for_an_observation_once() -> None:
    asking = json.dumps({"need": ["o1"]})
    model = ScriptedJudgeModel(
        [answer([FALSE], [TYPED]), asking, answer([GOOD], [TYPED])]
    )
    assert (await LLMJudge(model).audit(REQUEST, AuditNotes())).verdict.complete


async def test_without_budget_for_a_correction_the_checked_verdict_stands() -> None:
    model = ScriptedJudgeModel([answer([FALSE], [TYPED]), answer([GOOD], [TYPED])])
    audit = await LLMJudge(model).audit(REQUEST, AuditNotes(calls_paid_for=1))
    assert (audit.verdict.complete, audit.verdict.source, len(model.asked)) == (
        False,
        "judge",
        1,
    )
