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
from goalrunner.reports.layout import (
    Fact,
    facts,
    known,
    laid_out,
    lines_text,
    model_name,
    printable_line,
    table,
)
from goalrunner.reports.review import result_text

if TYPE_CHECKING:
    from goalrunner.audits.kept_verdicts import TranscriptAudit

_MIN_MISSING = 20
"""Fewest columns for what is missing in a table of audits."""
EVIDENCE = {
    "transcript": "what the transcript claims; the runner saw none of it",
    "runner": "what the log of the run recorded",
    "both": "what the transcript claims, and what the runner recorded itself",
}
_RESULTS = ("complete", "not complete", "unreadable", "not audited", "judge failed")


def verdict_facts(verdict: GoalVerdict) -> Iterator[Fact]:
    """Yield the score, each criterion, and what is missing."""
    yield Fact("verdict", result_text(verdict))
    criteria, shown = [], {""}
    for item in verdict.criteria:
        missing = f": {item.missing}" if item.missing and not item.satisfied else ""
        criteria.append(f"{'✓' if item.satisfied else '✗'} {item.criterion}{missing}")
        shown |= {
            printable_line(item.missing),
            printable_line(f"{item.criterion}: {item.missing}"),
        }
    yield from facts("criteria", criteria)
    if not verdict.complete:
        yield from facts(
            "missing",
            [
                line
                for line in verdict.missing.splitlines()
                if printable_line(line) not in shown
            ],
        )


def audit_facts(audit: TranscriptAudit, *, not_run: bool = False) -> Iterator[Fact]:
    """Yield the lines of an audit. `not_run`: the goal has validators, which did not run."""
    if audit.problem:
        yield Fact("verdict", f"none; {audit.problem}")
    elif audit.verdict is not None:
        yield from verdict_facts(audit.verdict)
    results = [
        f"{'✓' if one.passed else '✗'} {one.name}: {public_remark(one)}"
        for one in audit.validators
    ]
    yield from facts("validators", results)
    if not_run:
        yield Fact(
            "validators",
            "not run; --base REV runs them with the protected files of that git revision",
            "warn",
        )
    yield Fact("format", audit.format)
    yield from known({"partial": audit.partial}, "warn")
    yield Fact("evidence", EVIDENCE.get(audit.evidence, ""))
    if audit.forgeable:
        yield Fact(
            "forgeable",
            f"{', '.join(audit.forgeable)}: the agent wrote the file that the output shows",
            "warn",
        )
    yield from (Fact("note", label, "warn") for label in audit.labels)


def audits_table(audits: Sequence[TranscriptAudit], columns: int | None = None) -> str:
    """Return a row for each transcript, then how many there are of each result and what was used."""
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
    """Return how many audits there are of each result, what was used, and the source of the evidence."""
    counts: Counter[str] = Counter(audit.result for audit in audits)
    results = [f"{counts[name]:,} {name}" for name in _RESULTS if counts[name]]
    used = figures.spent(sum((audit.usage for audit in audits), Usage()))
    kinds = [
        name for name in EVIDENCE if any(audit.evidence == name for audit in audits)
    ]
    first = " · ".join([figures.count(len(audits), "transcript"), *results, *used])
    return [first, *(f"evidence: {EVIDENCE[name]}" for name in kinds)]


def audit_value(audit: TranscriptAudit) -> dict[str, Any]:
    """Return an audit as JSON: the verdict, and how the transcript was read."""
    values = audit.model_dump(mode="json", exclude={"verdict", "key"})
    return {
        **(
            audit.verdict.model_dump(mode="json")
            if audit.verdict
            else {"complete": False}
        ),
        **values,
    }


def audits_junit(audits: Sequence[TranscriptAudit]) -> str:
    """Return JUnit XML with a case for each transcript."""
    properties = {
        "judges": "; ".join(
            sorted({model_name(audit.judge) for audit in audits if audit.judge})
        )
    }
    seconds = sum(audit.seconds for audit in audits)
    return suite_text(
        "goal audit", list(map(_case, audits)), seconds=seconds, properties=properties
    )


def _case(audit: TranscriptAudit) -> Case:
    kinds: dict[str, CaseKind] = {"complete": "", "not complete": "failure"}
    kind, type_ = kinds.get(audit.result, "error"), audit.result.replace(" ", "_")
    said, output = (
        audit.missing or audit.result,
        laid_out(audit_facts(audit)) if audit.verdict is not None else "",
    )
    return Case(
        "transcripts", audit.transcript, kind, type_, said, said, output, audit.seconds
    )


def audits_page(audits: Sequence[TranscriptAudit]) -> str:
    """Return one HTML page with all audits, which works offline."""
    return rendered(
        Path(__file__).with_name("audits.html.j2"),
        audits=audits,
        lines=audit_lines(audits),
        evidence=EVIDENCE,
    )
