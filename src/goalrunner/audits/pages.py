"""Audits of saved transcripts as text, JSON, JUnit XML and an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict
from goalrunner.exports.junit import Case, CaseKind, public_remark, suite_text
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.evidence import result_text
from goalrunner.reports.layout import Fact, facts, laid_out
from goalrunner.reports.short_forms import model_name
from goalrunner.reports.terminal_text import lines_text, printable_line, table

if TYPE_CHECKING:
    from goalrunner.audits.kept_verdicts import TranscriptAudit

# Fewest columns for what is missing in a table of audits.
_MIN_MISSING = 20
EVIDENCE = {
    "transcript": "what the transcript claims; the runner saw none of it",
    "runner": "what the log of the run recorded",
    "both": "what the transcript claims, and what the runner recorded itself",
}
# The results in the order in which the line below the table counts them.
_RESULTS = (
    *("complete", "not complete", "unreadable", "not audited", "judge failed"),
    "skipped",
)
# A transcript without a verdict is an error of the suite, not a failure.
_CASE_KINDS: dict[str, CaseKind] = {
    "complete": "",
    "not complete": "failure",
    "skipped": "skipped",
}


def verdict_facts(verdict: GoalVerdict) -> Iterator[Fact]:
    """Yield the score, each criterion, and what is missing."""
    yield Fact("verdict", result_text(verdict))
    criteria = []
    # Empty lines are not printed either.
    listed_lines = {""}
    for item in verdict.criteria:
        missing = f": {item.missing}" if item.missing and not item.satisfied else ""
        mark = "✓" if item.satisfied else "✗"
        criteria.append(f"{mark} {item.criterion}{missing}")
        listed_lines.add(printable_line(item.missing))
        listed_lines.add(printable_line(f"{item.criterion}: {item.missing}"))
    yield from facts("criteria", criteria)
    if verdict.complete:
        return
    # What the criteria say already is not repeated.
    other_lines = []
    for line in verdict.missing.splitlines():
        if printable_line(line) not in listed_lines:
            other_lines.append(line)
    yield from facts("missing", other_lines)


def audit_facts(
    audit: TranscriptAudit, *, validators_not_run: bool = False
) -> Iterator[Fact]:
    """Yield the lines of an audit.

    `validators_not_run`: the goal has validators, and the command did not run them.
    """
    if audit.problem:
        yield Fact("verdict", f"none; {audit.problem}")
    elif audit.verdict is not None:
        yield from verdict_facts(audit.verdict)
    results = []
    for result in audit.validators:
        mark = "✓" if result.passed else "✗"
        results.append(f"{mark} {result.name}: {public_remark(result)}")
    yield from facts("validators", results)
    if validators_not_run:
        yield Fact(
            "validators",
            "not run; --base REV runs them with the protected files of that git "
            "revision",
            "warn",
        )
    yield Fact("format", audit.format)
    if audit.partial:
        yield Fact("partial", audit.partial, "warn")
    yield Fact("evidence", EVIDENCE.get(audit.evidence, ""))
    if audit.forgeable:
        identifiers = ", ".join(audit.forgeable)
        text = f"{identifiers}: the agent wrote the file that the output shows"
        yield Fact("forgeable", text, "warn")
    for label in audit.labels:
        yield Fact("note", label, "warn")


def audits_table(audits: Sequence[TranscriptAudit], columns: int | None = None) -> str:
    """Return a row for each transcript, and under them the lines of `audit_lines`."""
    rows = [("RESULT", "SCORE", "FORMAT", "TRANSCRIPT", "MISSING")]
    for audit in audits:
        score = figures.score(audit.verdict.score) if audit.verdict else "-"
        rows.append(
            (
                audit.result,
                score,
                audit.format or "-",
                printable_line(audit.transcript),
                printable_line(audit.missing),
            )
        )
    return lines_text([*table(rows, columns, _MIN_MISSING), "", *audit_lines(audits)])


def audit_lines(audits: Sequence[TranscriptAudit]) -> list[str]:
    """Return how many audits have each result, what was used, and the evidence."""
    counts: Counter[str] = Counter(audit.result for audit in audits)
    parts = [figures.count(len(audits), "transcript")]
    parts += [f"{counts[name]:,} {name}" for name in _RESULTS if counts[name]]
    parts += figures.spent(sum((audit.usage for audit in audits), Usage()))
    lines = [" · ".join(parts)]
    sources = {audit.evidence for audit in audits}
    for name, sentence in EVIDENCE.items():
        if name in sources:
            lines.append(f"evidence: {sentence}")
    return lines


def audit_value(audit: TranscriptAudit) -> dict[str, Any]:
    """Return an audit as JSON: the verdict, and how the transcript was read."""
    value: dict[str, Any] = {"complete": False}
    if audit.verdict:
        value = audit.verdict.model_dump(mode="json")
    value.update(audit.model_dump(mode="json", exclude={"verdict", "key"}))
    return value


def audits_junit(audits: Sequence[TranscriptAudit]) -> str:
    """Return JUnit XML with a case for each transcript."""
    judges = {model_name(audit.judge) for audit in audits if audit.judge}
    return suite_text(
        "goal audit",
        list(map(_case, audits)),
        seconds=sum(audit.seconds for audit in audits),
        properties={"judges": "; ".join(sorted(judges))},
    )


def _case(audit: TranscriptAudit) -> Case:
    message = audit.missing or audit.result
    output = laid_out(audit_facts(audit)) if audit.verdict is not None else ""
    return Case(
        group="transcripts",
        name=audit.transcript,
        kind=_CASE_KINDS.get(audit.result, "error"),
        type=audit.result.replace(" ", "_"),
        message=message,
        details=message,
        output=output,
        seconds=audit.seconds,
    )


def audits_page(audits: Sequence[TranscriptAudit]) -> str:
    """Return one HTML page with all audits, which works offline."""
    return rendered(
        Path(__file__).with_name("audits.html.j2"),
        audits=audits,
        lines=audit_lines(audits),
        evidence=EVIDENCE,
    )
