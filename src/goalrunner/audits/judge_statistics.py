"""Statistics of judges: error rates, scores and agreement of their verdicts."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import NormalDist, fmean, median
from typing import NamedTuple

from goalrunner.audits.kept_verdicts import TranscriptAudit
from goalrunner.audits.transcript_audits import Policy
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen
from goalrunner.core.outcome import Usage

# scikit-learn and SciPy are imported where they are used: they are optional, and slow
# to import.

_CONFIDENCE = 0.95
_BINS = 10
# Thresholds that are tried, from 0 to 1; scores have two digits as well.
_STEPS = 100
# Products such as 0.29 * 100 are a little too small in floating point.
_TOLERANCE = 1e-9


def require_libraries() -> None:
    """Raise UsageError if scikit-learn or SciPy is not installed."""
    try:
        import scipy.stats  # noqa: F401
        import sklearn.metrics  # noqa: F401
    except ImportError as error:
        message = (
            f"the statistics of a calibration need scikit-learn and SciPy: {error}"
        )
        raise UsageError(message, "pip install 'goalrunner[calibrate]'") from None


class Series(NamedTuple):
    """One judge under one policy."""

    judge: str
    policy: Policy


class Rate(Frozen):
    """A share with its 95 % Wilson interval.

    Without values, `rate` is None and the interval is 0 to 1.
    """

    count: int = 0
    of: int = 0
    rate: float | None = None
    low: float = 0.0
    high: float = 1.0


class Bin(Frozen):
    """The verdicts with about the same score."""

    score: float
    """Their mean score."""
    complete: Rate
    """How many of the samples are really complete."""


class Threshold(Frozen):
    """The smallest `[judge] minimum_score` with the wanted false-accept rate."""

    target_false_accept: float
    minimum_score: float | None
    """None if no score keeps the rate."""
    false_accept: Rate
    false_reject: Rate
    shown: bool
    """Whether the whole interval is at the target or below."""
    incomplete_samples_needed: int
    """How many show the target, without a single false accept."""


class JudgeStatistics(Frozen):
    """Statistics of one judge under one policy.

    A value is None if no sample, or no price, is known.
    """

    judge: str
    policy: Policy
    verdicts: int
    unreadable: int
    false_accept: Rate
    false_reject: Rate
    auroc: float | None
    brier: float | None
    roc: tuple[dict[str, float], ...]
    """The rates "false_accept" and "true_accept" at each threshold of the score."""
    curve: tuple[Bin, ...]
    audit: dict[str, float | None]
    """Mean "tokens" and "cost_usd", and the median of "seconds"."""
    usage: Usage
    threshold: Threshold | None


class Agreement(Frozen):
    """How far two judges agree on the same samples under one policy."""

    judges: tuple[str, str]
    policy: Policy
    same: Rate
    kappa: float | None
    """Cohen's kappa; None if all verdicts are the same."""


class LabelledAudit(NamedTuple):
    """An audit of a sample, and whether the work of the sample is really complete."""

    is_complete: bool
    audit: TranscriptAudit

    @property
    def score(self) -> float:
        verdict = self.audit.verdict
        return verdict.score if verdict else 0.0

    def is_accepted(self, minimum_score: float = 0.0) -> bool:
        """Return whether a run with this minimum score would be complete."""
        return self.audit.result == "complete" and self.score >= minimum_score


LabelledAudits = Mapping[int, LabelledAudit]
"""The audits of one series by line of the dataset."""


def statistics_of(
    series: Series, audits: LabelledAudits, target: float | None
) -> JudgeStatistics:
    """Return the statistics of one series; with a target, the threshold as well."""
    from sklearn import metrics

    samples = list(audits.values())
    # An answer that cannot be read has no score, but is an error of the judge.
    readable = [sample for sample in samples if sample.audit.result != "judge failed"]
    labels = [sample.is_complete for sample in readable]
    scores = [sample.score for sample in readable]
    auroc, roc = None, []
    # The curve needs samples of both labels.
    if len(set(labels)) == 2:
        auroc = float(metrics.roc_auc_score(labels, scores))
        false_accepts, true_accepts, _ = metrics.roc_curve(labels, scores)
        for x, y in zip(false_accepts, true_accepts, strict=True):
            roc.append({"false_accept": float(x), "true_accept": float(y)})
    brier = None
    if scores:
        brier = float(metrics.brier_score_loss(labels, scores, pos_label=True))
    false_accept, false_reject = _errors(samples, 0.0)
    return JudgeStatistics(
        judge=series.judge,
        policy=series.policy,
        verdicts=len(samples),
        unreadable=len(samples) - len(readable),
        false_accept=false_accept,
        false_reject=false_reject,
        auroc=auroc,
        brier=brier,
        roc=tuple(roc),
        curve=_curve(readable),
        audit=_effort([sample.audit for sample in samples]),
        usage=sum((sample.audit.usage for sample in samples), Usage()),
        threshold=None if target is None else _threshold(samples, target),
    )


