"""The critic, an optional reviewer inside a round.

A critique is not evidence. It decides nothing but whether the agent gets one more
prompt before the round is checked.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from goalrunner.core import field_types as fields
from goalrunner.core.constructors import declares_fields
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.field_types import Frozen, InnerError
from goalrunner.core.goal_tables import EMPTY, KEY_VARIABLE, RunVariable, ValidatorSpec
from goalrunner.core.outcome import Usage

LONGEST_FEEDBACK = 8_000
"""Characters of a critic's feedback that the agent sees."""
_LONGEST_PROBLEM = 500
_DEFAULT_THRESHOLD = 0.7
_EXPECTED = 'a number from 0 to 1, or {"score": 0.4, "feedback": "..."}'

_REFINE = (
    "[critic] A critic has read your work of this round before it is checked: {score}"
    "\n\nImprove the work where the critic is right and the objective asks for it, "
    "then check it and finish. The critic's score\ndecides nothing. "
    "The objective is unchanged:"
)
"""The prompt of a refinement, which the objective follows."""


class CriticConfig(Frozen):
    """The critic, which scores each round before it is checked.

    It is a model, a command or a Python callable.

    >>> from goalrunner import CriticConfig, Goal
    >>> critic = CriticConfig(run="./score.sh", threshold=0.8)
    >>> Goal(objective="Make it fast.", critic=critic).critic.threshold
    0.8
    """

    model: fields.ModelName = ""
    '''LiteLLM's naming, an agent ("claude"), scripted/<file>, or "agent"'''
    use: fields.OptionalLine = ""
    """An agent whose program is the critic; `model` is then its own naming."""
    run: fields.Text | None = None
    """Command line; it gets the response on stdin."""
    python: fields.CallableName | None = None
    """package.module:function, run in a child process."""
    threshold: fields.Share = _DEFAULT_THRESHOLD
    """Below this score the agent gets the feedback."""
    max_refinements: Annotated[int, Field(ge=0, le=100, strict=True)] = 1
    """Refinements of a round; 0: the score is only recorded."""
    params: fields.Parameters = Field(default={})
    """Passed on to the model."""
    api_base: fields.Address | None = None
    api_key_env: fields.KeyVariable | None = Field(
        default=None, description=KEY_VARIABLE
    )

    @declares_fields
    def __init__(
        self,
        *,
        model: str = "",
        use: str = "",
        run: str | None = None,
        python: str | None = None,
        threshold: float = _DEFAULT_THRESHOLD,
        max_refinements: int = 1,
        params: Mapping[str, Any] = EMPTY,
        api_base: str | None = None,
        api_key_env: str | None = None,
    ) -> None:
        """Make the settings of a critic of their fields."""

    @property
    def command(self) -> str:
        """The model, the command or the callable; empty if there is no critic."""
        return f"{self.use} {self.model}".strip() or self.run or self.python or ""

    @property
    def spec(self) -> ValidatorSpec | None:
        """The command or the callable, as a validator; None for a model."""
        if not (self.run or self.python):
            return None
        variables: tuple[RunVariable, ...] = get_args(RunVariable)
        return ValidatorSpec(
            name="critic", run=self.run, python=self.python, pass_env=variables
        )

    @model_validator(mode="after")
    def _one_kind(self) -> CriticConfig:
        is_model = bool(self.use or self.model)
        kinds = ["model"] if is_model else []
        kinds += [name for name in ("run", "python") if getattr(self, name)]
        keys = ("params", "api_base", "api_key_env")
        of_model = [name for name in keys if getattr(self, name)]
        has_rules = (self.threshold, self.max_refinements) != (_DEFAULT_THRESHOLD, 1)
        if len(kinds) > 1:
            raise InnerError(
                (),
                "a critic has one of model, run and python; remove "
                f"{' or '.join(kinds)}",
                whole=True,
            )
        if not kinds and (of_model or has_rules):
            message = (
                'a critic needs model = "provider/model", run = "command" or python = '
                '"package.module:function"'
            )
            raise InnerError((), message, whole=True)
        if of_model and not is_model:
            raise InnerError(
                (of_model[0],),
                f"is for a model; the critic is {kinds[0]} = ...; remove it",
                key=True,
            )
        return self


