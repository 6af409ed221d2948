"""Evidence that no longer counts because something changed after it: what is said of it, and what would count instead.

Owns the words and the question whether a verdict fails on freshness alone. What is stale is known from the snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from goalrunner.judge.budgeting import TOKEN, beginning
from goalrunner.judge.normalisation import folded
from goalrunner.model.observation import Observation

_LONGEST = 40 * TOKEN
_MOST = 3
_FAILING = re.compile(r"exit [1-9]|red$|timed out|ended by|crashed|not found|invalid result", re.IGNORECASE)


def why_stale(observation: Observation, stale: Mapping[str, str]) -> str:
    """Why it no longer counts, without a full stop; empty when it is fresh."""
    if observation.id not in stale:
        return ""
    return " ".join(stale[observation.id].split()).rstrip(". ") or f"something changed after {observation.id}"


def remedy(observations: Sequence[Observation], stale: Mapping[str, str]) -> str:
    """What to run again, and why: `Run pytest -q again: src/a.py changed after o12.`"""
    sentences = dict.fromkeys(_again(observation, stale) for observation in observations)
    return " ".join(list(sentences)[:_MOST])


def is_failure(observation: Observation) -> bool:
    """Whether an observation shows by its facts that something did not work."""
    return any(_FAILING.match(fact) for fact in observation.facts)


def _again(observation: Observation, stale: Mapping[str, str]) -> str:
    line = folded(observation.command) or observation.source
    shown = beginning(line, _LONGEST)
    what = shown if shown == line else f"{shown}…"
    verb = "Run" if observation.path is None or observation.reported_by else "Look at"
    # Nobody watched what is reported: it counts where its whole round left the files as they were.
    alone = ", in a round that changes no file" if observation.reported_by else ""
    return f"{verb} {what} again{alone}: {why_stale(observation, stale)}."
