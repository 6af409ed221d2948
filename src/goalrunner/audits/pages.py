"""Audits of saved transcripts and calibrations of judges, as text, JSON, JUnit XML and HTML pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict
from goalrunner.exports.junit import Case, CaseKind, public_remark, suite_text
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, facts, known, laid_out, lines_text, model_name, printable_line, table
from goalrunner.reports.review import result_text

if TYPE_CHECKING:
    from goalrunner.audits.calibration import Calibration, Fault
    from goalrunner.audits.judge_statistics import Agreement, Rate, Threshold
    from goalrunner.audits.kept_verdicts import TranscriptAudit

NO_VALUE = "-"
_FAULTS = 10
"""Faults that the text lists."""
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
        shown |= {printable_line(item.missing), printable_line(f"{item.criterion}: {item.missing}")}
    yield from facts("criteria", criteria)
    if not verdict.complete:
        yield from facts(
            "missing", [line for line in verdict.missing.splitlines() if printable_line(line) not in shown]
        )


def audit_facts(audit: TranscriptAudit, *, not_run: bool = False) -> Iterator[Fact]:
    """Yield the lines of an audit. `not_run`: the goal has validators, which did not run."""
    if audit.problem:
        yield Fact("verdict", f"none; {audit.problem}")
    elif audit.verdict is not None:
        yield from verdict_facts(audit.verdict)
    results = [f"{'✓' if one.passed else '✗'} {one.name}: {public_remark(one)}" for one in audit.validators]
    yield from facts("validators", results)
    if not_run:
        yield Fact("validators", "not run; --base REV runs them with the protected files of that git revision", "warn")
    yield Fact("format", audit.format)
    yield from known({"partial": audit.partial}, "warn")
    yield Fact("evidence", EVIDENCE.get(audit.evidence, ""))
    if audit.forgeable:
        yield Fact("forgeable", f"{', '.join(audit.forgeable)}: the agent wrote the file that the output shows", "warn")
    yield from (Fact("note", label, "warn") for label in audit.labels)


def audits_table(audits: Sequence[TranscriptAudit], columns: int | None = None) -> str:
    """Return a row for each transcript, then how many there are of each result and what was used."""
    rows = [("RESULT", "SCORE", "FORMAT", "TRANSCRIPT", "MISSING")]
    for audit in audits:
        score = figures.score(audit.verdict.score) if audit.verdict else "-"
        rows.append(
            (audit.result, score, audit.format or "-", printable_line(audit.transcript), printable_line(audit.missing))
        )
    return lines_text([*table(rows, columns, _MIN_MISSING), "", *audit_lines(audits)])


def audit_lines(audits: Sequence[TranscriptAudit]) -> list[str]:
    """Return how many audits there are of each result, what was used, and the source of the evidence."""
    counts: Counter[str] = Counter(audit.result for audit in audits)
    results = [f"{counts[name]:,} {name}" for name in _RESULTS if counts[name]]
    used = figures.spent(sum((audit.usage for audit in audits), Usage()))
    kinds = [name for name in EVIDENCE if any(audit.evidence == name for audit in audits)]
    first = " · ".join([figures.count(len(audits), "transcript"), *results, *used])
    return [first, *(f"evidence: {EVIDENCE[name]}" for name in kinds)]


def audit_value(audit: TranscriptAudit) -> dict[str, Any]:
    """Return an audit as JSON: the verdict, and how the transcript was read."""
    values = audit.model_dump(mode="json", exclude={"verdict", "key"})
    return {**(audit.verdict.model_dump(mode="json") if audit.verdict else {"complete": False}), **values}


def audits_junit(audits: Sequence[TranscriptAudit]) -> str:
    """Return JUnit XML with a case for each transcript."""
    properties = {"judges": "; ".join(sorted({model_name(audit.judge) for audit in audits if audit.judge}))}
    seconds = sum(audit.seconds for audit in audits)
    return suite_text("goal audit", list(map(_case, audits)), seconds=seconds, properties=properties)


def _case(audit: TranscriptAudit) -> Case:
    kinds: dict[str, CaseKind] = {"complete": "", "not complete": "failure"}
    kind, type_ = kinds.get(audit.result, "error"), audit.result.replace(" ", "_")
    said, output = audit.missing or audit.result, laid_out(audit_facts(audit)) if audit.verdict is not None else ""
    return Case("transcripts", audit.transcript, kind, type_, said, said, output, audit.seconds)


def audits_page(audits: Sequence[TranscriptAudit]) -> str:
    """Return one HTML page with all audits, which works offline."""
    return rendered(
        Path(__file__).with_name("audits.html.j2"), audits=audits, lines=audit_lines(audits), evidence=EVIDENCE
    )


class CalibrationReport(NamedTuple):
    """A calibration, and what the terminal and the page show of it."""

    calibration: Calibration
    samples: str
    verdicts: str
    error_rows: list[tuple[str, ...]]
    effort_rows: list[tuple[str, ...]]
    thresholds: list[tuple[str, str, str]]
    """Name, finding and line for the goal file (or an empty text) of each series whose policy a run can have."""


def calibration_report(found: Calibration) -> CalibrationReport:
    """Return a calibration with its tables and lines."""
    labels = ", ".join(f"{number:,} {name}" for name, number in found.samples.items())
    samples = f"{sum(found.samples.values()):,} of {found.dataset}: {labels}"
    spent = f", {' · '.join(figures.spent(found.usage))}" if found.audits.asked else ""
    audits = f"{figures.count(found.audits.asked, 'audit')} of this call{spent}"
    verdicts = f"{sum(one.verdicts for one in found.judges):,} · {audits}"
    errors: list[tuple[str, ...]] = [("JUDGE", "POLICY", "FALSE ACCEPT", "FALSE REJECT", "AUROC", "BRIER")]
    efforts: list[tuple[str, ...]] = [("JUDGE", "POLICY", "VERDICTS", "UNREADABLE", "TOKENS", "COST", "LATENCY")]
    thresholds = []
    for one in found.judges:
        series = (printable_line(model_name(one.judge)), one.policy)
        rates = map(rate_text, (one.false_accept, one.false_reject))
        errors.append(
            (*series, *rates, *(NO_VALUE if value is None else f"{value:.3f}" for value in (one.auroc, one.brier)))
        )
        mean, seconds = one.audit["tokens"], one.audit["seconds"]
        tokens = NO_VALUE if mean is None else f"{mean:,.0f}"
        latency = NO_VALUE if seconds is None else figures.elapsed(seconds)
        cost = figures.dollars(one.audit["cost_usd"]) if one.verdicts else NO_VALUE
        efforts.append((*series, f"{one.verdicts:,}", f"{one.unreadable:,}", tokens, cost, latency))
        if one.threshold is not None and one.policy != "no-citations":
            least = one.threshold.minimum_score
            line = "" if least is None else f"minimum_score = {least:g}"
            thresholds.append((series_name(one.judge, one.policy), threshold_text(one.threshold), line))
    return CalibrationReport(found, samples, verdicts, errors, efforts, thresholds)


def calibration_text(report: CalibrationReport, columns: int | None = None) -> str:
    """Return the tables and lines for a terminal with so many columns; None is a pipe."""
    head = laid_out([Fact("samples", report.samples), Fact("verdicts", report.verdicts)], columns)
    tables = [lines_text(table(rows)) for rows in (report.error_rows, report.effort_rows)]
    return "\n".join([head, *tables, laid_out(_closing(report), columns)])


def _closing(report: CalibrationReport) -> Iterator[Fact]:
    found = report.calibration
    yield from (Fact("agreement", agreement_text(one)) for one in found.agreement)
    for name, text, line in report.thresholds:
        yield Fact("threshold", f"{name}: {text}", tone="plain" if line else "warn")
        if line:
            yield Fact("", line, whole=True)
    yield from (Fact("left out", fault_text(fault), tone="warn") for fault in found.faults[:_FAULTS])
    if len(found.faults) > _FAULTS:
        yield Fact("", f"and {len(found.faults) - _FAULTS:,} more; --json lists all")
    if found.audits.stopped:
        left = figures.count(found.audits.left, "audit is", "audits are")
        yield Fact("stopped", f"{found.audits.stopped}; {left} left. The same command continues.", tone="warn")
    yield Fact("results", found.results, whole=True)


def series_name(judge: str, policy: str) -> str:
    """Return judge and policy."""
    return f"{printable_line(model_name(judge))} ({policy})"


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval and its numbers: "3.0 % (1.0 to 8.5), 3 of 100"."""
    if rate.rate is None:
        return NO_VALUE
    return f"{100 * rate.rate:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f}), {rate.count:,} of {rate.of:,}"


