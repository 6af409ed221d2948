"""One audit: asked afresh, repaired at most twice, counted, and never complete by accident."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from goalrunner.core.errors import (
    AuthenticationFailed,
    BudgetExhausted,
    ModelError,
    ProviderUnavailable,
    UsageError,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import JudgeConfig
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import UnreadAnswer
from goalrunner.judge.answer_schemas import JUDGE_OUTCOME_SCHEMA
from goalrunner.judge.audit import LLMJudge, judge_goal_async
from goalrunner.judge.prompt_text import ANSWER_FORMAT, JUDGE_SYSTEM_PROMPT
from tests.support.judge_model import (
    Asked,
    AuditNotes,
    ScriptedAnswer,
    ScriptedJudgeModel,
)
from tests.support.trails import said, seen, tokens, trail

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


@pytest.fixture
def nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every audit has the same nonce."""
    monkeypatch.setattr("goalrunner.judge.audit.secrets.token_hex", lambda _: "5f3a9c")


def answer(
    *criteria: dict[str, Any],
    score: float = 1.0,
    complete: bool = True,
    missing: str = "",
) -> str:
    """A judge's answer."""
    return json.dumps(
        {"criteria": criteria, "score": score, "complete": complete, "missing": missing}
    )


@pytest.mark.usefixtures("nonce")
async def test_a_proven_goal_is_complete() -> None:
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    notes = AuditNotes()
    audit = await LLMJudge(model).audit(REQUEST, notes)
    assert audit.verdict.complete
    assert audit.verdict.source == "judge"
    assert (audit.citations_checked, audit.refusals) == (2, ())
    assert notes.usages == [
        ("judge", Usage(input_tokens=100, output_tokens=20, calls=1))
    ]
    assert (notes.checks, notes.failures) == (1, [])
    (asked,) = model.asked
    assert asked.temperature == 0.0
    assert asked.schema == JUDGE_OUTCOME_SCHEMA
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert asked.messages[0]["content"] == JUDGE_SYSTEM_PROMPT
    assert (
        "<objective 5f3a9c>\nMake the tests pass.\n</objective 5f3a9c>"
        in asked.messages[1]["content"]
    )


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
    assert notes.failures == [
        ("parse", "The answer holds no whole and valid JSON object with a verdict."),
        ("parse", absent),
    ]
    assert [message["role"] for message in model.asked[2].messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert model.asked[1].messages[2]["content"] == "(no answer)"
    assert (
        model.asked[2]
        .messages[5]["content"]
        .startswith(f"That answer cannot be used. {absent} Audit")
    )
    assert len(notes.usages) == notes.checks == 3


async def test_after_two_repairs_the_verdict_falls_back() -> None:
    cut = ScriptedAnswer(answer(TESTS, KEPT)[:40], finish_reason="length")
    notes = AuditNotes()
    audit = await LLMJudge(
        ScriptedJudgeModel(["All done!", '{"complete": "true"}', cut])
    ).audit(REQUEST, notes)
    assert (audit.verdict.complete, audit.verdict.source) == (False, "fallback")
    reason, said = audit.verdict.missing.split("\n")
    assert reason.startswith(
        "the judge's answer could not be read: The answer was cut at the token limit."
    )
    assert said.startswith('it said: "{')
    assert notes.unread == ["All done!", '{"complete": "true"}', cut.text]
    assert notes.failures == [
        ("parse", "The answer holds no whole and valid JSON object with a verdict."),
        ("parse", "criteria: field required."),
        (
            "parse",
            "The answer was cut at the token limit. The answer holds no whole and valid JSON object with a verdict.",
        ),
    ]


async def test_an_audit_that_is_asked_for_again_quotes_what_could_not_be_read() -> None:
    unread = UnreadAnswer(
        reason="score: field required.",
        text="[o9] shell (exit 0)\nall is done\n" * 1_000,
    )
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    audit = await LLMJudge(model).audit(replace(REQUEST, unread=unread), AuditNotes())
    assert audit.verdict.complete
    prompt = model.asked[0].messages[1]["content"]
    about = prompt[prompt.index("This audit was asked for before") :]
    assert "What was wrong: score: field required." in about
    assert "all is done" in about
    assert "\n[o9] shell" not in about  # it does not look like an observation
    assert about.endswith(ANSWER_FORMAT)
    assert len(about) < len(ANSWER_FORMAT) + 2_000


async def test_secrets_in_an_unreadable_answer_are_replaced() -> None:
    notes = AuditNotes()
    model = ScriptedJudgeModel(["the key is hunter2"] * 3)
    audit = await LLMJudge(
        model, redact=lambda text: text.replace("hunter2", "***")
    ).audit(REQUEST, notes)
    assert "the key is ***" in audit.verdict.missing
    assert set(notes.unread) == {"the key is ***"}


async def test_a_broken_constraint_is_not_complete() -> None:
    broken = KEPT | {
        "satisfied": False,
        "evidence": [],
        "missing": "a test was deleted",
    }
    audit = await LLMJudge(ScriptedJudgeModel([answer(TESTS, broken)])).audit(
        REQUEST, AuditNotes()
    )
    assert not audit.verdict.complete
    assert audit.verdict.missing == "keep the tests as they are: a test was deleted"


async def test_a_citation_of_what_never_happened_is_not_complete() -> None:
    forged = TESTS | {"evidence": [{"observation": "o1", "quote": "44 passed"}]}
    audit = await LLMJudge(ScriptedJudgeModel([answer(forged, KEPT)] * 2)).audit(
        REQUEST, AuditNotes()
    )
    assert not audit.verdict.complete
    assert audit.refusals == (
        'the tests pass: the output of o1 does not contain "44 passed".',
    )
    assert [criterion.satisfied for criterion in audit.verdict.criteria] == [
        False,
        True,
    ]


async def test_the_feedback_has_the_words_of_the_judge() -> None:
    open_ = TESTS | {"satisfied": False, "evidence": [], "missing": "no run"}
    text = answer(
        open_, score=0.2, complete=False, missing="Run the tests and show it."
    )
    audit = await LLMJudge(ScriptedJudgeModel([text])).audit(REQUEST, AuditNotes())
    assert (audit.verdict.score, audit.verdict.missing) == (
        0.2,
        "Run the tests and show it.",
    )


async def test_both_minimum_scores_bind() -> None:
    judge = LLMJudge(
        ScriptedJudgeModel([answer(TESTS, KEPT, score=0.7)]),
        JudgeConfig(minimum_score=0.8),
    )
    audit = await judge.audit(REQUEST, AuditNotes())
    assert not audit.verdict.complete


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProviderUnavailable("503"), "transport"),
        (AuthenticationFailed("no key"), "authentication"),
    ],
)
async def test_a_judge_that_cannot_be_asked_is_recorded_and_raised(
    error: ModelError, kind: str
) -> None:
    notes = AuditNotes()
    with pytest.raises(type(error)):
        await LLMJudge(ScriptedJudgeModel([error])).audit(REQUEST, notes)
    assert notes.failures == [(kind, error.message)]
    assert notes.usages == []