class Critique(Frozen):
    """A critic's score of a round and its feedback to the agent.

    It is not evidence, and the judge never sees it.
    """

    score: float | None = Field(default=None, ge=0, le=1)
    """None: there is no usable score."""
    feedback: str = ""
    """For the agent."""
    problem: str = ""
    """Why there is no score; the round goes on to its checks."""


class CriticRule(Frozen):
    """What the decisions need to know of a critic."""

    name: str
    """The model, the command or the callable, for people."""
    threshold: float = Field(default=_DEFAULT_THRESHOLD, ge=0, le=1)
    max_refinements: int = Field(default=1, ge=0)

    def wants_refinement(self, critique: Critique, refinements: int) -> bool:
        """Return whether the agent gets the feedback.

        `refinements` are those of the round so far.
        """
        is_low = critique.score is not None and critique.score < self.threshold
        return is_low and refinements < self.max_refinements

    def prompt(self, critique: Critique) -> str:
        """Return the prompt of a refinement: score, feedback, and what to do with it.

        The objective follows.
        """
        score = f"score {critique.score:.2f}, at least {self.threshold:.2f} is wanted"
        return _REFINE.format(score=f"{score}\n\n{critique.feedback}".strip())


class CritiqueStarted(Frozen):
    """The critic is about to score the round."""

    type: Literal["critique_started"] = "critique_started"
    # No field: it is the same in all events, and the log does not repeat it.
    account: ClassVar[Literal["critic"]] = "critic"
    round: int = Field(ge=1)


class CritiqueFinished(Critique):
    """The critic's score of the round, or why there is none.

    It is not evidence, and does not end a run.
    """

    type: Literal["critique_finished"] = "critique_finished"
    account: ClassVar[Literal["critic"]] = "critic"
    round: int = Field(ge=1)
    duration: float = Field(default=0.0, ge=0)
    """Seconds."""
    usage: Usage | None = None
    """Already counted by usage_recorded; None: no model was asked."""


class RefinementStarted(Frozen):
    """The critic's feedback is about to go to the agent, in the same round."""

    type: Literal["refinement_started"] = "refinement_started"
    round: int = Field(ge=1)
    number: int = Field(ge=1)
    """Of the refinements of this round."""


Score = float | Mapping[str, Any] | Critique
"""A number from 0 to 1, or `{"score": 0.4, "feedback": "..."}`."""

Critic = Callable[[Mapping[str, Any], Any], Score | Awaitable[Score]]
"""A function that scores the agent's response before the round is checked; it may be
async. Its second argument is the conversation, with `messages`."""


class _Answer(Frozen):
    score: Annotated[float, Field(ge=0, le=1, strict=True)]
    feedback: str | None = None


class UnusableCritiqueError(ValueError):
    """An answer without a valid score; the message is one sentence with the reason."""


def critique_of(value: object) -> Critique:
    """Return the critique in a critic's answer.

    The answer is a number from 0 to 1, or a mapping or an object with `score` and
    perhaps `feedback`. Raise UnusableCritiqueError for anything else.
    """
    answer: dict[str, Any] = {}
    if isinstance(value, int | float):
        answer["score"] = value
    elif isinstance(value, Mapping):
        answer.update(value)
    else:
        # An object of the program's own, such as a dataclass.
        for name in ("score", "feedback"):
            if hasattr(value, name):
                answer[name] = getattr(value, name)
    try:
        valid = _Answer.model_validate(answer)
    except ValidationError:
        raise UnusableCritiqueError(
            f"the answer is {one_line(repr(value), 80)}; expected {_EXPECTED}"
        ) from None
    return Critique(
        score=valid.score,
        feedback=shortened((valid.feedback or "").strip(), LONGEST_FEEDBACK),
    )


# A command may print progress before; its last line is the answer.
def last_line_critique(output: str) -> Critique:
    """Return the critique in the last line of a command's output.

    Raise UnusableCritiqueError if there is none.
    """
    line = next(reversed(output.strip().splitlines()), "")
    try:
        return critique_of(json.loads(line))
    except (json.JSONDecodeError, RecursionError):
        raise UnusableCritiqueError(
            f"the last line is {one_line(repr(line), 80)}; expected {_EXPECTED}"
        ) from None


def failed_critique(reason: str) -> Critique:
    """Return the critique of a critic that failed."""
    return Critique(problem=one_line(reason, _LONGEST_PROBLEM))
