"""Audits of saved transcripts and calibrations of judges, as text, JSON, JUnit XML and HTML pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.ci import Case, Kind, public_remark, suite_text
from goalrunner.reports.html import rendered
from goalrunner.reports.layout import Fact, facts, laid_out, lines_text, model_name, one_line, table
from goalrunner.reports.review import verdict_facts
from goalrunner.reports.tables import EVIDENCE, audit_lines

if TYPE_CHECKING:
    from goalrunner.app.calibration import Calibration, Fault, Series
    from goalrunner.app.judge_statistics import Agreement, Rate, SeriesStatistics, Statistics, Threshold
    from goalrunner.app.kept_verdicts import TranscriptAudit

UNKNOWN = "-"
_FAULTS = 10
"""Faults that the text lists."""


def audit_facts(audit: TranscriptAudit, *, not_run: bool = False) -> Iterator[Fact]:
    """Yield the lines of an audit. `not_run`: the goal has validators, which did not run."""
    if audit.verdict is not None:
        yield from verdict_facts(audit.verdict)
    results = [f"{'✓' if one.passed else '✗'} {one.name}: {public_remark(one)}" for one in audit.validators]
    yield from facts("validators", results)
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


def audits_junit(audits: Sequence[TranscriptAudit]) -> str:
    """Return JUnit XML with a case for each transcript."""
    properties = {"judges": "; ".join(sorted({model_name(audit.judge) for audit in audits if audit.judge}))}
    seconds = sum(audit.seconds for audit in audits)
    return suite_text("goal audit", list(map(_case, audits)), seconds=seconds, properties=properties)


def _case(audit: TranscriptAudit) -> Case:
    kinds: dict[str, Kind] = {"complete": "", "not complete": "failure"}
    kind, type_ = kinds.get(audit.result, "error"), audit.result.replace(" ", "_")
    said, output = audit.missing or audit.result, laid_out(audit_facts(audit)) if audit.verdict is not None else ""
    return Case("transcripts", audit.transcript, kind, type_, said, said, output, audit.seconds)


def audits_page(audits: Sequence[TranscriptAudit]) -> str:
    """Return one HTML page with all audits, which works offline."""
    return rendered("audits.html.j2", audits=audits, lines=audit_lines(audits), evidence=EVIDENCE)


@dataclass(frozen=True)
class CalibrationReport:
    """A calibration, its statistics, and the files that it is about."""

    calibration: Calibration
    statistics: Statistics
    dataset: Path
    results: Path

    @property
    def labels(self) -> dict[str, int]:
        """The number of samples by label."""
        complete = sum(sample.label for sample in self.calibration.samples)
        return {"complete": complete, "incomplete": len(self.calibration.samples) - complete}

    @property
    def samples(self) -> str:
        """The number of samples by label, as text."""
        labels = ", ".join(f"{number:,} {name}" for name, number in self.labels.items())
        return f"{len(self.calibration.samples):,} of {self.dataset}: {labels}"

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
            decimals = (UNKNOWN if value is None else f"{value:.3f}" for value in (one.auroc, one.brier))
            rows.append((one_line(model_name(one.series.judge)), one.series.policy, *errors, *decimals))
        return rows

    @property
    def effort_rows(self) -> list[tuple[str, ...]]:
        """The rows of the table of what an audit takes, with its heading."""
        rows: list[tuple[str, ...]] = [("JUDGE", "POLICY", "VERDICTS", "UNREADABLE", "TOKENS", "COST", "LATENCY")]
        for one in self.statistics.series:
            tokens = UNKNOWN if one.tokens is None else f"{one.tokens:,.0f}"
            latency = UNKNOWN if one.seconds is None else figures.elapsed(one.seconds)
            cost = figures.dollars(one.cost_usd) if one.judged else UNKNOWN
            judged = (f"{one.judged:,}", f"{one.unreadable:,}")
            rows.append((one_line(model_name(one.series.judge)), one.series.policy, *judged, tokens, cost, latency))
        return rows

    @property
    def faults(self) -> list[str]:
        """Why samples do not count, a sentence for each."""
        return list(map(_fault_text, self.calibration.faults))

    @property
    def thresholds(self) -> list[tuple[str, str, str]]:
        """Name, finding and line for the goal file (or an empty text) of each series whose policy a run can have."""
        found = []
        for one in self.statistics.series:
            if one.threshold is not None and one.series.policy != "no-citations":
                least = one.threshold.minimum_score
                line = "" if least is None else f"minimum_score = {least:g}"
                found.append((series_name(one.series), threshold_text(one.threshold), line))
        return found

    @property
    def agreement(self) -> list[str]:
        """How far judges agree, a sentence for each pair."""
        return list(map(_agreement_text, self.statistics.agreement))


def calibration_text(report: CalibrationReport, columns: int | None = None) -> str:
    """Return the tables and lines for a terminal with so many columns; None is a pipe."""
    head = laid_out([Fact("samples", report.samples), Fact("verdicts", report.verdicts)], columns)
    tables = [lines_text(table(rows)) for rows in (report.error_rows, report.effort_rows)]
    return "\n".join([head, *tables, laid_out(_closing(report), columns)])


def _closing(report: CalibrationReport) -> Iterator[Fact]:
    yield from (Fact("agreement", text) for text in report.agreement)
    for name, text, line in report.thresholds:
        yield Fact("threshold", f"{name}: {text}", tone="plain" if line else "warn")
        if line:
            yield Fact("", line, whole=True)
    yield from (Fact("left out", text, tone="warn") for text in report.faults[:_FAULTS])
    if len(report.faults) > _FAULTS:
        yield Fact("", f"and {len(report.faults) - _FAULTS:,} more; --json lists all")
    if report.calibration.stopped:
        left = figures.count(report.calibration.left, "audit is", "audits are")
        yield Fact("stopped", f"{report.calibration.stopped}; {left} left. The same command continues.", tone="warn")
    yield Fact("results", str(report.results), whole=True)


def calibration_value(report: CalibrationReport) -> dict[str, Any]:
    """Return a calibration as a JSON value."""
    calibration = report.calibration
    return {
        "dataset": str(report.dataset),
        "results": str(report.results),
        "samples": report.labels,
        "judges": list(map(_series_value, report.statistics.series)),
        "agreement": [{**asdict(one), "same": _rate_value(one.same)} for one in report.statistics.agreement],
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
        **one.series._asdict(),
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


def series_name(series: Series) -> str:
    """Return judge and policy."""
    return f"{one_line(model_name(series.judge))} ({series.policy})"


def rate_text(rate: Rate) -> str:
    """Return a rate with its interval and its numbers: "3.0 % (1.0 to 8.5), 3 of 100"."""
    if rate.value is None:
        return UNKNOWN
    return f"{100 * rate.value:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f}), {rate.count:,} of {rate.of:,}"


def _fault_text(fault: Fault) -> str:
    """Return which verdict is left out, and why."""
    which = f", {series_name(fault.series)}" if fault.series else ""
    path = "" if str(fault.sample.file) in fault.message else f" {fault.sample.path}"
    return f"line {fault.sample.line}{path}{which}: {fault.message}"


def _agreement_text(one: Agreement) -> str:
    """Return how far two judges agree."""
    names = f"{' and '.join(map(model_name, one.judges))} ({one.policy})"
    if one.same.value is None:
        return f"{names}: no common verdicts"
    kappa = "undefined, because all verdicts are the same" if one.kappa is None else f"{one.kappa:.2f}"
    return f"{names}: kappa {kappa}; {rate_text(one.same)} verdicts are the same"


def threshold_text(found: Threshold) -> str:
    """Return the rates with a minimum score, and whether there are enough samples to show them."""
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


def calibration_page(report: CalibrationReport) -> str:
    """Return one page with the tables, the ROC curves and the reliability curves; it needs no network."""
    return rendered("calibration.html.j2", report=report, rate_text=rate_text, series_name=series_name)
