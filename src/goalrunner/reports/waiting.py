"""What of a run waits for a person: in its header, in its status and in the list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from goalrunner.reports import figures
from goalrunner.reports.line import Fact
from goalrunner.reports.summary import RUNNING, Summary
from goalrunner.reports.terminal_text import cut, one_line

if TYPE_CHECKING:  # `goal list` loads no events
    from goalrunner.events import RiskClass
    from goalrunner.model.approvals import Approvals

_ACTION = 120


def waits_for(approvals: Approvals, risk: RiskClass) -> str:
    """Return what will wait for a person in a run, for its header; empty if nothing will."""
    kinds = list(approvals.require) + [f'"{pattern}"' for pattern in approvals.commands]
    if risk == "critical":
        kinds = ["complete", "every command and write"]
    elif risk == "high" and "complete" not in kinds:
        kinds = ["complete", *kinds]
    if not kinds:
        return ""
    within = f" · within {figures.elapsed(approvals.expires)}" if approvals.expires is not None else ""
    return f"a person decides on {', '.join(kinds)}{within}"


def waiting_facts(summary: Summary) -> Iterator[Fact]:
    """Yield the approvals that wait and the open questions; `next_steps` has the commands."""
    for identifier, kind, action in pending(summary):
        yield Fact(
            "waits", f"{identifier} {action if action.startswith(f'{kind}: ') else f'{kind}: {action}'}", tone="warn"
        )
        if summary.status == RUNNING:
            yield Fact("", "Answer at the terminal in which the run was started.")
    yield from (Fact("question", question, tone="warn") for question in summary.texts("open_questions"))


def waiting_line(summary: Summary) -> str:
    """Return a line for a list of runs with the command that shows what waits; empty if nothing does."""
    run = one_line(summary.text("run_id"))
    if summary.status == RUNNING:
        return ""
    if pending(summary):
        return f"{run} waits for your approval: goal status {run}"
    if summary.text("stop_reason") == "question_open" and summary.texts("open_questions"):
        return f'{run} asks: {cut(one_line(summary.texts("open_questions")[0]), _ACTION)}  goal answer {run} "..."'
    return ""


def pending(summary: Summary) -> list[tuple[str, str, str]]:
    """Return id, kind and action of each approval that waits."""
    found = summary.values.get("approvals")
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [
        (str(one.get("id", "?")), str(one.get("kind", "?")), cut(one_line(str(one.get("action", ""))), _ACTION))
        for one in entries
    ]
