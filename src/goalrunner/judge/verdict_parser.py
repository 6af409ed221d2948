"""The judge's answers: their parsing, and the criteria and constraints that they must cover.

An unreadable answer is never complete.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from goalrunner.core.verdict import (
    CriterionVerdict,
)
from goalrunner.judge.json_reader import UnreadableReplyError, boolean_of, only_object
from goalrunner.judge.prompt_text import JUDGE_OUTCOME_SCHEMA
from goalrunner.judge.text_matching import folded


def _entry(value: object) -> object:
    """Return the fields of an entry of the answer. A citation with a quote and a fact becomes two, both of which must hold."""
    if not isinstance(value, dict):
        return value
    entry = {key: value.get(key) for key in CriterionVerdict.model_fields}
    entry["satisfied"] = boolean_of(entry["satisfied"])
    if isinstance(entry["evidence"], list):
        entry["evidence"] = [
            citation for item in entry["evidence"] for citation in _citations(item)
        ]
    return entry


def _citations(item: object) -> list[object]:
    if not isinstance(item, dict):
        return [item]
    # Models that must fill in every key write the unused one as null or "".
    given = [key for key in ("quote", "fact") if item.get(key)] or [
        "fact" if item.get("fact") == "" else "quote"
    ]
    return [
        {"observation": item.get("observation"), key: item.get(key)} for key in given
    ]


class JudgeOutcome(BaseModel):
    """The judge's answer, not yet checked."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True
    )

    criteria: list[Annotated[CriterionVerdict, BeforeValidator(_entry)]]
    score: float = Field(ge=0, le=1)
    complete: Annotated[bool, BeforeValidator(boolean_of)]
    missing: str
    need: list[str] = []
    blocked: str = ""
    questions: list[str] = []

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, Any]:
        return JUDGE_OUTCOME_SCHEMA

    @field_validator("need", "blocked", "questions", mode="before")
    @classmethod
    def _without_null(cls, value: object, info: ValidationInfo) -> object:
        """Return the default for null, and for a `blocked` that is false."""
        if value is None or (info.field_name == "blocked" and value is False):
            return cls.model_fields[str(info.field_name)].default
        return value

    @property
    def passed(self) -> bool:
        """Whether the goal is complete, with at least one criterion, all of them satisfied, and not blocked."""
        return self.complete and self.all_satisfied and not self.blocked.strip()

    @property
    def all_satisfied(self) -> bool:
        """Whether there is at least one criterion, and all are satisfied."""
        return bool(self.criteria) and all(
            criterion.satisfied for criterion in self.criteria
        )

    @property
    def feedback(self) -> str | None:
        """The text for the agent; None if passed, or if the judge gave none."""
        return None if self.passed else (missing_of(self) or None)


def missing_of(outcome: JudgeOutcome) -> str:
    """Return what is missing: the judge's own summary, else a list by criterion."""
    if outcome.missing.strip():
        return outcome.missing.strip()
    unsatisfied = (
        criterion for criterion in outcome.criteria if not criterion.satisfied
    )
    return "\n".join(
        f"{one.criterion}: {one.missing.strip() or 'not shown'}" for one in unsatisfied
    )


_DECORATION = string.punctuation + string.whitespace
_NOTHING = frozenset(
    {
        "",
        "none",
        "n/a",
        "na",
        "null",
        "nothing",
        "nothing missing",
        "nothing is missing",
        "nothing remains",
    }
)
_NOT_BLOCKED = _NOTHING | {"no", "false", "not blocked"}
_OF_VERDICT = re.compile(r'"(?:criteria|complete|score|missing|blocked)"\s*:')


def parse_reply(text: str) -> JudgeOutcome:
    """Return the judge's answer in `text`. Raise UnreadableReplyError with the reason in one sentence.

    An answer that asks for observations (`need`) may contradict itself, or be only that request; see `settled`.
    """

    def is_meant(value: dict[str, Any]) -> bool:
        # An object with "properties" is a schema.
        is_verdict = "properties" not in value and any(
            key in value for key in ("criteria", "complete", "score")
        )
        return is_verdict or (set(value) == {"need"} and bool(value["need"]))

    answer = only_object(text, "a verdict", _OF_VERDICT, is_meant)
    if set(answer) == {"need"}:  # a request alone is never complete
        answer = {
            "criteria": [],
            "score": 0.0,
            "complete": False,
            "missing": "",
            **answer,
        }
    try:
        outcome = JudgeOutcome.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"]
        raise UnreadableReplyError(f"{where}: {what[:1].lower()}{what[1:]}.") from None
    missing = "" if _plain(outcome.missing) in _NOTHING else outcome.missing
    blocked = "" if _plain(outcome.blocked) in _NOT_BLOCKED else outcome.blocked
    outcome = outcome.model_copy(update={"missing": missing, "blocked": blocked})
    return outcome if outcome.need else settled_outcome(outcome)


