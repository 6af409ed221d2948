"""One thing that was looked at, and what is to be typed where it is not as it should be. Owns the shape alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["good", "bad", "note"]
"""As it should be; not, so that the agent cannot be used; or worth knowing, and no obstacle."""


@dataclass(frozen=True)
class Check:
    """What was looked at, in a word or two; what was found; and the line that mends it."""

    name: str
    state: State
    said: str
    remedy: str = ""