def fault_text(fault: Fault) -> str:
    """Return which verdict is left out, and why."""
    which = f", {series_name(fault.judge, fault.policy)}" if fault.judge and fault.policy else ""
    path = "" if fault.path in fault.message else f" {fault.path}"
    return f"line {fault.line}{path}{which}: {fault.message}"


def agreement_text(one: Agreement) -> str:
    """Return how far two judges agree."""
    names = f"{' and '.join(map(model_name, one.judges))} ({one.policy})"
    if one.same.rate is None:
        return f"{names}: no common verdicts"
    kappa = "undefined, because all verdicts are the same" if one.kappa is None else f"{one.kappa:.2f}"
    return f"{names}: kappa {kappa}; {rate_text(one.same)} verdicts are the same"


def threshold_text(found: Threshold) -> str:
    """Return the rates with a minimum score, and whether there are enough samples to show them."""
    target = f"{100 * found.target_false_accept:g} %"
    if not found.false_accept.of:
        return "the dataset has no incomplete transcript that was judged, so no threshold can be found"
    if found.minimum_score is None:
        accepted = f"{found.false_accept.count:,} of {found.false_accept.of:,} incomplete transcripts have the score 1"
        return f"no minimum_score keeps false accepts at {target} or less: {accepted} and are accepted"
    at = f"with minimum_score = {found.minimum_score:g}, false accepts are {rate_text(found.false_accept)}"
    text = f"{at}, and false rejects {rate_text(found.false_reject)}."
    if found.shown:
        return text
    needed = found.incomplete_samples_needed
    enough = f" At least {needed:,} of them, without a false accept, can." if needed else ""
    few = figures.count(found.false_accept.of, "incomplete sample")
    return f"{text} The interval reaches {100 * found.false_accept.high:.1f} %: {few} cannot show {target}.{enough}"


def calibration_page(report: CalibrationReport) -> str:
    """Return one page with the tables, the ROC curves and the reliability curves; it needs no network."""
    texts = {
        "rate_text": rate_text,
        "series_name": series_name,
        "fault_text": fault_text,
        "agreement_text": agreement_text,
    }
    return rendered(Path(__file__).with_name("calibration.html.j2"), report=report, **texts)
