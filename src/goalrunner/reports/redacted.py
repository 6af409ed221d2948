"""The line about secrets that were replaced."""

from __future__ import annotations

from collections.abc import Mapping

from goalrunner.reports import figures


def redacted_line(counts: Mapping[str, int]) -> str:
    """Return "3 secrets replaced: github token 2, OPENAI_API_KEY 1"; empty if nothing was replaced."""
    if not counts:
        return ""
    kinds = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    said = ", ".join(f"{kind} {number:,}" for kind, number in kinds)
    return f"{figures.count(sum(counts.values()), 'secret')} replaced: {said}"
