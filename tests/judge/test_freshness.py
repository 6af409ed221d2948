"""Stale observations prove nothing, and the feedback says what to run again."""

from __future__ import annotations

from dataclasses import replace

from goalrunner.core.events import VerdictRecorded
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import Citation, CriterionVerdict
from goalrunner.judge.verdict_check import advice_to_repeat, check_verdict
from goalrunner.judge.verdict_parser import JudgeOutcome
from tests.support.trails import seen, trail

EVENTS = trail(
    seen(1, "def parse(): ...", source="read_file", command="src/b.py"),
    seen(12, "43 passed in 1.1s", command="pytest -q", facts=("exit 0",)),
    seen(13, "2 failed in 1.1s", command="pytest -q", facts=("exit 1",)),
    seen(14, "Success: no issues", command="mypy .", facts=("exit 0",)),
)
CHANGED = {"o12": "src/a.py changed after o12", "o13": "src/a.py changed after o13"}
TESTS = Citation(observation="o12", quote="43 passed")
TYPES = Citation(observation="o14", fact="exit 0")


def entry(
    name: str, *evidence: Citation, satisfied: bool = True, missing: str = ""
) -> CriterionVerdict:
    """What a judge says of one criterion."""
    return CriterionVerdict(
        criterion=name, satisfied=satisfied, evidence=evidence, missing=missing
    )


def judged(
    *entries: CriterionVerdict,
    stale: dict[str, str] = CHANGED,
    complete: bool = True,
    score: float = 1.0,
    missing: str = "",
    criteria: tuple[str, ...] = (),
    minimum: float = 0.0,
    blocked: str = "",
) -> VerdictRecorded:
    """The check of an answer with these entries."""
    request = AuditRequest("Do it.", criteria, (), "workspace", 1, EVENTS, stale=stale)
    outcome = JudgeOutcome(
        criteria=list(entries),
        score=score,
        complete=complete,
        missing=missing,
        blocked=blocked,
    )
    return check_verdict(outcome, replace(request, minimum_score=minimum)).event


def test_a_stale_citation_does_not_count_and_says_what_would() -> None:
    audit = judged(entry("the tests pass", TESTS), entry("it is typed", TYPES))
    assert not audit.verdict.complete
    assert [one.satisfied for one in audit.verdict.criteria] == [False, True]
    assert audit.refusals == (
        "the tests pass: o12 is stale: src/a.py changed after o12.",
    )
    assert audit.verdict.missing == (
        "the tests pass: Citation invalid: o12 is stale: src/a.py changed after o12. Run pytest -q again."
    )
    assert audit.citations_checked == 2
    assert audit.stale_only


def test_a_fact_goes_stale_as_a_quote_does() -> None:
    audit = judged(entry("the tests pass", Citation(observation="o12", fact="exit 0")))
    assert not audit.verdict.complete
    assert audit.stale_only


def test_a_fresh_citation_beside_a_stale_one_is_enough() -> None:
    audit = judged(entry("it is typed", TESTS, TYPES))
    assert audit.verdict.complete
    assert audit.refusals == ("it is typed: o12 is stale: src/a.py changed after o12.",)
    assert not audit.stale_only


def test_what_is_stale_for_no_known_reason_is_stale() -> None:
    audit = judged(entry("the tests pass", TESTS), stale={"o12": ""})
    assert audit.verdict.missing.endswith(
        "o12 is stale: something changed after o12. Run pytest -q again."
    )


def test_what_never_stood_there_is_not_excused_by_freshness() -> None:
    forged = Citation(observation="o12", quote="44 passed")
    audit = judged(entry("the tests pass", forged))
    assert audit.refusals == (
        'the tests pass: the output of o12 does not contain "44 passed".',
    )
    assert not audit.stale_only


def test_one_unfounded_criterion_is_more_than_freshness() -> None:
    forged = Citation(observation="o14", quote="found nothing at all")
    assert not judged(
        entry("the tests pass", TESTS), entry("it is typed", forged)
    ).stale_only
    assert not judged(entry("the tests pass", TESTS), entry("it is typed")).stale_only
    assert not judged(
        entry("the tests pass", TESTS), entry("it is typed", satisfied=False)
    ).stale_only


def test_a_score_too_low_is_more_than_freshness() -> None:
    assert not judged(entry("the tests pass", TESTS), score=0.5, minimum=0.8).stale_only


def test_an_answer_that_misses_something_is_more_than_freshness() -> None:
    audit = judged(
        entry("the tests pass", TESTS), complete=False, missing="the docs are missing"
    )
    assert not audit.stale_only


def test_a_complete_verdict_fails_on_nothing() -> None:
    assert not judged(entry("it is typed", TYPES)).stale_only
    assert not judged(entry("the tests pass", TESTS), stale={}).stale_only


def test_a_judge_that_itself_waits_for_fresh_evidence_is_understood() -> None:
    waiting = entry(
        "the tests pass", TESTS, satisfied=False, missing="the run is out of date"
    )
    audit = judged(
        waiting,
        entry("it is typed", TYPES),
        complete=False,
        score=0.4,
        criteria=("the tests pass",),
    )
    assert audit.stale_only
    assert audit.verdict.missing == (
        "the tests pass: the run is out of date\n"
        "the tests pass: o12 is stale: src/a.py changed after o12. Run pytest -q again."
    )


def test_a_criterion_that_a_stale_failure_leaves_open_does_not_wait() -> None:
    failed = Citation(observation="o13", quote="2 failed in 1.1s")
    audit = judged(
        entry("the tests pass", failed, satisfied=False, missing="2 fail"),
        complete=False,
    )
    assert not audit.stale_only
    assert audit.verdict.missing == "the tests pass: 2 fail"


def test_criteria_that_a_waiting_judge_does_not_speak_of_are_not_known_to_be_proven() -> (
    None
):
    waiting = entry("the tests pass", TESTS, satisfied=False)
    assert not judged(
        waiting,
        complete=False,
        missing="more",
        criteria=("the tests pass", "it is typed"),
    ).stale_only


def test_a_blocked_verdict_is_not_a_matter_of_freshness() -> None:
    waiting = entry("the tests pass", TESTS, satisfied=False)
    audit = judged(waiting, complete=False, blocked="o13 shows that it cannot work")
    assert audit.verdict.blocked == "o13 shows that it cannot work"
    assert not audit.stale_only


def test_blocked_and_complete_at_once_is_not_complete() -> None:
    verdict = judged(entry("it is typed", TYPES), blocked="no key").verdict
    assert (verdict.complete, verdict.blocked) == (False, "no key")


def test_a_file_is_to_be_looked_at_again() -> None:
    item, _ = seen(1, "", source="read_file", command="src/b.py")
    item = item.model_copy(update={"path": "src/b.py"})
    assert advice_to_repeat([item, item]) == "Look at src/b.py again."


def test_a_long_command_is_named_shortly() -> None:
    item, _ = seen(1, "", command="python - <<E\n" + "x = 1\n" * 500 + "E")
    said = advice_to_repeat([item])
    assert said.startswith("Run python - <<E x = 1 x = 1 ")
    assert said.endswith("… again.")
    assert len(said) < 250
