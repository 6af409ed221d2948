"""The check of a verdict: whether citations that count prove all that it says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from goalrunner.core.events import VerdictRecorded
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import Citation, CriterionVerdict, GoalVerdict
from goalrunner.judge.citations import CheckedCitation, Evidence, cited_in, short
from goalrunner.judge.evidence import shortened_line
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.prices import TOKEN
from goalrunner.judge.requirements import Requirement, requirement_of, requirements_of
from goalrunner.judge.verdict_parser import JudgeOutcome, missing_of

_LONGEST_COMMAND = 40 * TOKEN
# An agent that gets a long list runs a part of it.
_MOST_REMEDIES = 3
_FAILING = re.compile(
    r"exit [1-9]|red$|timed out|ended by|crashed|not found|invalid result",
    re.IGNORECASE,
)
"""Facts of an observation that shows a failure."""

Standing = Literal["proven", "unfounded", "stale", "waiting", "open"]
"""The result for a criterion.

Of one that the judge calls satisfied:
"proven": citations that count show it.
"stale": they would show it if they were not outdated.
"unfounded": nothing shows it, or one of the citations is invented.

Of one that the judge does not call satisfied:
"waiting": all that is cited is outdated, and none of it is a failure.
"open": anything else.
"""


@dataclass
class _Finding:
    """The result for one criterion."""

    criterion: CriterionVerdict
    standing: Standing
    results: Sequence[CheckedCitation] = ()
    """The checked citations, if the judge calls the criterion satisfied."""
    unproven: str = ""
    """What is missing, for the agent."""
    mendable: tuple[str, ...] = ()
    """Faults that the judge itself can correct. It cannot correct staleness."""


@dataclass(frozen=True)
class CheckedVerdict:
    """A verdict after the check of its citations."""

    event: VerdictRecorded
    mendable: tuple[str, ...] = ()
    """Faults that the judge itself can correct, one sentence each."""


def in_words_of_goal(outcome: JudgeOutcome, request: AuditRequest) -> JudgeOutcome:
    """Return the verdict in the words of the goal, with ids of cited observations.

    Raise UnreadableReplyError if a complete verdict has no entry for a requirement, or
    only entries for constraints. A verdict that is not complete may have entries for
    open criteria only.
    """
    requirements = requirements_of(request.success_criteria, request.constraints)
    # Judges copy a criterion with small changes, which must not make it another one.
    matches = [requirement_of(one.criterion, requirements) for one in outcome.criteria]
    if outcome.complete and (requirements or matches):
        _require_all(requirements, matches)
    criteria: list[CriterionVerdict] = []
    for entry, requirement in zip(outcome.criteria, matches, strict=True):
        text = requirement.text if requirement else entry.criterion
        evidence = tuple(_with_id(one, request.trail) for one in entry.evidence)
        update = {"criterion": text, "evidence": evidence}
        criteria.append(entry.model_copy(update=update))
    return outcome.model_copy(update={"criteria": criteria})


def _require_all(
    requirements: Sequence[Requirement], matches: Sequence[Requirement | None]
) -> None:
    """Raise UnreadableReplyError if a complete verdict leaves requirements out."""
    absent = [str(one) for one in requirements if one not in matches]
    if absent:
        raise UnreadableReplyError(f"The verdict has no entry for {'; '.join(absent)}.")
    # The objective itself must be proven, not only that nothing was broken.
    if all(requirement and requirement.constraint for requirement in matches):
        raise UnreadableReplyError("The verdict has no criterion of the objective.")


def _with_id(citation: Citation, trail: Trail) -> Citation:
    observation = cited_in(trail, citation.observation)
    if observation is None:
        return citation
    return citation.model_copy(update={"observation": observation.id})


def check_verdict(outcome: JudgeOutcome, request: AuditRequest) -> CheckedVerdict:
    """Return the verdict after the check of its citations.

    They must name observations by id, as after `in_words_of_goal`. The verdict is
    complete if the judge says so and reports nothing that blocks the goal, every
    criterion is satisfied with a citation that counts and none that is unfounded, and
    the score is at least the minimum score.
    """
    evidence = Evidence(request)
    findings = [_check(criterion, evidence) for criterion in outcome.criteria]
    checked = 0
    refusals: list[str] = []
    mendable: list[str] = []
    for finding in findings:
        checked += len(finding.results)
        mendable += finding.mendable
        name = short(finding.criterion.criterion)
        for objection in _objections(finding.results):
            refusals.append(f"{name}: {objection}.")
    event = VerdictRecorded(
        round=request.round,
        verdict=_verdict(outcome, findings, request),
        citations_checked=checked,
        stale_only=_is_only_stale(outcome, findings, request),
        refusals=tuple(refusals),
    )
    return CheckedVerdict(event, tuple(mendable))


def _objections(results: Sequence[CheckedCitation]) -> list[str]:
    return [result.objection for result in results if result.objection]


def _verdict(
    outcome: JudgeOutcome, findings: Sequence[_Finding], request: AuditRequest
) -> GoalVerdict:
    """Return the verdict that follows from the findings."""
    unproven = [finding.unproven for finding in findings if finding.unproven]
    # All of no criteria are proven; that must not count.
    if outcome.complete and not findings:
        unproven.append(
            "Nothing is shown yet: no criterion and no evidence was named for the"
            " objective."
        )
    too_low = outcome.score < request.minimum_score
    if too_low:
        unproven.append(
            f"The evidence as a whole is scored {outcome.score:.2f};"
            f" {request.minimum_score:.2f} is needed."
        )
    blocked = outcome.blocked.strip()
    all_proven = {finding.standing for finding in findings} == {"proven"}
    complete = outcome.complete and all_proven and not too_low and not blocked
    missing = ""
    questions: list[str] = []
    # A complete verdict has no open questions, whatever the judge wrote.
    if not complete:
        missing = "\n".join(filter(None, [missing_of(outcome), *unproven]))
        stripped = filter(None, map(str.strip, outcome.questions))
        questions = list(dict.fromkeys(stripped))
    return GoalVerdict(
        score=outcome.score,
        complete=complete,
        missing=missing,
        criteria=tuple(finding.criterion for finding in findings),
        blocked=blocked,
        questions=tuple(questions),
    )


def _is_only_stale(
    outcome: JudgeOutcome, findings: Sequence[_Finding], request: AuditRequest
) -> bool:
    """Return whether a verdict would be complete if all it cites were fresh."""
    standings = {finding.standing for finding in findings}
    is_stale = not standings.isdisjoint(("stale", "waiting"))
    has_other_faults = not standings <= {"proven", "stale", "waiting"}
    if outcome.blocked.strip() or not is_stale or has_other_faults:
        return False
    if "waiting" not in standings:
        return outcome.complete and outcome.score >= request.minimum_score
    # A verdict that is not complete may leave criteria out (`in_words_of_goal`), and
    # nothing is known of these.
    requirements = requirements_of(request.success_criteria, request.constraints)
    named = {finding.criterion.criterion for finding in findings}
    return all(requirement.text in named for requirement in requirements)


def _check(criterion: CriterionVerdict, evidence: Evidence) -> _Finding:
    """Check the citations of a criterion."""
    results = [evidence.check(citation) for citation in criterion.evidence]
    if not criterion.satisfied:
        return _check_open(criterion, results)
    some_count = any(not result.objection for result in results)
    is_unfounded = any(result.unfounded for result in results)
    # One invented citation makes the whole criterion doubtful.
    if some_count and not is_unfounded:
        return _Finding(criterion, "proven", results)
    stale = [result.stale for result in results if result.stale is not None]
    needs_repetition = bool(stale) and not some_count
    remedy = advice_to_repeat(stale) if needs_repetition else evidence.remedy
    missing = f"{_citation_fault(results, some_count=some_count)}. {remedy}"
    unproven = f"{criterion.criterion}: {missing}"
    failed = criterion.model_copy(update={"satisfied": False, "missing": missing})
    # Another answer of the judge cannot mend this: the agent has to run it again.
    if needs_repetition and not is_unfounded:
        return _Finding(failed, "stale", results, unproven)
    mendable = tuple(_mendable_faults(criterion, results))
    return _Finding(failed, "unfounded", results, unproven, mendable)


def _citation_fault(results: Sequence[CheckedCitation], *, some_count: bool) -> str:
    """Return what is wrong with the citations of a criterion, for the agent."""
    objections = _objections(results)
    if not objections:
        return "No evidence is cited"
    fault = "Some citations are invalid" if some_count else "Citation invalid"
    return f"{fault}: {'; '.join(objections)}"


def _mendable_faults(
    criterion: CriterionVerdict, results: Sequence[CheckedCitation]
) -> Iterator[str]:
    """Yield a sentence for each fault that another answer of the judge may mend."""
    name = short(criterion.criterion)
    if not results:
        yield f"{name}: nothing is cited for it."
    for result in results:
        if result.objection and result.stale is None:
            yield f"{name}: {result.objection}."


def _check_open(
    criterion: CriterionVerdict, results: Sequence[CheckedCitation]
) -> _Finding:
    """Return the result for a criterion that the judge calls open."""
    stale_proofs: list[Observation] = []
    for result in results:
        # A failure stays one, also if files changed after it.
        stale = result.stale
        if stale is not None and not any(map(_FAILING.match, stale.facts)):
            stale_proofs.append(stale)
    if not results or len(stale_proofs) < len(results):
        return _Finding(criterion, "open")
    reason = "; ".join(dict.fromkeys(result.objection for result in results))
    unproven = f"{criterion.criterion}: {reason}. {advice_to_repeat(stale_proofs)}"
    return _Finding(criterion, "waiting", unproven=unproven)


def advice_to_repeat(observations: Iterable[Observation]) -> str:
    """Return how to renew stale observations: `Run pytest -q again.`"""
    sentences: dict[str, None] = {}
    for item in observations:
        what = shortened_line(item.command, _LONGEST_COMMAND) or item.source
        verb = "Run" if item.path is None or item.reported_by else "Look at"
        when = ""
        # The runner knows when its own observations were made. Of a reported one, it
        # knows only the round, or when its tool had not started yet.
        if item.reported_by and item.started is None:
            when = ", in a round that changes no file"
        elif item.reported_by:
            when = ", after the last change"
        sentences[f"{verb} {what} again{when}."] = None
    return " ".join([*sentences][:_MOST_REMEDIES])
