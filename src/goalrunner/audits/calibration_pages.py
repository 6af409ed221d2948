"""Calibrations of judges as text and as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from goalrunner.audits.calibration import Calibration, Fault
from goalrunner.audits.judge_statistics import (
    Agreement,
    JudgeStatistics,
    Rate,
    Threshold,
)
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    Fact,
    laid_out,
    lines_text,
    model_name,
    printable_line,
    table,
)

_NO_VALUE = "-"
_LISTED_FAULTS = 10
"""Faults that the text lists."""

TableRow = tuple[str, ...]


class ThresholdLine(NamedTuple):
    """What a calibration says about the minimum score of one series."""

    series: str
    finding: str
    setting: str
    """The line for the goal file; empty if there is no such score."""


class CalibrationReport(NamedTuple):
    """A calibration, and what the terminal and the page show of it."""

    calibration: Calibration
    samples: str
    verdicts: str
    error_rows: list[TableRow]
    effort_rows: list[TableRow]
    thresholds: list[ThresholdLine]
    """Of each series whose policy a run can have."""


def calibration_report(calibration: Calibration) -> CalibrationReport:
    """Return a calibration with its tables and lines."""
    labels = ", ".join(
        f"{number:,} {name}" for name, number in calibration.samples.items()
    )
    samples = (
        f"{sum(calibration.samples.values()):,} of {calibration.dataset}: {labels}"
    )
    number = sum(judge.verdicts for judge in calibration.judges)
    verdicts = (
        f"{number:,} · {figures.count(calibration.audits.asked, 'audit')} of this call"
    )
    if calibration.audits.asked:
        verdicts += f", {' · '.join(figures.spent(calibration.usage))}"
    error_rows: list[TableRow] = [
        ("JUDGE", "POLICY", "FALSE ACCEPT", "FALSE REJECT", "AUROC", "BRIER")
    ]
    effort_rows: list[TableRow] = [
        ("JUDGE", "POLICY", "VERDICTS", "UNREADABLE", "TOKENS", "COST", "LATENCY")
    ]
    thresholds = []
    for judge in calibration.judges:
        error_rows.append(_error_row(judge))
        effort_rows.append(_effort_row(judge))
        if judge.threshold is not None and judge.policy != "no-citations":
            score = judge.threshold.minimum_score
            setting = "" if score is None else f"minimum_score = {score:g}"
            name = series_name(judge.judge, judge.policy)
            thresholds.append(
                ThresholdLine(name, threshold_text(judge.threshold), setting)
            )
    return CalibrationReport(
        calibration, samples, verdicts, error_rows, effort_rows, thresholds
    )


def _error_row(judge: JudgeStatistics) -> TableRow:
    return (
        printable_line(model_name(judge.judge)),
        judge.policy,
        rate_text(judge.false_accept),
        rate_text(judge.false_reject),
        _NO_VALUE if judge.auroc is None else f"{judge.auroc:.3f}",
        _NO_VALUE if judge.brier is None else f"{judge.brier:.3f}",
    )


def _effort_row(judge: JudgeStatistics) -> TableRow:
    tokens, seconds = judge.audit["tokens"], judge.audit["seconds"]
    return (
        printable_line(model_name(judge.judge)),
        judge.policy,
        f"{judge.verdicts:,}",
        f"{judge.unreadable:,}",
        _NO_VALUE if tokens is None else f"{tokens:,.0f}",
        figures.dollars(judge.audit["cost_usd"]) if judge.verdicts else _NO_VALUE,
        _NO_VALUE if seconds is None else figures.elapsed(seconds),
    )


def calibration_text(report: CalibrationReport, columns: int | None = None) -> str:
    """Return the tables and lines for a terminal with so many columns; None is a pipe."""
    head = laid_out(
        [Fact("samples", report.samples), Fact("verdicts", report.verdicts)], columns
    )
    errors = lines_text(table(report.error_rows))
    efforts = lines_text(table(report.effort_rows))
    return "\n".join([head, errors, efforts, laid_out(_closing(report), columns)])


def _closing(report: CalibrationReport) -> Iterator[Fact]:
    calibration = report.calibration
    for agreement in calibration.agreement:
        yield Fact("agreement", agreement_text(agreement))
    for line in report.thresholds:
        yield Fact(
            "threshold",
            f"{line.series}: {line.finding}",
            tone="plain" if line.setting else "warn",
        )
        if line.setting:
            yield Fact("", line.setting, whole=True)
    for fault in calibration.faults[:_LISTED_FAULTS]:
        yield Fact("left out", fault_text(fault), tone="warn")
    if len(calibration.faults) > _LISTED_FAULTS:
        yield Fact(
            "",
            f"and {len(calibration.faults) - _LISTED_FAULTS:,} more; --json lists all",
        )
    if calibration.audits.stopped:
        remaining = figures.count(calibration.audits.left, "audit is", "audits are")
        text = f"{calibration.audits.stopped}; {remaining} left. The same command continues."
        yield Fact("stopped", text, tone="warn")
    yield Fact("results", calibration.results, whole=True)


def series_name(judge: str, policy: str) -> str:
    """Return judge and policy."""
    return f"{printable_line(model_name(judge))} ({policy})"


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval and its numbers: "3.0 % (1.0 to 8.5), 3 of 100"."""
    if rate.rate is None:
        return _NO_VALUE
    interval = f"{100 * rate.low:.1f} to {100 * rate.high:.1f}"
    return f"{100 * rate.rate:.1f} % ({interval}), {rate.count:,} of {rate.of:,}"


