"""HTML pages of runs, which work offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.exports.diff_html import diff_html
from goalrunner.exports.run_page import Chart, RunPage
from goalrunner.exports.templates import rendered

if TYPE_CHECKING:
    from goalrunner.batches.group_table import GroupRow


def page_text(pages: Sequence[RunPage], ranking: Sequence[GroupRow] = ()) -> str:
    """Return the page of one run, or of several runs side by side.

    `ranking` are the runs of a group in their order. The page has one stylesheet and no
    script.
    """
    _add_charts(pages)
    template = Path(__file__).with_name("report.html.j2")
    return rendered(template, pages=pages, ranking=ranking, diff_html=diff_html)


def _add_charts(pages: Sequence[RunPage]) -> None:
    """Add the charts of each run: score, cost or else tokens, and failing tests."""
    rounds = [part for page in pages for part in page.rounds]
    spend = "Tokens"
    if any("Cost" in part.values for part in rounds):
        spend = "Cost"
    titles = ("Score", spend, "Failing tests")
    # All are drawn to one scale, so that runs can be compared.
    numbers = []
    tops: dict[str, tuple[float, str]] = {}
    for part in rounds:
        for title in titles:
            if title in part.values:
                numbers.append(part.number)
                value = part.values[title]
                tops[title] = max(tops.get(title, value), value)
    if "Score" in tops:
        tops["Score"] = (1.0, "1.00")
    for page in pages:
        for title in titles:
            points = []
            for part in page.rounds:
                if title in part.values:
                    points.append((part.number, *part.values[title]))
            if points:
                chart = Chart(title, points, tops[title], min(numbers), max(numbers))
                page.charts.append(chart)
