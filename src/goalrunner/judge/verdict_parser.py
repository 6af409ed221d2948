"""The parsing of the judge's answers. An unreadable answer is never complete."""

from __future__ import annotations

import re
import string
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

from goalrunner.core.verdict import CriterionVerdict
from goalrunner.judge.answer_schemas import JUDGE_OUTCOME_SCHEMA
from goalrunner.judge.json_reader import UnreadableReplyError, boolean_of, only_object


def _entry(value: object) -> object:
    """Return the fields of an entry of the answer.

    A citation with a quote and a fact becomes two, both of which must hold.
    """
    if not isinstance(value, dict):
        return value
    # Other keys are ignored: models add notes.
    entry = {key: value.get(key) for key in CriterionVerdict.model_fields}
    entry["satisfied"] = boolean_of(entry["satisfied"])
    if isinstance(entry["evidence"], list):
        citations: list[object] = []
        for item in entry["evidence"]:
            citations += _citations(item)
        entry["evidence"] = citations
    return entry


def _citations(item: object) -> list[object]:
    if not isinstance(item, dict):
        return [item]
    # Models that must fill in every key write the unused one as null or "".
    filled_keys = [key for key in ("quote", "fact") if item.get(key)]
    if not filled_keys:
        filled_keys = ["fact" if item.get("fact") == "" else "quote"]
    observation = item.get("observation")
    return [{"observation": observation, key: item.get(key)} for key in filled_keys]


class JudgeOutcome(BaseModel):
    """The judge's answer, not yet checked.

    >>> from goalrunner import JudgeOutcome
    >>> answer = {"criteria": [], "score": 0.2, "complete": False, "missing": "a test"}
    >>> JudgeOutcome.model_validate(answer).missing
    'a test'
    """

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
        """Whether the goal is complete and not blocked, with all criteria satisfied."""
        return self.complete and self.all_satisfied and not self.blocked.strip()

    @property
    def all_satisfied(self) -> bool:
        """Whether there is at least one criterion, and all are satisfied."""
        return bool(self.criteria) and not _unsatisfied(self)

    @property
    def feedback(self) -> str | None:
        """The text for the agent; None if passed, or if the judge gave none."""
        return None if self.passed else (missing_of(self) or None)


def missing_of(outcome: JudgeOutcome) -> str:
    """Return what is missing: the judge's own summary, else a list by criterion."""
    if outcome.missing.strip():
        return outcome.missing.strip()
    lines: list[str] = []
    for criterion in _unsatisfied(outcome):
        missing = criterion.missing.strip() or "not shown"
        lines.append(f"{criterion.criterion}: {missing}")
    return "\n".join(lines)


def _unsatisfied(outcome: JudgeOutcome) -> list[CriterionVerdict]:
    return [criterion for criterion in outcome.criteria if not criterion.satisfied]


# "**None.**" says nothing.
_DECORATION = string.punctuation + string.whitespace
_NOTHING = frozenset(
    (
        "",
        "none",
        "n/a",
        "na",
        "null",
        "nothing",
        "nothing missing",
        "nothing is missing",
        "nothing remains",
    )
)
_REQUEST_ALONE = {"criteria": [], "score": 0.0, "complete": False, "missing": ""}
"""The verdict of an answer that only asks for observations: never complete."""
_NOT_BLOCKED = _NOTHING | {"no", "false", "not blocked"}
# A piece of a second verdict makes an answer ambiguous.
_OF_VERDICT = re.compile(r'"(?:criteria|complete|score|missing|blocked)"\s*:')


def parse_reply(text: str) -> JudgeOutcome:
    """Return the judge's answer in `text`.

    An answer that asks for observations (`need`) is not final, so it may contradict
    itself, or be the request alone. `settled_outcome` checks one that has to count.
    Raise UnreadableReplyError with the reason in one sentence.
    """
    answer = only_object(text, "a verdict", _OF_VERDICT, _is_answer)
    if set(answer) == {"need"}:
        answer = {**_REQUEST_ALONE, **answer}
    try:
        outcome = JudgeOutcome.model_validate(answer)
    except ValidationError as error:
        # The judge gets one sentence, so the first error is enough.
        first = error.errors(include_url=False, include_input=False)[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"]
        raise UnreadableReplyError(f"{where}: {what[:1].lower()}{what[1:]}.") from None
    # Models write "none" where they should write nothing.
    missing = "" if _plain(outcome.missing) in _NOTHING else outcome.missing
    blocked = "" if _plain(outcome.blocked) in _NOT_BLOCKED else outcome.blocked
    outcome = outcome.model_copy(update={"missing": missing, "blocked": blocked})
    return outcome if outcome.need else settled_outcome(outcome)


def _is_answer(value: dict[str, Any]) -> bool:
    """Return whether an object is a verdict, or asks for observations alone."""
    if set(value) == {"need"}:
        return bool(value["need"])
    # An object with "properties" is a schema, which some models repeat.
    return "properties" not in value and not value.keys().isdisjoint(
        ("criteria", "complete", "score")
    )


def _plain(text: str) -> str:
    return text.strip(_DECORATION).lower()


def settled_outcome(outcome: JudgeOutcome) -> JudgeOutcome:
    """Return the answer as a verdict without its requests.

    Raise UnreadableReplyError if it contradicts itself.
    """
    if outcome.need and not (outcome.criteria or outcome.missing or outcome.blocked):
        raise UnreadableReplyError(
            "The answer asks for observations and gives no verdict."
        )
    if outcome.complete and outcome.blocked:
        raise UnreadableReplyError(
            '"complete" is true although "blocked" says that the goal cannot be'
            " reached."
        )
    if outcome.passed and outcome.missing:
        raise UnreadableReplyError(
            '"complete" is true although "missing" says that something remains.'
        )
    # Such a verdict would leave the agent without work.
    is_explained = outcome.complete or outcome.missing or outcome.blocked
    if outcome.all_satisfied and not is_explained:
        raise UnreadableReplyError(
            '"complete" is false although every criterion is satisfied,'
            ' and "missing" does not say what remains.'
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
