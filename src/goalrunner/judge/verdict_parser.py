"""Parsing of the judge's answers, as strict JSON. An unreadable answer is never complete."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from goalrunner.core.ports import Confirmation
from goalrunner.judge.verdict_schema import JudgeOutcome, Opinion

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is unreadable."""

_TRIES = 1_000
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_DECORATION = string.punctuation + string.whitespace
_NOTHING = re.compile(
    r"(?:no|none|nothing|n/?a|null|false|empty|not blocked|nothing (?:is |remains )?missing|nothing remains)?",
    re.IGNORECASE,
)
_OF_VERDICT = re.compile(r'"(?:criteria|complete|score)"\s*:')
_Model = TypeVar("_Model", bound=BaseModel)


class UnreadableReplyError(Exception):
    """A judge's answer cannot be read. The message is one sentence with the reason."""


def only_object(text: str, noun: str, keys: re.Pattern[str], is_meant: Callable[[dict[str, Any]], bool]) -> Any:
    """Return the only outermost JSON object that `is_meant` accepts; repetitions and a leading `<think>` block are ignored.

    Raise UnreadableReplyError if there is none, if there is a different second one or a piece of one (a match of
    `keys`), and for a repeated key or NaN, which Python's parser accepts.
    """
    found, rest = _objects(text)
    meant = [value for value in found if is_meant(value)]
    if not meant:
        raise UnreadableReplyError(f"The answer holds no whole and valid JSON object with {noun}.")
    if any(value != meant[0] for value in meant) or keys.search(rest):
        raise UnreadableReplyError(f"Beside {noun} the answer holds another one, or pieces of it.")
    return meant[0]


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the outermost JSON objects of an answer, and the text between them."""
    if len(text) > LIMIT:
        raise UnreadableReplyError(f"The answer is longer than {LIMIT:,} characters.")
    thinking = _THINKING.match(text)
    position = thinking.end() if thinking else 0
    found: list[dict[str, Any]] = []
    between: list[str] = []
    start = text.find("{", position)
    for _ in range(_TRIES):
        if start < 0:
            return found, "\n".join([*between, text[position:]])
        try:
            value, end = _DECODER.raw_decode(text, start)
            json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        found.append(value)
        between.append(text[position:start])
        position, start = end, text.find("{", end)
    raise UnreadableReplyError("The answer holds too many braces to be one JSON object.")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise UnreadableReplyError("The answer's JSON has a key twice in one object.")
    return value


def _constant(name: str) -> float:
    raise UnreadableReplyError(f"The answer's JSON holds {name}, which is no JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def parse_reply(text: str) -> JudgeOutcome:
    """Return the judge's answer in `text`. Raise UnreadableReplyError with the reason in one sentence.

    An answer that asks for observations (`need`) may contradict itself, or be only that request; see `settled`.
    """

    def is_meant(value: dict[str, Any]) -> bool:
        # An object with "properties" is a schema.
        is_verdict = "properties" not in value and any(key in value for key in ("criteria", "complete", "score"))
        return is_verdict or (set(value) == {"need"} and bool(value["need"]))

    answer = only_object(text, "a verdict", _OF_VERDICT, is_meant)
    if set(answer) == {"need"}:  # a request alone is never complete
        answer = {"criteria": [], "score": 0.0, "complete": False, "missing": "", **answer}
    outcome = _validated(JudgeOutcome, answer)
    if _says_nothing(outcome.blocked):
        outcome = outcome.model_copy(update={"blocked": ""})
    return outcome if outcome.need else _consistent(outcome)


def settled(outcome: JudgeOutcome) -> JudgeOutcome:
    """Return the answer as a verdict without its requests. Raise UnreadableReplyError if it is only a request."""
    if outcome.need and not outcome.criteria and not outcome.missing.strip() and not outcome.blocked:
        raise UnreadableReplyError("The answer asks for observations and gives no verdict.")
    return _consistent(outcome.model_copy(update={"need": []}))


def parse_confirmation(text: str) -> Confirmation:
    """Return the opinion in an answer. Raise UnreadableReplyError with the reason in one sentence."""
    keys = re.compile(r'"confirmed"\s*:')
    opinion = _validated(Opinion, only_object(text, "an opinion", keys, lambda value: "confirmed" in value))
    return Confirmation(confirmed=opinion.confirmed, reason=opinion.reason.strip())


def _validated(model: type[_Model], answer: object) -> _Model:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if not str(part).endswith("Evidence"))
        what = first["msg"]
        raise UnreadableReplyError(f"{where or 'answer'}: {what[:1].lower()}{what[1:]}.") from None


def _says_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(_DECORATION)) is not None


def _consistent(outcome: JudgeOutcome) -> JudgeOutcome:
    has_missing = not _says_nothing(outcome.missing)
    if outcome.complete and outcome.blocked:
        raise UnreadableReplyError('"complete" is true although "blocked" says that the goal cannot be reached.')
    if outcome.passed and has_missing:
        raise UnreadableReplyError('"complete" is true although "missing" says that something remains.')
    if outcome.model_copy(update={"complete": True}).passed and not (outcome.complete or has_missing):
        raise UnreadableReplyError(
            '"complete" is false although every criterion is satisfied, and "missing" does not say what remains.'
        )
    return outcome if has_missing else outcome.model_copy(update={"missing": ""})
