"""Durations, tokens, dollars and limits as text; JSON for a log."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import span as span

if TYPE_CHECKING:
    from goalrunner.core.observation import DiffStat
    from goalrunner.core.outcome import Usage
    from goalrunner.core.run_summary import RunSummary

NO_PRICE = "no price"
"""Shown where dollars are unknown; never 0."""
UNKNOWN_TOKENS, UNKNOWN_COST = "tokens unknown", "cost unknown"
"""Shown where nothing is known of the usage."""

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def elapsed(seconds: float) -> str:
    """Return how long something took: "0.9 s", "3 min 12 s", "2 h 5 min"."""
    tenths = round(max(seconds, 0.0), 1)
    return f"{tenths:.1f} s" if tenths < _MINUTE else span(round(seconds))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: "1 round", "41,210 tokens"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def spent(account: Usage | RunSummary) -> tuple[str, str]:
    """Return the tokens and dollars of an account or a run: "41,210 tokens, about 800 estimated" and "$0.21".

    If the usage of some calls is unknown: "at least ...", or that nothing is known.
    """
    tokens = UNKNOWN_TOKENS
    if account.known_tokens is not None:
        tokens = count(account.known_tokens, "token")
        if account.estimated_tokens:
            tokens += f", about {account.estimated_tokens:,} estimated"
        if account.uncounted_calls:
            tokens = f"at least {tokens}"
    cost = dollars(account.cost_usd)
    if account.cost_usd is None and account.known_cost_usd > 0:
        cost = f"at least {dollars(account.known_cost_usd)}"
    elif account.cost_usd is None and account.uncounted_calls:
        cost = UNKNOWN_COST
    return tokens, cost


def dollars(amount: float | None) -> str:
    """Return US dollars: "$0.21", "$0.0043", "<$0.0001"; "no price" if they are unknown."""
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
    """Return what changed: "2 files changed, +9 −2"; empty if it is not known, or nothing changed."""
    if stat is None or not stat.files:
        return []
    lines = ", ".join(
        [f"{count(stat.files, 'file')} changed", f"+{stat.added:,} −{stat.removed:,}"]
    )
    return [
        lines if stat.added or stat.removed else f"{count(stat.files, 'file')} changed"
    ]


def score(value: float) -> str:
    """Return a score with two digits, cut and not rounded: 0.999 is "0.99", only 1 is "1.00"."""
    return f"{math.floor(value * 100 + 1e-9) / 100:.2f}"


def decision_text(decision: str, by: str, *, guarded: bool) -> str:
    """Return a decision and who made it: "approved by ann"."""
    unsure = "" if guarded else " (without a sandbox, the agent could have typed this)"
    return decision + (f" by {by}" if by else "") + unsure


def moment(when: str) -> str:
    """Return an ISO 8601 time to the second, in UTC: "2026-11-21 10:00:00 UTC"; unchanged if it is invalid."""
    try:
        return f"{datetime.fromisoformat(when).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return when


def age(then: str, now: datetime) -> str:
    """Return how long ago an ISO 8601 time was: "12 s ago", "3 h ago", "2 days ago"; empty if it is invalid."""
    try:
        seconds = (now - datetime.fromisoformat(then)).total_seconds()
    except (TypeError, ValueError):
        return ""
    return "now" if seconds < 1 else ago(seconds)


def ago(seconds: float) -> str:
    """Return a time in the past: "12 s ago", "3 h ago", "2 days ago"."""
    for size, unit, limit in (
        (1, "s", _MINUTE),
        (_MINUTE, "min", _HOUR),
        (_HOUR, "h", _DAY),
    ):
        if seconds < limit:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{count(int(seconds // _DAY), 'day')} ago"


def time_ahead(when: str, now: datetime) -> str:
    """Return an ISO 8601 time in the local time zone, and how far it is ahead: "14:20 CET (in 2 h 13 min)".

    The date is shown if it is another day. Return the time unchanged if it is invalid.
    """
    try:
        local, today = (
            datetime.fromisoformat(when).astimezone(),
            now.astimezone().date(),
        )
    except (ValueError, OverflowError):
        return when
    shown = (
        f"{local:%H:%M %Z}" if local.date() == today else f"{local:%Y-%m-%d %H:%M %Z}"
    )
    seconds = math.ceil((local - now).total_seconds())
    return f"{shown} (in {span(seconds)})" if seconds > 0 else shown


def limits(values: Mapping[str, float | None], about_timeout: str = "") -> str:
    """Return the limits of a run, by name: "10 rounds · 30 min · no budget"; None is no limit.

    `about_timeout` follows the timeout in brackets.
    """
    rounds, timeout, tokens, cost = (
        values.get(name) for name in ("max_iterations", "timeout", "tokens", "cost_usd")
    )
    remark = f" ({about_timeout})" if about_timeout else ""
    parts = [
        count(int(rounds), "round") if rounds is not None else "no round limit",
        f"{span(timeout)}{remark}" if timeout is not None else "no timeout",
        *([count(int(tokens), "token")] if tokens is not None else []),
        *([dollars(cost)] if cost is not None else []),
    ]
    return " · ".join(parts if parts[2:] else [*parts, "no budget"])


def spend(summary: RunSummary) -> str:
    """Return time, tokens and dollars of a run: "3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)"."""
    parts = [elapsed(summary.duration)]
    if summary.waited >= 1:
        parts.append(f"{elapsed(summary.waited)} waited for limits")
    if summary.has_spent:
        parts += spent(summary)
        part = share(summary.judge_cost_usd or 0.0, summary.cost_usd or 0.0)
        if part and summary.judge_tokens:
            parts[-1] += f" (judge {part})"
    return " · ".join(parts)


def redacted_line(counts: Mapping[str, float]) -> str:
    """Return "3 secrets replaced: github token 2, OPENAI_API_KEY 1"; empty if nothing was replaced."""
    if not counts:
        return ""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{kind} {number:,}" for kind, number in kinds)
    return f"{count(int(sum(counts.values())), 'secret')} replaced: {listed}"


def json_text(value: Any) -> str:
    """Return indented JSON without text that a CI system would read as a command, such as `##[add-mask]`."""
    return LOG_COMMAND.sub(r"\\u0023", json.dumps(value, indent=2)) + "\n"


LOG_COMMAND = re.compile(r"#(?=#\w*\[)")
_COMMAND = re.compile("((?:^|[\r\x85\u2028\u2029\ufeff])[^\\S\n]*):(?=:)", re.MULTILINE)
"""The beginning of a command at the beginning of a line; readers of a log may split lines at any of these characters."""


def is_github(environ: Mapping[str, str]) -> bool:
    """Return whether this is a step of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def neutral(text: str) -> str:
    """Return text in which no line is a command of GitHub Actions or Azure Pipelines: `::error::`, `##[add-mask]`."""
    return LOG_COMMAND.sub("# ", _COMMAND.sub(r"\1: ", text))
