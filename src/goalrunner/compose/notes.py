"""What must be said aloud of a goal before it runs, and the labels that its outcome bears. Owns the words; changes nothing."""

from __future__ import annotations

from goalrunner.model.goal import Goal
from goalrunner.validators import weaknesses

SELF_JUDGED = "self-judged"
REPORTED = "rests on reports"


def labels_of(goal: Goal, models: dict[str, str]) -> tuple[str, ...]:
    """What makes this run's proof weaker than it could be."""
    labels = []
    if models.get("judge") and models.get("judge") == models.get("agent"):
        labels.append(SELF_JUDGED)
    if goal.agent.external and goal.deliverable == "workspace" and not goal.validators:
        labels.append(REPORTED)
    return tuple(labels)


def notes_of(goal: Goal, labels: tuple[str, ...]) -> tuple[str, ...]:
    """One sentence each, for the first lines of a run."""
    said = {
        SELF_JUDGED: "self-judged: agent and judge are one model, though separate instances",
        REPORTED: "no validator: what shows that it is done is what the agent reports of itself; the runner saw none of it",
    }
    notes = [said[label] for label in labels]
    for spec in goal.validators:
        notes += weaknesses(spec.run) if spec.run and not spec.hidden else []
    return tuple(notes)
