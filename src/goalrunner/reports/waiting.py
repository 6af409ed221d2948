"""What of a run waits for a person, and what to type. Owns the words; reads no log and asks nobody."""

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
    """What will wait for a person in a run, for its header; empty where nothing does."""
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
    """Approvals that are pending and questions that are open, each with the command that ends its waiting."""
    run, said = summary.text("run_id"), summary.text("message")
    asks_itself = summary.status == RUNNING
    for identifier, kind, action in pending(summary):
        said_once = action if action.startswith(f"{kind}: ") else f"{kind}: {action}"
        yield Fact("waits", f"{identifier} {said_once}", tone="warn")
        if asks_itself:
            yield Fact("", "it is asked at the terminal of the run")
        elif "goal approve" not in said:
            yield Fact("", decide_hint(run, identifier), whole=True)
    questions = summary.texts("open_questions")
    for question in questions:
        yield Fact("open", question)
    if questions and not asks_itself and "goal answer" not in said:
        yield Fact("", f'goal answer {run} "..."; then goal resume {run}', whole=True)


def waiting_line(summary: Summary) -> str:
    """One line for a list of runs: what to type; empty where nothing waits or the run asks itself."""
    run = one_line(summary.text("run_id"))
    if summary.status == RUNNING:
        return ""
    waits = pending(summary)
    if waits:
        return f"{run} waits: {decide_hint(run, waits[0][0])}"
    if summary.text("stop_reason") == "question_open" and summary.texts("open_questions"):
        return f'{run} asks: {cut(one_line(summary.texts("open_questions")[0]), _ACTION)}  goal answer {run} "..."'
    return ""


def pending(summary: Summary) -> list[tuple[str, str, str]]:
    """Id, kind and action of each approval that waits."""
    found = summary.values.get("approvals")
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [
        (str(one.get("id", "?")), str(one.get("kind", "?")), cut(one_line(str(one.get("action", ""))), _ACTION))
        for one in entries
    ]


def decide_hint(run: str, identifier: str) -> str:
    """What to type about an approval."""
    return f"goal approve {run} {identifier}, or goal deny {run} {identifier} --reason TEXT; then goal resume {run}"