def _plain(text: str) -> str:
    return text.strip(_DECORATION).lower()


def settled_outcome(outcome: JudgeOutcome) -> JudgeOutcome:
    """Return the answer as a verdict without its requests. Raise UnreadableReplyError if it contradicts itself."""
    if outcome.need and not (outcome.criteria or outcome.missing or outcome.blocked):
        raise UnreadableReplyError(
            "The answer asks for observations and gives no verdict."
        )
    if outcome.complete and outcome.blocked:
        raise UnreadableReplyError(
            '"complete" is true although "blocked" says that the goal cannot be reached.'
        )
    if outcome.passed and outcome.missing:
        raise UnreadableReplyError(
            '"complete" is true although "missing" says that something remains.'
        )
    if outcome.all_satisfied and not (
        outcome.complete or outcome.missing or outcome.blocked
    ):
        raise UnreadableReplyError(
            '"complete" is false although every criterion is satisfied, and "missing" does not say what remains.'
        )
    return outcome.model_copy(update={"need": []})


def parse_confirmation(text: str) -> tuple[bool, str]:
    """Return the opinion in an answer: whether it confirms the claim, and why.

    Raise UnreadableReplyError with the reason in one sentence.
    """
    keys = re.compile(r'"confirmed"\s*:')
    opinion = only_object(text, "an opinion", keys, lambda value: "confirmed" in value)
    confirmed, reason = boolean_of(opinion["confirmed"]), opinion.get("reason")
    if not isinstance(confirmed, bool) or not isinstance(reason, str) or not reason:
        raise UnreadableReplyError(
            '"confirmed" must be true or false, and "reason" a text that is not empty.'
        )
    return confirmed, reason.strip()


_LABEL = re.compile(
    r"\W*(?:(?:criterion|constraint)\W{0,9})?([ck][1-9]\d{0,8})(?!\w)\W*", re.IGNORECASE
)
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
    """Return the criteria, then the constraints. Equal texts count once; a text that is both is a criterion."""
    own = dict.fromkeys(map(str.strip, criteria))
    bounds = [
        text for text in dict.fromkeys(map(str.strip, constraints)) if text not in own
    ]
    return (
        *(Requirement(f"c{number}", text) for number, text in enumerate(own, 1)),
        *(
            Requirement(f"k{number}", text, constraint=True)
            for number, text in enumerate(bounds, 1)
        ),
    )


def requirement_of(
    entry: str, requirements: Sequence[Requirement]
) -> Requirement | None:
    """Return the requirement that an entry of the verdict is about. The text of the entry precedes its label.

    The label decides between requirements that differ in details which copying changes.
    """
    entry = entry.strip()
    as_shown = [one for one in requirements if entry in (one.text, str(one))]
    if as_shown:
        return as_shown[0]
    label = _LABEL.match(entry)
    labelled = next(
        (one for one in requirements if label and one.label == label[1].lower()), None
    )
    for text in [entry, entry[label.end() :]] if label else [entry]:
        found = [one for one in requirements if _is_same(one.text, text)]
        if found:
            return labelled if labelled in found else _closest(text, found)
    return labelled


def _is_same(text: str, entry: str) -> bool:
    """Return whether an entry of the verdict may be a copy of a requirement's text.

    Numbering, quotes, a closing full stop and capitals may differ. `404: ...` is not a copy of `500: ...`.
    """
    (number, words), (other, copied) = _numbered(text), _numbered(entry)
    numbers_differ = bool(number) and bool(other) and number != other
    return bool(copied) and words.casefold() == copied.casefold() and not numbers_differ


def _closest(entry: str, found: Sequence[Requirement]) -> Requirement | None:
    """Return the one of several similar requirements that has an entry's text; None if more than one may be meant."""
    for form in (_spaced_once, folded, lambda text: _numbered(text)[1]):
        same = [one for one in found if form(one.text) == form(entry)]
        if len(same) == 1:
            return same[0]
    return found[0] if len(found) == 1 else None


def _spaced_once(text: str) -> str:
    return " ".join(text.split())


def _numbered(text: str) -> tuple[str, str]:
    """Return the number in front of a criterion, and its words without quotes around them and a closing full stop."""
    line = folded(text)
    numbering = _NUMBERING.match(line)
    words = line[numbering.end() :] if numbering else line
    number = numbering["number"] or "" if numbering else ""
    return number, words.strip(" \"'`").rstrip(". ")