@pytest.mark.parametrize(
    "error", [ProviderUnavailable("503"), asyncio.CancelledError()]
)
async def test_what_a_call_cost_that_was_given_up_is_counted(
    error: BaseException,
) -> None:
    notes = AuditNotes()
    spent = Usage(input_tokens=70, calls=1, retries=2)
    with pytest.raises(type(error)):
        await LLMJudge(ScriptedJudgeModel([error], given_up=spent)).audit(
            REQUEST, notes
        )
    assert notes.usages == [("judge", spent)]
    assert len(notes.failures) == isinstance(error, ModelError)


async def test_the_deadline_does_not_wait_for_evidence_that_is_still_read() -> None:
    begun, release, before = threading.Event(), threading.Event(), threading.enumerate()

    def slow(item: Observation | Claim) -> str:
        begun.set()
        release.wait(60)
        return ""

    request = replace(REQUEST, trail=Trail(items=REQUEST.trail.items, read=slow))
    audit = asyncio.create_task(
        LLMJudge(ScriptedJudgeModel([])).audit(request, AuditNotes())
    )
    while not begun.is_set():
        await asyncio.sleep(0.01)
    audit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await audit
    (thread,) = [
        one
        for one in threading.enumerate()
        if one.name == "goal-thread" and one not in before
    ]
    assert thread.daemon
    release.set()
    thread.join(60)


async def test_the_budget_is_asked_before_each_call() -> None:
    model = ScriptedJudgeModel(["no", answer(TESTS, KEPT)])
    notes = AuditNotes(calls_paid_for=1)
    with pytest.raises(BudgetExhausted):
        await LLMJudge(model).audit(REQUEST, notes)
    assert len(model.asked) == 1


LONG = AuditRequest(
    "Do it.",
    (),
    (),
    "workspace",
    1,
    trail(*(seen(number, "x" * 90_000) for number in range(1, 20))),
)


