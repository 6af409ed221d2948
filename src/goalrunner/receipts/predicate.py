"""What a run of a change says about it, as the predicate of a receipt."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from goalrunner.core import VERSION
from goalrunner.core.errors import one_line, some
from goalrunner.core.events import ChangedChecks
from goalrunner.core.labels import Label, label_in
from goalrunner.core.observation import EvidenceRow
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.verdict import ValidatorResult
from goalrunner.receipts.comparison import (
    RED,
    SUSPECT,
    ComparedTest,
    Proof,
    Sides,
    compared_tests,
    counts,
    fails_without_change,
)
from goalrunner.receipts.statement import (
    CheckedCriterion,
    CheckedGoal,
    CheckedRevision,
    CheckedTest,
    CheckedValidator,
    CitedEvidence,
    Predicate,
    ProofKind,
    ReceiptResult,
    RequiredProof,
)

_LONGEST_REASON = 300
_MOST_OPTIONS = 3
"""Options for files in the reason: with more, a pattern is shorter."""
_SUSPECT_LABELS = {
    Proof.WEAKENED: Label.WEAKENED_TESTS,
    Proof.DELETED: Label.DELETED_TESTS,
    Proof.SKIPPED: Label.SKIPPED_TESTS,
    Proof.LOST: Label.LOST_TESTS,
    Proof.VACUOUS: Label.VACUOUS_TESTS,
}
_NO_PROOF = (Label.NOTHING_CHANGED, Label.PASSED_BEFORE)
"""Labels of a run whose results say nothing about the change."""

_NEWLY_RED = (Proof.PASS_TO_FAIL, Proof.NEW_FAILS)


@dataclass(frozen=True)
class VerifiedRun:
    """How the run of a change ended."""

    outcome: GoalOutcome
    sides: Sides
    changed_checks: ChangedChecks | None = None
    """What a person has to decide about; None if nothing is open."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Where the checks ran; what is not known is missing."""
    changes_program: bool = True
    """Whether source or data was changed, and not tests alone."""


@dataclass(frozen=True)
class CheckedChange:
    """What was verified, and by which goal."""

    base: CheckedRevision
    head: CheckedRevision
    goal: CheckedGoal
    required_proof: RequiredProof = ""


def predicate_of(run: VerifiedRun, change: CheckedChange) -> Predicate:
    """Return what a run says about the change."""
    outcome, sides = run.outcome, run.sides
    rows = compared_tests(sides)
    conclusion = _conclusion(run, rows, change.required_proof)
    return Predicate(
        result=conclusion.result,
        reason=conclusion.reason,
        proof=conclusion.proof,
        required_proof=change.required_proof,
        base=change.base,
        head=change.head,
        goal=change.goal,
        validators=tuple(_validators(sides)),
        tests=tuple(map(_checked_test, rows)),
        criteria=_criteria(outcome.evidence),
        labels=(
            *_labels(run, rows, conclusion.proof),
            *_not_judged(outcome, change.goal),
        ),
        environment=run.environment,
        judge=outcome.models.get("judge", ""),
        run_id=outcome.run_id,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
    )


@dataclass(frozen=True)
class _Conclusion:
    """What a receipt says in the end."""

    result: ReceiptResult
    reason: str
    """What is missing; empty for a complete receipt."""
    proof: ProofKind = "none"


def _conclusion(
    run: VerifiedRun, rows: Sequence[ComparedTest], required: RequiredProof
) -> _Conclusion:
    """Return the result of a receipt, why it is not complete, and its proof."""
    result, reason = _result(run, rows)
    if run.changed_checks is not None:
        reason = _open_decision(run.changed_checks)
    elif result == "not complete":
        reason = _red_tests(run.sides, rows) or reason
    if result != "complete":
        # A change that is not verified has no proof, whatever single tests show.
        return _Conclusion(result, reason)
    proof = _proof(run, rows)
    if required and proof != required:
        return _Conclusion(
            "not complete",
            "no test and no validator fails without the change and passes with it, "
            "which --require-fail-to-pass requires",
        )
    return _Conclusion(result, reason, proof)


def _result(
    run: VerifiedRun, rows: Sequence[ComparedTest]
) -> tuple[ReceiptResult, str]:
    """Return the result of a run, and what is missing; empty: nothing."""
    outcome = run.outcome
    reason = outcome.message
    if outcome.verdict is not None and outcome.verdict.missing:
        reason = outcome.verdict.missing
    # What to type follows on a line of its own, or the output of a validator.
    reason = one_line("; ".join(reason.strip().splitlines()), _LONGEST_REASON)
    match outcome.status:
        case GoalStatus.COMPLETE:
            # Tests of a program that did not change pass without the change as well.
            no_proof = _NO_PROOF if run.changes_program else (Label.NOTHING_CHANGED,)
            for label in no_proof:
                if label in outcome.labels:
                    return "not complete", label.meaning
            # The exit code of a program that runs the change is not all that it says.
            failing = [row.test for row in rows if row.proof in _NEWLY_RED]
            if failing:
                names = some(failing)
                return "not complete", f"tests fail, despite exit code 0: {names}"
            return "complete", ""
        case GoalStatus.BLOCKED:
            return "blocked", reason
        case GoalStatus.CAPPED:
            return "not complete", reason
    return "failed", reason


def _red_tests(sides: Sides, rows: Sequence[ComparedTest]) -> str:
    """Return the tests that fail on the head; empty if other checks fail as well.

    Their names say more than the first lines of the output.
    """
    red = [result for result in sides.head if not result.passed]
    names = [row.test for row in rows if row.proof in RED]
    if not names or any(result.tests is None for result in red):
        return ""
    parts = [f"validator {result.name}: {result.summary}" for result in red]
    return f"{'; '.join(parts)}: {some(names)}"


