"""From a judge's text to its answer. Owns the rules of reading: strict, and in doubt unreadable - never complete.

- One JSON object with all the keys, anywhere in the text: alone, in prose, in a fence. A leading `<think>` block is
  not part of the answer.
- The same verdict twice is one. Two different ones are none, and so is a whole one beside pieces of another.
- Every type is exact: no "false", no 1 for true, no score outside 0 to 1, no NaN, no key twice.
- Keys that nobody asked for are ignored, unless one is an asked one in another spelling ("Complete").
- An answer that contradicts itself is unreadable: complete while `missing` names work, or not complete while every
  criterion is satisfied and nothing is missing. `complete` beside an unsatisfied criterion is simply not complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from goalrunner.judge.outcome import JudgeOutcome

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is no answer."""

_TRIES = 1_000
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_LOOKS_LIKE_VERDICT = re.compile(r'"(?:criteria|complete|score)"\s*:')
_NOTHING = re.compile(
    r"\W*(?:none|nothing|n/?a|null|empty|nothing (?:is |remains )?missing|nothing remains)?\W*", re.IGNORECASE
)

_KEYS = ("criteria", "score", "complete", "missing")
_CRITERION_KEYS = ("criterion", "satisfied", "evidence", "missing")
_EVIDENCE_KEYS = ("observation", "quote", "fact")


class UnreadableReplyError(ValueError):
    """A judge's answer that cannot be read; its message is one sentence that says why."""


def parse_reply(text: str) -> JudgeOutcome:
    """The judge's answer in `text`. Raises UnreadableReplyError with one sentence that says what is wrong."""
    if len(text) > LIMIT:
        raise UnreadableReplyError(f"The answer is longer than {LIMIT:,} characters.")
    thinking = _THINKING.match(text)
    answer = text[thinking.end() :] if thinking else text
    found, rest = _objects(answer)
    verdicts = [value for value in found if _is_verdict(value)]
    if not verdicts:
        raise UnreadableReplyError(_why_none(found, answer))
    if any(verdict != verdicts[0] for verdict in verdicts):
        raise UnreadableReplyError("The answer holds several different verdicts.")
    if _LOOKS_LIKE_VERDICT.search(rest):
        raise UnreadableReplyError("Beside its verdict the answer holds pieces of another one.")
    try:
        outcome = JudgeOutcome.model_validate(_pruned(verdicts[0]))
    except ValidationError as error:
        raise UnreadableReplyError(_first_error(error)) from None
    return _consistent(outcome)


def _consistent(outcome: JudgeOutcome) -> JudgeOutcome:
    says_missing = not _NOTHING.fullmatch(outcome.missing)
    if outcome.passed and says_missing:
        raise UnreadableReplyError('"complete" is true although "missing" says that something remains.')
    satisfied = bool(outcome.criteria) and all(criterion.satisfied for criterion in outcome.criteria)
    if satisfied and not outcome.complete and not says_missing:
        raise UnreadableReplyError(
            '"complete" is false although every criterion is satisfied, and "missing" does not say what remains.'
        )
    return outcome if says_missing else outcome.model_copy(update={"missing": ""})


class _DoubtError(ValueError):
    """JSON that Python would read but we do not."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _DoubtError("The answer's JSON has a key twice in one object.")
    return value


def _constant(name: str) -> float:
    raise _DoubtError(f"The answer's JSON holds {name}, which is no JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """Every outermost JSON object in the text, and the text between them."""
    found: list[dict[str, Any]] = []
    between: list[str] = []
    position = 0
    start = text.find("{")
    tries = 0
    while start >= 0:
        tries += 1
        if tries > _TRIES:
            raise UnreadableReplyError("The answer holds too many braces to be one JSON object.")
        try:
            value, end = _DECODER.raw_decode(text, start)
        except _DoubtError as error:
            raise UnreadableReplyError(str(error)) from None
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        between.append(text[position:start])
        found.append(value)
        position = end
        start = text.find("{", end)
    between.append(text[position:])
    return found, "\n".join(between)


def _is_verdict(value: dict[str, Any]) -> bool:
    """Whether an object means to be the verdict. What it lacks then is said by name; a schema says "properties"."""
    return "properties" not in value and any(key in value for key in ("criteria", "complete", "score"))


def _why_none(found: list[dict[str, Any]], text: str) -> str:
    if any("properties" in value for value in found):
        return "The answer repeats the schema instead of filling it in."
    if not text.strip():
        return "The answer is empty."
    start = _LOOKS_LIKE_VERDICT.search(text)
    if start is not None:
        return "The answer's JSON object is not whole or not valid JSON."
    return "The answer holds no JSON object with a verdict."


def _pruned(verdict: dict[str, Any]) -> dict[str, Any]:
    """The verdict without the keys that nobody asked for, and each citation with its quote or its fact alone."""
    value = dict(_asked(verdict, _KEYS))
    if isinstance(value.get("criteria"), list):
        value["criteria"] = [_pruned_criterion(criterion) for criterion in value["criteria"]]
    return value


def _pruned_criterion(criterion: object) -> object:
    if not isinstance(criterion, dict):
        return criterion
    value = dict(_asked(criterion, _CRITERION_KEYS))
    if isinstance(value.get("evidence"), list):
        value["evidence"] = [_pruned_evidence(evidence) for evidence in value["evidence"]]
    return value


def _pruned_evidence(evidence: object) -> object:
    if not isinstance(evidence, dict):
        return evidence
    value = dict(_asked(evidence, _EVIDENCE_KEYS))
    # Models made to fill in every key write the one that does not apply as null or "".
    for key, other in (("quote", "fact"), ("fact", "quote")):
        if value.get(key, 0) in (None, "") and value.get(other):
            del value[key]
    return value


def _asked(value: dict[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, content in value.items():
        if key in keys:
            yield key, content
        elif _spelling(key) in keys:
            raise UnreadableReplyError(f'The key "{_spelling(key)}" is misspelt "{key[:40]}".')


def _spelling(key: str) -> str:
    return re.sub(r"[\W_]+", "", key).lower()


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not str(part).endswith("Evidence"))
    what = first["msg"]
    return f"{where or 'answer'}: {what[:1].lower()}{what[1:]}."
