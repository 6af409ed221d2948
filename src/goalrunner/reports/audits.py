"""Audits of saved transcripts as text, JSON, a table, JUnit XML and an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from goalrunner.core.outcome import Usage
from goalrunner.reports import figures
from goalrunner.reports.html import rendered
from goalrunner.reports.junit import Case, suite_text
from goalrunner.reports.layout import Fact, Layout, model_name, one_line
from goalrunner.reports.show import verdict_text
from goalrunner.reports.tables import table

if TYPE_CHECKING:
    from goalrunner.app.kept_verdicts import TranscriptAudit

EVIDENCE = {
    "transcript": "what the transcript claims; the runner saw none of it",
    "runner": "what the log of the run recorded",
    "both": "what the transcript claims, and what the runner recorded itself",
}
_RESULTS = ("complete", "not complete", "unreadable", "not audited", "judge failed")
_NARROWEST = 20
"""Columns that the last one of a table always has."""


def audit_text(audit: TranscriptAudit, *, columns: int | None = None, not_run: bool = False) -> str:
    """Return an audit for people. `not_run`: the goal has validators, which did not run."""
    verdict = verdict_text(audit.verdict, columns=columns) if audit.verdict is not None else ""
    return verdict + Layout(columns).text(_facts(audit, not_run=not_run))


def _facts(audit: TranscriptAudit, *, not_run: bool) -> Iterator[Fact]:
    for index, result in enumerate(audit.validators):
        text = f"{'✓' if result.passed else '✗'} {result.name}: {result.summary if result.hidden else result.remark}"
        yield Fact("" if index else "validators", text)
    if not_run:
        yield Fact("validators", "not run; --base REV runs them with the protected files of that git revision", "warn")
    yield Fact("format", audit.format)
    if audit.partial:
        yield Fact("partial", audit.partial, "warn")
    yield Fact("evidence", EVIDENCE.get(audit.evidence, ""))
    if audit.forgeable:
        yield Fact("forgeable", f"{', '.join(audit.forgeable)}: the agent wrote the file that the output shows", "warn")
    yield from (Fact("note", label, "warn") for label in audit.labels)


def audit_value(audit: TranscriptAudit) -> dict[str, Any]:
    """Return an audit as JSON: the verdict, and how the transcript was read."""
    values = audit.model_dump(mode="json", exclude={"verdict", "key"})
    return {**(audit.verdict.model_dump(mode="json") if audit.verdict else {"complete": False}), **values}


def audits_table(audits: Sequence[TranscriptAudit], columns: int | None = None) -> str:
    """Return a row for each transcript, then how many there are of each result and what was used."""
    rows = [("RESULT", "SCORE", "FORMAT", "TRANSCRIPT", "MISSING")]
    for audit in audits:
        score = figures.score(audit.verdict.score) if audit.verdict else "-"
        cells = (audit.result, score, audit.format or "-", one_line(audit.transcript), one_line(audit.missing))
        rows.append(cells)
    return "".join(f"{line}\n" for line in [*table(rows, columns, _NARROWEST), "", *summary_lines(audits)])


def summary_lines(audits: Sequence[TranscriptAudit]) -> list[str]:
    """Return how many audits there are of each result, what was used, and whose word the evidence is."""
    counts: Counter[str] = Counter(audit.result for audit in audits)
    parts = [
        figures.count(len(audits), "transcript"),
        *(f"{counts[name]:,} {name}" for name in _RESULTS if counts[name]),
    ]
    used = sum((audit.usage for audit in audits), Usage())
    lines = [" · ".join([*parts, *figures.spent(used)])]
    lines += [f"evidence: {EVIDENCE[name]}" for name in EVIDENCE if any(audit.evidence == name for audit in audits)]
    return lines


def audits_junit(audits: Sequence[TranscriptAudit]) -> str:
    """Return JUnit XML with a case for each transcript."""
    cases = [_case(audit) for audit in audits]
    properties = {"judges": "; ".join(sorted({model_name(audit.judge) for audit in audits if audit.judge}))}
    return suite_text("goal audit", cases, seconds=sum(audit.seconds for audit in audits), properties=properties)


def _case(audit: TranscriptAudit) -> Case:
    output = audit_text(audit) if audit.verdict is not None else ""
    case = Case("transcripts", audit.transcript, output=output, seconds=audit.seconds)
    if audit.result == "complete":
        return case
    kind: Literal["failure", "error"] = "failure" if audit.result == "not complete" else "error"
    type_, message = audit.result.replace(" ", "_"), audit.missing or audit.result
    return Case(case.group, case.name, kind, type_, message, message, output, case.seconds)


def audits_page(audits: Sequence[TranscriptAudit]) -> str:
    """Return one HTML page with all audits, which works offline."""
    return rendered(
        "audits.html.j2", audits=audits, lines=summary_lines(audits), evidence=EVIDENCE, model_name=model_name
    )