def _open_decision(changed: ChangedChecks) -> str:
    """Return what a person has to decide, and how the change is accepted."""
    # The change of a receipt may be that of a person.
    why = changed.why.replace("the agent's versions", "the change's versions")
    text = f"{why}: {some(changed.paths)}"
    if changed.hint:
        # The goal file may have other files beside these that have to be allowed.
        paths: list[str] = json.loads(changed.hint.partition(" = ")[2])
        options = [f"--allow {shlex.quote(path)}" for path in paths[:_MOST_OPTIONS]]
        if len(paths) > _MOST_OPTIONS:
            options = ["--allow PATTERN"]
        command = " ".join(options)
        text += f"; to accept them: {command}, or in the goal file {changed.hint}"
    return text


def _proof(run: VerifiedRun, rows: Sequence[ComparedTest]) -> ProofKind:
    """Return what shows that a verified change does what it is for."""
    numbers = counts(rows)
    has_proof = Proof.FAIL_TO_PASS in numbers or Proof.CHANGED in numbers
    if has_proof or fails_without_change(run.sides):
        return "fail to pass"
    has_criteria = any(row.kind == "criterion" for row in run.outcome.evidence)
    if has_criteria and "judge" in run.outcome.models:
        return "criteria"
    return "no regression"


def _labels(
    run: VerifiedRun, rows: Sequence[ComparedTest], proof: ProofKind
) -> tuple[str, ...]:
    """Return what weakens a receipt: the labels of the run, and those of tests."""
    numbers = counts(rows)
    missing_tests = numbers.get(Proof.DELETED, 0) + numbers.get(Proof.SKIPPED, 0)
    labels: list[str] = []
    for label in run.outcome.labels:
        # A run names them so that the files of the start can be restored.
        if label_in(label) == Label.PROTECTED_CHANGED:
            continue
        # The labels of single tests say the same, unless more tests are only counted.
        if not _is_counted_by_id(label, missing_tests):
            labels.append(label)
    was_green = all(result.passed for result in run.sides.base)
    # A refactoring is no fault; but the tests do not show what the change is for.
    if proof == "no regression" and was_green:
        labels.append(Label.PASSED_BEFORE.value)
    for test_proof in SUSPECT:
        if test_proof in numbers:
            suspect = _SUSPECT_LABELS[test_proof]
            labels.append(suspect.about(str(numbers[test_proof])))
    return tuple(dict.fromkeys(labels))


def _is_counted_by_id(label: str, missing_tests: int) -> bool:
    """Return whether a label counts removed tests that are all known by their ids."""
    prefix = f"{Label.TESTS_REMOVED}: "
    if not label.startswith(prefix):
        return False
    count = label.removeprefix(prefix)
    return count.isdecimal() and int(count) <= missing_tests


def _not_judged(outcome: GoalOutcome, goal: CheckedGoal) -> tuple[str, ...]:
    """Return the label of criteria for which no judge looked for evidence."""
    if goal.success_criteria and "judge" not in outcome.models:
        return (Label.NOT_JUDGED.value,)
    return ()


def _validators(sides: Sides) -> list[CheckedValidator]:
    base = {result.name: result for result in sides.base}
    head = {result.name: result for result in sides.head}
    checked: list[CheckedValidator] = []
    # A run that ended at its baseline has no results of the head.
    for name in dict.fromkeys((*base, *head)):
        command = (head.get(name) or base[name]).command
        validator = CheckedValidator(
            name=name,
            command=command,
            base=_ending(base.get(name)),
            head=_ending(head.get(name)),
            summary=head[name].summary if name in head else "",
        )
        checked.append(validator)
    return checked


def _ending(result: ValidatorResult | None) -> str:
    return result.reason if result is not None else ""


def _checked_test(row: ComparedTest) -> CheckedTest:
    return CheckedTest(
        validator=row.validator,
        test=row.test,
        change=str(row.proof),
        base=row.endings.base,
        head_source=row.endings.source,
        head_checks=row.endings.checks,
        head=row.endings.head,
        moved_to=row.moved_to,
    )


def _criteria(evidence: Sequence[EvidenceRow]) -> tuple[CheckedCriterion, ...]:
    """Return the criteria with their citations, in the order of the verdict."""
    rows_of: dict[str, list[EvidenceRow]] = {}
    for row in evidence:
        if row.kind == "criterion":
            rows_of.setdefault(row.criterion, []).append(row)
    criteria: list[CheckedCriterion] = []
    for name, rows in rows_of.items():
        # A criterion without evidence has one row, which cites nothing.
        citations = [_citation(row) for row in rows if row.observation]
        criterion = CheckedCriterion(
            criterion=name,
            satisfied=all(row.satisfied for row in rows),
            missing=rows[0].missing,
            citations=tuple(citations),
        )
        criteria.append(criterion)
    return tuple(criteria)


def _citation(row: EvidenceRow) -> CitedEvidence:
    return CitedEvidence(
        observation=row.observation,
        source=row.source,
        command=row.command,
        quote=row.quote or "",
        fact=row.fact or "",
        stale=row.stale,
    )


def environment_here(outcome: GoalOutcome) -> dict[str, str]:
    """Return where the checks of a run ran that this process has made."""
    return {
        "checks": outcome.check_environment,
        "goalrunner": VERSION,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
