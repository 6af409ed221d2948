"""JUnit XML of a run: its cases, and what readers of JUnit files accept."""

from __future__ import annotations

import io
import re
from xml.etree.ElementTree import Element, fromstring

import pytest

from goalrunner.core.observation import EvidenceRow
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.verdict import ValidatorResult
from goalrunner.exports.junit import junit_text
from tests.support.told_run import outcome

GREEN = ValidatorResult(
    name="tests", passed=True, command="pytest -q", duration=1.25, summary="43 passed"
)
RED = ValidatorResult(
    name="lint",
    passed=False,
    summary="exit 1",
    feedback="src/a.py:3: unused\n",
    command="ruff check",
)
HIDDEN = ValidatorResult(
    name="secret",
    passed=False,
    summary="exit 1",
    feedback="the case is ''",
    hidden=True,
)
MET = EvidenceRow(
    criterion="the tests pass",
    satisfied=True,
    observation="o7",
    known=True,
    source="shell",
    command="pytest -q",
    quote="43 passed",
    snapshot="a" * 64,
)
NOT_MET = EvidenceRow(
    criterion="it is documented", satisfied=False, missing="no README"
)

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out"},
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname", "time"},
    "property": {"name", "value"},
}
ALLOWED = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {*REQUIRED["testsuite"], "skipped", "time", "timestamp", "id"},
    "testcase": REQUIRED["testcase"],
    "property": REQUIRED["property"],
    **{tag: {"type", "message"} for tag in ("skipped", "error", "failure")},
}
"""What the schemas of Jenkins and of Ant have in common, and `system-out` in a case, which is Jenkins' alone."""


def capped() -> GoalOutcome:
    limits = {
        "max_iterations": 2.0,
        "timeout": 1_800.0,
        "tokens": None,
        "cost_usd": 5.0,
    }
    ended = outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS)
    return ended.model_copy(
        update={
            "evidence": (MET, NOT_MET),
            "limits": limits,
            "started_at": "2026-11-21T10:00:00+00:00",
        }
    )


def cases(text: str) -> dict[str, Element]:
    """The cases by class and name."""
    elements = fromstring(text).iter("testcase")
    return {f"{case.get('classname')}: {case.get('name')}": case for case in elements}


