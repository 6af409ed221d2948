"""A receipt as one screen of text, as Markdown, and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from goalrunner.exports.junit import Case, suite_text
from goalrunner.exports.markdown import code, escaped
from goalrunner.receipts.comparison import RED, SUSPECT, Proof
from goalrunner.receipts.statement import (
    CheckedCriterion,
    CheckedRevision,
    CheckedTest,
    CheckedValidator,
    Predicate,
)
from goalrunner.receipts.verification import FindingState, ReceiptFinding
from goalrunner.reports.layout import Fact, Tone
from goalrunner.reports.result_notes import label_lines
from goalrunner.reports.short_forms import SHORT_ID

_NOT_RUN = "not run"
_MOST_TESTS = 10
"""Tests of one kind that a screen names."""
_MOST_ROWS = 50
"""Rows of a table in Markdown: a comment on GitHub has at most 65,536 characters."""
_LISTED = (
    *RED,
    *SUSPECT,
    Proof.CHANGED,
    Proof.FAIL_TO_PASS,
    Proof.UNPROVEN,
)
"""What the tests that are listed show, the most important kind first."""


_GOOD: tuple[str, Tone] = ("✓", "good")
_BAD: tuple[str, Tone] = ("✗", "bad")
_MARKS: Mapping[FindingState, tuple[str, Tone]] = {
    "good": _GOOD,
    "bad": _BAD,
    "note": ("·", "plain"),
}
"""What stands before a finding, and how its line is coloured."""


def revision_name(revision: CheckedRevision) -> str:
    """Return what people read of a revision."""
    return revision.commit[:SHORT_ID] or f"working tree ({revision.tree[:SHORT_ID]})"


def receipt_facts(predicate: Predicate) -> Iterator[Fact]:
    """Yield the lines of one screen."""
    names = f"{revision_name(predicate.base)} → {revision_name(predicate.head)}"
    yield Fact("change", names)
    yield Fact("goal", predicate.goal.objective)
    for validator in predicate.validators:
        yield _validator_fact(validator)
        # A goal file or an option names the others, so a person knows their commands.
        if not predicate.goal.file and "validators" not in predicate.goal.options:
            yield Fact("", f"detected: {validator.command}")
    yield from _test_facts(predicate.tests)
    for criterion in predicate.criteria:
        mark, tone = _mark(criterion.satisfied)
        yield Fact("criterion", f"{mark} {criterion.criterion}", tone)
        yield from (Fact("", text) for text in _citations(criterion))
    yield from label_lines(predicate.labels)
    yield Fact("proof", predicate.proof_text)
    _, tone = _mark(predicate.result == "complete")
    reason = f": {predicate.reason}" if predicate.reason else ""
    yield Fact("receipt", f"{predicate.result}{reason}", tone)


def _validator_fact(validator: CheckedValidator) -> Fact:
    mark, tone = _mark(validator.head == "passed")
    base = validator.base or _NOT_RUN
    head = validator.summary or validator.head or _NOT_RUN
    text = f"{mark} {validator.name}: base {base}, head {head}"
    return Fact("validator", text, tone)


def _mark(is_good: bool) -> tuple[str, Tone]:
    return _GOOD if is_good else _BAD


def _test_facts(tests: Sequence[CheckedTest]) -> Iterator[Fact]:
    numbers = Counter(row.change for row in tests)
    parts: list[str] = []
    for change in Proof:
        if numbers[change]:
            parts.append(f"{numbers[change]} {change}")
    if parts:
        yield Fact("tests", ", ".join(parts))
    # Tests that pass on all sides are only counted: a project may have thousands.
    for change in _LISTED:
        rows = [row for row in tests if row.change == change]
        for row in rows[:_MOST_TESTS]:
            yield Fact("", f"{change}: {row.test}")
        if len(rows) > _MOST_TESTS:
            yield Fact("", f"{change}: {len(rows) - _MOST_TESTS} more")


def _citations(criterion: CheckedCriterion) -> Iterator[str]:
    if criterion.missing:
        yield f"missing: {criterion.missing}"
    for citation in criterion.citations:
        words = citation.quote or citation.fact
        text = f"{citation.observation} {citation.command or citation.source}: {words}"
        yield f"{text} (stale: {citation.stale})" if citation.stale else text


def receipt_markdown(predicate: Predicate) -> str:
    """Return the receipt as a comment for a pull request."""
    mark = "✅" if predicate.result == "complete" else "❌"
    reason = f": {escaped(predicate.reason)}" if predicate.reason else ""
    base, head = revision_name(predicate.base), revision_name(predicate.head)
    lines = [
        f"### {mark} Receipt: {predicate.result}{reason}",
        "",
        f"{code(base)} → {code(head)} · {escaped(predicate.goal.objective)}",
        "",
        f"**Proof:** {escaped(predicate.proof_text)}.",
        *_validator_table(predicate.validators),
        *_test_table(predicate.tests),
        *_criterion_table(predicate.criteria),
    ]
    if predicate.labels:
        lines += ["", "What weakens the result:", ""]
        lines += [f"- {escaped(label)}" for label in predicate.labels]
    return "\n".join(lines) + "\n"


def _validator_table(validators: Sequence[CheckedValidator]) -> list[str]:
    lines = ["", "| validator | base | head |", "|---|---|---|"]
    for validator in validators:
        name = escaped(validator.name)
        base = escaped(validator.base or _NOT_RUN)
        head = escaped(validator.head or _NOT_RUN)
        if validator.summary:
            head += f" ({escaped(validator.summary)})"
        lines.append(f"| {name} | {base} | {head} |")
    return lines


def _criterion_table(criteria: Sequence[CheckedCriterion]) -> list[str]:
    if not criteria:
        return []
    lines = ["", "| criterion | | evidence |", "|---|---|---|"]
    for criterion in criteria:
        mark, _ = _mark(criterion.satisfied)
        # A table of Markdown has no other line break.
        evidence = "<br>".join(escaped(text) for text in _citations(criterion))
        lines.append(f"| {escaped(criterion.criterion)} | {mark} | {evidence} |")
    return lines


def _test_table(tests: Sequence[CheckedTest]) -> list[str]:
    """Return a table of the tests that a reviewer should look at."""
    if not tests:
        return []
    listed: list[CheckedTest] = []
    for change in _LISTED:
        listed += [row for row in tests if row.change == change]
    heads = "| test | base | head's source | head's tests | head | |"
    lines = ["", heads, "|---|---|---|---|---|---|"]
    for row in listed[:_MOST_ROWS]:
        endings = (row.base, row.head_source, row.head_checks, row.head)
        cells = " | ".join(ending or "unknown" for ending in endings)
        lines.append(f"| {escaped(row.test)} | {cells} | {row.change} |")
    notes: list[str] = []
    if len(listed) > _MOST_ROWS:
        notes.append(f"{len(listed) - _MOST_ROWS} more")
    others = len(tests) - len(listed)
    if others:
        noun = "other" if others == 1 else "others"
        notes.append(f"{others} {noun}, such as those that pass on all sides")
    if notes:
        lines += ["", "; ".join(notes)]
    return lines


def receipt_junit(predicate: Predicate) -> str:
    """Return the receipt as JUnit XML: a case for each check, criterion and test."""
    result, reason = predicate.result, predicate.reason
    # Without this case, a blocked receipt could look green: all its tests may pass.
    cases = [_case("receipt", "complete", reason, is_good=result == "complete")]
    for validator in predicate.validators:
        is_green = validator.head == "passed"
        summary = validator.summary or validator.head or _NOT_RUN
        cases.append(_case("validators", validator.name, summary, is_good=is_green))
    for criterion in predicate.criteria:
        is_good, missing = criterion.satisfied, criterion.missing
        cases.append(_case("criteria", criterion.criterion, missing, is_good=is_good))
    for row in predicate.tests:
        group = f"tests of {row.validator}"
        is_good = row.change not in (*RED, *SUSPECT)
        cases.append(_case(group, row.test, row.change, is_good=is_good))
    properties = {
        "base": revision_name(predicate.base),
        "head": revision_name(predicate.head),
        "proof": predicate.proof,
        "labels": "; ".join(predicate.labels),
    }
    began = datetime.fromisoformat(predicate.started_at)
    ended = datetime.fromisoformat(predicate.finished_at)
    return suite_text(
        predicate.goal.objective,
        cases,
        seconds=(ended - began).total_seconds(),
        # The schema of JUnit has no fractions of seconds, and no time zone.
        timestamp=predicate.started_at[:19],
        properties=properties,
    )


def _case(group: str, name: str, message: str, *, is_good: bool) -> Case:
    return Case(group, name, "" if is_good else "failure", message=message)


def finding_facts(findings: Sequence[ReceiptFinding]) -> Iterator[Fact]:
    """Yield the lines of a checked receipt."""
    for finding in findings:
        mark, tone = _MARKS[finding.state]
        yield Fact(finding.about, f"{mark} {finding.text}", tone)
