"""The check of one citation: whether it was recorded, and whether it still counts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from goalrunner.core.observation import (
    FORGEABLE,
    OF_SUBAGENT,
    RESPONSE,
    Observation,
    Trail,
)
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import Citation, identifier_of
from goalrunner.judge.evidence import (
    deliverable_response,
    plain_fact,
    without_brackets,
)
from goalrunner.judge.plain_text import folded, says_something
from goalrunner.judge.text_matching import (
    LONGEST,
    SHORT,
    CommandText,
    OutputText,
    forms_of,
)

_SHOWN = 120
# "exit 0", "exited with code 0" and "exit status: 0" are one fact.
_EXIT = re.compile(r"exit(?:ed)?(?:[ _-]?(?:with|code|status))*[ :=]*(-?\d+)")
# "1,234 bytes" is one fact.
_COMMA = re.compile(r",(?!\d)")
_REMEDIES = {
    "workspace": "Run something whose output shows it.",
    "response": "Let the response itself show it.",
}
_RUNNER_REMEDY = (
    "The agent cannot show it: a validator of the goal can ([[validators]]), whose"
    " output the runner itself sees."
)


@dataclass(frozen=True)
class CheckedCitation:
    """The result of checking one citation."""

    objection: str = ""
    """Why the citation does not count, without a full stop; empty if it counts."""
    unfounded: bool = False
    """Whether the cited observation, or what is cited of it, does not exist."""
    stale: Observation | None = None
    """The cited observation, if the citation is right, but outdated."""


class Evidence:
    """The observations of one audit."""

    def __init__(self, request: AuditRequest) -> None:
        self.request = request
        self._by_id: dict[str, Observation] = {}
        for item in request.trail.items:
            if isinstance(item, Observation):
                self._by_id[item.id] = item
        self._response = deliverable_response(request.trail, request.deliverable)
        self._outputs: dict[str, tuple[OutputText, CommandText]] = {}

    def check(self, citation: Citation) -> CheckedCitation:
        """Return whether a citation holds and is fresh."""
        observation = self._by_id.get(citation.identifier)
        if observation is None:
            cited = short(citation.observation)
            return CheckedCitation(
                f'observation "{cited}" does not exist', unfounded=True
            )
        # Only the response that is judged is evidence, and only of what it says.
        if observation.source == RESPONSE and observation != self._response:
            return CheckedCitation(
                f"{observation.id} is text of the agent, not an observation",
                unfounded=True,
            )
        if OF_SUBAGENT in observation.facts:
            return CheckedCitation(
                f"{observation.id} is {OF_SUBAGENT}, which is a claim", unfounded=True
            )
        if observation.reported_by and self.request.require == "runner":
            return CheckedCitation(
                f"{observation.id} is only reported by {observation.reported_by}; "
                '[judge] require = "runner" counts only what the runner ran itself'
            )
        if citation.fact is not None:
            looked_up = _look_up_fact(observation, citation.fact)
        else:
            looked_up = self._look_up_quote(observation, citation.quote or "")
        if looked_up.objection or observation.id not in self.request.stale:
            return looked_up
        # A reason may name files, whose names may have line breaks.
        why = " ".join(self.request.stale[observation.id].split()).rstrip(". ")
        why = why or f"something changed after {observation.id}"
        return CheckedCitation(f"{observation.id} is stale: {why}", stale=observation)

    @property
    def remedy(self) -> str:
        """The advice for a criterion that no evidence shows."""
        is_reported = any(item.reported_by for item in self._by_id.values())
        deliverable = self.request.deliverable
        only_runner = self.request.require == "runner"
        if is_reported and only_runner and deliverable == "workspace":
            return _RUNNER_REMEDY
        return _REMEDIES[deliverable]

    def _look_up_quote(self, observation: Observation, quote: str) -> CheckedCitation:
        """Return whether a quote is in the output, and not only in the command."""
        forms = forms_of(quote)
        if not forms:
            return CheckedCitation(
                f"the quote from {observation.id} is empty or only punctuation"
            )
        if len(quote) > LONGEST:
            return CheckedCitation(
                f"the quote from {observation.id} is longer than"
                f" {LONGEST:,} characters",
                unfounded=True,
            )
        # Judges also write a fact where a quote belongs.
        if observation.source != RESPONSE and is_fact(observation, quote):
            return CheckedCitation()
        output, command = self._texts_of(observation)
        matching = [form for form in forms if output.holds(form)]
        if any(not command.says(form) for form in matching):
            return CheckedCitation()
        name = f'"{short(quote)}"'
        if matching:
            # A command that prints its own words shows nothing.
            return CheckedCitation(
                f"{name} is part of the command of {observation.id}, not of its output"
            )
        if any(output.holds(form, anywhere=True) for form in forms):
            return CheckedCitation(
                f"{name} is not a whole line of the output of {observation.id};"
                f" a quote of fewer than {SHORT} characters must be a whole line"
            )
        absent = f"the output of {observation.id} does not contain {name}"
        return CheckedCitation(absent, unfounded=True)

    def _texts_of(self, observation: Observation) -> tuple[OutputText, CommandText]:
        """Return output and command; outputs are large, so each is read once."""
        if observation.id not in self._outputs:
            output = OutputText(self.request.trail.read(observation))
            command = CommandText(observation.command)
            self._outputs[observation.id] = output, command
        return self._outputs[observation.id]


def _look_up_fact(observation: Observation, fact: str) -> CheckedCitation:
    """Return whether a fact is one of the observation."""
    # A fact about a response would be a claim of the agent.
    if observation.source == RESPONSE:
        return CheckedCitation(f"{observation.id} shows only what the response says")
    if is_fact(observation, fact):
        return CheckedCitation()
    facts = ", ".join(map(plain_fact, observation.facts)) or "none"
    objection = f'"{short(fact)}" is not among the facts of {observation.id} ({facts})'
    return CheckedCitation(objection, unfounded=says_something(fact))


def is_fact(observation: Observation, cited: str) -> bool:
    """Return whether `cited` is a fact of the observation, or several.

    The rest of its heading may be cited with it. The fact that an output may be forged
    is a warning, not evidence.
    """
    facts: set[str] = set()
    for fact in observation.facts:
        if not fact.startswith(FORGEABLE):
            facts |= {_comparable(fact), _comparable(plain_fact(fact))}
    text = _without_heading(observation, cited)
    if _comparable(text) in facts:
        return True
    parts = _COMMA.split(text.strip(" ()"))
    return all(_comparable(part) in facts for part in parts)


def _without_heading(observation: Observation, cited: str) -> str:
    """Return a cited fact without the rest of its heading.

    `[o1] shell (exit 0)` is "exit 0".
    """
    text = folded(cited).casefold().removeprefix(f"[{observation.id}]").strip()
    source = without_brackets(observation.source).casefold()
    reporter = without_brackets(observation.reported_by).casefold()
    for head in (f"{source}, reported by {reporter} (", f"{source} ("):
        if text.startswith(head) and text.endswith(")"):
            text = text[len(head) :]
    return text


def _comparable(fact: str) -> str:
    """Return a fact as it is compared: `exit code: 0` is "exit 0"."""
    text = folded(fact).strip("()").strip().casefold()
    code = _EXIT.fullmatch(text)
    return f"exit {code[1]}" if code else text


def cited_in(trail: Trail, text: str) -> Observation | None:
    """Return the observation that a judge names by its id.

    A name such as "order:O-104" means the newest observation that has it.
    """
    return trail.observation(text.strip()) or trail.observation(identifier_of(text))


def short(text: str) -> str:
    """Return a text on one line, for a message."""
    line = folded(text)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
