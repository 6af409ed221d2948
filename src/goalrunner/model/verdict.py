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


def verdict_of(results: Sequence[ValidatorResult], drift: Sequence[str] = ()) -> GoalVerdict:
    """The runner's own verdict where no judge is asked: complete when every validator is green; none at all is red.

    `drift` are paths that changed while the validators ran: what they checked is then no longer what is there.
    """
    red = [result for result in results if not result.passed]
    passed = bool(results) and not red and not drift
    said = [f"validator {result.name}: {_said(result)}" for result in red]
    if drift:
        said.append(drift_message(drift))
    if not results:
        said = ["no validator has run"]
    return GoalVerdict(score=1.0 if passed else 0.0, complete=passed, missing="\n\n".join(said), source="validators")


def drift_message(drift: Sequence[str]) -> str:
    """What is wrong when checks change the workspace, and the line of the goal file that allows it."""
    shown = ", ".join(drift[:5]) + (f" and {len(drift) - 5} more" if len(drift) > 5 else "")
    outputs = ", ".join(f'"{path}"' for path in drift[:5])
    return f"the checks changed {shown}; if they may, the goal file says so: [workspace] outputs = [{outputs}]"


NOTHING_PROTECTS = "it looks like a check, and nothing protects it"
"""Ends the line on a touched path that is named for judge and user alone."""


def touched_message(touched: Sequence[str]) -> str:
    """What the agent is told of protected paths that it touched; empty where there are none."""
    lines = [line for line in touched if not line.endswith(NOTHING_PROTECTS)]
    more = f"\n- and {len(lines) - 10} more" if len(lines) > 10 else ""
    listed = "".join(f"\n- {line}" for line in lines[:10])
    return f"These are taken from the start when your work is checked:{listed}{more}" if lines else ""


def _said(result: ValidatorResult) -> str:
    """Summary and feedback; a summary that is but the beginning of the feedback is not said twice."""
    summary, feedback = result.summary.strip(), result.feedback.strip()
    first = " ".join(feedback.partition("\n")[0].split())
    if first.startswith(summary.removesuffix("…")):
        return feedback or summary
    return f"{summary}\n{feedback}".strip()
