"""The only wiring: from a goal to the parts that it names. Owns no rule and performs no step."""

from __future__ import annotations

from goalrunner.compose.assembly import Assembly, assemble
from goalrunner.compose.earlier import glance, past_of
from goalrunner.compose.external import check_installed, external_named
from goalrunner.compose.models import Models, goal_models, judge_llm, model_names
from goalrunner.compose.parts import Extras, goal_conversation, goal_redactor, goal_validators
from goalrunner.compose.preflight import before_the_run
from goalrunner.compose.refusals import refuse_unfit, workspace_of
from goalrunner.compose.resuming import NewLimits, Resumed, reassemble
from goalrunner.compose.sandbox import place_of, refuse_unfenced
from goalrunner.compose.settling import settle
from goalrunner.compose.system import SystemClock, person
from goalrunner.compose.visiting import Visit, run_redactor, visit

__all__ = [
    "Assembly",
    "Extras",
    "Models",
    "NewLimits",
    "Resumed",
    "SystemClock",
    "Visit",
    "assemble",
    "before_the_run",
    "check_installed",
    "external_named",
    "glance",
    "goal_conversation",
    "goal_models",
    "goal_redactor",
    "goal_validators",
    "judge_llm",
    "model_names",
    "past_of",
    "person",
    "place_of",
    "reassemble",
    "refuse_unfenced",
    "refuse_unfit",
    "run_redactor",
    "settle",
    "visit",
    "workspace_of",
]
