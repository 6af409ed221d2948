"""Whether what the judge cites was recorded, and still counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from goalrunner.core.check_ports import Audit, AuditRequest
from goalrunner.core.observation import RESPONSE, Observation
from goalrunner.core.verdict import Citation, CriterionVerdict, GoalVerdict
from goalrunner.judge.quote_matching import LONGEST, SEARCHED, SHORT, Command, Output, forms_of
from goalrunner.judge.rendering import deliverable_response, is_fact, is_failure, plain_fact, remedy, why_stale
from goalrunner.judge.text import folded, says_something
from goalrunner.judge.verdict_schema import JudgeOutcome, missing_of, requirements_of

_SHOWN = 120
_REMEDIES = {"workspace": "Run something whose output shows it.", "response": "Let the response itself show it."}
_RUNNER = "The agent cannot show it: a validator of the goal can ([[validators]]), whose output the runner itself sees."


class Falsehood(str):
    """An objection to a citation of what is nowhere: its observation is none, or what it cites is not there."""

    __slots__ = ()


@dataclass(frozen=True)
class Checked:
    """What the check of one citation found."""

    unfounded: str = ""
    """Why it does not stand, in words; empty when what it cites is there."""
    stale: Observation | None = None
    """What it cites, where that is there but no longer counts."""

    @property
    def counts(self) -> bool:
        """Whether it proves something now."""
        return not self.unfounded and self.stale is None

    @property
    def false(self) -> bool:
        """Whether what it cites is nowhere."""
        return isinstance(self.unfounded, Falsehood)


@dataclass
class Evidence:
    """The observations of one audit; each output is read and normalised once, when it is first cited."""

    request: AuditRequest
    _by_id: dict[str, Observation] = field(init=False)
    _outputs: dict[str, tuple[Output, Command]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        items = self.request.trail.items
        self._by_id = {item.id: item for item in items if isinstance(item, Observation)}
        self._response = deliverable_response(self.request.trail, self.request.deliverable)

    def check(self, citation: Citation) -> Checked:
        """Whether a citation stands, and whether it is fresh."""
        observation = self._by_id.get(identifier_of(citation.observation))
        if observation is None:
            return Checked(Falsehood(f'there is no observation "{_short(citation.observation)}"'))
        unfounded = self._unfounded(observation, citation)
        fresh = unfounded or not why_stale(observation, self.request.stale)
        return Checked(unfounded, None if fresh else observation)

    def objection(self, citation: Citation) -> str:
        """Why a citation does not count, in one sentence without its full stop; empty when it does."""
        return self.said(self.check(citation))

    def said(self, checked: Checked) -> str:
        """A finding in words."""
        if checked.stale is None:
            return checked.unfounded
        return f"{checked.stale.id} is stale: {why_stale(checked.stale, self.request.stale)}"

    @property
    def remedy(self) -> str:
        """What would show a criterion for which nothing counts."""
        reported = any(item.reported_by for item in self._by_id.values())
        barred = reported and self.request.require == "runner" and self.request.deliverable == "workspace"
        return _RUNNER if barred else _REMEDIES[self.request.deliverable]

    def _unfounded(self, observation: Observation, citation: Citation) -> str:
        if observation.source == RESPONSE and observation != self._response:
            return Falsehood(f"{observation.id} is what the agent said, not something that happened")
        if observation.reported_by and self.request.require == "runner":
            return (
                f"{observation.id} is only reported by {observation.reported_by}; "
                '[judge] require = "runner" takes what the runner ran itself'
            )
        if citation.fact is not None:
            return self._fact_objection(observation, citation.fact)
        return self._quote_objection(observation, citation.quote or "")

    def _fact_objection(self, observation: Observation, fact: str) -> str:
        if observation.source == RESPONSE:
            return f"{observation.id} is evidence of what the response says, and of no fact"
        if is_fact(observation, fact):
            return ""
        facts = ", ".join(map(plain_fact, observation.facts)) or "none"
        objection = f'"{_short(fact)}" is not among the facts of {observation.id} ({facts})'
        return Falsehood(objection) if says_something(fact) else objection

    def _quote_objection(self, observation: Observation, quote: str) -> str:
        forms = forms_of(quote)
        if not forms:
            return f"the quote from {observation.id} is empty or punctuation alone"
        if len(quote) > LONGEST:
            return Falsehood(f"the quote from {observation.id} is longer than {LONGEST:,} characters")
        if observation.source != RESPONSE and is_fact(observation, quote):
            return ""
        if observation.id not in self._outputs:
            text = self.request.trail.read(observation)
            self._outputs[observation.id] = (Output(text), Command(observation.command))
        output, command = self._outputs[observation.id]
        held = [form for form in forms if output.holds(form)]
        if any(not command.says(form) for form in held):
            return ""
        if held:
            return f'"{_short(quote)}" stands in the command of {observation.id} itself and proves nothing'
        if any(output.holds(form, anywhere=True) for form in forms):
            short = f"a quote of fewer than {SHORT} characters must be a whole line"
            return f'"{_short(quote)}" is no whole line of the output of {observation.id}; {short}'
        searched = f" in its first and last {SEARCHED // 2:,} characters" if output.is_cut else ""
        return Falsehood(f'the output of {observation.id} does not hold "{_short(quote)}"{searched}')


@dataclass
class _Findings:
    """What the check of all citations gave."""

    kept: list[CriterionVerdict] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    mendable: list[str] = field(default_factory=list)
    """What the judge itself can mend: false, weak or lacking citations that leave a criterion open. Never staleness."""
    unproven: list[str] = field(default_factory=list)
    checked: int = 0
    unfounded: int = 0
    """Satisfied criteria that fail on what was cited, were it fresh: nothing of it is there, or not all of it."""
    stale: int = 0
    """Satisfied criteria that would be proven if what was cited were fresh."""
    waiting: int = 0
    """Criteria that the judge itself leaves open because all that would prove them is stale."""
    open: int = 0
    """Criteria that are not satisfied for any other reason."""


@dataclass(frozen=True)
class Examination:
    """The verdict after the check, and what to tell the judge of its citations, one sentence each."""

    audit: Audit
    mendable: tuple[str, ...]


def check(
    outcome: JudgeOutcome, criteria: Sequence[CriterionVerdict], request: AuditRequest, *, minimum_score: float = 0.0
) -> Audit:
    """The verdict after the check. `criteria` are the outcome's own, in the goal's words."""
    return examine(outcome, criteria, request, minimum_score=minimum_score).audit


def examine(
    outcome: JudgeOutcome,
    criteria: Sequence[CriterionVerdict],
    request: AuditRequest,
    *,
    minimum_score: float = 0.0,
) -> Examination:
    """The same, with what the judge can mend.

    Complete: the judge says so, every criterion is satisfied with a citation that counts and none of what is nowhere, and
    the score is reached.
    """
    evidence = Evidence(request)
    found = _Findings()
    for criterion in criteria:
        (_satisfied if criterion.satisfied else _open)(criterion, evidence, found)
    if outcome.complete and not found.kept:
        found.unproven.append("Nothing is shown yet: no criterion and no evidence was named for the objective.")
    too_low = outcome.score < minimum_score
    blocked = outcome.blocked.strip()
    satisfied = bool(found.kept) and all(one.satisfied for one in found.kept)
    complete = outcome.complete and satisfied and not too_low and not blocked
    verdict = GoalVerdict(
        score=outcome.score,
        complete=complete,
        missing="" if complete else _missing(outcome, found.unproven, minimum_score if too_low else None),
        criteria=tuple(found.kept),
        blocked=blocked,
        # What is proven needs no more facts.
        questions=() if complete else tuple(dict.fromkeys(filter(None, map(str.strip, outcome.questions)))),
    )
    audit = Audit(
        verdict=verdict,
        citations_checked=found.checked,
        refusals=tuple(found.refusals),
        stale_only=not blocked and _fails_on_freshness_alone(outcome, found, request, too_low=too_low),
    )
    return Examination(audit, tuple(found.mendable))


def identifier_of(text: str) -> str:
    """An observation's id as a judge may write it: `o12`, `[o12]`, ` O12 `."""
    return text.strip().strip("[]").strip().lower()


