"""The state of a run: the fold of its events, and what is projected from it. Pure."""

from __future__ import annotations

from goalrunner.state.fold import apply
from goalrunner.state.run_state import RunState

__all__ = ["RunState", "apply"]
