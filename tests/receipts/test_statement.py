"""The document of a receipt, as the library of in-toto and a reader see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement as InTotoStatement
from junitparser import JUnitXml

from goalrunner.core.errors import UsageError
from goalrunner.receipts.pages import receipt_facts, receipt_junit, receipt_markdown
from goalrunner.receipts.statement import (
    CheckedCriterion,
    CheckedGoal,
    CheckedRevision,
    CheckedTest,
    CheckedValidator,
    CitedEvidence,
    Predicate,
    make_statement,
    read_statement,
)

_TESTS = (
    CheckedTest(
        validator="tests",
        test="t.py::new",
        change="fail to pass",
        base="absent",
        head_source="absent",
        head_checks="failed",
        head="passed",
    ),
    CheckedTest(
        validator="tests",
        test="t.py::old",
        change="pass to pass",
        base="passed",
        head_source="passed",
        head_checks="passed",
        head="passed",
    ),
)


def predicate(**changes: Any) -> Predicate:
    values: dict[str, Any] = {
        "result": "complete",
        "proof": "fail to pass",
        "base": CheckedRevision(commit="a" * 40, tree="b" * 40),
        "head": CheckedRevision(commit="c" * 40, tree="d" * 40),
        "goal": CheckedGoal(sha256="0" * 64, objective="It parses <b>@all</b>."),
        "validators": (
            CheckedValidator(
                name="tests",
                command="pytest",
                base="red",
                head="passed",
                summary="2 passed",
            ),
        ),
        "tests": _TESTS,
        "criteria": (
            CheckedCriterion(
                criterion="It is fast.",
                satisfied=True,
                citations=(CitedEvidence(observation="o1", command="x", quote="q"),),
            ),
        ),
        "labels": ("flaky: tests",),
        "run_id": "r",
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:00:01+00:00",
    }
    return Predicate(**{**values, **changes})


def test_the_library_of_in_toto_accepts_the_statement() -> None:
    text = make_statement(predicate()).json_text()

    parsed = json_format.Parse(text, statement_pb2.Statement())
    InTotoStatement.copy_from_pb(parsed).validate()

    assert [dict(subject.digest) for subject in parsed.subject] == [
        {"gitCommit": "c" * 40},
        {"gitTree": "d" * 40},
    ]


def test_a_work_tree_has_its_tree_as_the_only_subject() -> None:
    head = CheckedRevision(tree="d" * 40)

    (subject,) = make_statement(predicate(head=head)).subject

    assert subject.digest == {"gitTree": "d" * 40}


def test_a_statement_is_read_as_it_was_written() -> None:
    statement = make_statement(predicate())

    assert read_statement(statement.json_text(), "receipt.json") == statement


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a receipt"),
        ('{"_type": "https://in-toto.io/Statement/v1"}', "predicate type is missing"),
        (
            make_statement(predicate()).json_text().replace('"complete"', '"perfect"'),
            "predicate.result",
        ),
        (
            make_statement(predicate()).json_text().replace('"runId"', '"runid"'),
            "runId",
        ),
    ],
)
def test_another_document_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_statement(text, "receipt.json")


def test_a_comment_has_no_markup_and_no_mentions_of_the_texts() -> None:
    text = receipt_markdown(predicate())

    assert "<b>" not in text
    assert "@all" not in text
    assert "t.py::new" in text
    assert "1 other," in text


def test_a_screen_names_the_tests_that_prove_the_change() -> None:
    texts = [fact.text for fact in receipt_facts(predicate())]

    assert "fail to pass: t.py::new" in texts
    assert not any("t.py::old" in text for text in texts)
    assert "complete" in texts


def test_names_in_the_document_are_those_of_in_toto() -> None:
    values = json.loads(make_statement(predicate()).json_text())

    assert set(values) == {"_type", "subject", "predicateType", "predicate"}


def test_junit_has_a_failure_for_a_test_that_was_weakened() -> None:
    weakened = _TESTS[1].model_copy(update={"change": "weakened"})

    text = receipt_junit(predicate(tests=(_TESTS[0], weakened)))
    suite = JUnitXml.fromstring(text.encode())

    failed = [case.name for one in suite for case in one if case.result]
    assert failed == ["t.py::old"]
