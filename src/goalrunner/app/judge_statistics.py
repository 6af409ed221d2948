"""How good judges are: error rates, scores and agreement of the verdicts of a calibration, by scikit-learn and SciPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, fmean, median

from goalrunner.app.audits import Policy
from goalrunner.app.calibration import Calibration, Series, Verdicts
from goalrunner.app.kept_verdicts import TranscriptAudit
from goalrunner.core.errors import UsageError
from goalrunner.core.outcome import Usage

CONFIDENCE = 0.95
BINS = 10
STEPS = 100  # thresholds that are tried, from 0 to 1; scores have two digits as well


def require_libraries() -> None:
    """Raise UsageError if scikit-learn or SciPy is not installed."""
    try:
        import scipy.stats  # noqa: F401
        import sklearn.metrics  # noqa: F401
    except ImportError as error:
        message = f"the statistics of a calibration need scikit-learn and SciPy: {error}"
        raise UsageError(message, "pip install 'goalrunner[calibrate]'") from None


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % Wilson interval. Without values, `value` is None and the interval is 0 to 1."""

    count: int
    of: int
    low: float = 0.0
    high: float = 1.0

    @property
    def value(self) -> float | None:
        return self.count / self.of if self.of else None


def rate(values: Sequence[bool]) -> Rate:
    """Return the share of true values with its Wilson interval."""
    from scipy.stats import binomtest

    if not values:
        return Rate(0, 0)
    found = binomtest(sum(values), len(values)).proportion_ci(CONFIDENCE, method="wilson")
    return Rate(sum(values), len(values), float(found.low), float(found.high))


@dataclass(frozen=True)
class Bin:
    """The verdicts with about the same score: their mean score, and how many of the samples are really complete."""

    score: float
    complete: Rate


@dataclass(frozen=True)
class Threshold:
    """The smallest `[judge] minimum_score` with the wanted false-accept rate; None if there is no such score."""

    target: float
    minimum_score: float | None
    false_accept: Rate
    false_reject: Rate
    needed: int  # incomplete samples without a single false accept that show the target

    @property
    def is_shown(self) -> bool:
        """Whether the whole interval is below the target."""
        return self.minimum_score is not None and self.false_accept.high <= self.target


@dataclass(frozen=True)
class SeriesStatistics:
    """Statistics of one judge under one policy. A value is None if no sample, or no price, is known."""

    series: Series
    judged: int
    false_accept: Rate
    false_reject: Rate
    unreadable: int
    auroc: float | None
    brier: float | None
    roc: Sequence[tuple[float, float]]  # false-accept and true-accept rate at each threshold of the score
    curve: Sequence[Bin]
    tokens: float | None  # mean per audit
    cost_usd: float | None  # mean per audit
    seconds: float | None  # median per audit
    usage: Usage
    threshold: Threshold | None = None


@dataclass(frozen=True)
class Agreement:
    """How far two judges agree on the same samples under one policy. Kappa is None if all verdicts are the same."""

    judges: tuple[str, str]
    policy: Policy
    same: Rate
    kappa: float | None


@dataclass(frozen=True)
class Statistics:
    """The statistics of a calibration."""

    series: Sequence[SeriesStatistics]
    agreement: Sequence[Agreement]


def statistics_of(calibration: Calibration, target: float | None = None) -> Statistics:
    """Return the statistics; with a target the thresholds as well."""
    found = calibration.verdicts
    pairs = [pair for pair in combinations(found, 2) if pair[0].policy == pair[1].policy]
    return Statistics(
        [_series(one, verdicts, target) for one, verdicts in found.items()],
        [_agreement(one, other, found[one], found[other]) for one, other in pairs],
    )


def _score(audit: TranscriptAudit) -> float:
    return audit.verdict.score if audit.verdict else 0.0


def _series(series: Series, verdicts: Verdicts, target: float | None) -> SeriesStatistics:
    from sklearn import metrics

    scored = [(sample.label, _score(one)) for sample, one in verdicts if one.result != "judge failed"]
    labels, scores = [label for label, _ in scored], [score for _, score in scored]
    both = len(set(labels)) == 2
    rates = metrics.roc_curve(labels, scores)[:2] if both else ((), ())
    usages = [one.usage for _, one in verdicts]
    priced = bool(usages) and all(usage.cost_usd is not None for usage in usages)
    counted = bool(usages) and not any(usage.uncounted_calls for usage in usages)
    false_accept, false_reject = _errors(verdicts, 0.0)
    return SeriesStatistics(
        series=series,
        judged=len(verdicts),
        false_accept=false_accept,
        false_reject=false_reject,
        unreadable=len(verdicts) - len(scored),
        auroc=float(metrics.roc_auc_score(labels, scores)) if both else None,
        brier=float(metrics.brier_score_loss(labels, scores, pos_label=True)) if scores else None,
        roc=[(float(x), float(y)) for x, y in zip(*rates, strict=True)],
        curve=_curve(scored),
        tokens=fmean(usage.tokens for usage in usages) if counted else None,
        cost_usd=fmean(usage.cost_usd or 0.0 for usage in usages) if priced else None,
        seconds=median(one.seconds for _, one in verdicts) if verdicts else None,
        usage=sum(usages, Usage()),
        threshold=None if target is None else _threshold(verdicts, target),
    )


def _errors(verdicts: Verdicts, minimum: float) -> tuple[Rate, Rate]:
    """Return the rates of false accepts and false rejects with a minimum score."""
    accepted = [(sample.label, one.result == "complete" and _score(one) >= minimum) for sample, one in verdicts]
    return rate([yes for label, yes in accepted if not label]), rate([not yes for label, yes in accepted if label])


def _curve(scored: Sequence[tuple[bool, float]]) -> list[Bin]:
    """Return a bin for each tenth of the score that has verdicts; a score between two bins belongs to the lower one."""
    bins: dict[int, list[tuple[bool, float]]] = {}
    for label, score in sorted(scored, key=lambda one: one[1]):
        bins.setdefault(max(0, math.ceil(round(score * BINS, 6)) - 1), []).append((label, score))
    return [Bin(fmean(score for _, score in one), rate([label for label, _ in one])) for one in bins.values()]


def _threshold(verdicts: Verdicts, target: float) -> Threshold:
    """Return the smallest threshold that keeps the false accepts of these verdicts at the target or below."""
    # The upper end of the Wilson interval of 0 in n is z² / (n + z²).
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    needed = math.ceil(z * z * (1 - target) / target) if target > 0 else 0
    for step in range(STEPS + 1):
        false_accept, false_reject = _errors(verdicts, step / STEPS)
        if false_accept.of and false_accept.count <= math.floor(target * false_accept.of + 1e-9):
            return Threshold(target, step / STEPS, false_accept, false_reject, needed)
    return Threshold(target, None, false_accept, false_reject, needed)


def _agreement(one: Series, other: Series, first: Verdicts, second: Verdicts) -> Agreement:
    from sklearn.metrics import cohen_kappa_score

    theirs = {sample: found.result == "complete" for sample, found in second}
    pairs = [(found.result == "complete", theirs[sample]) for sample, found in first if sample in theirs]
    left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    kappa = float(cohen_kappa_score(left, right)) if len({*left, *right}) == 2 else None
    return Agreement((one.judge, other.judge), one.policy, rate([a == b for a, b in pairs]), kappa)
