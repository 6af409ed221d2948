"""Texts for people who review: approvals and questions, verdicts and their evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.errors import some
from goalrunner.core.observation import OWNER, EvidenceRow, Observation
from goalrunner.core.verdict import GoalVerdict
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    Fact,
    Quoted,
    ReportLine,
    laid_out,
    nonempty_facts,
)
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.reports.terminal_text import printable

LINES = 60
"""Lines of a command or a diff that are shown at once."""
_PATHS = 20
_MARGIN = "  │ "
_COMMAND = "The agent wants to run this command. Allow it?"
_ASKS = {
    "shell": _COMMAND,
    "network": _COMMAND,
    "write": "The agent wants to write this file. Allow it?",
    "complete": "All checks passed. Accept the result?",
    "checks": "The agent changed what the validators check. Accept the changes below?",
}
_ASKS_FOR_LABEL = (
    "All checks passed, and the goal lets this label be reviewed. Accept the result?"
)
ANSWER = "Your answer (Ctrl-D leaves the question open): "
_CHOICES = (
    "Type y to accept, n to refuse, or n and a reason. Ctrl-D leaves the question open: the run ends, and"
    " goal approve or goal deny answers it later."
)
_LONGEST_COMMAND = 1_000
"""Most characters of a command on the line of its label."""


def read_typed(line: str) -> tuple[Literal["approved", "denied", "all", ""], str]:
    """Return the decision in a typed line, and the reason of a no. Only "y", "yes", "n" and "no" decide; "all" shows all."""
    word, _, reason = line.strip().partition(" ")
    match word.lower().rstrip(",.:"):
        case "y" | "yes" if not reason:
            return "approved", ""
        case "n" | "no":
            return "denied", reason.strip()
        case "a" | "all" if not reason:
            return "all", ""
        case _:
            return "", ""


def approval_text(
    request: ApprovalRequest, *, most: int = LINES, columns: int | None = None
) -> str:
    """Return the question with the command, diff or evidence that it is about. `columns` is the width of the terminal."""
    return "\n" + laid_out(_approval_lines(request, most), columns)


def choices_text(columns: int | None = None) -> str:
    """Return the explanation that follows an answer which is neither a yes nor a no."""
    return laid_out([Fact("", _CHOICES)], columns)


def question_text(question: str, columns: int | None = None) -> str:
    """Return the text of a question of the agent or the judge."""
    asked: list[ReportLine] = [
        Fact("question", "Only a person can answer this:"),
        *_quoted(question.splitlines(), LINES),
    ]
    return "\n" + laid_out(asked, columns)


def prompt_text(request: ApprovalRequest) -> str:
    """Return the prompt of an approval; it offers to show every line if lines are left out at first."""
    tests = request.checks.tests if request.checks is not None else ()
    parts = (
        request.approval.action.splitlines(),
        request.preview.splitlines(),
        request.evidence,
        tests,
    )
    is_shortened = (
        any(len(part) > LINES for part in parts) or len(request.changed) > _PATHS
    )
    return f"[y]es / [n]o REASON{' / [a]ll: show every line' if is_shortened else ''}: "


def _approval_lines(request: ApprovalRequest, most: int) -> Iterator[ReportLine]:
    approval = request.approval
    is_label = request.checks is not None and bool(request.checks.labels)
    yield Fact(
        "approval",
        f"{approval.id}: {_ASKS_FOR_LABEL if is_label else _ASKS[approval.kind]}",
    )
    yield from _quoted(approval.action.splitlines(), most)
    paths = list(request.changed)
    names = some(paths, _PATHS if most == LINES else len(paths))
    if approval.kind == "complete":
        yield Quoted(f"changed since the start: {names or 'nothing'}", whole=True)
    elif approval.kind == "checks":
        yield Fact("", f"why: {approval.rule}")
        if names and names not in approval.action:
            yield Quoted(f"changed: {names}", whole=True)
    if request.checks is not None and request.checks.tests:
        yield Fact("", "tests:")
        yield from _quoted([test.text for test in request.checks.tests], most)
    yield from _quoted(request.preview.splitlines(), most)
    if request.evidence:
        yield Fact("", "evidence:")
        yield from _quoted([_evidence(row) for row in request.evidence], most)
    if approval.kind != "checks":
        yield Fact("", f"asked because of: {approval.rule}")
    elif request.checks is not None and request.checks.hint:
        yield Fact(
            "",
            f"to allow such changes in later runs, write under [workspace]: {request.checks.hint}",
        )
    if approval.expires_at:
        yield Fact("", f"open until {figures.moment(approval.expires_at)}")


def _quoted(lines: Sequence[str], most: int) -> Iterator[Quoted]:
    for line in lines[:most]:
        yield Quoted(line, _MARGIN, whole=True)
    if len(lines) > most:
        yield Quoted(f"… {len(lines) - most:,} more lines", _MARGIN)


def _evidence(row: EvidenceRow) -> str:
    proof = f"“{row.quote}”" if row.quote is not None else (row.fact or "")
    where = " ".join(filter(None, (row.observation, row.command)))
    return f"{'✓' if row.satisfied else '✗'} {row.criterion} · {where} · {proof}"


def result_text(verdict: GoalVerdict) -> str:
    """Return whether a verdict is complete, and its score."""
    return f"{'complete' if verdict.complete else 'not complete'} · {figures.score(verdict.score)}"


def evidence_facts(
    run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]
) -> Iterator[Fact]:
    """Yield a block for each criterion and validator."""
    yield Fact("run", run_id)
    if verdict is None:
        yield Fact("verdict", "none yet")
    else:
        by = (
            "the judge's answer could not be read"
            if verdict.source == "fallback"
            else f"by the {verdict.source}"
        )
        yield Fact("verdict", f"{result_text(verdict)} · {by}")
        if not rows:
            yield Fact("", "It names no criterion and cites no evidence.")
    for _, group in groupby(rows, key=lambda row: (row.kind, row.criterion)):
        yield from criterion_facts(list(group))


def criterion_facts(rows: Sequence[EvidenceRow]) -> Iterator[Fact]:
    """Yield the block of one criterion or validator, from all of its rows."""
    first = rows[0]
    yield Fact(
        "✓" if first.satisfied else "✗",
        first.criterion,
        "good" if first.satisfied else "bad",
    )
    if first.missing:
        yield Fact("", f"missing: {first.missing}")
    for row in rows:
        if row.observation:
            yield from _citation(row)
        elif not first.missing:
            yield Fact("", "no evidence is cited")


def _citation(row: EvidenceRow) -> Iterator[Fact]:
    label = f"  {row.observation}"
    if not row.known:
        yield Fact(label, "no such observation")
        return
    yield Fact(
        label,
        ": ".join(filter(None, (" ".join((row.source, *row.names)), row.command))),
    )
    if row.quote is not None:
        yield Fact("", f"says “{row.quote}”")
    elif row.fact is not None and row.fact not in row.facts:
        yield Fact("", row.fact)
    snapshot = f"snapshot {row.snapshot[:SHORT_ID]}" if row.snapshot else "no snapshot"
    seen_by = (
        f"reported by {row.reported_by}" if row.reported_by else "seen by the runner"
    )
    fresh = f"stale: {row.stale}" if row.stale else "fresh" if row.snapshot else ""
    yield Fact(
        "", " · ".join(filter(None, (", ".join(row.facts), seen_by, snapshot, fresh)))
    )


def evidence_value(
    run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]
) -> dict[str, Any]:
    """Return the verdict's figures and the rows as a JSON value."""
    given = (
        {"complete": verdict.complete, "score": verdict.score, "source": verdict.source}
        if verdict
        else None
    )
    evidence = [
        {**row.model_dump(mode="json"), "fresh": row.fresh, "seen_by": row.seen_by}
        for row in rows
    ]
    return {"run_id": run_id, "verdict": given, "evidence": evidence}


