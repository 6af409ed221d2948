"""The judge's answer as a shape: the model, and the JSON schema that providers are given. Owns no parsing of text.

Public for people who build their own judge: `structured_output_model=JudgeOutcome`, then `passed` and `feedback`.
(Source of both names: GoalLoop's JudgeOutcome.)
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from goalrunner.model.verdict import Citation, CriterionVerdict


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class QuoteEvidence(_Strict):
    """Words of an observation's output."""

    observation: str = Field(description='the id of an observation, such as "o12"')
    quote: str = Field(description="words copied verbatim from its output")


class FactEvidence(_Strict):
    """A fact of an observation's heading, for commands whose success is silent."""

    observation: str = Field(description='the id of an observation, such as "o12"')
    fact: str = Field(description='a fact from its heading, such as "exit 0"')


class CriterionOutcome(_Strict):
    """What the judge says of one criterion or constraint."""

    criterion: Annotated[str, Field(min_length=1)] = Field(description="the criterion, word for word")
    satisfied: bool
    evidence: list[QuoteEvidence | FactEvidence]
    missing: str = Field(description="what evidence is missing; empty where satisfied")

    def verdict(self) -> CriterionVerdict:
        """The same as a part of a verdict, its citations not yet checked."""
        return CriterionVerdict(
            criterion=self.criterion,
            satisfied=self.satisfied,
            evidence=tuple(Citation(**evidence.model_dump()) for evidence in self.evidence),
            missing=self.missing,
        )


class JudgeOutcome(_Strict):
    """The judge's answer. Says what the judge says; nothing in it is checked yet."""

    criteria: list[CriterionOutcome]
    score: float = Field(ge=0, le=1, description="probability that the whole objective is provably done")
    complete: bool
    missing: str = Field(description="what remains; empty when complete")
    need: list[str] = Field(default=[], description="ids of observations to be shown whole before the verdict")
    blocked: str = Field(
        default="", description="why the goal cannot be reached, or needs a person; empty: it can go on"
    )
    questions: list[str] = Field(default=[], description="facts that only a person can give, as questions")

    @property
    def passed(self) -> bool:
        """Complete, every one of its criteria satisfied, and not blocked; an answer without criteria has shown nothing."""
        satisfied = bool(self.criteria) and all(criterion.satisfied for criterion in self.criteria)
        return self.complete and satisfied and not self.blocked.strip()

    @property
    def feedback(self) -> str | None:
        """What to tell the agent; None when passed, or when the judge did not say."""
        return None if self.passed else (missing_of(self) or None)


def missing_of(outcome: JudgeOutcome) -> str:
    """What remains: in the judge's own summary, else criterion by criterion."""
    if outcome.missing.strip():
        return outcome.missing.strip()
    unsatisfied = (criterion for criterion in outcome.criteria if not criterion.satisfied)
    return "\n".join(f"{one.criterion}: {one.missing.strip() or 'not shown'}" for one in unsatisfied)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string"}
_OBSERVATION: dict[str, Any] = {"type": "string", "description": 'the id of an observation, such as "o12"'}

JUDGE_SCHEMA: dict[str, Any] = _object(
    criteria={
        "type": "array",
        "items": _object(
            criterion={"type": "string", "description": "the criterion or constraint, word for word"},
            satisfied={"type": "boolean"},
            evidence={
                "type": "array",
                "items": {
                    "anyOf": [
                        _object(
                            observation=_OBSERVATION,
                            quote={"type": "string", "description": "words copied verbatim from its output"},
                        ),
                        _object(
                            observation=_OBSERVATION,
                            fact={"type": "string", "description": 'a fact from its heading, such as "exit 0"'},
                        ),
                    ]
                },
            },
            missing=_TEXT,
        ),
    },
    score={"type": "number", "description": "from 0 to 1: probability that the whole objective is provably done"},
    complete={"type": "boolean"},
    missing={"type": "string", "description": "what remains; empty when complete"},
    need={
        "type": "array",
        "items": _OBSERVATION,
        "description": "observations that must be read whole before a verdict; empty when none",
    },
    blocked={
        "type": "string",
        "description": "why the goal cannot be reached, or needs a person; empty when it can go on",
    },
    questions={
        "type": "array",
        "items": _TEXT,
        "description": "facts that are needed and that only a person can give, as questions; empty when none",
    },
)
"""The schema of the answer, as OpenAI's strict mode takes it: all keys required, no others, no references, no ranges."""
