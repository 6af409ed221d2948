"""A receipt as one screen of text, and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from goalrunner.exports.junit import Case, suite_text
from goalrunner.exports.markdown import code, escaped
from goalrunner.receipts.comparison import RED, SUSPECT, Proof
from goalrunner.receipts.statement import (
    PROOF_MEANINGS,
    CheckedCriterion,
    CheckedRevision,
    CheckedTest,
    Predicate,
)
from goalrunner.receipts.verification import ReceiptFinding
from goalrunner.reports.layout import Fact, Tone
from goalrunner.reports.result_notes import label_lines
from goalrunner.reports.short_forms import SHORT_ID

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
"""The changes of tests that are listed, the most important one first."""


def revision_name(revision: CheckedRevision) -> str:
    """Return what people read of a revision."""
    return revision.commit[:SHORT_ID] or f"working tree ({revision.tree[:SHORT_ID]})"


def receipt_facts(predicate: Predicate) -> Iterator[Fact]:
    """Yield the lines of one screen."""
    names = f"{revision_name(predicate.base)} → {revision_name(predicate.head)}"
    yield Fact("change", names)
    yield Fact("goal", predicate.goal.objective)
    for validator in predicate.validators:
        is_green = validator.head == "passed"
        mark, tone = _mark(is_green)
        head = validator.summary or validator.head or "not run"
        text = (
            f"{mark} {validator.name}: base {validator.base or 'not run'}, head {head}"
        )
        yield Fact("validator", text, tone)
        # A person has named the others.
        if not predicate.goal.file and "validators" not in predicate.goal.options:
            yield Fact("", f"detected: {validator.command}")
    yield from _test_facts(predicate.tests)
    for criterion in predicate.criteria:
        mark, tone = _mark(criterion.satisfied)
        yield Fact("criterion", f"{mark} {criterion.criterion}", tone)
        yield from (Fact("", text) for text in _citations(criterion))
    yield from label_lines(predicate.labels)
    yield Fact("proof", _proof_text(predicate))
    _, tone = _mark(predicate.result == "complete")
    text = predicate.result
    if predicate.reason:
        text += f": {predicate.reason}"
    yield Fact("receipt", text, tone)


def _proof_text(predicate: Predicate) -> str:
    proof = predicate.proof
    return f"{proof}: {PROOF_MEANINGS[proof]}"


def _mark(is_good: bool) -> tuple[str, Tone]:
    return ("✓", "good") if is_good else ("✗", "bad")


def _test_facts(tests: Sequence[CheckedTest]) -> Iterator[Fact]:
    numbers = Counter(row.change for row in tests)
    if numbers:
        parts: list[str] = []
        for change in Proof:
            if numbers[change]:
                parts.append(f"{numbers[change]} {change}")
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
    lines = [f"### {mark} Receipt: {predicate.result}{reason}", ""]
    base, head = revision_name(predicate.base), revision_name(predicate.head)
    lines += [f"{code(base)} → {code(head)} · {escaped(predicate.goal.objective)}", ""]
    lines += [f"**Proof:** {escaped(_proof_text(predicate))}.", ""]
    lines += ["| validator | base | head |", "|---|---|---|"]
    for validator in predicate.validators:
        summary = f" ({escaped(validator.summary)})" if validator.summary else ""
        ending = f"{escaped(validator.head or 'not run')}{summary}"
        name, base = escaped(validator.name), escaped(validator.base or "not run")
        lines.append(f"| {name} | {base} | {ending} |")
    lines += _test_table(predicate.tests)
    if predicate.criteria:
        lines += ["", "| criterion | | evidence |", "|---|---|---|"]
    for criterion in predicate.criteria:
        mark, _ = _mark(criterion.satisfied)
        # A table of Markdown has no other line break.
        evidence = "<br>".join(escaped(text) for text in _citations(criterion))
        lines.append(f"| {escaped(criterion.criterion)} | {mark} | {evidence} |")
    if predicate.labels:
        lines += ["", "What weakens the result:", ""]
        lines += [f"- {escaped(label)}" for label in predicate.labels]
    return "\n".join(lines) + "\n"


def _test_table(tests: Sequence[CheckedTest]) -> list[str]:
    """Return a table of the tests that a reviewer should look at."""
    rows: list[CheckedTest] = []
    for change in _LISTED:
        rows += [row for row in tests if row.change == change]
    others = len(tests) - len(rows)
    if not tests:
        return []
    heads = "| test | base | head's source | head's tests | head | |"
    lines = ["", heads, "|---|---|---|---|---|---|"]
    for row in rows[:_MOST_ROWS]:
        endings = (row.base, row.head_source, row.head_checks, row.head)
        cells = " | ".join(ending or "unknown" for ending in endings)
        lines.append(f"| {escaped(row.test)} | {cells} | {row.change} |")
    hidden = max(len(rows) - _MOST_ROWS, 0)
    more = [f"{hidden} more"] if hidden else []
    if others:
        noun = "other" if others == 1 else "others"
        more.append(f"{others} {noun}, such as those that pass on all sides")
    return [*lines, "", "; ".join(more)] if more else lines


def receipt_junit(predicate: Predicate) -> str:
    """Return the receipt as JUnit XML: a case for each check, criterion and test."""
    result, reason = predicate.result, predicate.reason
    # Without this case, a blocked receipt could look green: all its tests may pass.
    cases = [_case("receipt", "complete", reason, is_good=result == "complete")]
    for validator in predicate.validators:
        is_green = validator.head == "passed"
        summary = validator.summary or validator.head or "not run"
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
    marks: dict[str, tuple[str, Tone]] = {
        "good": ("✓", "good"),
        "bad": ("✗", "bad"),
        "note": ("·", "plain"),
    }
    for finding in findings:
        mark, tone = marks[finding.state]
        yield Fact(finding.about, f"{mark} {finding.text}", tone)
