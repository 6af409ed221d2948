"""What of a run may be kept beyond it. Pure; what the goal does not allow in so many words is refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from goalrunner.events.memory import MemoryKind
from goalrunner.model.observation import Observation

Sensitivity = Literal["low", "medium", "high"]

LONGEST = 2_000
"""Characters of what is remembered: a fact, not an output."""


@dataclass(frozen=True)
class Promotion:
    """What somebody wants to be kept, as far as the rules look at it."""

    kind: MemoryKind
    text: str
    sensitivity: Sensitivity = "low"
    permission: str = ""
    expires: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why not, and what would help; names the key or the option."""

    why: str
    remedy: str


def promotion_refusal(
    wanted: Promotion, allowed: Collection[str], owner: str, source: Observation | None
) -> Refusal | None:
    """Why it may not be kept; None: it may. `source` is the observation that it rests on, None for an event."""
    fresh = "a run keeps the goal that it began with, so this takes a new run"
    if wanted.kind not in allowed:
        said = f"the goal of this run does not allow to promote kind {wanted.kind}"
        return Refusal(said, f'add it in the goal file: [memory] promote = ["{wanted.kind}"]; {fresh}')
    if not owner.strip():
        return Refusal("the goal of this run names no owner whose later runs could be told", f'owner = "..."; {fresh}')
    if source is not None and not source.shows:
        return Refusal(
            f"{source.id} ({source.source}) shows nothing that happened: it holds the agent's words, or a call that was not done",
            "name an observation that shows it: goal show RUN --evidence",
        )
    if not wanted.text.strip():
        return Refusal(
            "what is to be remembered is not clear: its source has no text of its own", 'say it: --text "..."'
        )
    if len(wanted.text) > LONGEST:
        return Refusal(
            f"the text is longer than {LONGEST:,} characters, which is no fact", 'say it shorter: --text "..."'
        )
    return _unclear(wanted)


def _unclear(wanted: Promotion) -> Refusal | None:
    if wanted.sensitivity != "low" and not wanted.permission.strip():
        said = f"who allowed something of {wanted.sensitivity} sensitivity to be kept is not said"
        return Refusal(said, '--permission "..."')
    if wanted.sensitivity == "high" and not wanted.expires:
        return Refusal("something of high sensitivity is not kept for ever", "--expires 30d")
    return None
