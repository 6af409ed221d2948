"""The verdict on a goal. Owns its shape; neither asks a judge nor checks a citation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from goalrunner.model.base import Frozen
from goalrunner.model.validation import ValidatorResult


class Citation(Frozen):
    """An observation and what is quoted from it: words of its output, or a fact of its heading ("exit 0")."""

    observation: str = Field(description='"o12"')
    quote: str | None = Field(default=None, description="verbatim words of the output")
    fact: str | None = Field(default=None, description="a fact of the heading, for commands whose success is silent")

    @model_validator(mode="after")
    def _one_of_both(self) -> Citation:
        if (self.quote is None) == (self.fact is None):
            raise ValueError("a citation has either a quote or a fact")
        return self


class CriterionVerdict(Frozen):
    """One criterion: satisfied or not, by which evidence, and what is missing."""

    criterion: str = Field(min_length=1)
    satisfied: bool = Field(strict=True)
    evidence: tuple[Citation, ...] = ()
    missing: str = ""


class GoalVerdict(Frozen):
    """The answer to "is it provably done?". `missing` is what goes back to the agent. (Source: OpenHands' goal loop.)"""

    score: float = Field(ge=0, le=1, description="probability that the whole objective is provably done")
    complete: bool = Field(strict=True)
    missing: str = Field(default="", description="what remains; empty when complete")
    criteria: tuple[CriterionVerdict, ...] = ()
    blocked: str = Field(
        default="", description="why the goal cannot be reached, or needs a person; empty: it can go on"
    )
    questions: tuple[str, ...] = Field(default=(), description="facts that only a person can give, as questions")
    source: Literal["judge", "validators", "fallback"] = Field(
        default="judge", description="who made it; fallback: the judge's answers could not be read"
    )

    @model_validator(mode="after")
    def _complete_means_all(self) -> GoalVerdict:
        if self.complete and any(not criterion.satisfied for criterion in self.criteria):
            raise ValueError("complete beside a criterion that is not satisfied")
        if self.complete and self.blocked:
            raise ValueError("complete and blocked at once")
        return self


HIDDEN = "a check that is not shown to you failed; go through the objective again"
"""All that the agent learns about a hidden validator."""


def verdict_of(
    results: Sequence[ValidatorResult], refusal: str = "", protected_changes: Sequence[str] = ()
) -> GoalVerdict:
    """Return the runner's own verdict: complete if every validator is green and none at all is not.

    `refusal` says why the results do not count. `protected_changes` are named beside red results, because validators
    saw these files in their original state.
    """
    red = [result for result in results if not result.passed]
    passed = bool(results) and not red and not refusal
    said = [f"validator {result.name}: {_said(result)}" for result in red if not result.hidden]
    if any(result.hidden for result in red):
        said.append(HIDDEN)
    if refusal:
        said.append(refusal)
    elif not results:
        said = ["no validator has run"]
    if not passed and (note := protected_message(protected_changes)):
        said.append(note)
    return GoalVerdict(score=1.0 if passed else 0.0, complete=passed, missing="\n\n".join(said), source="validators")


def protected_message(lines: Sequence[str]) -> str:
    """Return what the agent reads about protected paths that it changed; empty if there are none."""
    more = f"\n- and {len(lines) - 10} more" if len(lines) > 10 else ""
    listed = "".join(f"\n- {line}" for line in lines[:10])
    return (
        f"Validators see these files in their original state, not as you changed them:{listed}{more}" if lines else ""
    )


def _said(result: ValidatorResult) -> str:
    """Summary and feedback; a summary that is but the beginning of the feedback is not said twice."""
    summary, feedback = result.summary.strip(), result.feedback.strip()
    first = " ".join(feedback.partition("\n")[0].split())
    if first.startswith(summary.removesuffix("…")):
        return feedback or summary
    return f"{summary}\n{feedback}".strip()
