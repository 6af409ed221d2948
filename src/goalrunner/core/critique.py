"""The critic of a goal: its table in the goal file, what it may answer, its events, and its part of the plan and the state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from goalrunner.core import field_types as fields
from goalrunner.core.errors import one_line
from goalrunner.core.field_types import Frozen, InnerError
from goalrunner.core.outcome import Usage

DEFAULT_THRESHOLD = 0.7
LONGEST_FEEDBACK = 8_000
"""Characters of a critic's feedback that the agent sees."""
_LONGEST_PROBLEM = 500
EXPECTED = 'a number from 0 to 1, or {"score": 0.4, "feedback": "..."}'


class CriticConfig(Frozen):
    """The critic: a model, a command or a Python callable that scores each round before it is checked."""

    model: fields.ModelName = Field("", description='LiteLLM\'s naming, scripted/<file>, or "agent"')
    run: fields.Text | None = Field(None, description="command line; it gets the response on stdin")
    python: fields.CallableName | None = Field(None, description="package.module:function, run in a child process")
    threshold: fields.Share = Field(DEFAULT_THRESHOLD, description="below this score the agent gets the feedback")
    max_refinements: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        1, description="refinements of a round; 0: the score is only recorded"
    )
    params: fields.Parameters = Field({}, description="passed on to the model")
    api_base: fields.Address | None = None
    api_key_env: fields.KeyVariable | None = Field(
        None, description="name of the environment variable that holds the key"
    )

    @property
    def command(self) -> str:
        """The model, the command or the callable; empty if there is no critic."""
        return self.model or self.run or self.python or ""

    @model_validator(mode="after")
    def _one_kind(self) -> CriticConfig:
        kinds = [name for name in ("model", "run", "python") if getattr(self, name)]
        others = [name for name in ("params", "api_base", "api_key_env") if getattr(self, name)]
        rules = (self.threshold, self.max_refinements) != (DEFAULT_THRESHOLD, 1)
        if len(kinds) > 1:
            raise InnerError((), f"a critic has one of model, run and python; remove {' or '.join(kinds)}", whole=True)
        if not kinds and (others or rules):
            message = 'a critic needs model = "provider/model", run = "command" or python = "package.module:function"'
            raise InnerError((), message, whole=True)
        if others and not self.model:
            raise InnerError((others[0],), f"is for a model; the critic is {kinds[0]} = ...; remove it", key=True)
        return self


class CriticRule(Frozen):
    """What the decisions need to know of a critic."""

    name: str = Field(description="the model, the command or the callable, for people")
    threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    max_refinements: int = Field(1, ge=0)


class Critique(Frozen):
    """A critic's score of a round and its feedback to the agent. It is not evidence, and the judge never sees it."""

    score: float | None = Field(None, ge=0, le=1, description="None: there is no usable score")
    feedback: str = ""
    problem: str = Field("", description="why there is no score")

    def asks(self, rule: CriticRule) -> bool:
        return self.score is not None and self.score < rule.threshold


class CritiqueStarted(Frozen):
    """The critic is about to score the round."""

    type: Literal["critique_started"] = "critique_started"
    round: int = Field(ge=1)


class CritiqueFinished(Frozen):
    """The critic's score of the round, or why there is none. It is not evidence, and does not end a run."""

    type: Literal["critique_finished"] = "critique_finished"
    round: int = Field(ge=1)
    score: float | None = Field(None, ge=0, le=1, description="None: the critic gave no usable score")
    feedback: str = Field("", description="for the agent")
    problem: str = Field("", description="why there is no score; the round goes on to its checks")
    duration: float = Field(0.0, ge=0, description="seconds")
    usage: Usage | None = Field(None, description="already counted by usage_recorded; None: no model was asked")


class RefinementStarted(Frozen):
    """The critic's feedback is about to go to the agent, in the same round."""

    type: Literal["refinement_started"] = "refinement_started"
    round: int = Field(ge=1)
    number: int = Field(ge=1, description="of the refinements of this round")


class UnusableCritiqueError(ValueError):
    """An answer without a valid score; the message is one sentence with the reason."""


def critique_of(value: object) -> Critique:
    """Return a critic's answer: a number from 0 to 1, or a mapping or an object with `score` and perhaps `feedback`.

    Raise UnusableCritiqueError for anything else.
    """
    score, feedback = value, None
    if isinstance(value, Mapping):
        if unknown := sorted(str(key)[:40] for key in value if key not in ("score", "feedback")):
            raise UnusableCritiqueError(f"the answer has the unknown key {unknown[0]!r}; expected {EXPECTED}")
        score, feedback = value.get("score"), value.get("feedback")
    elif hasattr(value, "score"):
        score, feedback = getattr(value, "score", None), getattr(value, "feedback", None)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise UnusableCritiqueError(f"the score is {_shown(score)}; expected {EXPECTED}")
    if not 0 <= score <= 1:
        raise UnusableCritiqueError(f"the score {_shown(score)} is not between 0 and 1")
    if not isinstance(feedback, str | None):
        raise UnusableCritiqueError(f"the feedback is a {type(feedback).__name__}, not a text")
    return Critique(score=float(score), feedback=shortened((feedback or "").strip()))


def last_line_critique(output: str) -> Critique:
    """Return the critique in the last line of a command's output. Raise UnusableCritiqueError if that is none."""
    lines = output.strip().splitlines()
    if not lines:
        raise UnusableCritiqueError(f"the output is empty; its last line must be {EXPECTED}")
    line = lines[-1].strip()
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise UnusableCritiqueError(f"the last line is {_shown(line)}; expected {EXPECTED}") from None
    return critique_of(value)


def failed(reason: str) -> Critique:
    """Return the critique of a critic that failed."""
    return Critique(problem=one_line(reason, _LONGEST_PROBLEM))


def shortened(text: str) -> str:
    """Return the two ends of a long feedback, with the omission marked."""
    if len(text) <= LONGEST_FEEDBACK:
        return text
    half = LONGEST_FEEDBACK // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters omitted ...]\n{text[-half:]}"


def _shown(value: object) -> str:
    return one_line(repr(value), 80)
