"""What a verdict must speak of: every criterion and every constraint. Owns labels and matching; judges nothing.

An entry of the verdict stands for a requirement when it has its words, or else its label: `c1` for the first criterion,
`k1` for the first constraint. Its very words come first; numbering, a closing full stop and then case are passed over
only where one requirement alone is meant: "prints Yes" and "prints YES" are two.
Similar words are not enough: "fails" and "does not fail" are similar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from goalrunner.judge.normalisation import folded
from goalrunner.judge.outcome import JudgeOutcome
from goalrunner.judge.trimming import from_first_word
from goalrunner.model.verdict import CriterionVerdict

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
