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
from goalrunner.reports.closing import figures_text, summary_of
from goalrunner.reports.next_steps import next_steps
from goalrunner.reports.result_notes import label_lines, protected_lines
from goalrunner.reports.terminal_text import cut, printable, printable_line

# Characters of a line, and of a block of output, in Markdown.
_LONGEST_LINE, _LONGEST_BLOCK = 300, 4_000
# Requirements, citations of one requirement, and files that are listed. A comment on
# GitHub has at most 65,536 characters.
_MOST = 50
_SPECIAL = re.compile(r"[\\`*_\[\]|~$!]")
# Where GitHub and GitLab make mentions, references and links of plain text; a backslash
# does not prevent that.
_LINKS = re.compile(
    r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\bGH)(?=-\d)", re.IGNORECASE
)
_ZERO_WIDTH_SPACE = "\u200b"
_KINDS = {"added": "A", "modified": "M", "deleted": "D", "repository": "git"}


def summary_markdown(
    outcome: GoalOutcome, *, files: Sequence[Change] = (), state: RunState | None = None
) -> str:
    """Return the result of a run and the commands that come next.

    The result is the verdict, the evidence, what is missing, changed files and spend.
    `files` are those that the run changed; the output of validators that failed last is
    shown if its `state` is given, unless they are hidden.
    """
    results = state.validators if state else ()
    red = [result for result in results if not result.passed]
    groups = groupby(outcome.evidence, key=lambda row: (row.kind, row.criterion))
    summary = summary_of(outcome, state)
    changed = [line.text for line in protected_lines(summary)]
    steps = [f"{step.text}  # {step.label}" for step in next_steps(summary)]
    changes = [f"{_KINDS[file.kind]} {code(file.path)}" for file in files]
    return rendered(
        Path(__file__).with_name("summary.md.j2"),
        {
            "escaped": escaped,
            "code": code,
            "block": block,
            "cited": _citations,
            "title": _title,
        },
        outcome=outcome,
        figures=figures_text(outcome, state),
        groups=[list(rows) for _, rows in groups],
        changed="\n".join(changed),
        red=red,
        lists={
            "What weakens the result": _labels(outcome),
            "Changed files": changes,
        },
        steps="\n".join(steps),
        most=_MOST,
    )


def _labels(outcome: GoalOutcome) -> list[str]:
    """Return each label with its meaning."""
    labels = []
    for label in outcome.labels:
        lines = label_lines([label], outcome.approvals)
        name, *meaning = [line.text for line in lines]
        labels.append(escaped(". ".join(filter(None, (name, " ".join(meaning))))))
    return labels


def _citations(rows: Sequence[EvidenceRow]) -> str:
    """Return the missing part and the citations of a requirement, as a table cell."""
    cells = []
    if rows[0].missing and rows[0].kind == "criterion":
        cells.append(f"missing: {escaped(rows[0].missing)}")
    for row in rows[:_MOST]:
        if row.observation:
            cells.append(_citation(row))
    return "<br>".join(cells) or "no evidence is cited"


def _citation(row: EvidenceRow) -> str:
    if not row.known:
        return f"{code(row.observation)} does not exist"
    parts = [code(row.observation), code(row.command or row.source)]
    citation = row.fact if row.quote is None else row.quote
    if citation:
        parts += ["→", code(citation)]
    # A table needs it in code as well.
    parts = [part.replace("|", "\\|") for part in parts]
    if row.reported_by:
        parts.append(f"(reported by {escaped(row.reported_by)})")
    if row.stale:
        parts.append(f"(stale: {escaped(row.stale)})")
    return " ".join(parts)


def escaped(text: str) -> str:
    """Return the beginning of a text as one line of Markdown, escaped."""
    return _title(text, _SPECIAL)


def _title(text: str, special: re.Pattern[str] | None = None) -> str:
    """Return the beginning of a text as one line of HTML without mentions and links."""
    line = cut(printable_line(text), _LONGEST_LINE)
    if special:
        line = special.sub(r"\\\g<0>", line)
    return _LINKS.sub(_ZERO_WIDTH_SPACE, escape(line, quote=False))


def code(text: str) -> str:
    """Return the beginning of a text as code in one line."""
    line = cut(printable_line(text), _LONGEST_LINE)
    marks = _fence(line, 1)
    # Marks beside marks would be read as a longer fence.
    if not line or "`" in line:
        line = f" {line} "
    return f"{marks}{line}{marks}"


def block(text: str, language: str = "text") -> str:
    """Return the end of a text as a block of code."""
    end = printable(text.expandtabs(4)).strip("\n")[-_LONGEST_BLOCK:]
    marks = _fence(end, 3)
    return f"{marks}{language}\n{end}\n{marks}"


def _fence(text: str, least: int) -> str:
    """Return marks that are longer than any in the text."""
    lengths = [len(run) + 1 for run in re.findall("`+", text)]
    return "`" * max([least, *lengths])
