"""HTML pages of runs, which work offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from goalrunner.exports.diff_html import diff_html
from goalrunner.exports.run_page import Chart, RunPage
from goalrunner.exports.templates import rendered


def page_text(pages: Sequence[RunPage]) -> str:
    """Return the page of one run, or of two runs side by side.

    It has one stylesheet and no script.
    """
    _add_charts(pages)
    template = Path(__file__).with_name("report.html.j2")
    return rendered(template, pages=pages, diff_html=diff_html)


def _add_charts(pages: Sequence[RunPage]) -> None:
    """Add the charts of each run: score, cost or else tokens, and failing tests."""
    rounds = [part for page in pages for part in page.rounds]
    has_cost = any("Cost" in part.values for part in rounds)
    titles = ("Score", "Cost" if has_cost else "Tokens", "Failing tests")
    # All are drawn to one scale, so that two runs can be compared.
    numbers = [part.number for part in rounds if part.values.keys() & set(titles)]
    for title in titles:
        values = [part.values[title] for part in rounds if title in part.values]
        if not values:
            continue
        top = (1.0, "1.00") if title == "Score" else max(values)
        for page in pages:
            points = []
            for part in page.rounds:
                if title in part.values:
                    points.append((part.number, *part.values[title]))
            if points:
                chart = Chart(title, points, top, min(numbers), max(numbers))
                page.charts.append(chart)
