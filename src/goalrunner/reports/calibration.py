"""The statistics of a calibration as text, as a JSON value, and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.app.calibration import Calibration, Fault, Series
from goalrunner.app.judge_statistics import Agreement, Rate, SeriesStatistics, Statistics, Threshold
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, Layout, Line, model_name, one_line
from goalrunner.reports.tables import table

UNKNOWN = "-"
_FAULTS = 10
"""Faults that the text lists."""
_ROWS = 12
"""Rows of a terminal that one finding may take."""
_LOW, _SIZE = 10, 200
"""Lower edge and size of the square of a chart; its drawing is 220 by 220."""


@dataclass(frozen=True)
class CalibrationReport:
    """A calibration, its statistics, and the files that it is about."""

    calibration: Calibration
    statistics: Statistics
    dataset: Path
    results: Path

    @property
    def samples(self) -> str:
        """The number of samples by label."""
        labels = [sample.label for sample in self.calibration.samples]
        complete = sum(labels)
        return f"{len(labels):,} of {self.dataset}: {complete:,} complete, {len(labels) - complete:,} incomplete"

    @property
    def verdicts(self) -> str:
        """The number of verdicts, and how many of them this call asked for."""
        found, asked = sum(map(len, self.calibration.verdicts.values())), self.calibration.asked
        spent = f", {' · '.join(figures.spent(self.calibration.spent))}" if asked else ""
        return f"{found:,} · {figures.count(asked, 'audit')} of this call{spent}"

    @property
    def error_rows(self) -> list[tuple[str, ...]]:
        """The rows of the table of errors, with its heading."""
        rows: list[tuple[str, ...]] = [("JUDGE", "POLICY", "FALSE ACCEPT", "FALSE REJECT", "AUROC", "BRIER")]
        for one in self.statistics.series:
            errors = map(rate_text, (one.false_accept, one.false_reject))
            rows.append((*_names(one.series), *errors, _decimals(one.auroc), _decimals(one.brier)))
        return rows

    @property
    def effort_rows(self) -> list[tuple[str, ...]]:
        """The rows of the table of what an audit takes, with its heading."""
        rows: list[tuple[str, ...]] = [("JUDGE", "POLICY", "VERDICTS", "UNREADABLE", "TOKENS", "COST", "LATENCY")]
        for one in self.statistics.series:
            tokens = UNKNOWN if one.tokens is None else f"{one.tokens:,.0f}"
            latency = UNKNOWN if one.seconds is None else figures.elapsed(one.seconds)
            cost = figures.dollars(one.cost_usd) if one.judged else UNKNOWN
            rows.append((*_names(one.series), f"{one.judged:,}", f"{one.unreadable:,}", tokens, cost, latency))
        return rows

    @property
    def faults(self) -> list[str]:
        """What does not count, and why, a sentence for each."""
        return [fault_text(fault) for fault in self.calibration.faults]

    @property
    def thresholds(self) -> list[tuple[str, str, str]]:
        """Of each series that a run can have: its name, the finding, and the line for the goal file, or an empty text."""
        return [
            (series_name(one.series), threshold_text(one.threshold), threshold_line(one.threshold))
            for one in self.statistics.series
            if one.threshold is not None and one.series.policy != "no-citations"
        ]

    @property
    def agreement(self) -> list[str]:
        """How far judges agree, a sentence for each pair."""
        return [agreement_text(one) for one in self.statistics.agreement]


def calibration_text(report: CalibrationReport, columns: int | None = None) -> str:
    """Return the tables and lines for a terminal with so many columns; None is a pipe."""
    layout = Layout(columns)
    head = layout.text([Fact("samples", report.samples), Fact("verdicts", report.verdicts)])
    tables = ["".join(f"{row}\n" for row in table(rows)) for rows in (report.error_rows, report.effort_rows)]
    return "\n".join([head, *tables, layout.text(_closing(report))])


def _closing(report: CalibrationReport) -> Iterator[Line]:
    for text in report.agreement:
        yield Fact("agreement", text, rows=_ROWS)
    for name, text, line in report.thresholds:
        yield Fact("threshold", f"{name}: {text}", tone="plain" if line else "warn", rows=_ROWS)
        if line:
            yield Fact("", line, whole=True)
    for text in report.faults[:_FAULTS]:
        yield Fact("left out", text, tone="warn")
    if len(report.faults) > _FAULTS:
        yield Fact("", f"and {len(report.faults) - _FAULTS:,} more; --json lists all")
    if report.calibration.stopped:
        left = figures.count(report.calibration.left, "audit is", "audits are")
        yield Fact("stopped", f"{report.calibration.stopped}; {left} left. The same command continues.", tone="warn")
    yield Fact("results", str(report.results), whole=True)


def calibration_value(report: CalibrationReport) -> dict[str, Any]:
    """Return the same as a JSON value."""
    calibration = report.calibration
    labels = [sample.label for sample in calibration.samples]
    return {
        "dataset": str(report.dataset),
        "results": str(report.results),
        "samples": {"complete": sum(labels), "incomplete": len(labels) - sum(labels)},
        "judges": [_series_value(one) for one in report.statistics.series],
        "agreement": [
            {"judges": list(one.judges), "policy": one.policy, "same": _rate_value(one.same), "kappa": one.kappa}
            for one in report.statistics.agreement
        ],
        "faults": [
            {
                "line": fault.sample.line,
                "path": fault.sample.path,
                "judge": fault.series and fault.series.judge,
                "policy": fault.series and fault.series.policy,
                "message": fault.message,
            }
            for fault in calibration.faults
        ],
        "audits": {"asked": calibration.asked, "left": calibration.left, "stopped": calibration.stopped},
        "usage": calibration.spent.model_dump(mode="json"),
    }


def _series_value(one: SeriesStatistics) -> dict[str, Any]:
    found = one.threshold
    return {
        "judge": one.series.judge,
        "policy": one.series.policy,
        "verdicts": one.judged,
        "unreadable": one.unreadable,
        "false_accept": _rate_value(one.false_accept),
        "false_reject": _rate_value(one.false_reject),
        "auroc": one.auroc,
        "brier": one.brier,
        "roc": [{"false_accept": x, "true_accept": y} for x, y in one.roc],
        "curve": [{"score": item.score, "complete": _rate_value(item.complete)} for item in one.curve],
        "audit": {"tokens": one.tokens, "cost_usd": one.cost_usd, "seconds": one.seconds},
        "usage": one.usage.model_dump(mode="json"),
        "threshold": found
        and {
            "target_false_accept": found.target,
            "minimum_score": found.minimum_score,
            "false_accept": _rate_value(found.false_accept),
            "false_reject": _rate_value(found.false_reject),
            "shown": found.is_shown,
            "incomplete_samples_needed": found.needed,
        },
    }


def _rate_value(rate: Rate) -> dict[str, float | None]:
    return {"count": rate.count, "of": rate.of, "rate": rate.value, "low": rate.low, "high": rate.high}


def _names(series: Series) -> tuple[str, str]:
    return one_line(model_name(series.judge)), series.policy


def series_name(series: Series) -> str:
    """Return judge and policy."""
    return "{} ({})".format(*_names(series))


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval and its numbers: "3.0 % (1.0 to 8.5), 3 of 100"."""
    return UNKNOWN if rate.value is None else f"{_percent(rate)}, {rate.count:,} of {rate.of:,}"


