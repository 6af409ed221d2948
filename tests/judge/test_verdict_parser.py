"""The judge's verdict is exact: in doubt the answer is unreadable, never complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from goalrunner.core.verdict import Citation, CriterionVerdict
from goalrunner.judge.answer_schemas import JUDGE_OUTCOME_SCHEMA
from goalrunner.judge.json_reader import LIMIT, UnreadableReplyError
from goalrunner.judge.prompt_text import ANSWER_FORMAT
from goalrunner.judge.verdict_parser import (
    JudgeOutcome,
    parse_reply,
    settled_outcome,
)

Json = dict[str, Any]

SCHEMA = JUDGE_OUTCOME_SCHEMA
NO_VERDICT = "The answer holds no whole and valid JSON object with a verdict."


def verdict(**changes: object) -> Json:
    """A whole answer that is complete."""
    return {
        "criteria": [
            {
                "criterion": "the tests pass",
                "satisfied": True,
                "evidence": [{"observation": "o12", "quote": "43 passed"}],
                "missing": "",
            }
        ],
        "score": 1.0,
        "complete": True,
        "missing": "",
    } | changes


def criterion(**changes: object) -> list[Json]:
    """The answer's one criterion, changed."""
    first: Json = verdict()["criteria"][0]
    return [first | changes]


def why_not(text: str) -> str:
    """The sentence with which a text is refused."""
    with pytest.raises(UnreadableReplyError) as caught:
        parse_reply(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Here is my verdict: {} That is all.",
        "```json\n{}\n```",
        "The set {{1, 2}} matters.\n{}",
        '<think>A draft: {{"complete": true}}</think>\n{}',
        "{0}\nOnce more, for clarity:\n{0}",
    ],
)
def test_a_verdict_is_found_wherever_it_stands(around: str) -> None:
    outcome = parse_reply(around.replace("{}", "{0}").format(json.dumps(verdict())))
    assert outcome.passed
    assert outcome.criteria[0].evidence[0].quote == "43 passed"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"complete": "yes"}, "complete: input should be a valid boolean."),
        ({"complete": 1}, "complete: input should be a valid boolean."),
        ({"complete": None}, "complete: input should be a valid boolean."),
        ({"score": 1.1}, "score: input should be less than or equal to 1."),
        ({"score": -0.1}, "score: input should be greater than or equal to 0."),
        ({"score": True}, "score: input should be a valid number."),
        ({"score": "1.0"}, "score: input should be a valid number."),
        ({"criteria": {}}, "criteria: input should be a valid list."),
        (
            {"criteria": ["the tests pass"]},
            "criteria.0: input should be a valid dictionary or instance of CriterionVerdict.",
        ),
        (
            {"criteria": criterion(satisfied="yes")},
            "criteria.0.satisfied: input should be a valid boolean.",
        ),
        (
            {"criteria": criterion(criterion="")},
            "criteria.0.criterion: string should have at least 1 character.",
        ),
        (
            {"criteria": criterion(evidence="o12")},
            "criteria.0.evidence: input should be a valid tuple.",
        ),
        ({"missing": None}, "missing: input should be a valid string."),
    ],
)
def test_every_type_is_exact(changes: Json, reason: str) -> None:
    assert why_not(json.dumps(verdict(**changes))) == reason


@pytest.mark.parametrize("key", ["criteria", "score", "complete", "missing"])
def test_no_key_may_be_missing(key: str) -> None:
    answer = verdict()
    del answer[key]
    assert why_not(json.dumps(answer)) == f"{key}: field required."


