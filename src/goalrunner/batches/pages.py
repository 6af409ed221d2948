"""A batch as JUnit XML, and as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from goalrunner.batches.lines import closing_facts, first_facts
from goalrunner.batches.rows import BatchMoment, BatchRow, batch_rows
from goalrunner.exports.junit import Case, CaseKind, suite_text
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.run_table import cost_cell

# A goal that never ran is neither a success nor a failure.
# A word that is not in this table, such as blocked or lost, is an error.
_CASE_KINDS: dict[str, CaseKind] = {
    "complete": "",
    "capped": "failure",
    "skipped": "skipped",
    "pending": "skipped",
    "stopped": "skipped",
}
# The classes of the stylesheet, by word; what is not named has the word as its class.
_BADGES = {
    "lost": "failed",
    "stopped": "blocked",
    "skipped": "blocked",
    "incomplete": "failed",
}


def batch_junit(moment: BatchMoment) -> str:
    """Return JUnit XML with a case for each entry."""
    rows = batch_rows(moment)
    state = moment.state
    # One winner is all that is wanted of several runs of one goal.
    others_count = not (state.plan.ends_at_first and state.is_success)
    cases = [_case(row, is_needed=others_count) for row in rows]
    properties = {
        "batch": state.plan.batch_id,
        "status": moment.status,
        "complete": f"{state.complete} of {len(rows)}",
        "needed": str(state.needed),
        "branch": state.branch,
    }
    return suite_text(
        f"goal batch {state.plan.batch_id}",
        cases,
        seconds=sum(row.seconds for row in rows),
        # JUnit's times have no fractions and no zone.
        timestamp=state.plan.created_at[:19],
        properties=properties,
    )


def _case(row: BatchRow, *, is_needed: bool) -> Case:
    kind = _CASE_KINDS.get(row.word, "error")
    if kind and not is_needed:
        kind = "skipped"
    message = f"{row.word}: {row.remark}" if row.remark else row.word
    lines = [f"run {row.run_id}"] if row.run_id else []
    return Case(
        group="batch",
        name=row.name,
        kind=kind,
        type=row.summary.stop_reason or row.word,
        message=message,
        details="\n".join(filter(None, [row.entry.message, row.summary.missing])),
        output="\n".join([*lines, row.entry.entry.objective]),
        seconds=row.seconds,
    )


def batch_page(moment: BatchMoment, links: Mapping[str, str]) -> str:
    """Return one HTML page with all entries, which works offline.

    `links` are the addresses of the runs' pages, by run id.
    """
    rows = batch_rows(moment)
    return rendered(
        Path(__file__).with_name("batch.html.j2"),
        {"cost": cost_cell},
        plan=moment.state.plan,
        status=moment.status,
        rows=rows,
        links=links,
        badges=_BADGES,
        first=[fact.text for fact in first_facts(moment)],
        facts=list(closing_facts(moment, rows)),
        created=figures.moment(moment.state.plan.created_at),
    )
