"""Durations, tokens, dollars, paths and text, as they are shown."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goalrunner.core.outcome import Usage


NO_PRICE = "no price"
"""Stands where dollars are unknown; never 0."""

UNKNOWN_TOKENS, UNKNOWN_COST = "tokens unknown", "cost unknown"
"""What stands where nothing at all is known of what was used."""

_MINUTE = 60
_HOUR = 3_600
_DAY = 86_400


def elapsed(seconds: float) -> str:
    """How long something took: "0.9 s", "3 min 12 s", "2 h 5 min"."""
    tenths = round(max(seconds, 0.0), 1)
    if tenths < _MINUTE:
        return f"{tenths:.1f} s"
    return _whole(round(seconds))


def span(seconds: float) -> str:
    """A limit, without parts that are zero: "45 s", "30 min", "1 h 30 min", "2.5 s"."""
    if seconds < _MINUTE or seconds != int(seconds):
        return f"{seconds:g} s" if seconds < _MINUTE else elapsed(seconds)
    return _whole(int(seconds))


def _whole(seconds: int) -> str:
    if seconds < _HOUR:
        return _parts((seconds // _MINUTE, "min"), (seconds % _MINUTE, "s"))
    minutes = seconds // _MINUTE
    return _parts((minutes // _MINUTE, "h"), (minutes % _MINUTE, "min"))


def _parts(*parts: tuple[int, str]) -> str:
    return " ".join(f"{number:,} {unit}" for number, unit in parts if number) or "0 s"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 round", "41,210 tokens"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tokens(number: int, estimated: int = 0) -> str:
    """Tokens, and how many of them are of calls that a crash cut: "41,210 tokens, about 800 estimated"."""
    return count(number, "token") + (f", about {estimated:,} estimated" if estimated else "")


def used(number: int | None, estimated: int = 0, uncounted: int = 0) -> str:
    """Tokens as `tokens` has them; "at least 800 tokens" beside `uncounted` calls; "tokens unknown" for None."""
    if number is None:
        return UNKNOWN_TOKENS
    return f"at least {tokens(number, estimated)}" if uncounted else tokens(number, estimated)


def paid(cost: float | None, known: float = 0.0, uncounted: int = 0) -> str:
    """Dollars as `dollars` has them; "at least $0.21" where only these are known of them, "cost unknown" where nobody
    counted the tokens either."""
    if cost is None and known > 0:
        return f"at least {dollars(known)}"
    return UNKNOWN_COST if cost is None and uncounted else dollars(cost)


def spent(usage: Usage) -> tuple[str, str]:
    """Tokens and dollars of an account, in words."""
    number = None if usage.input_tokens is None else usage.tokens
    uncounted = usage.uncounted_calls
    return used(number, usage.estimated_tokens, uncounted), paid(usage.cost_usd, usage.known_cost_usd, uncounted)


def dollars(amount: float | None) -> str:
    """US dollars: "$0.21", "$0.0043", "<$0.0001"; "no price" where they are unknown."""
    if amount is None:
        return NO_PRICE
    if amount == 0 or amount >= 0.01:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def share(part: float, whole: float) -> str:
    """A part in percent: "6 %", "<1 %"; empty where there is no whole."""
    if whole <= 0:
        return ""
    percent = 100 * part / whole
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def score(value: float) -> str:
    """A score with two digits, cut and not rounded: 0.999 is "0.99", for only 1 is "1.00"."""
    return f"{math.floor(value * 100 + 1e-9) / 100:.2f}"


def moment(when: str) -> str:
    """An ISO 8601 time to the second, in UTC: "2026-11-21 10:00:00 UTC"; as it is where it cannot be read."""
    try:
        return f"{datetime.fromisoformat(when).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return when


def age(then: str, now: datetime) -> str:
    """How long ago an ISO 8601 time was: "12 s ago", "3 h ago", "2 days ago"; empty when it cannot be read."""
    try:
        seconds = (now - datetime.fromisoformat(then)).total_seconds()
    except (TypeError, ValueError):
        return ""
    if seconds < 1:
        return "now"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s ago"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h ago"
    return f"{count(int(seconds // _DAY), 'day')} ago"


def limits(max_iterations: float | None, timeout: float | None, tokens: float | None, cost_usd: float | None) -> str:
    """The limits of a run in one line: "10 rounds · 30 min · no budget"; None is no limit."""
    rounds = count(int(max_iterations), "round") if max_iterations is not None else "no round limit"
    time = span(timeout) if timeout is not None else "no timeout"
    budget = [count(int(tokens), "token")] if tokens is not None else []
    if cost_usd is not None:
        budget.append(dollars(cost_usd))
    return " · ".join([rounds, time, *(budget or ["no budget"])])


def judge_share(tokens: float, cost: float | None, all_tokens: float, all_cost: float | None) -> str:
    """The judge's part, in dollars where they are known, else in tokens: ", of which judge 6 %"; may be empty."""
    if cost is not None and all_cost:
        return f", of which judge {share(cost, all_cost)}"
    part = share(tokens, all_tokens)
    return f", of which judge {part} of the tokens" if part else ""


def home_path(path: str) -> str:
    """A path with the home folder as `~`; unchanged where it lies elsewhere."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - pathlib raises where there is no home
    if not home or home == "~":
        return path
    if path == home:
        return "~"
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def model_name(model: str) -> str:
    """A model's name; of a recording the file's name alone, without the folders before it."""
    provider, slash, path = model.partition("/")
    return f"{provider}{slash}{path.rpartition('/')[2]}" if provider == "scripted" else model


ELLIPSIS = "…"

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS and their kin: title, links
    r"|\x1b[ -/]*[0-~]"
)
_JOINERS = "\u200c\u200d"
_PLAIN = re.compile(r"[\n\x20-\x7e]*")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text without escape sequences, control and direction characters; newlines stay, a tab is a space."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_visible(character) for character in _ESCAPES.sub("", text))


def _visible(character: str) -> str:
    if character == "\n" or character in _JOINERS:
        return character
    match unicodedata.category(character):
        case "Cc":
            return " " if character in "\t\x0b\x0c\x85" else ""
        case "Zl" | "Zp":
            return " "
        case "Cf":
            return ""
        case "Cs":
            return "\ufffd"
        case _:
            return character


def one_line(text: str) -> str:
    """Clean text with every run of white space as one space."""
    return _SPACE.sub(" ", clean(text)).strip()


def width(text: str) -> int:
    """Columns that clean text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; what was cut is marked by `…`."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    return _head(text, columns - 1).rstrip() + ELLIPSIS


def pad(text: str, columns: int) -> str:
    """The text, filled with spaces up to so many columns."""
    return text + " " * max(columns - width(text), 0)


def _head(text: str, columns: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > columns:
            return text[:index]
    return text


def wrap(text: str, columns: int, rows: int) -> list[str]:
    """One line of clean text on at most so many rows; the last one is cut when there is more. Never empty."""
    columns = max(columns, 1)
    lines: list[str] = []
    rest = text.strip()
    while rest and len(lines) < rows - 1 and width(rest) > columns:
        head = _head(rest, columns) or rest[0]
        space = head.rfind(" ")
        if space > 0 and rest[len(head) : len(head) + 1] not in ("", " "):
            head = head[:space]
        lines.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*lines, cut(rest, columns)] if rest or not lines else lines
