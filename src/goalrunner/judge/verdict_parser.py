"""From the judge's text to its answer: strict JSON; an unreadable answer is never complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from goalrunner.judge.text import trimmed
from goalrunner.judge.verdict_schema import JudgeOutcome

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is no answer."""

_TRIES = 1_000
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


class UnreadableReplyError(ValueError):
    """A judge's answer that cannot be read; its message is one sentence that says why."""


def objects_in(text: str) -> tuple[list[dict[str, Any]], str]:
    """Every outermost JSON object of an answer, and the text between them. A leading `<think>` block is no part of it.

    Raises UnreadableReplyError for JSON that Python would read but we do not (a key twice, NaN, half of a surrogate pair)
    and for a text too long.
    """
    if len(text) > LIMIT:
        raise UnreadableReplyError(f"The answer is longer than {LIMIT:,} characters.")
    thinking = _THINKING.match(text)
    found, rest = _objects(text[thinking.end() :] if thinking else text)
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableReplyError("The answer's JSON holds half of a character.") from None
    return found, rest


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


_LOOKS_LIKE_VERDICT = re.compile(r'"(?:criteria|complete|score)"\s*:')
_NOTHING = re.compile(
    r"(?:none|nothing|n/?a|null|empty|nothing (?:is |remains )?missing|nothing remains)?", re.IGNORECASE
)
_NOT_BLOCKED = re.compile(r"(?:no|not blocked|false|none|nothing|n/?a|null|empty)?", re.IGNORECASE)

_KEYS = ("criteria", "score", "complete", "missing", "need", "blocked", "questions")
_CRITERION_KEYS = ("criterion", "satisfied", "evidence", "missing")
_EVIDENCE_KEYS = ("observation", "quote", "fact")


def parse_reply(text: str) -> JudgeOutcome:
    """The judge's answer in `text`. Raises UnreadableReplyError with one sentence that says what is wrong.

    An answer that asks for observations (`need`) is not held to agree with itself, and may be nothing but the request;
    `settled` is for the one that has to.
    """
    found, rest = objects_in(text)
    verdicts = [value for value in found if _is_verdict(value)]
    if not verdicts:
        request = _bare_request(found)
        if request is None:
            raise UnreadableReplyError(_why_none(found, text))
        return request
    if any(verdict != verdicts[0] for verdict in verdicts):
        raise UnreadableReplyError("The answer holds several different verdicts.")
    if _LOOKS_LIKE_VERDICT.search(rest):
        raise UnreadableReplyError("Beside its verdict the answer holds pieces of another one.")
    outcome = _validated(_pruned(verdicts[0]))
    return outcome if outcome.need else _consistent(outcome)


def settled(outcome: JudgeOutcome) -> JudgeOutcome:
    """The answer as a verdict, whatever more it asks for. Raises UnreadableReplyError where it is none."""
    if outcome.need and not outcome.criteria and not outcome.missing.strip() and not outcome.blocked:
        raise UnreadableReplyError("The answer asks for observations and gives no verdict.")
    return _consistent(outcome.model_copy(update={"need": []}))


def _validated(value: dict[str, Any]) -> JudgeOutcome:
    try:
        outcome = JudgeOutcome.model_validate(value)
    except ValidationError as error:
        raise UnreadableReplyError(_first_error(error)) from None
    says_blocked = not _NOT_BLOCKED.fullmatch(trimmed(outcome.blocked))
    return outcome if says_blocked else outcome.model_copy(update={"blocked": ""})


def _bare_request(found: list[dict[str, Any]]) -> JudgeOutcome | None:
    """An answer that is nothing but `{"need": ["o7"]}`; it can never be complete."""
    requests = [value["need"] for value in found if set(value) == {"need"} and value["need"]]
    if len(requests) != 1:
        return None
    return _validated({"criteria": [], "score": 0.0, "complete": False, "missing": "", "need": requests[0]})


def _consistent(outcome: JudgeOutcome) -> JudgeOutcome:
    says_missing = not _NOTHING.fullmatch(trimmed(outcome.missing))
    if outcome.complete and outcome.blocked:
        raise UnreadableReplyError('"complete" is true although "blocked" says that the goal cannot be reached.')
    if outcome.passed and says_missing:
        raise UnreadableReplyError('"complete" is true although "missing" says that something remains.')
    satisfied = bool(outcome.criteria) and all(criterion.satisfied for criterion in outcome.criteria)
    if satisfied and not outcome.complete and not says_missing and not outcome.blocked:
        raise UnreadableReplyError(
            '"complete" is false although every criterion is satisfied, and "missing" does not say what remains.'
        )
    return outcome if says_missing else outcome.model_copy(update={"missing": ""})


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
    # What may be left out may be null as well; neither of them can make a verdict complete.
    for key in ("need", "blocked", "questions"):
        if value.get(key, 0) is None or (key == "blocked" and value.get(key) is False):
            del value[key]
    if isinstance(value.get("criteria"), list):
        value["criteria"] = [_pruned_criterion(criterion) for criterion in value["criteria"]]
    return value


def _pruned_criterion(criterion: object) -> object:
    if not isinstance(criterion, dict):
        return criterion
    value = dict(_asked(criterion, _CRITERION_KEYS))
    if isinstance(value.get("evidence"), list):
        value["evidence"] = [one for evidence in value["evidence"] for one in _pruned_evidence(evidence)]
    return value


def _pruned_evidence(evidence: object) -> list[object]:
    """The citation alone; two, both of which must hold, where it has a quote and a fact."""
    if not isinstance(evidence, dict):
        return [evidence]
    value = dict(_asked(evidence, _EVIDENCE_KEYS))
    # Models made to fill in every key write the one that does not apply as null or "".
    for key, other in (("quote", "fact"), ("fact", "quote")):
        if value.get(key, 0) in (None, "") and value.get(other):
            del value[key]
    if "quote" in value and "fact" in value:
        return [{name: content for name, content in value.items() if name != other} for other in ("fact", "quote")]
    return [value]


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
