"""The runner's own check of a verdict: whether what the judge cites really happened. Owns the check; asks no model.

A citation counts when its id is an observation's, and its quote stands in that observation's whole output or its fact
among that observation's facts. What the agent says is a claim and never counts; a response that is the deliverable
counts for what it says. A satisfied criterion without one citation that counts is not satisfied.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from goalrunner.judge.normalisation import folded, readable, says_something, without_line_numbers
from goalrunner.judge.outcome import JudgeOutcome, missing_of
from goalrunner.judge.rendering import LEFT_OUT, deliverable_response
from goalrunner.model.dialogue import RESPONSE
from goalrunner.model.observation import Observation
from goalrunner.model.verdict import Citation, CriterionVerdict, GoalVerdict
from goalrunner.ports import Audit, AuditRequest

_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_INERT = re.compile(r"^\| ?", re.MULTILINE)
_SHOWN = 120
_REMEDIES = {"workspace": "Run something whose output shows it.", "response": "Let the response itself show it."}


class _Output:
    """An output as it is compared: as it is, and only where that does not do, without line numbers."""

    def __init__(self, output: str) -> None:
        self._text = readable(output)
        self._plain = folded(self._text)
        self._bare: str | None = None

    def holds(self, quote: str) -> bool:
        """Whether a quote stands in it, whole or, where parts are joined by dots, part after part."""
        forms = _forms(quote)
        if any(_stands_in(form, self._plain) for form in forms):
            return True
        if self._bare is None:
            bare = without_line_numbers(self._text)
            self._bare = self._plain if bare == self._text else folded(bare)
        return self._bare is not self._plain and any(_stands_in(form, self._bare) for form in forms)


@dataclass
class Evidence:
    """The observations of one audit; each output is read and normalised once, when it is first cited."""

    request: AuditRequest
    _by_id: dict[str, Observation] = field(init=False)
    _outputs: dict[str, _Output] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        items = self.request.trail.items
        self._by_id = {item.id: item for item in items if isinstance(item, Observation)}
        self._response = deliverable_response(self.request.trail, self.request.deliverable)

    def objection(self, citation: Citation) -> str:
        """Why a citation does not count, in one sentence; empty when it does."""
        identifier = citation.observation.strip().strip("[]").strip().lower()
        observation = self._by_id.get(identifier)
        if observation is None:
            return f'there is no observation "{_short(citation.observation)}"'
        if observation.source == RESPONSE and observation != self._response:
            return f"{identifier} is what the agent said, not something that happened"
        if citation.fact is not None:
            return self._fact_objection(observation, citation.fact)
        return self._quote_objection(observation, citation.quote or "")

    def _fact_objection(self, observation: Observation, fact: str) -> str:
        if observation.source == RESPONSE:
            return f"{observation.id} is evidence of what the response says, and of no fact"
        known = {_fact(known) for known in observation.facts}
        cited = [_fact(part) for part in fact.split(",")]
        if _fact(fact) in known or all(part in known for part in cited):
            return ""
        facts = ", ".join(observation.facts) or "none"
        return f'"{_short(fact)}" is not among the facts of {observation.id} ({facts})'

    def _quote_objection(self, observation: Observation, quote: str) -> str:
        if not says_something(folded(quote)):
            return f"the quote from {observation.id} is empty or punctuation alone"
        if observation.id not in self._outputs:
            self._outputs[observation.id] = _Output(self.request.trail.read(observation))
        if self._outputs[observation.id].holds(quote):
            return ""
        return f'the output of {observation.id} does not hold "{_short(quote)}"'


def check(
    outcome: JudgeOutcome,
    criteria: Sequence[CriterionVerdict],
    request: AuditRequest,
    *,
    minimum_score: float = 0.0,
) -> Audit:
    """The verdict after the check. `criteria` are the outcome's own, in the goal's words.

    Complete: the judge says so, every criterion is satisfied with a citation that counts, and the score is reached.
    """
    evidence = Evidence(request)
    refusals: list[str] = []
    unproven: list[str] = []
    checked = 0
    kept: list[CriterionVerdict] = []
    for criterion in criteria:
        if not criterion.satisfied:
            kept.append(criterion)
            continue
        objections = [evidence.objection(citation) for citation in criterion.evidence]
        checked += len(objections)
        refusals.extend(f"{_short(criterion.criterion)}: {objection}." for objection in objections if objection)
        if "" not in objections:
            reason = "; ".join(objections) or "nothing was cited for it"
            missing = f"No evidence counts: {reason}. {_REMEDIES[request.deliverable]}"
            unproven.append(f"{criterion.criterion}: {missing}")
            criterion = criterion.model_copy(update={"satisfied": False, "missing": missing})  # noqa: PLW2901
        kept.append(criterion)
    if outcome.complete and not kept:
        unproven.append("Nothing is shown yet: no criterion and no evidence was named for the objective.")
    too_low = outcome.score < minimum_score
    complete = outcome.complete and bool(kept) and all(one.satisfied for one in kept) and not too_low
    missing = "" if complete else _missing(outcome, unproven, minimum_score if too_low else None)
    verdict = GoalVerdict(score=outcome.score, complete=complete, missing=missing, criteria=tuple(kept))
    return Audit(verdict=verdict, citations_checked=checked, refusals=tuple(refusals))


def _missing(outcome: JudgeOutcome, unproven: Sequence[str], minimum_score: float | None) -> str:
    """What goes back: what the judge misses, then what it could not show, then the score."""
    lines = [missing_of(outcome), *unproven]
    if minimum_score is not None:
        lines.append(f"The evidence as a whole is scored {outcome.score:.2f}; {minimum_score:.2f} is needed.")
    return "\n".join(line for line in lines if line)


def _forms(quote: str) -> set[str]:
    """A quote as it is compared: as given, and without what stood before its lines where it was shown."""
    text = readable(quote)
    bare = _INERT.sub("", text)
    forms = {folded(form) for form in (text, bare, without_line_numbers(text), without_line_numbers(bare))}
    return {form for form in forms if says_something(form)}


def _stands_in(quote: str, text: str) -> bool:
    if _find(quote, text, 0) >= 0:
        return True
    parts = [part.strip() for part in _ELLIPSIS.split(LEFT_OUT.sub("...", quote))]
    parts = [part for part in parts if part]
    if len(parts) < 2 or not all(says_something(part) for part in parts):
        return False
    position = 0
    for part in parts:
        found = _find(part, text, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def _find(part: str, text: str, start: int) -> int:
    """Where a part stands, or -1. A number must not be cut in half: "0 failed" does not stand in "10 failed"."""
    begins = re.match(r"\d+(?!\w)", part) is not None
    ends = re.search(r"(?<!\w)\d+$", part) is not None
    position = text.find(part, start)
    while position >= 0:
        end = position + len(part)
        cut_before = begins and position > 0 and text[position - 1].isdigit()
        cut_after = ends and end < len(text) and text[end].isdigit()
        if not cut_before and not cut_after:
            return position
        position = text.find(part, position + 1)
    return -1


def _fact(text: str) -> str:
    return folded(text).strip("()").strip().casefold()


def _short(text: str) -> str:
    line = folded(text)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
