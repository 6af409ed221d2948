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
from goalrunner.reports.layout import Fact, laid_out
from goalrunner.reports.short_forms import model_name
from goalrunner.reports.terminal_text import lines_text, printable_line, table

_NO_VALUE = "-"
# Faults that the text lists; a dataset may have thousands of samples.
_LISTED_FAULTS = 10
_ERROR_HEAD = ("JUDGE", "POLICY", "FALSE ACCEPT", "FALSE REJECT", "AUROC", "BRIER")
_EFFORT_HEAD = (
    "JUDGE",
    "POLICY",
    "VERDICTS",
    "UNREADABLE",
    "TOKENS",
    "COST",
    "LATENCY",
)

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
    judges = calibration.judges
    return CalibrationReport(
        calibration=calibration,
        samples=_samples_text(calibration),
        verdicts=_verdicts_text(calibration),
        error_rows=[_ERROR_HEAD, *map(_error_row, judges)],
        effort_rows=[_EFFORT_HEAD, *map(_effort_row, judges)],
        thresholds=list(_threshold_lines(judges)),
    )


def _samples_text(calibration: Calibration) -> str:
    numbers = [f"{number:,} {label}" for label, number in calibration.samples.items()]
    total = sum(calibration.samples.values())
    return f"{total:,} of {calibration.dataset}: {', '.join(numbers)}"


def _verdicts_text(calibration: Calibration) -> str:
    """Return how many verdicts there are, and the audits and usage of this call."""
    number = sum(judge.verdicts for judge in calibration.judges)
    new_audits = figures.count(calibration.audits.asked, "audit")
    text = f"{number:,} · {new_audits} of this call"
    if calibration.audits.asked:
        text += f", {' · '.join(figures.spent(calibration.usage))}"
    return text


def _threshold_lines(judges: tuple[JudgeStatistics, ...]) -> Iterator[ThresholdLine]:
    for judge in judges:
        # No run accepts verdicts without checking their citations.
        if judge.threshold is None or judge.policy == "no-citations":
            continue
        score = judge.threshold.minimum_score
        yield ThresholdLine(
            series_name(judge.judge, judge.policy),
            threshold_text(judge.threshold),
            "" if score is None else f"minimum_score = {score:g}",
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
    """Return the tables and lines for a terminal of this width; None is a pipe."""
    head = laid_out(
        [Fact("samples", report.samples), Fact("verdicts", report.verdicts)], columns
    )
    errors = lines_text(table(report.error_rows))
    efforts = lines_text(table(report.effort_rows))
    closing = laid_out(_closing_facts(report), columns)
    return "\n".join([head, errors, efforts, closing])


def _closing_facts(report: CalibrationReport) -> Iterator[Fact]:
    calibration = report.calibration
    for agreement in calibration.agreement:
        yield Fact("agreement", agreement_text(agreement))
    for line in report.thresholds:
        text = f"{line.series}: {line.finding}"
        yield Fact("threshold", text, tone="plain" if line.setting else "warn")
        if line.setting:
            # A person copies this line into the goal file.
            yield Fact("", line.setting, whole=True)
    for fault in calibration.faults[:_LISTED_FAULTS]:
        yield Fact("left out", fault_text(fault), tone="warn")
    more_faults = len(calibration.faults) - _LISTED_FAULTS
    if more_faults > 0:
        yield Fact("", f"and {more_faults:,} more; --json lists all")
    if calibration.audits.stopped:
        remaining = figures.count(calibration.audits.left, "audit is", "audits are")
        reason = calibration.audits.stopped
        text = f"{reason}; {remaining} left. The same command continues."
        yield Fact("stopped", text, tone="warn")
    yield Fact("results", calibration.results, whole=True)


def series_name(judge: str, policy: str) -> str:
    """Return judge and policy."""
    return f"{printable_line(model_name(judge))} ({policy})"


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval: "3.0 % (1.0 to 8.5), 3 of 100"."""
    if rate.rate is None:
        return _NO_VALUE
    interval = f"{100 * rate.low:.1f} to {100 * rate.high:.1f}"
    return f"{100 * rate.rate:.1f} % ({interval}), {rate.count:,} of {rate.of:,}"


def fault_text(fault: Fault) -> str:
    """Return which verdict is left out, and why."""
    place = f"line {fault.line}"
    # Messages of unreadable files begin with the path.
    if fault.path not in fault.message:
        place += f" {fault.path}"
    if fault.judge and fault.policy:
        place += f", {series_name(fault.judge, fault.policy)}"
    return f"{place}: {fault.message}"


def agreement_text(agreement: Agreement) -> str:
    """Return how far two judges agree."""
    judges = " and ".join(map(model_name, agreement.judges))
    names = f"{judges} ({agreement.policy})"
    if agreement.same.rate is None:
        return f"{names}: no common verdicts"
    if agreement.kappa is None:
        kappa = "undefined, because all verdicts are the same"
    else:
        kappa = f"{agreement.kappa:.2f}"
    return f"{names}: kappa {kappa}; {rate_text(agreement.same)} verdicts are the same"


def threshold_text(threshold: Threshold) -> str:
    """Return the rates with a minimum score.

    The text says as well whether there are enough samples to show the target.
    """
    target = f"{100 * threshold.target_false_accept:g} %"
    accepts = threshold.false_accept
    if not accepts.of:
        return (
            "the dataset has no incomplete transcript that was judged, "
            "so no threshold can be found"
        )
    if threshold.minimum_score is None:
        return (
            f"no minimum_score keeps false accepts at {target} or less: "
            f"{accepts.count:,} of {accepts.of:,} incomplete transcripts "
            "have the score 1 and are accepted"
        )
    text = (
        f"with minimum_score = {threshold.minimum_score:g}, "
        f"false accepts are {rate_text(accepts)}, "
        f"and false rejects {rate_text(threshold.false_reject)}."
    )
    if threshold.shown:
        return text
    samples = figures.count(accepts.of, "incomplete sample")
    high = 100 * accepts.high
    text += f" The interval reaches {high:.1f} %: {samples} cannot show {target}."
    needed = threshold.incomplete_samples_needed
    if needed:
        text += f" At least {needed:,} of them, without a false accept, can."
    return text


def calibration_page(report: CalibrationReport) -> str:
    """Return one page with the tables and curves; it needs no network."""
    return rendered(
        Path(__file__).with_name("calibration.html.j2"),
        report=report,
        rate_text=rate_text,
        series_name=series_name,
        fault_text=fault_text,
        agreement_text=agreement_text,
    )
