"""The form of the judge's answer, and the criteria and constraints that it must cover."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from goalrunner.core.verdict import Citation, CriterionVerdict
from goalrunner.judge.text_matching import folded


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class QuoteEvidence(_Strict):
    """Words of an observation's output."""

    observation: str = Field(description='the id of an observation, such as "o12"')
    quote: str = Field(description="words copied verbatim from its output")


class FactEvidence(_Strict):
    """A fact of an observation's heading, for commands that print nothing on success."""

    observation: str = Field(description='the id of an observation, such as "o12"')
    fact: str = Field(description='a fact from its heading, such as "exit 0"')


class CriterionOutcome(_Strict):
    """The judge's answer about one criterion or constraint."""

    criterion: Annotated[str, Field(min_length=1)] = Field(description="the criterion or constraint, word for word")
    satisfied: bool
    evidence: list[QuoteEvidence | FactEvidence]
    missing: str = Field(description="what evidence is missing; empty where satisfied")

    @field_validator("evidence", mode="before")
    @classmethod
    def _one_kind_each(cls, value: object) -> object:
        """Return the citations. One with a quote and a fact becomes two, both of which must hold."""
        if not isinstance(value, list):
            return value
        found: list[object] = []
        for item in value:
            # Models that must fill in every key write the unused one as null or "".
            kinds = [key for key in ("quote", "fact") if item.get(key)] if isinstance(item, dict) else []
            found += [{"observation": item.get("observation"), kind: item[kind]} for kind in kinds] or [item]
        return found

    def verdict(self) -> CriterionVerdict:
        """Convert the answer to a part of a verdict. Its citations are not yet checked."""
        return CriterionVerdict(
            criterion=self.criterion,
            satisfied=self.satisfied,
            evidence=tuple(Citation(**evidence.model_dump()) for evidence in self.evidence),
            missing=self.missing,
        )


class JudgeOutcome(_Strict):
    """The judge's answer, not yet checked."""

    criteria: list[CriterionOutcome]
    score: float = Field(ge=0, le=1, description="from 0 to 1: probability that the whole objective is provably done")
    complete: bool
    missing: str = Field(description="what remains; empty when complete")
    need: list[str] = Field(
        default=[], description="ids of observations that must be read whole before a verdict; empty when none"
    )
    blocked: str = Field(
        default="", description="why the goal cannot be reached, or needs a person; empty when it can go on"
    )
    questions: list[str] = Field(
        default=[], description="facts that are needed and that only a person can give, as questions; empty when none"
    )

    @field_validator("need", "blocked", "questions", mode="before")
    @classmethod
    def _without_null(cls, value: object, info: ValidationInfo) -> object:
        """Return the default for null, and for a `blocked` that is false."""
        is_default = value is None or (info.field_name == "blocked" and value is False)
        return cls.model_fields[str(info.field_name)].default if is_default else value

    @property
    def passed(self) -> bool:
        """Whether the goal is complete, with at least one criterion, all of them satisfied, and not blocked."""
        satisfied = bool(self.criteria) and all(criterion.satisfied for criterion in self.criteria)
        return self.complete and satisfied and not self.blocked.strip()

    @property
    def feedback(self) -> str | None:
        """The text for the agent; None if passed, or if the judge gave none."""
        return None if self.passed else (missing_of(self) or None)


def missing_of(outcome: JudgeOutcome) -> str:
    """Return what is missing: the judge's own summary, else a list by criterion."""
    if outcome.missing.strip():
        return outcome.missing.strip()
    unsatisfied = (criterion for criterion in outcome.criteria if not criterion.satisfied)
    return "\n".join(f"{one.criterion}: {one.missing.strip() or 'not shown'}" for one in unsatisfied)


class Opinion(_Strict):
    """The judge's answer about a blocked goal."""

    confirmed: bool
    reason: Annotated[str, Field(min_length=1)] = Field(description="why or why not, in a sentence or two")


_KEPT_KEYS = ("type", "description", "items", "anyOf", "enum")


