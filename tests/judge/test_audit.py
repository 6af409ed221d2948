"""One audit: asked afresh, repaired at most twice, counted, and never complete by accident."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goalrunner.errors import AuthenticationFailed, BudgetExhausted, ModelError, ProviderUnavailable, UsageError
from goalrunner.judge import JUDGE_SCHEMA, JUDGE_SYSTEM_PROMPT, LLMJudge, judge_goal_async
from goalrunner.model.goal import Goal, JudgeConfig
from goalrunner.model.usage import Usage
from goalrunner.model.verdict import GoalVerdict
from goalrunner.ports import AuditRequest
from tests.support.judge_model import AuditNotes, ScriptedAnswer, ScriptedJudgeModel
from tests.support.trails import said, seen, trail

REQUEST = AuditRequest(
    objective="Make the tests pass.",
    success_criteria=("the tests pass",),
    constraints=("keep the tests as they are",),
    deliverable="workspace",
    round=1,
    trail=trail(
        said("All green!"),
        seen(1, "43 passed", command="pytest -q", facts=("exit 0",)),
        seen(2, "", command="git diff --exit-code tests", facts=("exit 0",)),
    ),
)
TESTS = {
    "criterion": "the tests pass",
    "satisfied": True,
    "evidence": [{"observation": "o1", "quote": "43 passed"}],
    "missing": "",
}
KEPT = {
    "criterion": "keep the tests as they are",
    "satisfied": True,
    "evidence": [{"observation": "o2", "fact": "exit 0"}],
    "missing": "",
}
FALLBACK = GoalVerdict(score=0.0, complete=False, missing="", source="fallback")


def answer(*criteria: dict[str, Any], score: float = 1.0, complete: bool = True, missing: str = "") -> str:
    """A judge's answer."""
    return json.dumps({"criteria": criteria, "score": score, "complete": complete, "missing": missing})


async def test_a_proven_goal_is_complete() -> None:
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    notes = AuditNotes()
    audit = await LLMJudge(model, nonce=lambda: "5f3a9c").audit(REQUEST, notes)
    assert audit.verdict.complete
    assert audit.verdict.source == "judge"
    assert (audit.citations_checked, audit.refusals) == (2, ())
    assert notes.usages == [("judge", Usage(input_tokens=100, output_tokens=20, calls=1))]
    assert (notes.checks, notes.failures) == (1, [])
    (asked,) = model.asked
    assert asked.temperature == 0.0
    assert asked.schema == JUDGE_SCHEMA
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert asked.messages[0]["content"] == JUDGE_SYSTEM_PROMPT
    assert "<objective 5f3a9c>\nMake the tests pass.\n</objective 5f3a9c>" in asked.messages[1]["content"]


async def test_each_audit_starts_from_nothing() -> None:
    model = ScriptedJudgeModel(["no", "no", "no", answer(TESTS, KEPT)])
    judge = LLMJudge(model)
    await judge.audit(REQUEST, AuditNotes())
    await judge.audit(REQUEST, AuditNotes())
    assert [len(asked.messages) for asked in model.asked] == [2, 4, 6, 2]
    assert model.asked[0].messages[1] != model.asked[3].messages[1]


