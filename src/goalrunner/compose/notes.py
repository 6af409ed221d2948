"""What must be said aloud of a goal before it runs, and the labels that its outcome bears. Owns the words; changes nothing."""

from __future__ import annotations

from goalrunner.compose.hidden_checks import HIDDEN_READABLE
from goalrunner.model.goal import Goal
from goalrunner.state.permission import REPORTED_LABEL

SELF_JUDGED = "self-judged"


def labels_of(goal: Goal, models: dict[str, str]) -> tuple[str, ...]:
    """What makes this run's proof weaker than it could be."""
    labels = []
    if models.get("judge") and models.get("judge") == models.get("agent"):
        labels.append(SELF_JUDGED)
    if goal.agent.external and goal.deliverable == "workspace" and not goal.validators:
        labels.append(REPORTED_LABEL)
    return tuple(labels)


def notes_of(labels: tuple[str, ...]) -> tuple[str, ...]:
    """One sentence each, for the first lines of a run."""
    said = {
        SELF_JUDGED: "self-judged: agent and judge are one model, though separate instances",
        HIDDEN_READABLE: "hidden checks readable: the agent can read what the hidden validators check",
        REPORTED_LABEL: "no validator: what shows that it is done is what the agent reports of itself; the runner saw none of it",
    }
    return tuple(said[label] for label in labels)
