"""What a verdict must speak of: every criterion and every constraint. Owns labels and matching; judges nothing.

An entry of the verdict stands for a requirement when it has its words (case, white space, typographic quotes, numbering
and a closing full stop aside), or else its label: `c1` for the first criterion, `k1` for the first constraint.
Similar words are not enough: "fails" and "does not fail" are similar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalrunner.judge.normalisation import folded
from goalrunner.judge.outcome import JudgeOutcome
from goalrunner.model.verdict import CriterionVerdict

_LABEL = re.compile(r"\W*(?:criterion|constraint)?\W*([ck][1-9]\d*)(?!\w)\W*(.*)", re.IGNORECASE | re.DOTALL)
_NUMBERING = re.compile(r"^(?:(?:success )?(?:criterion|constraint) ?\d*[:.)]|\d+[.):]|[-*•]) ")


@dataclass(frozen=True)
class Requirement:
    """A criterion or a constraint, in the goal's words, and the label under which the judge sees it."""

    label: str
    text: str
    constraint: bool = False


class AbsentRequirementError(ValueError):
    """A verdict does not speak of all that it has to; the message is told to the judge."""


def requirements_of(criteria: Sequence[str], constraints: Sequence[str]) -> tuple[Requirement, ...]:
    """Criteria, then constraints. A constraint that stands among the criteria too (derived ones) is required once."""
    bounds = {_key(text) for text in constraints}
    own = [text for text in criteria if _key(text) not in bounds]
    return (
        *(Requirement(f"c{number}", text) for number, text in enumerate(own, 1)),
        *(Requirement(f"k{number}", text, constraint=True) for number, text in enumerate(constraints, 1)),
    )


def matched(outcome: JudgeOutcome, requirements: Sequence[Requirement]) -> tuple[CriterionVerdict, ...]:
    """The verdict's entries, those of a requirement in the goal's own words.

    Raises AbsentRequirementError where a verdict that says complete has no entry for a requirement, or constraints
    alone. One that says not complete may speak of what is open alone.
    """
    by_key = {_key(requirement.text): requirement for requirement in requirements}
    by_label = {requirement.label: requirement for requirement in requirements}
    entries: list[CriterionVerdict] = []
    spoken: set[str] = set()
    own = False
    for criterion in outcome.criteria:
        requirement = _requirement(criterion.criterion, by_key, by_label)
        entry = criterion.verdict()
        if requirement is not None:
            spoken.add(requirement.label)
            entry = entry.model_copy(update={"criterion": requirement.text})
        own = own or requirement is None or not requirement.constraint
        entries.append(entry)
    if not outcome.complete or not (requirements or entries):
        return tuple(entries)
    absent = [requirement for requirement in requirements if requirement.label not in spoken]
    if absent:
        listed = "; ".join(f"{requirement.label}: {requirement.text}" for requirement in absent)
        raise AbsentRequirementError(f"The verdict has no entry for {listed}.")
    if not own:
        raise AbsentRequirementError("The verdict has no criterion of the objective.")
    return tuple(entries)


def _requirement(text: str, by_key: dict[str, Requirement], by_label: dict[str, Requirement]) -> Requirement | None:
    exact = by_key.get(_key(text))
    if exact is not None:
        return exact
    label = _LABEL.fullmatch(text)
    if label is None:
        return None
    # The words win over the label: a label beside another requirement's words is a slip of the label.
    return by_key.get(_key(label[2])) or by_label.get(label[1].lower())


def _key(text: str) -> str:
    words = folded(text).casefold().strip()
    return _NUMBERING.sub("", words).strip(" \"'`").rstrip(". ")