@pytest.mark.parametrize("key", ["criterion", "satisfied", "evidence", "missing"])
def test_no_key_of_a_criterion_may_be_missing(key: str) -> None:
    entries = criterion()
    del entries[0][key]
    assert why_not(json.dumps(verdict(criteria=entries))).startswith(
        f"criteria.0.{key}: input should be a valid "
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NO_VERDICT),
        ("It is all done, I am sure.", NO_VERDICT),
        ("[true]", NO_VERDICT),
        (json.dumps(verdict())[:-1], NO_VERDICT),
        (json.dumps(verdict())[:60], NO_VERDICT),
        (
            json.dumps(verdict()).replace("1.0", "NaN"),
            "The answer's JSON holds NaN, which is no JSON.",
        ),
        (
            json.dumps(verdict()).replace("1.0", "Infinity"),
            "The answer's JSON holds Infinity, which is no JSON.",
        ),
        (
            json.dumps(verdict()).replace("1.0", "1e999"),
            "score: input should be a finite number.",
        ),
        (
            json.dumps(verdict())[:-1] + ', "complete": true}',
            "The answer's JSON has a key twice in one object.",
        ),
        (json.dumps(SCHEMA), NO_VERDICT),
        (
            json.dumps(JudgeOutcome.model_json_schema()),
            NO_VERDICT,
        ),
        (ANSWER_FORMAT, NO_VERDICT),
        (json.dumps({"verdict": verdict()}), NO_VERDICT),
        (
            json.dumps(verdict()) + json.dumps(verdict(score=0.5)),
            "Beside a verdict the answer holds another one, or pieces of it.",
        ),
        (
            json.dumps(verdict()) + "\n" + json.dumps(verdict(complete=False))[:-3],
            "Beside a verdict the answer holds another one, or pieces of it.",
        ),
        ("{" * 2_000, "The answer holds too many braces to be one JSON object."),
        pytest.param(
            '{"a":' * 2_000,
            "The answer holds too many braces to be one JSON object.",
            marks=pytest.mark.slow,
        ),
        ("[" * 100_000 + "{", NO_VERDICT),
        (
            json.dumps(verdict()).replace("43 passed", "\\ud800"),
            NO_VERDICT,
        ),
        ("x" * (LIMIT + 1), "The answer is longer than 400,000 characters."),
    ],
)
def test_whatever_is_no_verdict_is_refused_in_one_sentence(
    text: str, reason: str
) -> None:
    assert why_not(text) == reason


def test_complete_beside_an_unsatisfied_criterion_is_not_complete() -> None:
    entries = [
        *criterion(),
        *criterion(
            criterion="it is fast", satisfied=False, missing="no timing was shown"
        ),
    ]
    outcome = parse_reply(json.dumps(verdict(criteria=entries)))
    assert not outcome.passed
    assert outcome.feedback == "it is fast: no timing was shown"


def test_complete_without_criteria_is_not_complete() -> None:
    outcome = parse_reply(json.dumps(verdict(criteria=[])))
    assert not outcome.passed
    assert outcome.feedback is None


def test_answers_that_contradict_themselves_are_refused() -> None:
    assert "although" in why_not(
        json.dumps(verdict(missing="the tests were never run"))
    )
    assert "although" in why_not(json.dumps(verdict(missing="no")))
    assert "although" in why_not(json.dumps(verdict(complete=False)))


@pytest.mark.parametrize(
    "nothing", ["", "None", "n/a", "Nothing.", "nothing is missing"]
)
def test_missing_may_say_nothing_in_words(nothing: str) -> None:
    outcome = parse_reply(json.dumps(verdict(missing=nothing)))
    assert outcome.passed
    assert outcome.missing == ""
    assert outcome.feedback is None


def test_an_answer_may_ask_for_observations() -> None:
    asking = parse_reply(json.dumps(verdict(need=["o7", "[o8]"], complete=False)))
    assert asking.need == ["o7", "[o8]"]
    assert not asking.passed
    with pytest.raises(
        UnreadableReplyError, match="although every criterion is satisfied"
    ):
        settled_outcome(asking)
    whole = settled_outcome(parse_reply(json.dumps(verdict(need=["o7"]))))
    assert whole.passed
    assert whole.need == []