def _percent(rate: Rate) -> str:
    value = UNKNOWN if rate.value is None else f"{100 * rate.value:.1f} %"
    return f"{value} ({100 * rate.low:.1f} to {100 * rate.high:.1f})"


def _decimals(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def fault_text(fault: Fault) -> str:
    """Return which verdict is left out, and why."""
    which = f", {series_name(fault.series)}" if fault.series else ""
    path = "" if str(fault.sample.file) in fault.message else f" {fault.sample.path}"
    return f"line {fault.sample.line}{path}{which}: {fault.message}"


def agreement_text(one: Agreement) -> str:
    """Return how far two judges agree."""
    if one.same.value is None:
        return f"{model_name(one.judges[0])} and {model_name(one.judges[1])} ({one.policy}): no common verdicts"
    kappa = "undefined, because all verdicts are the same" if one.kappa is None else f"{one.kappa:.2f}"
    names = " and ".join(map(model_name, one.judges))
    return f"{names} ({one.policy}): kappa {kappa}; {rate_text(one.same)} verdicts are the same"


def threshold_text(found: Threshold | None) -> str:
    """Return what a minimum score does to the rates, and whether so few samples can show it."""
    if found is None:
        return ""
    target = f"{100 * found.target:g} %"
    if not found.false_accept.of:
        return "the dataset has no incomplete transcript that was judged, so no threshold can be found"
    if found.minimum_score is None:
        accepted = f"{found.false_accept.count:,} of {found.false_accept.of:,} incomplete transcripts have the score 1"
        return f"no minimum_score keeps false accepts at {target} or less: {accepted} and are accepted"
    at = f"with minimum_score = {found.minimum_score:g}, false accepts are {rate_text(found.false_accept)}"
    text = f"{at}, and false rejects {rate_text(found.false_reject)}."
    if found.is_shown:
        return text
    enough = f" At least {found.needed:,} of them, without a false accept, can." if found.needed else ""
    few = figures.count(found.false_accept.of, "incomplete sample")
    return f"{text} The interval reaches {100 * found.false_accept.high:.1f} %: {few} cannot show {target}.{enough}"


def threshold_line(found: Threshold | None) -> str:
    """Return the line for [judge] of a goal file; empty without a threshold."""
    if found is None or found.minimum_score is None:
        return ""
    return f"minimum_score = {found.minimum_score:g}"


@dataclass(frozen=True)
class Plots:
    """The ROC curve and the reliability curve of one series, in drawings of 220 by 220."""

    one: SeriesStatistics

    @property
    def name(self) -> str:
        """Judge and policy."""
        return series_name(self.one.series)

    @property
    def roc(self) -> list[tuple[float, float]]:
        """The points of the ROC curve."""
        return [_at(x, y) for x, y in self.one.roc]

    @property
    def verdict(self) -> tuple[float, float] | None:
        """The point of the verdicts: the score with the check of citations and no minimum score."""
        accepted, rejected = self.one.false_accept.value, self.one.false_reject.value
        return None if accepted is None or rejected is None else _at(accepted, 1 - rejected)

    @property
    def curve(self) -> list[tuple[float, float, float, float, str]]:
        """The points of the reliability curve, the ends of their intervals, and their words."""
        return [
            (
                *_at(item.score, item.complete.value or 0.0),
                _at(0, item.complete.low)[1],
                _at(0, item.complete.high)[1],
                f"score {item.score:.2f}: {rate_text(item.complete)} complete",
            )
            for item in self.one.curve
        ]


def _at(x: float, y: float) -> tuple[float, float]:
    return round(_LOW + _SIZE * x, 1), round(_LOW + _SIZE * (1 - y), 1)


def calibration_page(report: CalibrationReport) -> str:
    """Return one page with the tables, the ROC curves and the reliability curves; it needs no network."""
    from goalrunner.reports.html import rendered

    plots: Sequence[Plots] = [Plots(one) for one in report.statistics.series]
    return rendered("calibration.html.j2", report=report, plots=plots, rate_text=rate_text)
