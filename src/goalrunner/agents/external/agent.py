"""Which external agent, and with what it is started. Owns the data alone; whoever composes a run has resolved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.model.preset import Preset


@dataclass(frozen=True)
class ExternalAgent:
    """An agent as a goal names it. `env` is its whole environment, its own keys included."""

    name: str
    preset: Preset
    workspace: Path
    env: Mapping[str, str]
    model: tuple[str, ...] = ()
    """The words that stand for `{model}`."""
    args: tuple[str, ...] = ()
    """The words that stand for `{args}`."""
