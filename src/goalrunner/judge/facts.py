"""The facts of an observation's heading. Owns how they are shown and when a cited one is among them; runs nothing.

Those of an observation that is only reported are the agent's word, as its output is: they count as it counts.
A fact may hold words that a program chose, the name of a process for example. Shown, it has no brackets and no comma
that could make it look like several facts.
"""

from __future__ import annotations

import re

from goalrunner.judge.normalisation import folded
from goalrunner.model.observation import Observation

_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_COMMA = re.compile(r"\s*,(?!\d)")
_BETWEEN = re.compile(r"\s*,\s+")
_EXIT = re.compile(r"exit(?:ed)?(?:[ _-]?(?:code|status))?(?: with)?(?: code| status)?(?: ?[:=])? ?(-?\d+)")


def plain_fact(fact: str) -> str:
    """A fact as it is shown: one line that cannot pass for more than one fact. "1,234 bytes" keeps its comma."""
    # Folded first: a full-width bracket or comma becomes a plain one by it.
    return _COMMA.sub(";", " ".join(folded(fact).translate(_NO_BRACKETS).split()))


def is_fact(observation: Observation, cited: str) -> bool:
    """Whether the words are a fact of the observation, or several: alone, or as they stand in its heading."""
    known = {_comparable(fact) for fact in observation.facts} | {
        _comparable(plain_fact(fact)) for fact in observation.facts
    }
    text = _within_heading(observation, folded(cited).casefold())
    if _comparable(text) in known:
        return True
    return any(all(_comparable(part) in known for part in split) for split in (_BETWEEN.split(text), text.split(",")))


def _within_heading(observation: Observation, text: str) -> str:
    """The words without the rest of the heading: `[o1] shell (exit 0)` is "exit 0"."""
    text = text.removeprefix(f"[{observation.id}]").strip()
    source = _name(observation.source)
    for head in (f"{source}, reported by {_name(observation.reported_by)}", source):
        if source and text.startswith(f"{head} (") and text.endswith(")"):
            text = text[len(head) :]
    return text.strip().strip("()").strip()


def _name(text: str) -> str:
    return folded(text.translate(_NO_BRACKETS)).casefold()


def _comparable(fact: str) -> str:
    text = folded(fact).strip("()").strip().casefold()
    code = _EXIT.fullmatch(text)
    return f"exit {code[1]}" if code else text
