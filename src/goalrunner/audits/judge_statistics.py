"""How good judges are: error rates, scores and agreement of their verdicts, by scikit-learn and SciPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, median
from typing import NamedTuple

from goalrunner.audits.kept_verdicts import TranscriptAudit
from goalrunner.audits.transcript_audits import Policy
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen
from goalrunner.core.outcome import Usage

_CONFIDENCE = 0.95
_BINS = 10
_STEPS = 100  # thresholds that are tried, from 0 to 1; scores have two digits as well


def require_libraries() -> None:
    """Raise UsageError if scikit-learn or SciPy is not installed."""
    try:
        import scipy.stats  # noqa: F401
        import sklearn.metrics  # noqa: F401
    except ImportError as error:
        message = f"the statistics of a calibration need scikit-learn and SciPy: {error}"
        raise UsageError(message, "pip install 'goalrunner[calibrate]'") from None


class Series(NamedTuple):
    """One judge under one policy."""

    judge: str
    policy: Policy


class Rate(Frozen):
    """A share with its 95 % Wilson interval. Without values, `rate` is None and the interval is 0 to 1."""

    count: int = 0
    of: int = 0
    rate: float | None = None
    low: float = 0.0
    high: float = 1.0


class Bin(Frozen):
    """The verdicts with about the same score: their mean score, and how many of the samples are really complete."""

    score: float
    complete: Rate


class Threshold(Frozen):
    """The smallest `[judge] minimum_score` with the wanted false-accept rate; None if there is no such score."""

    target_false_accept: float
    minimum_score: float | None
    false_accept: Rate
    false_reject: Rate
    shown: bool  # whether the whole interval is at the target or below
    incomplete_samples_needed: int  # that show the target, without a single false accept


class JudgeStatistics(Frozen):
    """Statistics of one judge under one policy. A value is None if no sample, or no price, is known."""

    judge: str
    policy: Policy
    verdicts: int
    unreadable: int
    false_accept: Rate
    false_reject: Rate
    auroc: float | None
    brier: float | None
    roc: tuple[dict[str, float], ...]  # the rates "false_accept" and "true_accept" at each threshold of the score
    curve: tuple[Bin, ...]
    audit: dict[str, float | None]  # mean "tokens" and "cost_usd", and the median of "seconds"
    usage: Usage
    threshold: Threshold | None


class Agreement(Frozen):
    """How far two judges agree on the same samples under one policy. Kappa is None if all verdicts are the same."""

    judges: tuple[str, str]
    policy: Policy
    same: Rate
    kappa: float | None


LabelledVerdicts = Mapping[int, tuple[bool, TranscriptAudit]]
"""The verdicts of one series by line of the dataset, each with its label: whether the work is really complete."""


def _score(audit: TranscriptAudit) -> float:
    return audit.verdict.score if audit.verdict else 0.0


def statistics_of(series: Series, verdicts: LabelledVerdicts, target: float | None) -> JudgeStatistics:
    """Return the statistics of one series; with a target, the threshold as well."""
    from sklearn import metrics

    scored = [(label, _score(one)) for label, one in verdicts.values() if one.result != "judge failed"]
    labels, scores = [label for label, _ in scored], [score for _, score in scored]
    both = len(set(labels)) == 2
    rates = zip(*metrics.roc_curve(labels, scores)[:2], strict=True) if both else ()
    usages = [one.usage for _, one in verdicts.values()]
    priced = bool(usages) and all(usage.cost_usd is not None for usage in usages)
    counted = bool(usages) and not any(usage.uncounted_calls for usage in usages)
    false_accept, false_reject = _errors(verdicts, 0.0)
    return JudgeStatistics(
        **series._asdict(),
        verdicts=len(verdicts),
        unreadable=len(verdicts) - len(scored),
        false_accept=false_accept,
        false_reject=false_reject,
        auroc=float(metrics.roc_auc_score(labels, scores)) if both else None,
        brier=float(metrics.brier_score_loss(labels, scores, pos_label=True)) if scores else None,
        roc=tuple({"false_accept": float(x), "true_accept": float(y)} for x, y in rates),
        curve=_curve(scored),
        audit={
            "tokens": fmean(usage.tokens for usage in usages) if counted else None,
            "cost_usd": fmean(usage.cost_usd or 0.0 for usage in usages) if priced else None,
            "seconds": median(one.seconds for _, one in verdicts.values()) if verdicts else None,
        },
        usage=sum(usages, Usage()),
        threshold=None if target is None else _threshold(verdicts, target),
    )


def rate(values: Sequence[bool]) -> Rate:
    """Return the share of true values with its Wilson interval."""
    from scipy.stats import binomtest

    if not values:
        return Rate()
    count, of = sum(values), len(values)
    found = binomtest(count, of).proportion_ci(_CONFIDENCE, method="wilson")
    return Rate(count=count, of=of, rate=count / of, low=float(found.low), high=float(found.high))


def _errors(verdicts: LabelledVerdicts, minimum: float) -> tuple[Rate, Rate]:
    """Return the rates of false accepts and false rejects with a minimum score."""
    accepted = [(label, one.result == "complete" and _score(one) >= minimum) for label, one in verdicts.values()]
    return rate([yes for label, yes in accepted if not label]), rate([not yes for label, yes in accepted if label])


def _curve(scored: Sequence[tuple[bool, float]]) -> tuple[Bin, ...]:
    """Return a bin for each tenth of the score that has verdicts; a score between two bins belongs to the lower one."""
    bins: dict[int, list[tuple[bool, float]]] = {}
    for label, score in sorted(scored, key=lambda one: one[1]):
        bins.setdefault(max(0, math.ceil(round(score * _BINS, 6)) - 1), []).append((label, score))
    return tuple(
        Bin(score=fmean(score for _, score in one), complete=rate([label for label, _ in one])) for one in bins.values()
    )


def _threshold(verdicts: LabelledVerdicts, target: float) -> Threshold:
    """Return the smallest threshold that keeps the false accepts of these verdicts at the target or below."""
    for step in range(_STEPS + 1):
        minimum: float | None = step / _STEPS
        false_accept, false_reject = _errors(verdicts, step / _STEPS)
        if false_accept.of and false_accept.count <= math.floor(target * false_accept.of + 1e-9):
            break
    else:
        minimum = None
    # The upper end of the Wilson interval of 0 in n is z² / (n + z²).
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    return Threshold(
        target_false_accept=target,
        minimum_score=minimum,
        false_accept=false_accept,
        false_reject=false_reject,
        shown=minimum is not None and false_accept.high <= target,
        incomplete_samples_needed=math.ceil(z * z * (1 - target) / target) if target > 0 else 0,
    )


def agreement_of(one: Series, other: Series, first: LabelledVerdicts, second: LabelledVerdicts) -> Agreement:
    """Return how far the judges of two series with the same policy agree on the samples that both have judged."""
    from sklearn.metrics import cohen_kappa_score

    common = first.keys() & second.keys()
    left, right = ([verdicts[line][1].result == "complete" for line in common] for verdicts in (first, second))
    kappa = float(cohen_kappa_score(left, right)) if len({*left, *right}) == 2 else None
    same = rate([a == b for a, b in zip(left, right, strict=True)])
    return Agreement(judges=(one.judge, other.judge), policy=one.policy, same=same, kappa=kappa)
