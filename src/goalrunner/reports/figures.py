"""The figures of a run as text: how long, how much, how many, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from goalrunner.core.errors import span as span

if TYPE_CHECKING:
    from goalrunner.core.observation import DiffStat
    from goalrunner.core.outcome import Usage
    from goalrunner.core.run_summary import RunSummary

# An unknown price is never shown as 0: it would read as a run that cost nothing.
NO_PRICE = "no price"
UNKNOWN_TOKENS, UNKNOWN_COST = "tokens unknown", "cost unknown"
"""Shown where the provider or the agent reported no usage."""

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def elapsed(seconds: float) -> str:
    """Return how long something took: "0.9 s", "3 min 12 s", "2 h 5 min"."""
    # A clock that was set back gives a negative duration.
    tenths = round(max(seconds, 0.0), 1)
    return f"{tenths:.1f} s" if tenths < _MINUTE else span(round(seconds))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: "1 round", "41,210 tokens"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {plural or noun + 's'}"


def spent(account: Usage | RunSummary) -> tuple[str, str]:
    """Return the tokens and the dollars of an account or a run.

    For example "41,210 tokens, about 800 estimated" and "$0.21". They begin with
    "at least" if the usage of some calls is unknown.
    """
    return _spent_tokens(account), _spent_dollars(account)


def _spent_tokens(account: Usage | RunSummary) -> str:
    if account.known_tokens is None:
        return UNKNOWN_TOKENS
    tokens = count(account.known_tokens, "token")
    if account.estimated_tokens:
        tokens += f", about {account.estimated_tokens:,} estimated"
    return f"at least {tokens}" if account.uncounted_calls else tokens


def _spent_dollars(account: Usage | RunSummary) -> str:
    if account.cost_usd is not None:
        return dollars(account.cost_usd)
    # One call without a price makes the sum unknown; the others are a lower bound.
    if account.known_cost_usd > 0:
        return f"at least {dollars(account.known_cost_usd)}"
    return UNKNOWN_COST if account.uncounted_calls else NO_PRICE


def dollars(amount: float | None) -> str:
    """Return US dollars: "$0.21", "$0.0043", "<$0.0001"; "no price" for None."""
    if amount is None:
        return NO_PRICE
    if amount == 0 or amount >= 0.01:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def share(part: float, whole: float) -> str:
    """Return a part in percent: "6 %", "<1 %"; empty without a whole."""
    if whole <= 0:
        return ""
    percent = 100 * part / whole
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def diff_stat(stat: DiffStat | None) -> list[str]:
    """Return what changed: "2 files changed, +9 −2"; empty if nothing did."""
    if stat is None or not stat.files:
        return []
    text = f"{count(stat.files, 'file')} changed"
    # Binary files have no lines.
    if stat.added or stat.removed:
        text += f", +{stat.added:,} −{stat.removed:,}"
    return [text]


def score(value: float) -> str:
    """Return a score with two digits, rounded down: 0.999 is "0.99"."""
    # Only a full score may read "1.00". 0.29 * 100 is 28.999999999999996, so that
    # rounding down needs a little tolerance.
    hundredths = math.floor(value * 100 + 1e-9)
    return f"{hundredths / 100:.2f}"


def decision_text(decision: str, by: str, *, guarded: bool) -> str:
    """Return a decision and who made it: "approved by ann"."""
    text = f"{decision} by {by}" if by else decision
    if guarded:
        return text
    return f"{text} (without a sandbox, the agent could have typed this)"


def moment(when: str) -> str:
    """Return an ISO 8601 time in UTC to the second: "2026-11-21 10:00:00 UTC".

    An invalid time is returned unchanged.
    """
    try:
        in_utc = datetime.fromisoformat(when).astimezone(UTC)
    # The log of a run may be damaged; a report shows what it can.
    except (ValueError, OverflowError):
        return when
    return f"{in_utc:%Y-%m-%d %H:%M:%S} UTC"


def age(then: str, now: datetime) -> str:
    """Return how long ago an ISO 8601 time was: "3 h ago"; empty if it is invalid."""
    try:
        seconds = (now - datetime.fromisoformat(then)).total_seconds()
    # TypeError: the time has no zone, and cannot be compared with `now`.
    except (TypeError, ValueError):
        return ""
    return "now" if seconds < 1 else ago(seconds)


def ago(seconds: float) -> str:
    """Return a time in the past: "12 s ago", "3 h ago", "2 days ago"."""
    if seconds < _MINUTE:
        return f"{math.floor(seconds)} s ago"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h ago"
    return f"{count(int(seconds // _DAY), 'day')} ago"


def time_ahead(when: str, now: datetime) -> str:
    """Return an ISO 8601 time in the local zone, and how far it is ahead.

    For example "14:20 CET (in 2 h 13 min)". The date is added if it is another day. An
    invalid time is returned unchanged.
    """
    try:
        local = datetime.fromisoformat(when).astimezone()
        today = now.astimezone().date()
    except (ValueError, OverflowError):
        return when
    clock = f"{local:%H:%M %Z}"
    if local.date() != today:
        clock = f"{local:%Y-%m-%d} {clock}"
    # Rounded up: "in 0 s" would still be ahead.
    seconds = math.ceil((local - now).total_seconds())
    return f"{clock} (in {span(seconds)})" if seconds > 0 else clock


def limits(values: Mapping[str, float | None], about_timeout: str = "") -> str:
    """Return the limits of a run: "10 rounds · 30 min · no budget".

    `values` has them by the names of the goal file; None is no limit. `about_timeout`
    follows the timeout in brackets.
    """
    rounds = values.get("max_iterations")
    timeout = values.get("timeout")
    tokens = values.get("tokens")
    cost = values.get("cost_usd")
    parts = ["no round limit" if rounds is None else count(int(rounds), "round")]
    if timeout is None:
        parts.append("no timeout")
    else:
        remark = f" ({about_timeout})" if about_timeout else ""
        parts.append(f"{span(timeout)}{remark}")
    if tokens is not None:
        parts.append(count(int(tokens), "token"))
    if cost is not None:
        parts.append(dollars(cost))
    if tokens is None and cost is None:
        parts.append("no budget")
    return " · ".join(parts)


def spend(summary: RunSummary) -> str:
    """Return time, tokens and dollars: "3 min 12 s · 41,210 tokens · $0.21"."""
    parts = [elapsed(summary.duration)]
    if summary.waited >= 1:
        parts.append(f"{elapsed(summary.waited)} waited for limits")
    if summary.has_spent:
        tokens, cost = spent(summary)
        judge_share = share(summary.judge_cost_usd or 0.0, summary.cost_usd or 0.0)
        if judge_share and summary.judge_tokens:
            cost += f" (judge {judge_share})"
        parts += [tokens, cost]
    return " · ".join(parts)


def redacted_line(counts: Mapping[str, float]) -> str:
    """Return "3 secrets replaced: github token 2, OPENAI_API_KEY 1".

    `counts` are by kind of secret. The text is empty if nothing was replaced.
    """
    if not counts:
        return ""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{kind} {number:,}" for kind, number in kinds)
    return f"{count(int(sum(counts.values())), 'secret')} replaced: {listed}"