async def test_an_answer_that_cannot_be_read_is_repaired() -> None:
    model = ScriptedJudgeModel(["", answer(TESTS), answer(TESTS, KEPT)])
    notes = AuditNotes()
    audit = await LLMJudge(model).audit(REQUEST, notes)
    assert audit.verdict.complete
    absent = "The verdict has no entry for k1: keep the tests as they are."
    assert notes.failures == [("parse", "The answer is empty."), ("parse", absent)]
    assert [message["role"] for message in model.asked[2].messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert model.asked[1].messages[2]["content"] == "(no answer)"
    assert model.asked[2].messages[5]["content"].startswith(f"That answer cannot be used. {absent} Audit")
    assert len(notes.usages) == notes.checks == 3


async def test_after_two_repairs_the_verdict_falls_back() -> None:
    cut = ScriptedAnswer(answer(TESTS, KEPT)[:40], finish_reason="length")
    notes = AuditNotes()
    audit = await LLMJudge(ScriptedJudgeModel(["All done!", '{"complete": "true"}', cut])).audit(REQUEST, notes)
    assert audit.verdict == FALLBACK
    assert notes.failures == [
        ("parse", "The answer holds no JSON object with a verdict."),
        ("parse", "criteria: field required."),
        (
            "parse",
            "The answer was cut at the token limit. The answer's JSON object is not whole or not valid JSON.",
        ),
    ]


async def test_a_broken_constraint_is_not_complete() -> None:
    broken = KEPT | {"satisfied": False, "evidence": [], "missing": "a test was deleted"}
    audit = await LLMJudge(ScriptedJudgeModel([answer(TESTS, broken)])).audit(REQUEST, AuditNotes())
    assert not audit.verdict.complete
    assert audit.verdict.missing == "keep the tests as they are: a test was deleted"


async def test_a_citation_of_what_never_happened_is_not_complete() -> None:
    forged = TESTS | {"evidence": [{"observation": "o1", "quote": "44 passed"}]}
    audit = await LLMJudge(ScriptedJudgeModel([answer(forged, KEPT)])).audit(REQUEST, AuditNotes())
    assert not audit.verdict.complete
    assert audit.refusals == ('the tests pass: the output of o1 does not hold "44 passed".',)
    assert [criterion.satisfied for criterion in audit.verdict.criteria] == [False, True]


async def test_what_the_judge_misses_is_told_as_it_says_it() -> None:
    open_ = TESTS | {"satisfied": False, "evidence": [], "missing": "no run"}
    text = answer(open_, score=0.2, complete=False, missing="Run the tests and show it.")
    audit = await LLMJudge(ScriptedJudgeModel([text])).audit(REQUEST, AuditNotes())
    assert (audit.verdict.score, audit.verdict.missing) == (0.2, "Run the tests and show it.")


async def test_both_minimum_scores_bind() -> None:
    judge = LLMJudge(ScriptedJudgeModel([answer(TESTS, KEPT, score=0.7)]), JudgeConfig(minimum_score=0.8))
    audit = await judge.audit(REQUEST, AuditNotes())
    assert not audit.verdict.complete


@pytest.mark.parametrize(
    ("error", "kind"), [(ProviderUnavailable("503"), "transport"), (AuthenticationFailed("no key"), "authentication")]
)
async def test_a_judge_that_cannot_be_asked_is_recorded_and_raised(error: ModelError, kind: str) -> None:
    notes = AuditNotes()
    with pytest.raises(type(error)):
        await LLMJudge(ScriptedJudgeModel([error])).audit(REQUEST, notes)
    assert notes.failures == [(kind, error.message)]
    assert notes.usages == []


async def test_the_budget_is_asked_before_each_call() -> None:
    model = ScriptedJudgeModel(["no", answer(TESTS, KEPT)])
    notes = AuditNotes(calls_paid_for=1)
    with pytest.raises(BudgetExhausted):
        await LLMJudge(model).audit(REQUEST, notes)
    assert len(model.asked) == 1


async def test_the_evidence_fits_a_small_context_window() -> None:
    long = trail(*(seen(number, "x" * 9_000) for number in range(1, 20)))
    request = AuditRequest("Do it.", (), (), "workspace", 1, long)
    sizes = []
    for window in (None, 8_000, 100):
        model = ScriptedJudgeModel([answer(complete=False, missing="all")], window=window)
        await LLMJudge(model).audit(request, AuditNotes())
        sizes.append(len(model.asked[0].messages[1]["content"]))
    assert sizes[0] < 51_000
    assert sizes[1] < 18_000
    assert sizes[2] < 6_000


async def test_a_system_prompt_of_ones_own_replaces_the_rules() -> None:
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    await LLMJudge(model, JudgeConfig(system_prompt="Be kind.")).audit(REQUEST, AuditNotes())
    assert model.asked[0].messages[0]["content"] == "Be kind."
    assert "Answer with one JSON object" in model.asked[0].messages[1]["content"]


CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "secret instructions"},
    {"role": "user", "content": "Make the tests pass."},
    {
        "role": "assistant",
        "content": "43 passed, I promise.",
        "tool_calls": [{"id": "1", "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "2 failed"},
]


async def test_a_chat_is_judged_without_a_run() -> None:
    said_so = TESTS | {"evidence": [{"observation": "o1", "quote": "43 passed"}]}
    model = ScriptedJudgeModel([answer(said_so)])
    verdict = await judge_goal_async(model, "Make the tests pass.", CHAT)
    assert not verdict.complete
    assert "secret instructions" not in json.dumps(model.asked[0].messages)


async def test_a_response_is_judged_where_it_is_the_deliverable() -> None:
    short = {
        "criterion": "one sentence",
        "satisfied": True,
        "evidence": [{"observation": "o1", "quote": "Light bends"}],
        "missing": "",
    }
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "Explain."},
        {"role": "assistant", "content": "Light bends in rain."},
    ]
    goal = Goal(objective="Be concise.", deliverable="response", judge=JudgeConfig(model="scripted/x"))
    assert (await judge_goal_async(ScriptedJudgeModel([answer(short)]), goal, chat)).complete
    assert not (await judge_goal_async(ScriptedJudgeModel([answer(short)]), "Be concise.", chat)).complete


async def test_an_empty_objective_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(UsageError, match="the objective is empty"):
        await judge_goal_async(ScriptedJudgeModel([]), " ", CHAT)