@cache
def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's schema for OpenAI's strict mode: all keys required, no further keys, references or ranges."""
    whole = model.model_json_schema()
    schema: dict[str, Any] = _strict(whole, whole.get("$defs", {}))
    return schema


def _strict(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_strict(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _strict(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {key: _strict(node[key], definitions) for key in _KEPT_KEYS if key in node}
    if node.get("type") != "object":
        return kept
    properties = {name: _strict(value, definitions) for name, value in node["properties"].items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


JUDGE_OUTCOME_SCHEMA = strict_schema(JudgeOutcome)
"""The JSON Schema of a JudgeOutcome, for models with structured output."""

_LABEL = re.compile(r"\W*(?:(?:criterion|constraint)\W{0,9})?([ck][1-9]\d{0,8})(?!\w)\W*", re.IGNORECASE)
_NUMBERING = re.compile(r"^(?:(?:success )?(?:criterion|constraint) ?\d*[:.)]|\d+[.):]|[-*•]) ", re.IGNORECASE)


@dataclass(frozen=True)
class Requirement:
    """A criterion or a constraint in the goal's words, and its label in the prompt."""

    label: str
    text: str
    constraint: bool = False


class AbsentRequirementError(ValueError):
    """A verdict lacks a criterion or constraint; the judge gets the message."""


def requirements_of(criteria: Sequence[str], constraints: Sequence[str]) -> tuple[Requirement, ...]:
    """Return the criteria, then the constraints. Repeated texts, also of a constraint as a criterion, count once."""
    bounds = _distinct(constraints)
    own = [text for key, text in _distinct(criteria).items() if key not in bounds]
    return (
        *(Requirement(f"c{number}", text) for number, text in enumerate(own, 1)),
        *(Requirement(f"k{number}", text, constraint=True) for number, text in enumerate(bounds.values(), 1)),
    )


def matched(outcome: JudgeOutcome, requirements: Sequence[Requirement]) -> tuple[CriterionVerdict, ...]:
    """Return the verdict's entries. Entries about a requirement get its text in the goal.

    Raise AbsentRequirementError if a complete verdict has no entry for a requirement, or only entries for constraints.
    A verdict that is not complete may have entries for open criteria only.
    """
    found = [(one.verdict(), _requirement(one.criterion, requirements)) for one in outcome.criteria]
    if outcome.complete and (requirements or found):
        absent = [one for one in requirements if one not in (requirement for _, requirement in found)]
        if absent:
            listed = "; ".join(f"{requirement.label}: {requirement.text}" for requirement in absent)
            raise AbsentRequirementError(f"The verdict has no entry for {listed}.")
        if all(requirement and requirement.constraint for _, requirement in found):
            raise AbsentRequirementError("The verdict has no criterion of the objective.")
    return tuple(
        entry.model_copy(update={"criterion": requirement.text}) if requirement else entry
        for entry, requirement in found
    )


def _requirement(entry: str, requirements: Sequence[Requirement]) -> Requirement | None:
    """Return the requirement that an entry of the verdict is about. The text of the entry precedes its label."""
    label = _LABEL.match(entry)
    for text in [entry, entry[label.end() :]] if label else [entry]:
        for form in (_words, lambda text: _words(text).casefold()):
            found = [one for one in requirements if form(one.text) == form(text)]
            if found:
                return found[0] if len(found) == 1 else None
    return next((one for one in requirements if label and one.label == label[1].lower()), None)


def _distinct(texts: Sequence[str]) -> dict[str, str]:
    """Return each text once. Texts that differ only in a full stop or a first capital are the same criterion."""
    distinct: dict[str, str] = {}
    for text in texts:
        words = _words(text)
        distinct.setdefault(words[:1].casefold() + words[1:], text)
    return distinct


def _words(text: str) -> str:
    """Return the words of a criterion, without numbering, quotes around them and a closing full stop."""
    return _NUMBERING.sub("", folded(text)).strip(" \"'`").rstrip(". ")
