"""The check of the judge's citations: whether they were recorded, and whether they still count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from goalrunner.core.events import VerdictRecorded
from goalrunner.core.observation import FORGEABLE, RESPONSE, Observation, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    identifier_of,
)
from goalrunner.judge.evidence import (
    deliverable_response,
    plain_fact,
    shortened_line,
    without_brackets,
)
from goalrunner.judge.excerpt import TOKEN
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.text_matching import (
    LONGEST,
    SHORT,
    CommandText,
    OutputText,
    folded,
    forms_of,
    says_something,
)
from goalrunner.judge.verdict_parser import (
    JudgeOutcome,
    missing_of,
    requirement_of,
    requirements_of,
)

_SHOWN = 120
_LONGEST_COMMAND = 40 * TOKEN
_MOST_REMEDIES = 3
_EXIT = re.compile(r"exit(?:ed)?(?:[ _-]?(?:with|code|status))*[ :=]*(-?\d+)")
_COMMA = re.compile(r",(?!\d)")
_FAILING = re.compile(
    r"exit [1-9]|red$|timed out|ended by|crashed|not found|invalid result",
    re.IGNORECASE,
)
_REMEDIES = {
    "workspace": "Run something whose output shows it.",
    "response": "Let the response itself show it.",
}
_RUNNER = "The agent cannot show it: a validator of the goal can ([[validators]]), whose output the runner itself sees."


@dataclass(frozen=True)
class Checked:
    """The result of checking one citation."""

    objection: str = ""
    """Why the citation does not count, without a full stop; empty if it counts."""
    unfounded: bool = False
    """Whether its content does not exist."""
    stale: Observation | None = None
    """The cited observation, if its content exists but no longer counts."""


class Evidence:
    """The observations of one audit; each output is read and normalised once, when it is first cited."""

    def __init__(self, request: AuditRequest) -> None:
        self.request = request
        self._by_id = {
            item.id: item
            for item in request.trail.items
            if isinstance(item, Observation)
        }
        self._response = deliverable_response(request.trail, request.deliverable)
        self._outputs: dict[str, tuple[OutputText, CommandText]] = {}

    def check(self, citation: Citation) -> Checked:
        """Return whether a citation holds and is fresh."""
        observation = self._by_id.get(citation.identifier)
        if observation is None:
            return Checked(
                f'observation "{_short(citation.observation)}" does not exist',
                unfounded=True,
            )
        if observation.source == RESPONSE and observation != self._response:
            return Checked(
                f"{observation.id} is text of the agent, not an observation",
                unfounded=True,
            )
        if observation.reported_by and self.request.require == "runner":
            return Checked(
                f"{observation.id} is only reported by {observation.reported_by}; "
                '[judge] require = "runner" counts only what the runner ran itself'
            )
        if citation.fact is not None:
            looked_up = _fact(observation, citation.fact)
        else:
            looked_up = self._quote(observation, citation.quote or "")
        if looked_up.objection or observation.id not in self.request.stale:
            return looked_up
        why = " ".join(self.request.stale[observation.id].split()).rstrip(". ")
        return Checked(
            f"{observation.id} is stale: {why or f'something changed after {observation.id}'}",
            stale=observation,
        )

    @property
    def remedy(self) -> str:
        """The advice for a criterion that no evidence shows."""
        reported = any(item.reported_by for item in self._by_id.values())
        barred = (
            reported
            and self.request.require == "runner"
            and self.request.deliverable == "workspace"
        )
        return _RUNNER if barred else _REMEDIES[self.request.deliverable]

    def _quote(self, observation: Observation, quote: str) -> Checked:
        forms = forms_of(quote)
        if not forms:
            return Checked(
                f"the quote from {observation.id} is empty or only punctuation"
            )
        if len(quote) > LONGEST:
            return Checked(
                f"the quote from {observation.id} is longer than {LONGEST:,} characters",
                unfounded=True,
            )
        if observation.source != RESPONSE and is_fact(observation, quote):
            return Checked()
        if observation.id not in self._outputs:
            text = self.request.trail.read(observation)
            self._outputs[observation.id] = (
                OutputText(text),
                CommandText(observation.command),
            )
        output, command = self._outputs[observation.id]
        held = [form for form in forms if output.holds(form)]
        if any(not command.says(form) for form in held):
            return Checked()
        if held:
            return Checked(
                f'"{_short(quote)}" is part of the command of {observation.id}, not of its output'
            )
        if any(output.holds(form, anywhere=True) for form in forms):
            short = f"a quote of fewer than {SHORT} characters must be a whole line"
            return Checked(
                f'"{_short(quote)}" is not a whole line of the output of {observation.id}; {short}'
            )
        absent = f'the output of {observation.id} does not contain "{_short(quote)}"'
        return Checked(absent, unfounded=True)


def _fact(observation: Observation, fact: str) -> Checked:
    if observation.source == RESPONSE:
        return Checked(f"{observation.id} shows only what the response says")
    if is_fact(observation, fact):
        return Checked()
    facts = ", ".join(map(plain_fact, observation.facts)) or "none"
    objection = f'"{_short(fact)}" is not among the facts of {observation.id} ({facts})'
    return Checked(objection, unfounded=says_something(fact))


def is_fact(observation: Observation, cited: str) -> bool:
    """Return whether `cited` is a fact of the observation, or several, with or without the rest of its heading.

    The fact that an output may be forged is a warning, not evidence.
    """
    facts = [fact for fact in observation.facts if not fact.startswith(FORGEABLE)]
    known = {_comparable(form) for fact in facts for form in (fact, plain_fact(fact))}
    text = folded(cited).casefold().removeprefix(f"[{observation.id}]").strip()
    # `[o1] shell (exit 0)` counts as "exit 0".
    source, reporter = (
        without_brackets(name).casefold()
        for name in (observation.source, observation.reported_by)
    )
    for head in (f"{source}, reported by {reporter} (", f"{source} ("):
        if text.startswith(head) and text.endswith(")"):
            text = text[len(head) :]
    parts = _COMMA.split(text.strip(" ()"))
    return _comparable(text) in known or all(
        _comparable(part) in known for part in parts
    )


def _comparable(fact: str) -> str:
    text = folded(fact).strip("()").strip().casefold()
    code = _EXIT.fullmatch(text)
    return f"exit {code[1]}" if code else text


def again(observations: Sequence[Observation]) -> str:
    """Return how to renew stale observations: `Run pytest -q again.`"""
    sentences = []
    for item in observations:
        what = shortened_line(item.command, _LONGEST_COMMAND) or item.source
        verb = "Run" if item.path is None or item.reported_by else "Look at"
        alone = (
            ", in a round that changes no file"
            if item.started is None
            else ", after the last change"
        )
        alone = alone if item.reported_by else ""
        sentences.append(f"{verb} {what} again{alone}.")
    return " ".join(list(dict.fromkeys(sentences))[:_MOST_REMEDIES])


Standing = Literal["proven", "unfounded", "stale", "waiting", "open"]
"""The result for a criterion. If the judge calls it satisfied: "proven", "stale" if fresh citations would prove it,
else "unfounded". If not: "waiting" if all that it cites shows no failure and is stale, else "open"."""


@dataclass
class _Finding:
    """The result for one criterion."""

    criterion: CriterionVerdict
    standing: Standing
    results: Sequence[Checked] = ()
    """The checked citations, if the judge calls the criterion satisfied."""
    unproven: str = ""
    """What is missing, for the agent."""
    mendable: tuple[str, ...] = ()
    """Faults that the judge itself can correct. It cannot correct staleness."""


def matched(outcome: JudgeOutcome, request: AuditRequest) -> JudgeOutcome:
    """Return the verdict with the goal's text in entries about a requirement, and the ids of cited observations.

    Raise UnreadableReplyError if a complete verdict has no entry for a requirement, or only entries for constraints.
    A verdict that is not complete may have entries for open criteria only.
    """
    requirements = requirements_of(request.success_criteria, request.constraints)
    found = [
        (entry, requirement_of(entry.criterion, requirements))
        for entry in outcome.criteria
    ]
    if outcome.complete and (requirements or found):
        absent = [
            one
            for one in requirements
            if one not in (requirement for _, requirement in found)
        ]
        if absent:
            raise UnreadableReplyError(
                f"The verdict has no entry for {'; '.join(map(str, absent))}."
            )
        if all(requirement and requirement.constraint for _, requirement in found):
            raise UnreadableReplyError("The verdict has no criterion of the objective.")

    def with_id(citation: Citation) -> Citation:
        item = cited_in(request.trail, citation.observation)
        return (
            citation.model_copy(update={"observation": item.id})
            if item is not None
            else citation
        )

    criteria = []
    for entry, requirement in found:
        text, evidence = (
            requirement.text if requirement else entry.criterion,
            tuple(map(with_id, entry.evidence)),
        )
        criteria.append(
            entry.model_copy(update={"criterion": text, "evidence": evidence})
        )
    return outcome.model_copy(update={"criteria": criteria})


def cited_in(trail: Trail, text: str) -> Observation | None:
    """Return the observation with an id as a judge may write it, or the newest with a name such as "order:O-104"."""
    return trail.observation(text.strip()) or trail.observation(identifier_of(text))


@dataclass(frozen=True)
class CheckedVerdict:
    """A verdict after the check of its citations."""

    event: VerdictRecorded
    mendable: tuple[str, ...] = ()
    """Faults that the judge itself can correct, one sentence each."""


def check_verdict(outcome: JudgeOutcome, request: AuditRequest) -> CheckedVerdict:
    """Return the verdict after the check of its citations, which name observations by id.

    The verdict is complete if the judge says so and reports nothing that blocks the goal, every criterion is satisfied
    with a citation that counts and none that is unfounded, and the score is at least the minimum score.
    """
    evidence = Evidence(request)
    findings = [
        _check_satisfied(one, evidence) if one.satisfied else _check_open(one, evidence)
        for one in outcome.criteria
    ]
    unproven = [finding.unproven for finding in findings if finding.unproven]
    if outcome.complete and not findings:
        unproven.append(
            "Nothing is shown yet: no criterion and no evidence was named for the objective."
        )
    too_low = outcome.score < request.minimum_score
    if too_low:
        unproven.append(
            f"The evidence as a whole is scored {outcome.score:.2f}; {request.minimum_score:.2f} is needed."
        )
    blocked = outcome.blocked.strip()
    standings = {finding.standing for finding in findings}
    complete = (
        outcome.complete and standings == {"proven"} and not too_low and not blocked
    )
    verdict = GoalVerdict(
        score=outcome.score,
        complete=complete,
        missing=""
        if complete
        else "\n".join(filter(None, [missing_of(outcome), *unproven])),
        criteria=tuple(finding.criterion for finding in findings),
        blocked=blocked,
        questions=()
        if complete
        else tuple(dict.fromkeys(filter(None, map(str.strip, outcome.questions)))),
    )
    # stale_only: the verdict would be complete if all cited observations were fresh.
    stale_only = (
        not blocked
        and bool(standings & {"stale", "waiting"})
        and standings <= {"proven", "stale", "waiting"}
    )
    if "waiting" in standings:
        # With open criteria, a verdict may leave others out. Those are unknown.
        required = requirements_of(request.success_criteria, request.constraints)
        stale_only = stale_only and {one.text for one in required} <= {
            one.criterion.criterion for one in findings
        }
    else:
        stale_only = stale_only and outcome.complete and not too_low
    results = [
        (_short(finding.criterion.criterion), result)
        for finding in findings
        for result in finding.results
    ]
    refusals = tuple(
        f"{name}: {result.objection}." for name, result in results if result.objection
    )
    mendable = tuple(sentence for finding in findings for sentence in finding.mendable)
    event = VerdictRecorded(
        round=request.round,
        verdict=verdict,
        citations_checked=len(results),
        stale_only=stale_only,
        refusals=refusals,
    )
    return CheckedVerdict(event, mendable)


def _check_satisfied(criterion: CriterionVerdict, evidence: Evidence) -> _Finding:
    """Check the citations of a criterion that the judge calls satisfied."""
    results = [evidence.check(citation) for citation in criterion.evidence]
    unfounded = any(result.unfounded for result in results)
    counts = any(not result.objection for result in results)
    if counts and not unfounded:
        return _Finding(criterion, "proven", results)
    stale = [result.stale for result in results if result.stale is not None]
    reason = "; ".join(result.objection for result in results if result.objection)
    finding = (
        "Some citations are invalid"
        if counts
        else "Citation invalid"
        if reason
        else "No evidence is cited"
    )
    remedy = again(stale) if stale and not counts else evidence.remedy
    missing = f"{finding}: {reason}. {remedy}" if reason else f"{finding}. {remedy}"
    unproven = f"{criterion.criterion}: {missing}"
    failed = criterion.model_copy(update={"satisfied": False, "missing": missing})
    if stale and not counts and not unfounded:
        return _Finding(failed, "stale", results, unproven)
    faults = [
        f"{result.objection}."
        for result in results
        if result.objection and result.stale is None
    ]
    name = _short(criterion.criterion)
    mendable = tuple(
        f"{name}: {fault}"
        for fault in (faults if results else ["nothing is cited for it."])
    )
    return _Finding(failed, "unfounded", results, unproven, mendable)


def _check_open(criterion: CriterionVerdict, evidence: Evidence) -> _Finding:
    """Return "waiting" if everything that an open criterion cites is stale and shows no failure, else "open"."""
    results = [evidence.check(citation) for citation in criterion.evidence]
    proof = [
        item
        for item in (one.stale for one in results)
        if item and not any(map(_FAILING.match, item.facts))
    ]
    if not results or len(proof) < len(results):
        return _Finding(criterion, "open")
    reason = "; ".join(dict.fromkeys(result.objection for result in results))
    return _Finding(
        criterion,
        "waiting",
        unproven=f"{criterion.criterion}: {reason}. {again(proof)}",
    )


def _short(text: str) -> str:
    line = folded(text)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
