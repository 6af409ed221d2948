"""The criteria and constraints that a verdict must cover."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from goalrunner.judge.plain_text import folded

# "c1", "C1:", "[c1]", "criterion c1 -"
_LABEL = re.compile(
    r"\W*(?:(?:criterion|constraint)\W{0,9})?([ck][1-9]\d{0,8})(?!\w)\W*", re.IGNORECASE
)
# "1. ", "- ", "Criterion 2: ", "404: " is a part of the text.
_NUMBERING = re.compile(
    r"(?:(?:success )?(?:criterion|constraint) ?\d*[:.)]|(?P<number>\d+)[.):]|[-*•]) ",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Requirement:
    """A criterion or a constraint in the goal's words, and its label in the prompt."""

    label: str
    text: str
    constraint: bool = False

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


def requirements_of(
    criteria: Sequence[str], constraints: Sequence[str]
) -> tuple[Requirement, ...]:
    """Return the criteria, then the constraints.

    Equal texts count once; a text that is both is a criterion.
    """
    criterion_texts = dict.fromkeys(map(str.strip, criteria))
    constraint_texts = dict.fromkeys(map(str.strip, constraints))
    # A duplicate would need two entries with the same words.
    for text in criterion_texts:
        constraint_texts.pop(text, None)
    requirements: list[Requirement] = []
    for number, text in enumerate(criterion_texts, 1):
        requirements.append(Requirement(f"c{number}", text))
    for number, text in enumerate(constraint_texts, 1):
        requirements.append(Requirement(f"k{number}", text, constraint=True))
    return tuple(requirements)


def requirement_of(
    entry: str, requirements: Sequence[Requirement]
) -> Requirement | None:
    """Return the requirement that an entry of the verdict is about.

    The text of the entry counts more than its label. The label decides if several
    requirements are the same text but for quotes, capitals or a full stop.
    """
    entry = entry.strip()
    for requirement in requirements:
        if entry in (requirement.text, str(requirement)):
            return requirement
    label = _LABEL.match(entry)
    if label is None:
        return _closest(entry, _similar(entry, requirements))
    labelled: Requirement | None = None
    for requirement in requirements:
        if requirement.label == label[1].lower():
            labelled = requirement
    # A criterion may begin like a label: "C3 is supported".
    for text in (entry, entry[label.end() :]):
        similar = _similar(text, requirements)
        if similar:
            return labelled if labelled in similar else _closest(text, similar)
    return labelled


def _similar(text: str, requirements: Sequence[Requirement]) -> list[Requirement]:
    return [one for one in requirements if _is_same(one.text, text)]


def _is_same(text: str, entry: str) -> bool:
    """Return whether an entry of the verdict may be a copy of a requirement's text.

    Numbering, quotes, a closing full stop and capitals may differ. `404: ...` is not a
    copy of `500: ...`.
    """
    number, words = _numbered(text)
    entry_number, entry_words = _numbered(entry)
    if number and entry_number and number != entry_number:
        return False
    return bool(entry_words) and words.casefold() == entry_words.casefold()


def _closest(entry: str, similar: Sequence[Requirement]) -> Requirement | None:
    """Return the one of several similar requirements that has an entry's text.

    None if more than one may be meant.
    """
    if len(similar) == 1:
        return similar[0]
    # From the most exact form to the least.
    forms: tuple[Callable[[str], str], ...] = (_spaced_once, folded, _words_of)
    for form in forms:
        same = [one for one in similar if form(one.text) == form(entry)]
        if len(same) == 1:
            return same[0]
    return None


def _spaced_once(text: str) -> str:
    return " ".join(text.split())


def _words_of(text: str) -> str:
    return _numbered(text)[1]


def _numbered(text: str) -> tuple[str, str]:
    """Return the number in front of a criterion, and its words.

    The words have no quotes around them, and no closing full stop.
    """
    line = folded(text)
    numbering = _NUMBERING.match(line)
    number, words = "", line
    if numbering is not None:
        number, words = numbering["number"] or "", line[numbering.end() :]
    return number, words.strip(" \"'`").rstrip(". ")
