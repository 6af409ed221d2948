"""The only wiring: from a goal to the parts that it names. Owns no rule and performs no step."""

from __future__ import annotations

from goalrunner.compose.assembly import Assembly, assemble
from goalrunner.compose.models import Models, goal_models, judge_llm
from goalrunner.compose.parts import Extras, goal_conversation

__all__ = ["Assembly", "Extras", "Models", "assemble", "goal_conversation", "goal_models", "judge_llm"]
