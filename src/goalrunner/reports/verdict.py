"""A judge's verdict on a transcript, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from goalrunner.model.verdict import GoalVerdict
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout, plain
from goalrunner.reports.outcome import json_text
from goalrunner.reports.terminal_text import one_line


def verdict_json(verdict: GoalVerdict) -> str:
    """The verdict's fields as JSON text."""
    return json_text(verdict.model_dump(mode="json"))


def verdict_text(verdict: GoalVerdict, *, columns: int | None = None) -> str:
    """Complete or not, each criterion, and what is missing. `columns` is a terminal's width, None a pipe's."""
    layout = Layout(columns)
    return "".join(plain(layout.rows(fact)) for fact in _facts(verdict))


def _facts(verdict: GoalVerdict) -> Iterator[Fact]:
    if verdict.source == "fallback":
        yield Fact("verdict", "none; the judge's answers could not be read")
        return
    yield Fact("verdict", f"{'complete' if verdict.complete else 'not complete'} · {figures.score(verdict.score)}")
    for index, criterion in enumerate(verdict.criteria):
        missing = f": {criterion.missing}" if criterion.missing and not criterion.satisfied else ""
        said = f"{'✓' if criterion.satisfied else '✗'} {criterion.criterion}{missing}"
        yield Fact("" if index else "criteria", said)
    if not verdict.complete:
        told = {one_line(said) for one in verdict.criteria for said in (one.missing, f"{one.criterion}: {one.missing}")}
        rest = [line for line in verdict.missing.splitlines() if one_line(line) not in {"", *told}]
        yield from (Fact("missing" if index == 0 else "", line) for index, line in enumerate(rest))