def test_an_answer_may_be_nothing_but_a_request() -> None:
    asking = parse_reply('Let me see more.\n{"need": ["o7"]}')
    assert asking == JudgeOutcome(
        criteria=[], score=0.0, complete=False, missing="", need=["o7"]
    )
    with pytest.raises(UnreadableReplyError, match="gives no verdict"):
        settled_outcome(asking)


@pytest.mark.parametrize("need", ["o7", {"o7": 1}, [7], [["o7"]], True])
def test_a_request_is_a_list_of_ids(need: object) -> None:
    assert why_not(json.dumps(verdict(need=need))).startswith("need")
    if need:
        assert why_not(json.dumps({"need": need}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"need": []}', NO_VERDICT),
        (
            '{"need": ["o1"]} {"need": ["o2"]}',
            "Beside a verdict the answer holds another one, or pieces of it.",
        ),
        ('{"need": ["o1"], "x": 1}', NO_VERDICT),
    ],
)
def test_what_asks_for_nothing_or_for_too_much_is_no_answer(
    text: str, why: str
) -> None:
    assert why_not(text) == why


@pytest.mark.parametrize(
    "nothing", ["", "No.", "not blocked", "None", "n/a", None, False]
)
def test_blocked_may_say_no_in_words(nothing: object) -> None:
    outcome = parse_reply(json.dumps(verdict(blocked=nothing, need=None)))
    assert outcome.passed
    assert (outcome.blocked, outcome.need) == ("", [])


def test_a_blocked_goal_is_not_complete() -> None:
    assert why_not(json.dumps(verdict(blocked="o3 shows that the key is missing"))) == (
        '"complete" is true although "blocked" says that the goal cannot be reached.'
    )
    blocked = parse_reply(
        json.dumps(verdict(complete=False, blocked="o3 shows that the key is missing"))
    )
    assert blocked.blocked == "o3 shows that the key is missing"
    assert not blocked.passed
    assert not JudgeOutcome.model_validate(verdict(blocked="no key")).passed


def test_additional_keys_are_ignored() -> None:
    entries = criterion(
        reasoning="seen", evidence=[{"observation": "o1", "quote": "ok", "line": 3}]
    )
    assert parse_reply(json.dumps(verdict(criteria=entries, notes="none"))).passed


def test_a_citation_has_a_quote_or_a_fact() -> None:
    both = criterion(evidence=[{"observation": "o1", "quote": "ok", "fact": "exit 0"}])
    neither = criterion(evidence=[{"observation": "o1"}])
    filled = criterion(
        evidence=[
            {"observation": "o1", "quote": "", "fact": "exit 0"},
            {"observation": "o2", "quote": "ok", "fact": None},
        ]
    )
    said = parse_reply(json.dumps(verdict(criteria=both))).criteria[0].evidence
    assert said == (
        Citation(observation="o1", quote="ok"),
        Citation(observation="o1", fact="exit 0"),
    )
    assert why_not(json.dumps(verdict(criteria=neither)))
    first, second = (
        parse_reply(json.dumps(verdict(criteria=filled))).criteria[0].evidence
    )
    assert (first.fact, first.quote, second.fact, second.quote) == (
        "exit 0",
        None,
        None,
        "ok",
    )


def test_schema_and_model_ask_for_the_same() -> None:
    assert set(SCHEMA["properties"]) == set(JudgeOutcome.model_fields)
    assert JudgeOutcome.model_json_schema() == SCHEMA
    assert set(SCHEMA["properties"]["criteria"]["items"]["properties"]) == set(
        CriterionVerdict.model_fields
    )
    assert SCHEMA["additionalProperties"] is False


def test_the_schema_fits_the_strict_mode_of_openai() -> None:
    objects = 0

    def walk(node: object) -> None:
        nonlocal objects
        if isinstance(node, dict):
            if node.get("type") == "object":
                objects += 1
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(SCHEMA)
    assert objects == 4


