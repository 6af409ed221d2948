"""Evidence, verification and verdicts as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from goalrunner.app.verification import Verification
from goalrunner.core.observation import EvidenceRow
from goalrunner.core.verdict import GoalVerdict
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout
from goalrunner.reports.patch import SHORT_ID
from goalrunner.reports.text import one_line

_MAKERS = {
    "judge": "by the judge",
    "validators": "by the validators",
    "fallback": "the judge's answer could not be read",
}


def evidence_value(run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]) -> dict[str, Any]:
    """Return the verdict's figures and the rows as a JSON value."""
    given = {"complete": verdict.complete, "score": verdict.score, "source": verdict.source} if verdict else None
    evidence = [{**row.model_dump(mode="json"), "fresh": row.fresh, "seen_by": row.seen_by} for row in rows]
    return {"run_id": run_id, "verdict": given, "evidence": evidence}


def evidence_text(
    run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow], *, columns: int | None = None
) -> str:
    """Return a block for each criterion and validator. `columns` is the width of a terminal."""
    return Layout(columns).text(_facts(run_id, verdict, rows))


def _facts(run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]) -> Iterator[Fact]:
    yield Fact("run", run_id)
    if verdict is None:
        yield Fact("verdict", "none yet")
        return
    yield Fact("verdict", f"{_result(verdict)} · {_MAKERS[verdict.source]}")
    if not rows:
        yield Fact("", "It names no criterion and cites no evidence.")
    for _, group in groupby(rows, key=lambda row: (row.kind, row.criterion)):
        yield from _block(list(group))


def _result(verdict: GoalVerdict) -> str:
    return f"{'complete' if verdict.complete else 'not complete'} · {figures.score(verdict.score)}"


def _block(rows: Sequence[EvidenceRow]) -> Iterator[Fact]:
    first = rows[0]
    yield Fact("✓" if first.satisfied else "✗", first.criterion, "good" if first.satisfied else "bad")
    if first.missing:
        yield Fact("", f"missing: {first.missing}")
    for row in rows:
        if row.observation:
            yield from _evidence(row)
        elif not first.missing:
            yield Fact("", "no evidence is cited")


def _evidence(row: EvidenceRow) -> Iterator[Fact]:
    label = f"  {row.observation}"
    if not row.known:
        yield Fact(label, "no such observation")
    elif row.kind == "validator":
        yield Fact(label, row.command or row.source)
    else:
        yield Fact(label, ": ".join(filter(None, (row.source, row.command))))
    if row.quote is not None:
        yield Fact("", f"says “{row.quote}”")
    elif row.fact is not None and row.kind == "criterion":
        yield Fact("", f"fact “{row.fact}”")
    elif row.fact is not None and row.fact not in row.facts:
        yield Fact("", row.fact)
    if row.known:
        seen_by = f"reported by {row.reported_by}" if row.reported_by else "seen by the runner"
        snapshot = f"snapshot {row.snapshot[:SHORT_ID]}" if row.snapshot else "no snapshot"
        fresh = f"stale: {row.stale}" if row.stale else "fresh" if row.snapshot else ""
        yield Fact("", " · ".join(filter(None, (", ".join(row.facts), seen_by, snapshot, fresh))))


def verification_value(done: Verification) -> dict[str, Any]:
    """Return every field, and `verified`, as a JSON value."""
    values = asdict(done)
    run = {name: values.pop(name) for name in ("run_id", "path")}
    return {**run, "verified": done.broken is None, **values}


def verification_text(done: Verification) -> str:
    """Return what was checked, or the first fault; then what could not be checked."""
    notes = "".join(f"note: {one_line(note)}\n" for note in done.notes)
    if done.broken is not None:
        place = done.broken.file if done.broken.byte is None else f"{done.broken.file}, byte {done.broken.byte}"
        return f"does not hold: {one_line(place)}: {one_line(done.broken.what)}\n{notes}"
    counts = (
        figures.count(done.events, "event"),
        figures.count(done.artifacts, "artifact"),
        figures.count(done.citations, "citation"),
    )
    return f"verified: {', '.join(counts)}\n{notes}"


def verdict_text(verdict: GoalVerdict, *, columns: int | None = None) -> str:
    """Return the score, each criterion, and what is missing. `columns` is the width of a terminal."""
    return Layout(columns).text(_verdict_facts(verdict))


def _verdict_facts(verdict: GoalVerdict) -> Iterator[Fact]:
    if verdict.source == "fallback":
        yield Fact("verdict", "none; the judge's answers could not be read")
        return
    yield Fact("verdict", _result(verdict))
    shown = {""}
    for index, item in enumerate(verdict.criteria):
        missing = f": {item.missing}" if item.missing and not item.satisfied else ""
        yield Fact("" if index else "criteria", f"{'✓' if item.satisfied else '✗'} {item.criterion}{missing}")
        shown |= {one_line(item.missing), one_line(f"{item.criterion}: {item.missing}")}
    if not verdict.complete:
        rest = [line for line in verdict.missing.splitlines() if one_line(line) not in shown]
        yield from (Fact("" if index else "missing", line) for index, line in enumerate(rest))