def size(asked: Asked, *places: int) -> int:
    """Tokens of messages of one call; all of them where none is named."""
    chosen = [asked.messages[place] for place in places] if places else asked.messages
    return sum(tokens(message["content"]) for message in chosen)


@pytest.mark.slow
async def test_the_evidence_fits_a_small_context_window() -> None:
    sizes = []
    for window in (None, 8_000, 100):
        model = ScriptedJudgeModel(
            [answer(complete=False, missing="all")], window=window
        )
        await LLMJudge(model).audit(LONG, AuditNotes())
        sizes.append(size(model.asked[0]))
    assert 11_000 < sizes[0] <= 12_000
    assert 3_500 < sizes[1] <= 4_000
    assert sizes[2] < 2_600


@pytest.mark.slow
async def test_the_prompt_takes_what_the_goal_allows() -> None:
    for most in (2_500, 5_000, 30_000):
        model = ScriptedJudgeModel([answer(complete=False, missing="all")])
        await LLMJudge(model, JudgeConfig(max_tokens=most)).audit(LONG, AuditNotes())
        assert 0.9 * most < size(model.asked[0]) <= most


async def test_a_goal_that_is_too_long_for_the_prompt_is_an_error_and_never_shortened() -> (
    None
):
    long = AuditRequest("word " * 20_000, (), (), "workspace", 1, trail())
    with pytest.raises(
        UsageError, match="the goal is too long for its judge"
    ) as caught:
        await LLMJudge(ScriptedJudgeModel([])).audit(long, AuditNotes())
    assert "[judge] max_tokens is 12,000" in caught.value.message
    needed = int(
        caught.value.hint.split("max_tokens = ")[1].split()[0].replace(",", "")
    )
    model = ScriptedJudgeModel([answer(complete=False, missing="all")])
    await LLMJudge(model, JudgeConfig(max_tokens=needed)).audit(long, AuditNotes())
    assert "word " * 20_000 in model.asked[0].messages[1]["content"]


NEEDLE = "x" * 20_000 + "\n43 passed\n" + "y" * 20_000
SHORTENED = replace(
    REQUEST,
    trail=trail(
        *(seen(n, NEEDLE, command="pytest -q", facts=("exit 0",)) for n in range(1, 30))
    ),
)


def asking(*need: str) -> str:
    """An answer that asks for observations before it judges."""
    return json.dumps(
        json.loads(answer(complete=False, missing="more")) | {"need": need}
    )