def fault_text(fault: Fault) -> str:
    """Return which verdict is left out, and why."""
    path = "" if fault.path in fault.message else f" {fault.path}"
    series = (
        f", {series_name(fault.judge, fault.policy)}"
        if fault.judge and fault.policy
        else ""
    )
    return f"line {fault.line}{path}{series}: {fault.message}"


def agreement_text(agreement: Agreement) -> str:
    """Return how far two judges agree."""
    names = f"{' and '.join(map(model_name, agreement.judges))} ({agreement.policy})"
    if agreement.same.rate is None:
        return f"{names}: no common verdicts"
    kappa = (
        "undefined, because all verdicts are the same"
        if agreement.kappa is None
        else f"{agreement.kappa:.2f}"
    )
    return f"{names}: kappa {kappa}; {rate_text(agreement.same)} verdicts are the same"


def threshold_text(threshold: Threshold) -> str:
    """Return the rates with a minimum score, and whether there are enough samples to show them."""
    target = f"{100 * threshold.target_false_accept:g} %"
    accepts = threshold.false_accept
    if not accepts.of:
        return "the dataset has no incomplete transcript that was judged, so no threshold can be found"
    if threshold.minimum_score is None:
        accepted = f"{accepts.count:,} of {accepts.of:,} incomplete transcripts have the score 1"
        return f"no minimum_score keeps false accepts at {target} or less: {accepted} and are accepted"
    at_score = f"with minimum_score = {threshold.minimum_score:g}, false accepts are {rate_text(accepts)}"
    text = f"{at_score}, and false rejects {rate_text(threshold.false_reject)}."
    if threshold.shown:
        return text
    samples = figures.count(accepts.of, "incomplete sample")
    text += f" The interval reaches {100 * accepts.high:.1f} %: {samples} cannot show {target}."
    if needed := threshold.incomplete_samples_needed:
        text += f" At least {needed:,} of them, without a false accept, can."
    return text


def calibration_page(report: CalibrationReport) -> str:
    """Return one page with the tables, the ROC curves and the reliability curves; it needs no network."""
    return rendered(
        Path(__file__).with_name("calibration.html.j2"),
        report=report,
        rate_text=rate_text,
        series_name=series_name,
        fault_text=fault_text,
        agreement_text=agreement_text,
    )