texts = st.text(max_size=40)
says = st.text(min_size=1, max_size=40).filter(lambda text: text.strip() != "")
evidences = st.one_of(
    st.fixed_dictionaries({"observation": texts, "quote": texts}),
    st.fixed_dictionaries({"observation": texts, "fact": texts}),
)
criteria = st.fixed_dictionaries(
    {
        "criterion": says,
        "satisfied": st.booleans(),
        "evidence": st.lists(evidences, max_size=3),
        "missing": texts,
    }
)
open_verdicts = st.fixed_dictionaries(
    {
        "criteria": st.lists(criteria, max_size=4),
        "score": st.floats(0, 1),
        "complete": st.just(value=False),
        "missing": st.just("more tests ").flatmap(
            lambda start: texts.map(lambda rest: start + rest)
        ),
    }
)
prose = st.text(max_size=60).filter(
    lambda text: "{" not in text and '"' not in text and "<think" not in text
)


@given(answer=open_verdicts, before=prose, after=prose, ascii_only=st.booleans())
def test_a_valid_verdict_survives_any_prose(
    answer: Json, before: str, after: str, ascii_only: bool
) -> None:
    outcome = parse_reply(before + json.dumps(answer, ensure_ascii=ascii_only) + after)
    assert json.loads(outcome.model_dump_json(exclude_none=True)) == answer | {
        "need": [],
        "blocked": "",
        "questions": [],
    }


@given(st.text(max_size=300))
def test_no_text_without_a_verdict_ever_passes(text: str) -> None:
    assume('"complete"' not in text)
    assert why_not(text)


@given(cut=st.integers(0, len(json.dumps(verdict())) - 1))
def test_no_cut_verdict_ever_passes(cut: int) -> None:
    assert why_not(json.dumps(verdict())[:cut])


@given(
    place=st.integers(0, len(json.dumps(verdict())) - 1),
    character=st.characters(codec="utf-8"),
)
def test_a_verdict_with_one_character_changed_passes_only_when_it_is_still_one(
    place: int, character: str
) -> None:
    whole = json.dumps(verdict())
    text = whole[:place] + character + whole[place + 1 :]
    try:
        outcome = parse_reply(text)
    except UnreadableReplyError:
        return
    try:
        again = json.loads(text)
    except ValueError:
        assert character.isspace() or ord(character) < 32
        again = json.loads(whole)
    assert outcome.passed == (
        again["complete"] is True and again["criteria"][0]["satisfied"] is True
    )


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "filler",
    [
        *("-", " ", "- ", "none ", '"complete" ', "<think>"),
        pytest.param("{", marks=pytest.mark.slow),
    ],
)
def test_time_grows_with_the_length_of_an_answer_alone(filler: str) -> None:
    long = filler * (200_000 // len(filler)) + "x"
    for key in ("missing", "blocked"):
        assert (
            getattr(parse_reply(json.dumps(verdict(complete=False) | {key: long})), key)
            == long
        )
    assert why_not(long)


@pytest.mark.parametrize("nothing", ["", "- none -", "n/a", "No.", "**not blocked**"])
def test_blocked_may_say_no_with_decoration(nothing: str) -> None:
    assert parse_reply(json.dumps(verdict() | {"blocked": nothing})).blocked == ""


def test_questions_are_a_list_of_texts_and_may_be_left_out() -> None:
    open_verdict = verdict(
        complete=False, missing="the colour", criteria=criterion(satisfied=False)
    )
    assert parse_reply(
        json.dumps(open_verdict | {"questions": ["Which?"]})
    ).questions == ["Which?"]
    assert parse_reply(json.dumps(open_verdict | {"questions": None})).questions == []
    assert parse_reply(json.dumps(open_verdict)).questions == []
    for wrong in ("Which?", [1], [None], {"q": "Which?"}):
        assert "questions" in why_not(json.dumps(open_verdict | {"questions": wrong}))


def test_questions_alone_are_no_verdict() -> None:
    assert why_not('{"questions": ["Which?"]}')