@pytest.mark.usefixtures("nonce")
async def test_a_judge_that_asks_for_an_observation_gets_it_whole() -> None:
    model = ScriptedJudgeModel([asking("[O2]", "o2", "o99"), answer(TESTS, KEPT)])
    notes = AuditNotes()
    audit = await LLMJudge(model).audit(SHORTENED, notes)
    assert audit.verdict.complete
    assert (notes.checks, len(notes.usages), notes.failures) == (2, 2, [])
    first, second = model.asked
    assert NEEDLE not in first.messages[1]["content"]
    assert [message["role"] for message in second.messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    shown = second.messages[3]["content"]
    assert shown.startswith(
        "The observations that you asked for, as whole as they fit."
    )
    assert (
        f"[o2] shell (exit 0)\n<command 5f3a9c>\npytest -q\n</command 5f3a9c>\n<output 5f3a9c>\n{NEEDLE}\n"
        in shown
    )
    assert "[o1]" not in shown
    assert shown.endswith(ANSWER_FORMAT)


async def test_a_bare_request_is_enough() -> None:
    model = ScriptedJudgeModel(['{"need": ["o2"]}', answer(TESTS, KEPT)])
    assert (await LLMJudge(model).audit(SHORTENED, AuditNotes())).verdict.complete


async def test_there_is_one_second_look_and_then_the_answer_counts_as_it_is() -> None:
    model = ScriptedJudgeModel([asking("o2"), asking("o3")])
    audit = await LLMJudge(model).audit(SHORTENED, AuditNotes())
    assert (audit.verdict.complete, audit.verdict.missing, audit.verdict.source) == (
        False,
        "more",
        "judge",
    )
    again = json.dumps(json.loads(answer(TESTS, KEPT)) | {"need": ["o3"]})
    assert (
        await LLMJudge(ScriptedJudgeModel([asking("o2"), again])).audit(
            SHORTENED, AuditNotes()
        )
    ).verdict.complete


async def test_a_bare_request_in_the_second_look_is_no_verdict() -> None:
    model = ScriptedJudgeModel(
        ['{"need": ["o2"]}', '{"need": ["o3"]}', answer(TESTS, KEPT)]
    )
    notes = AuditNotes()
    assert (await LLMJudge(model).audit(SHORTENED, notes)).verdict.complete
    assert notes.failures == [
        ("parse", "The answer asks for observations and gives no verdict.")
    ]


async def test_a_request_for_what_is_no_observation_is_ignored() -> None:
    model = ScriptedJudgeModel(
        [json.dumps(json.loads(answer(TESTS, KEPT)) | {"need": ["o99", "claim", ""]})]
    )
    assert (await LLMJudge(model).audit(SHORTENED, AuditNotes())).verdict.complete


@pytest.mark.slow
async def test_the_second_look_has_a_budget_of_its_own() -> None:
    everything = [f"o{number}" for number in range(1, 30)]
    for window, bound in ((None, 10_000), (10_000, 2_500)):
        model = ScriptedJudgeModel(
            [asking(*everything), answer(complete=False, missing="all")], window=window
        )
        await LLMJudge(model, JudgeConfig(max_tokens=5_000)).audit(LONG, AuditNotes())
        assert size(model.asked[1], 0, 1) <= 5_000
        assert 0.8 * bound < size(model.asked[1], 3) <= bound
        shown = model.asked[1].messages[3]["content"]
        assert "[o1] shell" in shown
        more = re.search(r"\((\d+) more do not fit\)", shown)
        assert more is not None
        assert (
            len(re.findall(r"^\[o\d+\] shell", shown, re.MULTILINE)) + int(more[1])
            == 19
        )


async def test_a_second_look_leaves_the_repairs_as_they_are() -> None:
    model = ScriptedJudgeModel(["no", asking("o2"), "no", answer(TESTS, KEPT)])
    notes = AuditNotes()
    assert (await LLMJudge(model).audit(SHORTENED, notes)).verdict.complete
    assert [kind for kind, _ in notes.failures] == ["parse", "parse"]


async def test_a_judge_may_say_that_the_goal_is_blocked() -> None:
    text = json.dumps(
        json.loads(answer(score=0.0, complete=False)) | {"blocked": " o1: no key "}
    )
    verdict = (
        await LLMJudge(ScriptedJudgeModel([text])).audit(REQUEST, AuditNotes())
    ).verdict
    assert (verdict.complete, verdict.blocked) == (False, "o1: no key")


async def test_evidence_that_is_out_of_date_is_not_complete() -> None:
    stale = replace(
        REQUEST, stale={"o1": "src/a.py changed after o1"}, changed=("src/a.py",)
    )
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    audit = await LLMJudge(model).audit(stale, AuditNotes())
    assert not audit.verdict.complete
    assert audit.stale_only
    prompt = model.asked[0].messages[1]["content"]
    assert "[o1] shell (exit 0) - stale: src/a.py changed after o1\n" in prompt
    assert "An observation marked stale no longer counts" in prompt


async def test_a_system_prompt_of_ones_own_replaces_the_rules() -> None:
    model = ScriptedJudgeModel([answer(TESTS, KEPT)])
    await LLMJudge(model, JudgeConfig(system_prompt="Be kind.")).audit(
        REQUEST, AuditNotes()
    )
    assert model.asked[0].messages[0]["content"] == "Be kind."
    assert "Answer with one JSON object" in model.asked[0].messages[1]["content"]


CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "secret instructions"},
    {"role": "user", "content": "Make the tests pass."},
    {
        "role": "assistant",
        "content": "43 passed, I promise.",
        "tool_calls": [
            {
                "id": "1",
                "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "2 failed"},
]


async def test_a_chat_is_judged_without_a_run() -> None:
    said_so = TESTS | {"evidence": [{"observation": "o1", "quote": "43 passed"}]}
    model = ScriptedJudgeModel([answer(said_so)] * 2)
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
    goal = Goal(
        objective="Be concise.",
        deliverable="response",
        judge=JudgeConfig(model="scripted/x"),
    )
    assert (
        await judge_goal_async(ScriptedJudgeModel([answer(short)]), goal, chat)
    ).complete
    assert not (
        await judge_goal_async(
            ScriptedJudgeModel([answer(short)] * 2), "Be concise.", chat
        )
    ).complete


async def test_an_empty_objective_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(UsageError, match="the objective is empty"):
        await judge_goal_async(ScriptedJudgeModel([]), " ", CHAT)
