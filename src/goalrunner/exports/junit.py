"""JUnit XML of a run, and of any other list of cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.verdict import ValidatorResult
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.closing import summary_of
from goalrunner.reports.evidence import criterion_facts
from goalrunner.reports.layout import laid_out
from goalrunner.reports.result_notes import protected_lines

CaseKind = Literal["", "failure", "error", "skipped"]

_BUDGETS = ("tokens", "cost_usd")


class Case(NamedTuple):
    """One test case.

    Without a `kind` it passed, and type, message and details are not shown.
    """

    group: str
    name: str
    kind: CaseKind
    type: str = ""
    message: str = ""
    details: str = ""
    output: str = ""
    seconds: float = 0.0


def suite_text(
    name: str,
    cases: Sequence[Case],
    *,
    seconds: float,
    timestamp: str = "",
    properties: Mapping[str, str],
) -> str:
    """Return one suite of cases as JUnit XML."""
    return rendered(
        Path(__file__).with_name("junit.xml.j2"),
        name=name,
        cases=cases,
        seconds=seconds,
        timestamp=timestamp,
        properties=properties,
    )


def junit_text(
    outcome: GoalOutcome,
    results: Sequence[ValidatorResult] = (),
    criteria: Sequence[str] = (),
) -> str:
    """Return a run as JUnit XML.

    There is a case for the run and for each validator, criterion and limit. `results`
    are the last ones of the validators; the output of hidden ones is left out. Criteria
    that the last verdict does not name are skipped.
    """
    cases = [_run_case(outcome)]
    cases += map(_validator_case, results)
    judged = list(_criterion_cases(outcome))
    cases += judged
    judged_names = {case.name for case in judged}
    for criterion in criteria:
        if criterion not in judged_names:
            cases.append(Case("criteria", criterion, "skipped", message="not judged"))
    cases += _limit_cases(outcome)
    properties = {
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "stop_reason": str(outcome.stop_reason or ""),
        "score": figures.score(outcome.verdict.score) if outcome.verdict else "",
        "labels": "; ".join(outcome.labels),
    }
    return suite_text(
        outcome.objective,
        cases,
        seconds=outcome.duration,
        # JUnit's times have no fractions and no zone.
        timestamp=(outcome.started_at or "")[:19],
        properties=properties,
    )


def _run_case(outcome: GoalOutcome) -> Case:
    kind: CaseKind = "error"
    if outcome.passed:
        kind = ""
    elif outcome.status == "capped":
        kind = "failure"
    reason = str(outcome.stop_reason or outcome.status)
    missing = outcome.verdict.missing if outcome.verdict else ""
    changed = [line.text for line in protected_lines(summary_of(outcome))]
    return Case(
        "run",
        "complete",
        kind,
        reason,
        message=f"{outcome.status}: {reason.replace('_', ' ')}",
        details="\n".join([*changed, outcome.message or missing]),
        output=f"run {outcome.run_id}",
        seconds=outcome.duration,
    )


def _kind(passed: bool) -> CaseKind:
    return "" if passed else "failure"


def _validator_case(result: ValidatorResult) -> Case:
    details = output = ""
    # An agent could read the output of a hidden validator.
    if not result.hidden:
        details = result.feedback
        lines = [result.command, result.summary]
        if result.passed:
            lines.append(result.feedback)
        output = "\n".join(filter(None, lines))
    return Case(
        "validators",
        result.name,
        _kind(result.passed),
        result.reason,
        public_remark(result),
        details,
        output,
        result.duration,
    )


def public_remark(result: ValidatorResult) -> str:
    """Return the remark on a validator's result; of a hidden one, the summary alone."""
    return result.summary if result.hidden else result.remark


def _criterion_cases(outcome: GoalOutcome) -> Iterator[Case]:
    rows = [row for row in outcome.evidence if row.kind == "criterion"]
    for criterion, group in groupby(rows, key=lambda row: row.criterion):
        citations = list(group)
        first = citations[0]
        missing = first.missing or "not satisfied"
        yield Case(
            "criteria",
            criterion,
            _kind(first.satisfied),
            "not_satisfied",
            missing,
            missing,
            laid_out(criterion_facts(citations)),
        )


def _limit_cases(outcome: GoalOutcome) -> Iterator[Case]:
    """Yield a case for each limit that is set; the one that stopped the run failed."""
    usages = list(outcome.usage.values())
    amounts = {
        "max_iterations": outcome.iterations,
        "timeout": outcome.duration,
        "tokens": sum(usage.tokens for usage in usages),
        "cost_usd": sum(usage.known_cost_usd for usage in usages),
    }
    for name, amount in amounts.items():
        limit = outcome.limits.get(name)
        if limit is None:
            continue
        is_budget = name in _BUDGETS
        reason = "budget_exhausted" if is_budget else name
        # Both budgets have one reason; the one that is not used up did not stop it.
        is_used_up = amount >= limit or not is_budget
        has_stopped = outcome.stop_reason == reason and is_used_up
        used = f"{_number(amount)} of {_number(limit)}"
        yield Case(
            "limits",
            name,
            _kind(not has_stopped),
            reason,
            f"the limit was reached: {used}",
            output=used,
        )


def _number(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".")