def observation_text(
    item: Observation, output: str, stale: str = "", columns: int | None = None
) -> str:
    """Return an observation with its whole output. `stale` is why it no longer counted at the last verdict."""
    is_long = len(item.command) > _LONGEST_COMMAND or "\n" in item.command.strip()
    before, after = ((name or "none")[:SHORT_ID] for name in (item.before, item.after))
    label = "question" if item.source == OWNER else "path" if item.path else "command"
    rows = {
        "id": item.id,
        "round": str(item.round) if item.round else "baseline, before round 1",
        "source": item.source,
        label: "below" if is_long else item.command,
        "facts": ", ".join(item.facts),
        "names": ", ".join(item.names),
        "seen by": f"{item.reported_by}, which reported it"
        if item.reported_by
        else "the runner",
        "snapshot": before if before == after else f"{before} before, {after} after",
        "stale": stale,
        "output": f"{item.output.size:,} bytes"
        if item.output and item.output.size
        else "none",
    }
    parts = [laid_out(nonempty_facts(rows, whole=True), columns)]
    for text in (item.command if is_long else "", output):
        if text:
            visible = text if columns is None else printable(text.expandtabs())
            parts.append(visible if visible.endswith("\n") else f"{visible}\n")
    return "\n".join(parts)


def observation_value(
    run_id: str, item: Observation, output: str, stale: str
) -> dict[str, Any]:
    """Return an observation and its whole output as a JSON value."""
    return {
        "run_id": run_id,
        **item.model_dump(mode="json"),
        "stale": stale,
        "text": output,
    }
