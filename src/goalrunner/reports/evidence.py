"""A verdict with its evidence: criteria, citations and observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from goalrunner.core.observation import OWNER, EvidenceRow, Observation
from goalrunner.core.verdict import GoalVerdict
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, laid_out, nonempty_facts
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.reports.terminal_text import join_nonempty, printable

# Most characters of a command on the line of its label; a longer one is shown below.
_LONGEST_COMMAND = 1_000


def result_text(verdict: GoalVerdict) -> str:
    """Return whether a verdict is complete, and its score."""
    result = "complete" if verdict.complete else "not complete"
    return f"{result} · {figures.score(verdict.score)}"


def evidence_facts(
    run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]
) -> Iterator[Fact]:
    """Yield the verdict, and a block for each criterion and validator."""
    yield Fact("run", run_id)
    if verdict is None:
        yield Fact("verdict", "none yet")
    else:
        author = f"by the {verdict.source}"
        if verdict.source == "fallback":
            author = "the judge's answer could not be read"
        yield Fact("verdict", f"{result_text(verdict)} · {author}")
        if not rows:
            yield Fact("", "It names no criterion and cites no evidence.")
    for _, group in groupby(rows, key=lambda row: (row.kind, row.criterion)):
        yield from criterion_facts(list(group))


def criterion_facts(rows: Sequence[EvidenceRow]) -> Iterator[Fact]:
    """Yield the block of one criterion or validator, from all of its rows."""
    first = rows[0]
    if first.satisfied:
        yield Fact("✓", first.criterion, "good")
    else:
        yield Fact("✗", first.criterion, "bad")
    if first.missing:
        yield Fact("", f"missing: {first.missing}")
    for row in rows:
        if row.observation:
            yield from _citation(row)
        elif not first.missing:
            yield Fact("", "no evidence is cited")


def _citation(row: EvidenceRow) -> Iterator[Fact]:
    label = f"  {row.observation}"
    # A judge may cite an id that it made up.
    if not row.known:
        yield Fact(label, "no such observation")
        return
    source = " ".join((row.source, *row.names))
    yield Fact(label, join_nonempty(": ", source, row.command))
    if row.quote is not None:
        yield Fact("", f"says “{row.quote}”")
    elif row.fact is not None and row.fact not in row.facts:
        yield Fact("", row.fact)
    yield Fact("", join_nonempty(" · ", *_trust(row)))


def _trust(row: EvidenceRow) -> Iterator[str]:
    """Yield what decides whether an observation counts as evidence."""
    yield ", ".join(row.facts)
    if row.reported_by:
        yield f"reported by {row.reported_by}"
    else:
        yield "seen by the runner"
    yield f"snapshot {row.snapshot[:SHORT_ID]}" if row.snapshot else "no snapshot"
    if row.stale:
        yield f"stale: {row.stale}"
    elif row.snapshot:
        yield "fresh"


def evidence_value(
    run_id: str, verdict: GoalVerdict | None, rows: Sequence[EvidenceRow]
) -> dict[str, Any]:
    """Return the verdict's figures and the rows as a JSON value."""
    verdict_value = None
    if verdict:
        verdict_value = {
            "complete": verdict.complete,
            "score": verdict.score,
            "source": verdict.source,
        }
    evidence = []
    for row in rows:
        # Properties are not part of the dump.
        derived = {"fresh": row.fresh, "seen_by": row.seen_by}
        evidence.append({**row.model_dump(mode="json"), **derived})
    return {"run_id": run_id, "verdict": verdict_value, "evidence": evidence}


def observation_text(
    observation: Observation, output: str, stale: str = "", columns: int | None = None
) -> str:
    """Return an observation with its whole output.

    `stale` is why it no longer counted at the last verdict. `columns` is the width of a
    terminal; in a pipe, the output is not changed.
    """
    command = observation.command
    is_below = len(command) > _LONGEST_COMMAND or "\n" in command.strip()
    rows = {
        "id": observation.id,
        "round": "baseline, before round 1",
        "source": observation.source,
        _command_label(observation): "below" if is_below else command,
        "facts": ", ".join(observation.facts),
        "names": ", ".join(observation.names),
        "seen by": "the runner",
        "snapshot": _snapshots_text(observation),
        "stale": stale,
        "output": "none",
    }
    if observation.round:
        rows["round"] = str(observation.round)
    if observation.reported_by:
        rows["seen by"] = f"{observation.reported_by}, which reported it"
    if observation.output and observation.output.size:
        rows["output"] = f"{observation.output.size:,} bytes"
    parts = [laid_out(nonempty_facts(rows, whole=True), columns)]
    for text in (command if is_below else "", output):
        if text:
            # A pipe gets the output unchanged, so that quotes can be looked up in it.
            visible = text if columns is None else printable(text.expandtabs())
            parts.append(visible if visible.endswith("\n") else f"{visible}\n")
    return "\n".join(parts)


def _command_label(observation: Observation) -> str:
    # An answer of a person is an observation, and its command the question.
    if observation.source == OWNER:
        return "question"
    return "path" if observation.path else "command"


def _snapshots_text(observation: Observation) -> str:
    before = (observation.before or "none")[:SHORT_ID]
    after = (observation.after or "none")[:SHORT_ID]
    return before if before == after else f"{before} before, {after} after"


def observation_value(
    run_id: str, item: Observation, output: str, stale: str
) -> dict[str, Any]:
    """Return an observation and its whole output as a JSON value."""
    dump = item.model_dump(mode="json")
    return {"run_id": run_id, **dump, "stale": stale, "text": output}
