"""The form of the judge's answer, and the criteria and constraints that it must cover."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from goalrunner.core.verdict import Citation, CriterionVerdict
from goalrunner.judge.text import folded, from_first_word


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


_LABEL = re.compile(r"(?:(?:criterion|constraint)\W{0,9})?([ck][1-9]\d{0,8})(?!\w)", re.IGNORECASE)
_NUMBERING = re.compile(r"^(?:(?:success )?(?:criterion|constraint) ?\d*[:.)]|\d+[.):]|[-*•]) ", re.IGNORECASE)


@dataclass(frozen=True)
class Requirement:
    """A criterion or a constraint, in the goal's words, and the label under which the judge sees it."""

    label: str
    text: str
    constraint: bool = False


class AbsentRequirementError(ValueError):
    """A verdict does not speak of all that it has to; the message is told to the judge."""


def requirements_of(criteria: Sequence[str], constraints: Sequence[str]) -> tuple[Requirement, ...]:
    """Criteria, then constraints. A criterion that is there twice, or among the constraints too, is required once."""
    bounds = _distinct(constraints)
    own = [text for said, text in _distinct(criteria).items() if said not in bounds]
    return (
        *(Requirement(f"c{number}", text) for number, text in enumerate(own, 1)),
        *(Requirement(f"k{number}", text, constraint=True) for number, text in enumerate(bounds.values(), 1)),
    )


def matched(outcome: JudgeOutcome, requirements: Sequence[Requirement]) -> tuple[CriterionVerdict, ...]:
    """The verdict's entries, those of a requirement in the goal's own words.

    Raises AbsentRequirementError where a verdict that says complete has no entry for a requirement, or constraints
    alone. One that says not complete may speak of what is open alone.
    """
    index = _Index(requirements)
    entries: dict[str, CriterionVerdict] = {}
    spoken: set[str] = set()
    own = False
    for number, criterion in enumerate(outcome.criteria):
        requirement = index.requirement(criterion.criterion)
        entry = criterion.verdict()
        key = str(number)
        if requirement is None:
            # One that the judge derived, and perhaps twice.
            key = f"said {_said(entry.criterion)}"
            entry = _both(entries[key], entry) if key in entries else entry
        else:
            spoken.add(requirement.label)
            entry = entry.model_copy(update={"criterion": requirement.text})
        own = own or requirement is None or not requirement.constraint
        entries[key] = entry
    if not outcome.complete or not (requirements or entries):
        return tuple(entries.values())
    absent = [requirement for requirement in requirements if requirement.label not in spoken]
    if absent:
        listed = "; ".join(f"{requirement.label}: {requirement.text}" for requirement in absent)
        raise AbsentRequirementError(f"The verdict has no entry for {listed}.")
    if not own:
        raise AbsentRequirementError("The verdict has no criterion of the objective.")
    return tuple(entries.values())


class _Index:
    """The requirements by their words and by their labels."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self._by_label = {requirement.label: requirement for requirement in requirements}
        self._by_words: list[dict[str, list[Requirement]]] = []
        for form in _FORMS:
            known: dict[str, list[Requirement]] = {}
            for requirement in requirements:
                known.setdefault(form(requirement.text), []).append(requirement)
            self._by_words.append(known)

    def requirement(self, text: str) -> Requirement | None:
        """The requirement that an entry stands for."""
        exact = self._of_words(text)
        if exact is not None:
            return exact
        text = from_first_word(text)
        label = _LABEL.match(text)
        if label is None:
            return None
        # The words win over the label: a label beside another requirement's words is a slip of the label.
        return self._of_words(from_first_word(text[label.end() :])) or self._by_label.get(label[1].lower())

    def _of_words(self, text: str) -> Requirement | None:
        for form, known in zip(_FORMS, self._by_words, strict=True):
            found = known.get(form(text), [])
            if found:
                return found[0] if len(found) == 1 else None
        return None


def _both(one: CriterionVerdict, other: CriterionVerdict) -> CriterionVerdict:
    """Two entries for the same words as one: satisfied where both are, by all that both cite."""
    return one.model_copy(
        update={
            "satisfied": one.satisfied and other.satisfied,
            "evidence": one.evidence + other.evidence,
            "missing": one.missing or other.missing,
        }
    )


def _distinct(texts: Sequence[str]) -> dict[str, str]:
    """The texts by what they say, each once: a full stop or a first capital alone makes no other criterion."""
    distinct: dict[str, str] = {}
    for text in texts:
        distinct.setdefault(_said(text), text)
    return distinct


def _said(text: str) -> str:
    words = _words(text)
    return words[:1].casefold() + words[1:]


def _key(text: str) -> str:
    return _words(text).casefold()


def _words(text: str) -> str:
    """The words of a criterion, without numbering, quotes around them and a closing full stop."""
    words = _NUMBERING.sub("", folded(text))
    return words.strip(" \"'`").rstrip(". ")


_FORMS = (folded, _words, _key)
"""How a text is compared: its very words first, then with less and less of what is passed over."""
