"""What is checked and by whom: baseline, validators, audit, second opinion, proof. Performs; decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

from goalrunner import events
from goalrunner.driver.flakiness import Flakiness
from goalrunner.driver.journal import Journal
from goalrunner.driver.recorder import RunRecorder
from goalrunner.driver.resumption import Resumption
from goalrunner.driver.validation import Answer, is_hidden, observe, run_validators
from goalrunner.driver.watch import Watch
from goalrunner.model.observation import Observation
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import drift_message
from goalrunner.ports import AuditRequest, CleanCheck, CleanRoom, Parts, ValidationContext
from goalrunner.state import RunState
from goalrunner.state.evidence import cited_stale

HIDDEN = "a check that is not shown to you failed; go through the objective again"
"""All that the agent ever learns of a hidden validator."""

ONLY_HERE = (
    "in the workspace it is green: what it needs there is not in the snapshot ([workspace] setup or link), or it is red "
    "at random ([[validators]] retries = 1)"
)
"""Of a check that is red in a clean checkout in which nothing had to be undone."""
UNDONE = "the clean checkout has what is protected as it was at the start:"
"""Before the paths that the agent changed, and that are not so there."""
OUTSIDE = "changed while the run was interrupted, not by the agent alone"


class Checks:
    """The checks of a run over its parts."""

    def __init__(self, parts: Parts, journal: Journal, watch: Watch, recorder: RunRecorder, left: Resumption) -> None:
        """`left` is what an earlier process left of the run."""
        self._parts = parts
        self._journal = journal
        self._watch = watch
        self._recorder = recorder
        self._flakiness = Flakiness(watch)
        self._flakiness.recall(left.contents, left.snapshots)

    @property
    def _state(self) -> RunState:
        return self._journal.state

    @property
    def _clean_room(self) -> CleanRoom | None:
        return self._parts.clean_room if self._state.plan.clean_proof else None

    async def keep_start(self) -> None:
        """Write what the folder says of the start, so that a resumed run knows what must be there. Before round 1 alone."""
        if self._state.round:
            return
        if (room := self._clean_room) is not None:
            await room.remember()
        files = self._parts.kept()
        if files and files != self._state.kept:
            self._journal.append(events.StartKept(files=files))

    async def baseline(self) -> None:
        """The validators once before round 1: in the workspace, and on the same snapshot in a clean checkout."""
        self._begin("baseline", "run the validators before any work is done")
        before = self._watch.last
        async with self._preparing(before):
            answers, drift = await self._run(0, "", "the baseline")
            results, observations = await self._observe(answers, before)
            clean = await self._clean(before, "", "the baseline") if drift == () else CleanCheck()
        await self.keep_start()
        standing, reason = compare_baseline(results, clean, drift)
        self._journal.append(
            events.BaselineTaken(
                standing=standing,
                results=tuple(results),
                observations=tuple(observations),
                reason=reason,
                snapshot=None if before == self._state.base else before,
                content=self._flakiness.content(),
            )
        )

    async def validate(self, number: int, response: str) -> None:
        """The validators on what the round left. What changes while they run is drift, and red."""
        before = self._watch.last
        self._begin(f"validate-{number}", f"run {_count(len(self._parts.validators), 'validator')}")
        answers, drift = await self._run(self._state.iterations + 1, response, f"round {number}")
        results, observations = await self._observe(answers, before)
        self._journal.append(
            events.ValidatorsFinished(
                round=number,
                results=tuple(results),
                observations=tuple(observations),
                drift=drift,
                touched=await self._touched(),
                content=self._flakiness.content(),
            )
        )

    async def audit(self, number: int) -> None:
        """The judge on everything that happened, with what is stale said so."""
        judge = self._parts.judge
        if judge is None:
            raise RuntimeError("an audit was decided for a run without a judge")
        self._journal.append(events.AuditStarted(round=number))
        request = await self._request(number)
        audit = await judge.audit(request, self._recorder)
        self._journal.append(
            events.VerdictRecorded(
                round=number,
                verdict=audit.verdict,
                citations_checked=audit.citations_checked,
                refusals=audit.refusals,
                stale_only=audit.stale_only,
                stale=cited_stale(audit.verdict, request.stale),
            )
        )

    async def confirm(self, claim: str) -> None:
        """A second opinion in a fresh context on a claim that the goal is blocked."""
        judge = self._parts.judge
        if judge is None:
            raise RuntimeError("a second opinion was decided for a run without a judge")
        self._begin(f"confirm-{self._state.round}", "ask for a second opinion on whether the goal is blocked")
        opinion = await judge.confirm(await self._request(self._state.round), claim, self._recorder)
        self._journal.append(
            events.ConfirmationRecorded(claim=claim, confirmed=opinion.confirmed, reason=opinion.reason)
        )

    async def prove(self, number: int, response: str) -> None:
        """Every validator, hidden ones included, in a clean checkout of what the round left."""
        self._begin(f"prove-{number}", "run the validators in a clean checkout")
        clean = await self._clean(self._state.snapshot, response, f"round {number}")
        results, observations = await self._observe(clean.results, self._state.snapshot)
        red = [result for result in results if not result.passed]
        undone = why_only_here(red, clean)
        self._journal.append(
            events.ProofFinished(
                round=number,
                # Fails closed: a clean checkout in which nothing ran has proven nothing.
                passed=bool(results) and not red and not clean.refusal,
                results=tuple(results),
                observations=tuple(observations),
                restored=clean.restored,
                feedback="\n".join([_feedback(red, clean.refusal, self._green_here()), *undone]).strip(),
                reason=clean.refusal or "; ".join([*(f"{item.name}: {item.summary}" for item in red), *undone]),
                content=self._flakiness.content(),
            )
        )

    def _green_here(self) -> frozenset[str]:
        """The checks that the workspace itself has passed in this round."""
        return frozenset(result.name for result in self._state.validators if result.passed)

    def _begin(self, step: str, description: str) -> None:
        self._journal.append(events.StepStarted(step_id=step, description=description))

    async def _run(self, iteration: int, response: str, when: str) -> tuple[list[Answer], tuple[str, ...]]:
        """The answers in the workspace, and the paths that changed while they were found."""
        before = self._watch.last
        visible = [validator for validator in self._parts.validators if not is_hidden(validator)]
        await self._flakiness.begin()
        answers = await run_validators(visible, self._context(iteration, response))
        drift = await self._watch.changed(before, await self._watch.take("validators"))
        await self._flakiness.end()
        return self._flakiness.judged(answers, "workspace", when), drift

    def _preparing(self, snapshot: Snapshot | None) -> AbstractAsyncContextManager[None]:
        room, base = self._clean_room, self._state.base
        return nullcontext() if room is None or snapshot is None or base is None else room.preparing(base, snapshot)

    async def _clean(self, snapshot: Snapshot | None, response: str, when: str) -> CleanCheck:
        room, base = self._clean_room, self._state.base
        if room is None or snapshot is None or base is None:
            return CleanCheck()
        clean = await room.check(base, snapshot, self._context(self._state.iterations, response))
        return replace(clean, results=tuple(self._flakiness.judged(clean.results, "checkout", when)))

    async def _touched(self) -> tuple[str, ...]:
        room, base, now = self._parts.clean_room, self._state.base, self._watch.last
        return () if room is None or base is None or now is None else await room.touched(base, now)

    def _context(self, iteration: int, response: str) -> ValidationContext:
        parts = self._parts
        return ValidationContext(
            run_id=self._state.goal.run_id,
            iteration=iteration,
            objective=self._state.goal.description,
            workspace=parts.workspace,
            response=response,
            conversation=parts.conversation,
            scratch=parts.scratch,
        )

    async def _observe(
        self, answers: Sequence[Answer], seen: Snapshot | None
    ) -> tuple[list[ValidatorResult], list[Observation]]:
        return await observe(answers, self._journal, self._parts.redact, seen.id if seen else None)

    async def _request(self, number: int) -> AuditRequest:
        state = self._state
        trail = self._journal.trail()
        return AuditRequest(
            objective=state.goal.description,
            success_criteria=state.criteria,
            constraints=state.goal.constraints,
            deliverable=state.plan.deliverable,
            round=number,
            trail=trail,
            minimum_score=state.plan.minimum_score,
            require=state.plan.require,
            stale=await self._watch.stale(trail.items, state.snapshot),
            left=state.lingering,
            changed=tuple(
                map(
                    self._parts.redact,
                    (*state.touched, *map(self._told, await self._watch.changed(state.base, state.snapshot))),
                )
            ),
        )

    def _told(self, path: str) -> str:
        """A changed path, as the judge is told of it."""
        return f"{path} ({OUTSIDE})" if path in self._state.outside else path


def compare_baseline(
    results: Sequence[ValidatorResult], clean: CleanCheck, drift: Sequence[str]
) -> tuple[events.Standing, str]:
    """How the validators stand before any work is done, and why they cannot tell where they cannot."""
    missing = [result for result in results if result.cannot_run]
    if missing:
        return "cannot_run", "\n".join(f"validator {item.name} cannot run here: {item.summary}" for item in missing)
    if drift:
        return "differs", drift_message(drift)
    if clean.refusal:
        return "differs", clean.refusal
    there = {result.name: result for result, _ in clean.results}
    for here in results:
        twin = there.get(here.name)
        if twin is not None and twin.passed != here.passed:
            return "differs", _difference(here, twin, clean.absent)
    hidden_red = any(not result.passed for result in there.values())
    green = all(result.passed for result in results) and not hidden_red
    return ("green" if green else "red"), ""


def why_only_here(red: Sequence[ValidatorResult], clean: CleanCheck) -> list[str]:
    """Why a check may be red in a clean checkout alone, a line each: what was undone there, and what is not there."""
    if not red:
        return []
    undone = [line for line in (*clean.touched, clean.lift) if line]
    if all(item.hidden or item.reason == "flaky" for item in red):
        return undone
    absent = _absent(clean.absent).splitlines()
    if not undone:
        return [*absent, ONLY_HERE]
    return [UNDONE, *undone, *(f"{line} ([workspace] setup or link brings it)" for line in absent)]


def _difference(here: ValidatorResult, there: ValidatorResult, absent: Sequence[str]) -> str:
    here_is, there_is = ("green", "red") if here.passed else ("red", "green")
    return (
        f"validator {here.name} is {here_is} in the workspace ({here.summary}) and {there_is} in a clean checkout of it "
        f"({there.summary})\nwhat it needs is not in the snapshot: name it in [workspace] link, make it with "
        f"[workspace] setup, or set clean_proof = false; if it is red at random: [[validators]] retries = 1\n"
        f"{_absent(absent)}{there.feedback[-1000:]}"
    ).strip()


def _absent(paths: Sequence[str]) -> str:
    """What a checkout lacks, in one line; empty where nothing is ignored."""
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return f"ignored, so not there: {', '.join(paths[:5])}{more}\n" if paths else ""


def _feedback(red: Sequence[ValidatorResult], refusal: str, green_here: Collection[str]) -> str:
    though = ", though it is green in the workspace"
    said = [
        f"validator {item.name} is red in a clean checkout{though if item.name in green_here else ''}: {item.summary}\n"
        f"{item.feedback}"
        for item in red
        if not item.hidden
    ]
    said += [HIDDEN] if any(item.hidden for item in red) else []
    return "\n\n".join([*said, refusal] if refusal else said)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
