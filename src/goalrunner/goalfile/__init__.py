"""The goal file: TOML, options and environment become a checked `Goal`.

Starts nothing and asks no model. `LLM_BASE_URL` and `LLM_API_KEY` are not read here; they belong to the model calls.
"""

from __future__ import annotations

from goalrunner.core.number_types import parse_duration
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.layers import OPTIONS, option_of
from goalrunner.goalfile.loading import load_goal, load_goal_text, place_in, resolve_goal, resolve_limits
from goalrunner.goalfile.parsing import all_presets, preset_named

__all__ = [
    "OPTIONS",
    "all_presets",
    "dump_goal",
    "load_goal",
    "load_goal_text",
    "option_of",
    "parse_duration",
    "place_in",
    "preset_named",
    "resolve_goal",
    "resolve_limits",
]