def assert_valid(element: Element) -> None:
    """Check names, attributes, counts and formats of an element and of those inside of it."""
    assert set(element.keys()) <= ALLOWED.get(element.tag, set()), element.tag
    assert set(element.keys()) >= REQUIRED.get(element.tag, set()), element.tag
    assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    assert re.fullmatch(r"\d+\.\d{3}", element.get("time", "0.000"))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
        element.get("timestamp", "2026-11-21T10:00:00"),
    )
    for name, tag in (
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        if element.get(name) is not None:
            assert element.get(name) == str(len(list(element.iter(tag))))
    for child in element:
        assert_valid(child)


def test_there_is_a_case_for_the_run_each_validator_criterion_and_limit() -> None:
    cases_by_name = cases(
        junit_text(
            capped(), [GREEN, RED], ["the tests pass", "it is documented", "it is fast"]
        )
    )
    kinds = {
        name: next((child.tag for child in case if child.tag != "system-out"), "")
        for name, case in cases_by_name.items()
    }
    assert kinds == {
        "goal.run: complete": "failure",
        "goal.validators: tests": "",
        "goal.validators: lint": "failure",
        "goal.criteria: the tests pass": "",
        "goal.criteria: it is documented": "failure",
        "goal.criteria: it is fast": "skipped",
        "goal.limits: max_iterations": "failure",
        "goal.limits: timeout": "",
        "goal.limits: cost_usd": "",
    }
    assert cases_by_name["goal.validators: tests"].get("time") == "1.250"
    assert (
        cases_by_name["goal.validators: lint"].findtext("failure")
        == "src/a.py:3: unused\n"
    )
    assert "“43 passed”" in str(
        cases_by_name["goal.criteria: the tests pass"].findtext("system-out")
    )
    assert (
        cases_by_name["goal.limits: timeout"].findtext("system-out") == "192.4 of 1,800"
    )


@pytest.mark.parametrize(
    ("status", "reason", "tag"),
    [
        (GoalStatus.COMPLETE, StopReason.SATISFIED, None),
        (GoalStatus.CAPPED, StopReason.TIMEOUT, "failure"),
        (GoalStatus.BLOCKED, StopReason.APPROVAL_REQUIRED, "error"),
        (GoalStatus.FAILED, StopReason.AUTHENTICATION, "error"),
        (GoalStatus.CANCELLED, StopReason.INTERRUPTED, "error"),
        (GoalStatus.RUNNING, None, "error"),
    ],
)
def test_only_a_complete_run_passes(
    status: GoalStatus, reason: StopReason | None, tag: str | None
) -> None:
    case = cases(junit_text(outcome(status, reason)))["goal.run: complete"]
    assert [child.tag for child in case if child.tag != "system-out"] == [tag] * (
        tag is not None
    )


def test_protected_files_that_are_still_changed_come_first() -> None:
    left = {
        "labels": ("protected files changed: tests/test_a.py",),
        "left_changed": ("tests/test_a.py",),
        "message": "not complete after 2 rounds",
    }
    text = junit_text(capped().model_copy(update=left))
    properties = {
        item.get("name"): item.get("value")
        for item in fromstring(text).iter("property")
    }
    assert properties["labels"] == left["labels"][0]
    (failure,) = cases(text)["goal.run: complete"].iter("failure")
    assert (failure.text or "").splitlines() == [
        "protected files are still changed in the workspace: tests/test_a.py",
        f"goal restore {capped().run_id} 0 --path tests/test_a.py",
        "not complete after 2 rounds",
    ]


@pytest.mark.parametrize(
    ("used", "red"),
    [
        (Usage(input_tokens=200, cost_usd=0.1, known_cost_usd=0.1), ["tokens"]),
        (
            Usage(input_tokens=20, cost_usd=0.1, known_cost_usd=0.1, uncounted_calls=1),
            [],
        ),
    ],
)
def test_an_exhausted_budget_fails_the_limit_that_was_reached_and_none_if_the_usage_is_unknown(
    used: Usage, red: list[str]
) -> None:
    limits = {"max_iterations": None, "timeout": None, "tokens": 100.0, "cost_usd": 5.0}
    ended = outcome(GoalStatus.CAPPED, StopReason.BUDGET_EXHAUSTED)
    cases_by_name = cases(
        junit_text(
            ended.model_copy(update={"limits": limits, "usage": {"agent": used}})
        )
    )
    failed = [
        name for name, case in cases_by_name.items() if case.find("failure") is not None
    ]
    assert failed == ["goal.run: complete", *(f"goal.limits: {name}" for name in red)]


def test_the_output_of_a_hidden_validator_is_left_out() -> None:
    text = junit_text(capped(), [HIDDEN])
    assert "goal.validators" in text
    assert "the case is" not in text


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred\x00\x08\ufffe\uffff\ud800",
        "]]></failure><testcase/>",
        "\"&<>'",
        "\u202eevil",
        "a\tb\r\nc\u2028d",
    ],
)
def test_texts_of_agents_cannot_break_the_file(text: str) -> None:
    red = RED.model_copy(
        update={"feedback": f"{text}\n{text}", "summary": text, "name": f"x{text}"}
    )
    row = NOT_MET.model_copy(update={"criterion": f"x{text}", "missing": text})
    ended = capped().model_copy(
        update={
            "evidence": (row,),
            "objective": text,
            "message": text,
            "labels": (text,),
        }
    )
    root = fromstring(junit_text(ended, [red]).encode())
    assert_valid(root)
    assert len(list(root.iter("testcase"))) == 6
    assert not re.search("[\x00-\x08\x1b\u202e]", junit_text(ended, [red]))


def test_two_independent_readers_agree() -> None:
    junitparser = pytest.importorskip("junitparser")
    xunitparser = pytest.importorskip("xunitparser")
    text = junit_text(capped(), [GREEN, RED], ["it is fast"])
    (suite,) = junitparser.JUnitXml.fromstring(text.encode())
    one = {
        case.name: next(
            (result.__class__.__name__.lower() for result in case.result), "success"
        )
        for case in suite
    }
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (9, 4, 0, 1)
    found, _ = xunitparser.parse(io.StringIO(text))
    assert {case.methodname: case.result for case in found} == one
