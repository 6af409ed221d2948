"""The text of `goal doctor`: what was checked, and how to repair what does not work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from goalrunner.reports.line import Fact, Layout, Line, plain

if TYPE_CHECKING:
    from goalrunner.survey.doctor import Diagnosis

_MARKS = {"good": "✓", "bad": "✗", "note": "·"}


def diagnosis_text(diagnosis: Diagnosis, columns: int | None = None) -> str:
    """Return a line for each check, with the command that repairs it, and the result."""
    layout = Layout(columns)
    return "".join(plain(layout.rows(line)) for line in _lines(diagnosis))


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the same as a JSON value."""
    checks = [
        {"name": check.name, "state": check.state, "said": check.said, "remedy": check.remedy}
        for check in diagnosis.checks
    ]
    return {"agent": diagnosis.agent, "usable": diagnosis.usable, "checks": checks}


def _lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield Fact("agent", diagnosis.agent)
    for check in diagnosis.checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.said}")
        if check.remedy:
            yield Fact("", f"  {check.remedy}", whole=True)
    bad = sum(check.state == "bad" for check in diagnosis.checks)
    if not bad:
        yield Fact("", f"{diagnosis.agent} can be used")
    else:
        yield Fact("", f"{diagnosis.agent} cannot be used: {bad} problem{'s' if bad > 1 else ''} found")
