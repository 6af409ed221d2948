"""The rows of the evidence table, from a verdict and the observations beside it."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.evidence_index import EvidenceIndex, evidence_of
from goalrunner.core.observation import EvidenceRow, Observation, Snapshot
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)
from tests.support import told_run
from tests.support.told_run import numbered

SNAPSHOT = "c" * 64


def table(
    verdict: GoalVerdict,
    known: dict[str, Observation],
    stale: dict[str, str],
    results: tuple[ValidatorResult, ...] = (),
    ends: dict[int, str] | None = None,
) -> tuple[EvidenceRow, ...]:
    index = EvidenceIndex()
    index.observations, index.stale = known, stale
    index.history.ends = {
        number: Snapshot(id=name, tree="0" * 40)
        for number, name in (ends or {}).items()
    }
    return index.table(verdict, results)


def seen(
    number: int,
    source: str = "shell",
    facts: tuple[str, ...] = ("exit 0",),
    command: str = "pytest -q",
) -> Observation:
    return Observation(
        id=f"o{number}",
        source=source,
        facts=facts,
        command=command,
        round=1,
        after=SNAPSHOT,
    )


def verdict(*criteria: CriterionVerdict) -> GoalVerdict:
    return GoalVerdict(score=0.5, complete=False, missing="more", criteria=criteria)


def test_each_citation_is_a_row_with_what_the_runner_knows_of_it() -> None:
    criterion = CriterionVerdict(
        criterion="it passes",
        satisfied=True,
        evidence=(
            Citation(observation="[O3]", quote="3 passed"),
            Citation(observation="o4", fact="replaced"),
        ),
    )
    known = {"o3": seen(3), "o4": seen(4, "edit_file", ("replaced",), "src/a.py")}

    rows = table(verdict(criterion), known, {"o4": "src/a.py changed after o4"})

    assert rows == (
        EvidenceRow(
            criterion="it passes",
            satisfied=True,
            observation="o3",
            known=True,
            source="shell",
            command="pytest -q",
            exit_code=0,
            facts=("exit 0",),
            quote="3 passed",
            snapshot=SNAPSHOT,
        ),
        EvidenceRow(
            criterion="it passes",
            satisfied=True,
            observation="o4",
            known=True,
            source="edit_file",
            command="src/a.py",
            facts=("replaced",),
            fact="replaced",
            snapshot=SNAPSHOT,
            stale="src/a.py changed after o4",
        ),
    )
    assert [row.fresh for row in rows] == [True, False]


def test_a_criterion_without_evidence_has_one_row_and_what_is_missing() -> None:
    open_ = CriterionVerdict(
        criterion="it is fast", satisfied=False, missing="no measurement"
    )
    assert table(verdict(open_), {}, {}) == (
        EvidenceRow(criterion="it is fast", satisfied=False, missing="no measurement"),
    )


def test_what_is_cited_and_is_nowhere_is_not_fresh() -> None:
    criterion = CriterionVerdict(
        criterion="x",
        satisfied=False,
        evidence=(Citation(observation="the tests", quote="green"),),
    )
    (row,) = table(verdict(criterion), {}, {})
    assert (row.observation, row.known, row.fresh, row.snapshot) == (
        "the tests",
        False,
        False,
        "",
    )


def test_validators_have_a_row_each() -> None:
    result = ValidatorResult(
        name="tests",
        passed=False,
        command="pytest -q",
        exit_code=1,
        summary="1 failed",
        observation="o5",
    )
    red = seen(5, "validator tests", ("exit 1", "red"))
    (row,) = table(verdict(), {"o5": red}, {}, (result,))
    assert row == EvidenceRow(
        criterion="validator tests",
        kind="validator",
        satisfied=False,
        missing="1 failed",
        observation="o5",
        known=True,
        source="validator tests",
        command="pytest -q",
        exit_code=1,
        facts=("exit 1", "red"),
        fact="1 failed",
        snapshot=SNAPSHOT,
    )


def test_only_what_is_cited_is_kept_of_what_is_stale() -> None:
    criterion = CriterionVerdict(
        criterion="x",
        satisfied=True,
        evidence=(
            Citation(observation="[o2]", quote="a"),
            Citation(observation="o2", quote="b"),
        ),
    )
    assert verdict(criterion).cited == ("o2",)


def test_the_table_of_a_run_is_that_of_its_last_verdict() -> None:
    state, rows = evidence_of(told_run.two_rounds())
    assert state is not None
    assert [(row.kind, row.criterion, row.observation) for row in rows] == [
        ("criterion", "pytest passes", ""),
        ("criterion", "parse('') returns an empty Document", ""),
        ("validator", "validator tests", "o5"),
    ]
    assert evidence_of([]) == (None, ())
    assert evidence_of(told_run.two_rounds()[:3])[1] == ()


def test_the_index_knows_observations_of_every_kind_and_the_last_staleness() -> None:
    index = EvidenceIndex()
    happened = (
        events.BaselineTaken(
            standing="red", results=(), observations=(seen(1),), concealed=(seen(6),)
        ),
        told_run.tool_result("shell", "ls", "exit 0", number=2),
        events.RoundFinished(round=1, response=seen(3, "response")),
        events.ValidatorsFinished(
            round=1, results=(), observations=(seen(4),), concealed=(seen(5),)
        ),
        events.VerdictRecorded(
            round=1, verdict=verdict(), stale={"o2": "a changed after o2"}
        ),
        events.VerdictRecorded(
            round=2, verdict=verdict(), stale={"o4": "b changed after o4"}
        ),
    )
    for record in numbered(*happened):
        index.add(record)
    assert list(index.observations) == ["o1", "o6", "o2", "o3", "o4", "o5"]
    assert index.stale == {"o4": "b changed after o4"}