def _satisfied(criterion: CriterionVerdict, evidence: Evidence, found: _Findings) -> None:
    """A criterion that the judge calls satisfied: whether what it cites bears that out."""
    results = [evidence.check(citation) for citation in criterion.evidence]
    found.checked += len(results)
    name = _short(criterion.criterion)
    found.refusals.extend(f"{name}: {evidence.said(result)}." for result in results if not result.counts)
    false = any(result.false for result in results)
    counts = any(result.counts for result in results)
    if counts and not false:
        found.kept.append(criterion)
        return
    stale = [result.stale for result in results if result.stale is not None]
    if stale and not counts and not false:
        found.stale += 1
    else:
        found.unfounded += 1
        found.mendable.extend(f"{name}: {result.unfounded}." for result in results if result.unfounded)
        if not results:
            found.mendable.append(f"{name}: nothing is cited for it.")
    reasons = (f"{result.stale.id} is stale" if result.stale else result.unfounded for result in results)
    reason = "; ".join(filter(None, reasons)) or "nothing was cited for it"
    finding = "Not all of its evidence is there" if counts else "No evidence counts"
    only_stale = stale and not counts
    again = remedy(stale, evidence.request.stale) if only_stale else evidence.remedy
    missing = f"{finding}: {reason}. {again}"
    found.unproven.append(f"{criterion.criterion}: {missing}")
    found.kept.append(criterion.model_copy(update={"satisfied": False, "missing": missing}))


def _open(criterion: CriterionVerdict, evidence: Evidence, found: _Findings) -> None:
    """A criterion that the judge leaves open. Where only freshness is lacking, it is said what to run again."""
    found.kept.append(criterion)
    stale = [_proof_but_stale(evidence.check(citation)) for citation in criterion.evidence]
    if stale and None not in stale:
        found.waiting += 1
        again = remedy([observation for observation in stale if observation is not None], evidence.request.stale)
        found.unproven.append(f"{criterion.criterion}: {again}")
    else:
        found.open += 1


def _proof_but_stale(result: Checked) -> Observation | None:
    return None if result.stale is None or is_failure(result.stale) else result.stale


def _fails_on_freshness_alone(outcome: JudgeOutcome, found: _Findings, request: AuditRequest, *, too_low: bool) -> bool:
    """Whether the verdict would be complete if all that was cited were fresh."""
    if found.open or found.unfounded or not (found.stale or found.waiting):
        return False
    if not found.waiting:
        return outcome.complete and not too_low
    # A judge that leaves criteria open need not speak of the others; then it is not known how they stand.
    spoken = {criterion.criterion for criterion in found.kept}
    return all(one.text in spoken for one in requirements_of(request.success_criteria, request.constraints))


def _missing(outcome: JudgeOutcome, unproven: Sequence[str], minimum_score: float | None) -> str:
    """What goes back: what the judge misses, then what it could not show, then the score."""
    lines = [missing_of(outcome), *unproven]
    if minimum_score is not None:
        lines.append(f"The evidence as a whole is scored {outcome.score:.2f}; {minimum_score:.2f} is needed.")
    return "\n".join(line for line in lines if line)


def _short(text: str) -> str:
    line = folded(text)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
