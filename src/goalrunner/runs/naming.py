"""What runs are called: four random characters that are enough to find one, and words of the objective for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

_LETTERS = "abcdefghjkmnpqrstvwxyz"
_SIGNS = "0123456789" + _LETTERS
"""Base 32 after Crockford: no i, l, o, u, which are misread or spell words."""

_FILLERS = {
    "a",
    "an",
    "the",
    "to",
    "of",
    "and",
    "or",
    "in",
    "on",
    "for",
    "with",
    "that",
    "this",
    "is",
    "are",
    "be",
    "please",
}
_MOST_WORDS = 3
_ENOUGH = 10
_LONGEST_WORD = 12


def new_run_id(objective: str, taken: Callable[[str], bool], source: random.Random | None = None) -> str:
    """A short id like `k3f9-make-parse`, for which `taken(id)` is False; `source` is where the randomness comes from."""
    if source is None:
        from random import SystemRandom  # not at the top: `goal list` needs no names

        source = SystemRandom()
    words = _slug(objective)
    while True:
        signs = source.choice(_LETTERS) + "".join(source.choice(_SIGNS) for _ in range(3))
        identifier = f"{signs}-{words}" if words else signs
        if not taken(identifier):
            return identifier


@dataclass(frozen=True)
class RunIds:
    """The port `Ids` over a home: ids whose first four characters no run there has, so that these alone name a run."""

    home: Path
    source: random.Random | None = None

    def run_id(self, objective: str) -> str:
        """A short, unused id that a person can read and type."""
        try:
            starts = {path.name[:4] for path in (self.home / "runs").iterdir()}
        except OSError:  # there is none yet, or making the run's folder will say what is wrong
            starts = set()
        return new_run_id(objective, lambda identifier: identifier[:4] in starts, self.source)


def _slug(objective: str) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFKD", objective[:1000].casefold()).encode("ascii", "ignore").decode()
    chosen: list[str] = []
    for word in re.findall(r"[a-z0-9]+", plain):
        if word not in _FILLERS:
            chosen.append(word[:_LONGEST_WORD])
        if len(chosen) == _MOST_WORDS or len("-".join(chosen)) >= _ENOUGH:
            break
    return "-".join(chosen)
