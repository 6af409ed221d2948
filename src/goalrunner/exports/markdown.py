"""A summary of a run in Markdown, for a pull request or a step of CI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from goalrunner.core.observation import Change, EvidenceRow
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.exports.templates import rendered
from goalrunner.reports.layout import cut, printable, printable_line
from goalrunner.reports.status import (
    figures_text,
    label_lines,
    next_steps,
    protected_lines,
    summary_of,
)

_LONGEST_LINE, _LONGEST_BLOCK = 300, 4_000
"""Characters of a line, and of a block of output, in Markdown."""
_MOST = 50
"""Requirements, citations of one requirement, and files that are listed. A comment on GitHub has at most 65,536 characters."""
_SPECIAL = re.compile(r"[\\`*_\[\]|~$!]")
_LINKS = re.compile(
    r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\bGH)(?=-\d)", re.IGNORECASE
)
"""Where GitHub and GitLab make mentions, references and links of plain text; a backslash does not prevent that."""
_KINDS = {"added": "A", "modified": "M", "deleted": "D", "repository": "git"}


def summary_markdown(
    outcome: GoalOutcome, *, files: Sequence[Change] = (), state: RunState | None = None
) -> str:
    """Return verdict, evidence, what is missing, changed files, spend, and the commands that come next.

    `files` are those that the run changed; the output of validators that failed last is shown if its `state` is given,
    unless they are hidden.
    """
    red = [result for result in state.validators if not result.passed] if state else []
    groups = groupby(outcome.evidence, key=lambda row: (row.kind, row.criterion))
    summary = summary_of(outcome, state)
    changed = [line.text for line in protected_lines(summary)]
    steps = [f"{step.text}  # {step.label}" for step in next_steps(summary)]
    notes = (
        [line.text for line in label_lines([label], outcome.approvals)]
        for label in outcome.labels
    )
    labels = [
        ". ".join(filter(None, (label, " ".join(meaning)))) for label, *meaning in notes
    ]
    lists = {
        "What weakens the result": [escaped(label) for label in labels],
        "Changed files": [f"{_KINDS[file.kind]} {code(file.path)}" for file in files],
    }
    return rendered(
        Path(__file__).with_name("summary.md.j2"),
        {
            "escaped": escaped,
            "code": code,
            "block": block,
            "cited": _cited,
            "title": _title,
        },
        outcome=outcome,
        figures=figures_text(outcome, state),
        groups=[list(rows) for _, rows in groups],
        changed="\n".join(changed),
        red=red,
        lists=lists,
        steps="\n".join(steps),
        most=_MOST,
    )


def _cited(rows: Sequence[EvidenceRow]) -> str:
    """Return the missing part and the citations of a requirement, as a cell of a table."""
    missing = (
        f"missing: {escaped(rows[0].missing)}"
        if rows[0].missing and rows[0].kind == "criterion"
        else ""
    )
    cells = [missing, *(_cited_row(row) for row in rows[:_MOST] if row.observation)]
    return "<br>".join(filter(None, cells)) or "no evidence is cited"


def _cited_row(row: EvidenceRow) -> str:
    if not row.known:
        return f"{code(row.observation)} does not exist"
    said = row.quote if row.quote is not None else row.fact
    parts = [
        code(row.observation),
        code(row.command or row.source),
        *(["→", code(said)] if said else []),
    ]
    parts = [
        part.replace("|", "\\|") for part in parts
    ]  # a table needs it in code as well
    parts += [f"(reported by {escaped(row.reported_by)})"] if row.reported_by else []
    return " ".join(
        [*parts, *([f"(stale: {escaped(row.stale)})"] if row.stale else [])]
    )


def escaped(text: str) -> str:
    """Return the beginning of a text as one line of Markdown, escaped."""
    return _title(text, _SPECIAL)


def _title(text: str, special: re.Pattern[str] | None = None) -> str:
    """Return the beginning of a text as one line of HTML without mentions and links."""
    shown = cut(printable_line(text), _LONGEST_LINE)
    marked = special.sub(r"\\\g<0>", shown) if special else shown
    return _LINKS.sub("\u200b", escape(marked, quote=False))


def code(text: str) -> str:
    """Return the beginning of a text as code in one line."""
    shown = cut(printable_line(text), _LONGEST_LINE)
    marks = _fence(shown, 1)
    return (
        f"{marks}{shown}{marks}"
        if shown and "`" not in shown
        else f"{marks} {shown} {marks}"
    )


def block(text: str, language: str = "text") -> str:
    """Return the end of a text as a block of code."""
    shown = printable(text.expandtabs(4)).strip("\n")[-_LONGEST_BLOCK:]
    marks = _fence(shown, 3)
    return f"{marks}{language}\n{shown}\n{marks}"


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])