def _effort(audits: Sequence[TranscriptAudit]) -> dict[str, float | None]:
    """Return mean tokens and cost of an audit, and the median of its seconds.

    A value is None if it is not known.
    """
    effort: dict[str, float | None] = {
        "tokens": None,
        "cost_usd": None,
        "seconds": None,
    }
    if not audits:
        return effort
    usages = [audit.usage for audit in audits]
    effort["seconds"] = median(audit.seconds for audit in audits)
    if not any(usage.uncounted_calls for usage in usages):
        effort["tokens"] = fmean(usage.tokens for usage in usages)
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    if len(costs) == len(usages):
        effort["cost_usd"] = fmean(costs)
    return effort


def rate(values: Sequence[bool]) -> Rate:
    """Return the share of true values with its Wilson interval."""
    from scipy.stats import binomtest

    if not values:
        return Rate()
    count, of = sum(values), len(values)
    # Wilson's interval holds for small samples and for shares near 0 as well.
    interval = binomtest(count, of).proportion_ci(_CONFIDENCE, method="wilson")
    return Rate(
        count=count,
        of=of,
        rate=count / of,
        low=float(interval.low),
        high=float(interval.high),
    )


def _errors(
    samples: Sequence[LabelledAudit], minimum_score: float
) -> tuple[Rate, Rate]:
    """Return the rates of false accepts and false rejects with a minimum score."""
    false_accepts = []
    false_rejects = []
    for sample in samples:
        is_accepted = sample.is_accepted(minimum_score)
        if sample.is_complete:
            false_rejects.append(not is_accepted)
        else:
            false_accepts.append(is_accepted)
    return rate(false_accepts), rate(false_rejects)


def _curve(readable: Sequence[LabelledAudit]) -> tuple[Bin, ...]:
    """Return a bin for each tenth of the score that has verdicts."""
    curve = []
    for _, group in groupby(sorted(readable, key=_bin_number), _bin_number):
        members = list(group)
        mean = fmean(member.score for member in members)
        complete = rate([member.is_complete for member in members])
        curve.append(Bin(score=mean, complete=complete))
    return tuple(curve)


def _bin_number(sample: LabelledAudit) -> int:
    """Return the bin of a score; one between two bins belongs to the lower one."""
    # Rounded first: (0.1 + 0.2) * 10 is a little more than 3 in floating point.
    return max(1, math.ceil(round(sample.score * _BINS, 6)))


def _threshold(samples: Sequence[LabelledAudit], target: float) -> Threshold:
    """Return the smallest threshold that keeps false accepts at the target or below."""
    minimum: float | None = None
    for step in range(_STEPS + 1):
        false_accept, false_reject = _errors(samples, step / _STEPS)
        allowed = math.floor(target * false_accept.of + _TOLERANCE)
        if false_accept.of and false_accept.count <= allowed:
            minimum = step / _STEPS
            break
    needed = 0
    if target > 0:
        # The upper end of the Wilson interval of 0 in n is z² / (n + z²).
        z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
        needed = math.ceil(z * z * (1 - target) / target)
    return Threshold(
        target_false_accept=target,
        minimum_score=minimum,
        false_accept=false_accept,
        false_reject=false_reject,
        shown=minimum is not None and false_accept.high <= target,
        incomplete_samples_needed=needed,
    )


def agreement_of(
    one: Series, other: Series, first: LabelledAudits, second: LabelledAudits
) -> Agreement:
    """Return how far the judges of two series with the same policy agree.

    Only samples that both have judged count.
    """
    from sklearn.metrics import cohen_kappa_score

    common_lines = first.keys() & second.keys()
    first_verdicts = [first[line].is_accepted() for line in common_lines]
    second_verdicts = [second[line].is_accepted() for line in common_lines]
    kappa = None
    # Kappa divides by the disagreement that chance explains, which is 0 otherwise.
    if len({*first_verdicts, *second_verdicts}) == 2:
        kappa = float(cohen_kappa_score(first_verdicts, second_verdicts))
    same = rate(list(map(operator.eq, first_verdicts, second_verdicts)))
    return Agreement(
        judges=(one.judge, other.judge), policy=one.policy, same=same, kappa=kappa
    )
