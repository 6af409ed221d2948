"""Running and recording baseline, validators, critique, audit and second opinion."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from hashlib import sha256

from goalrunner.core import events
from goalrunner.core.agent_ports import Pausing
from goalrunner.core.errors import EnvironmentFailed, RecordError, some
from goalrunner.core.labels import Label, begins_with
from goalrunner.core.observation import ArtifactRef, Snapshot, Trail
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import (
    AuditRequest,
    CheckRun,
    ChecksReviewRequest,
    ValidationContext,
    Validator,
)
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.verdict import ValidatorResult, obstacle_of
from goalrunner.engine.journal import Answer, Parts, RunJournal, check_run, observe
from goalrunner.engine.recorder import Resumption, RunRecorder
from goalrunner.engine.snapshot_tracker import SnapshotTracker

OUTSIDE = "changed while the run was interrupted"


class InterruptedByValidatorError(Exception):
    """A validator raised KeyboardInterrupt, which would stop the event loop; this is an ordinary exception."""


def is_hidden(validator: Validator) -> bool:
    """Return whether a validator is hidden; custom validators need no such attribute."""
    return bool(getattr(validator, "hidden", False))


async def run_validators(
    validators: Sequence[Validator], context: ValidationContext
) -> list[Answer]:
    """Return every validator's result in the order of the goal. Serial ones run one by one after the others."""
    answers: dict[int, Answer] = {}

    async def run(index: int) -> None:
        answers[index] = await _answer(validators[index], context)

    try:
        async with asyncio.TaskGroup() as group:
            for index, validator in enumerate(validators):
                if not validator.serial:
                    group.create_task(run(index))
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    for index, validator in enumerate(validators):
        if validator.serial:
            await run(index)
    return [answers[index] for index in range(len(validators))]


async def _answer(validator: Validator, context: ValidationContext) -> Answer:
    """Return the result under the validator's own name. A validator that raises is red."""
    try:
        result, output = await validator.validate(context)
    except RecordError:
        raise
    except KeyboardInterrupt:
        raise InterruptedByValidatorError from None
    except (Exception, SystemExit) as error:
        message = f"{type(error).__name__}: {error}"
        result, output = (
            ValidatorResult(
                name=validator.name, passed=False, reason="crashed", feedback=message
            ),
            None,
        )
        result = result.model_copy(
            update={
                "summary": message.splitlines()[0][:200],
                "command": validator.command,
            }
        )
    return result.model_copy(update={"name": validator.name}), output


class Checks:
    """Performs the checks of a run."""

    def __init__(
        self,
        parts: Parts,
        journal: RunJournal,
        tracker: SnapshotTracker,
        recorder: RunRecorder,
        left: Resumption,
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._tracker = tracker
        self._recorder = recorder
        if parts.checker is not None:
            parts.checker.recall(left.contents)

    @property
    def _state(self) -> RunState:
        return self._journal.state

    async def keep_start(self, *, checked: bool = False) -> None:
        """Record the files about the start in the run's folder; only before round 1. `checked`: the baseline ran."""
        if self._state.round:
            return
        checker, base = self._parts.checker, self._state.base
        before_baseline = (
            self._state.phase is Phase.READY and self._state.plan.takes_baseline
        )
        # The baseline itself records the start, while validators run.
        if (
            checker is not None
            and base is not None
            and (checked or not before_baseline)
        ):
            await checker.remember(base)
        files = self._parts.kept()
        if files and files != self._state.kept:
            self._journal.append(events.StartKept(files=files))

    async def baseline(self) -> None:
        """Run the validators once before round 1."""
        self._begin("baseline", "run the validators before any work is done")
        ran, after = await self._run(0, "", "the baseline")
        if ran.finished.leaked:
            ran, after = await self._run(0, "", "the baseline")
        finished = await observe(ran, self._journal, after)
        standing, reason = _standing(finished)
        checker = self._parts.checker
        if standing in ("red", "cannot_run") and checker is not None:
            red = [result for result in finished.results if not result.passed]
            if found := await checker.compare(red, self._context(0, "")):
                standing, reason = "differs", found
        notes: tuple[str, ...] = ()
        if standing in ("red", "green") and checker is not None:
            notes = checker.warnings(finished.results)
            self._keep_baseline(finished, after)
        await self.keep_start(checked=True)
        self._journal.append(
            events.BaselineTaken(
                standing=standing,
                results=finished.results,
                observations=finished.observations,
                concealed=finished.concealed,
                reason=reason,
                written=finished.written,
                snapshot=None if after == self._state.base else after,
                content=finished.content,
                notes=tuple(map(self._parts.redact, notes)),
                age=ran.age,
            )
        )

    def _keep_baseline(
        self, finished: events.ValidatorsFinished, now: Snapshot | None
    ) -> None:
        """Let the checker keep the results for the commands that follow."""
        checker = self._parts.checker
        if checker is not None and now is not None:
            outputs = {
                result.name: result.output
                for result in finished.results
                if result.output is not None
            }
            checker.keep_baseline(now, outputs, self._journal.artifacts.read)

    async def validate(self, number: int, response: str) -> None:
        """Run the validators after a round."""
        count = len(self._parts.validators)
        self._begin(
            f"validate-{number}", f"run {count} validator{'' if count == 1 else 's'}"
        )
        before = self._state.snapshot
        ran, after = await self._run(
            self._state.iterations + 1, response, f"round {number}"
        )
        finished = await observe(ran, self._journal, after)
        labels = (
            *finished.labels,
            *await self._of_the_start(finished, after, response),
        )
        changed = finished.changed_checks
        if changed is not None and ran.diff:
            changed = changed.model_copy(update={"diff": self._keep(ran.diff)})
        if _is_proof(finished):
            labels, changed = await self._labelled(finished, labels, ran.changed, after)
        snapshot = None if after == before else after
        complete = {
            "round": number,
            "snapshot": snapshot,
            "changed_checks": changed,
            "labels": labels,
        }
        self._journal.append(finished.model_copy(update=complete))

    def _keep(self, text: str) -> ArtifactRef:
        return self._journal.artifacts.put(text.encode(errors="replace"))

    async def _labelled(
        self,
        finished: events.ValidatorsFinished,
        labels: tuple[str, ...],
        paths: tuple[str, ...],
        after: Snapshot | None,
    ) -> tuple[tuple[str, ...], events.ChangedChecks | None]:
        """Return the labels of green results, and what has to be reviewed because of them, if the goal says so.

        `paths` are changed files that are not source. Suppressions may be anywhere, so all changes are reviewed.
        """
        state = self._state
        names = state.plan.approvals.labels
        wanted = tuple(
            label for label in labels if any(begins_with(label, name) for name in names)
        )
        if not wanted:
            return labels, None
        if not paths or any(
            begins_with(label, Label.SUPPRESSIONS_ADDED) for label in wanted
        ):
            paths = await self._tracker.changed(state.base, after)
        diff = await self._tracker.patch(state.base, after, paths) if paths else ""
        key = sha256("\n".join((*wanted, diff)).encode(errors="replace")).hexdigest()
        reviewer = state.approved_checks.get(key)
        if reviewer is not None:
            suffix = f" ({reviewer})" if reviewer else ""
            return tuple(
                f"{label}{suffix}" if label in wanted else label for label in labels
            ), None
        changed = events.ChangedChecks(
            key=key,
            paths=paths,
            diff=self._keep(diff) if diff else None,
            results=finished.results,
            why=f"the goal lets results with this label be reviewed: {', '.join(wanted)}",
            labels=wanted,
            hint=_allowing(wanted, paths),
        )
        return labels, changed

    async def _of_the_start(
        self, finished: events.ValidatorsFinished, after: Snapshot | None, response: str
    ) -> tuple[str, ...]:
        """Return the label of green results that no work shows in: nothing changed, or they are green without it as well.

        Validators in Python may check the response, which is work as well.
        """
        state, checker = self._state, self._parts.checker
        if (
            state.plan.checks_response
            or not _is_proof(finished)
            or state.base is None
            or after is None
        ):
            return ()
        if not await self._tracker.changed(state.base, after):
            # Work in files that git ignores, or in packages, has a label of its own.
            named = (Label.RESTS_ON_FILES, Label.DEPENDENCIES_CHANGED)
            is_named = any(
                begins_with(label, name) for label in finished.labels for name in named
            )
            return () if is_named else (Label.NOTHING_CHANGED.value,)
        was_green = state.baseline is not None and state.baseline.standing == "green"
        if not was_green or state.plan.has_judge or checker is None:
            return ()
        context = self._context(state.iterations + 1, response)
        with self._agent_paused():
            added_fails = await checker.on_start(state.base, after, context)
        return (Label.PASSED_BEFORE.value,) if added_fails is False else ()

    async def review(self, number: int) -> None:
        """Let the judge review the agent's changes of the checks."""
        state, judge = self._state, self._parts.judge
        changed = state.changed_checks
        assert judge is not None  # the plan says so
        assert changed is not None  # that is why the judge is asked
        self._journal.append(events.ChecksReviewStarted(round=number, key=changed.key))
        diff = (
            self._journal.artifacts.read(changed.diff).decode(errors="replace")
            if changed.diff
            else ""
        )
        request = ChecksReviewRequest(
            objective=state.goal.description,
            success_criteria=state.goal.success_criteria,
            constraints=state.goal.constraints,
            round=number,
            changed=changed,
            diff=diff,
            refused=state.refused_hunks,
            reviews=sum(review.asked for review in state.reviews),
        )
        reviewed = await judge.review(request, self._recorder)
        self._journal.append(
            reviewed.model_copy(update={"round": number, "key": changed.key})
        )

    async def unchanged(self) -> bool:
        """Return whether the workspace is unchanged since the check; record the changes."""
        checked, now = self._state.snapshot, await self._tracker.take("complete")
        changed = await self._tracker.changed(checked, now)
        if changed and now is not None:
            self._journal.append(events.WorkspaceChanged(paths=changed, snapshot=now))
        return not changed

    async def audit(self, number: int) -> None:
        """Let the judge audit the recorded evidence, with outdated observations marked."""
        self._journal.append(events.AuditStarted(round=number))
        request = await self._request(number)
        assert self._parts.judge is not None  # the plan says so
        recorded = await self._parts.judge.audit(request, self._recorder)
        cited = recorded.verdict.cited
        stale = {name: why for name, why in request.stale.items() if name in cited}
        self._journal.append(
            recorded.model_copy(update={"round": number, "stale": stale})
        )

    async def confirm(self, claim: str) -> None:
        """Ask for a second opinion on a claim that the goal is blocked, in a new context."""
        self._begin(
            f"confirm-{self._state.round}",
            "ask for a second opinion on whether the goal is blocked",
        )
        assert self._parts.judge is not None  # the plan says so
        opinion = await self._parts.judge.confirm(
            await self._request(self._state.round), claim, self._recorder
        )
        self._journal.append(opinion)

    async def score(self, number: int, response: str) -> None:
        """Ask once for a critique of `response`, the text of the agent's last message, and record it."""
        reviewer = self._parts.reviewer
        assert reviewer is not None  # the plan says so
        account = events.CritiqueStarted.account
        self._journal.append(events.CritiqueStarted(round=number))
        before, began = self._state.usage.get(account, Usage()), time.monotonic()
        context = self._context(self._state.iterations + 1, response)
        evidence = await self._request(number)
        with self._agent_paused():
            critique = await reviewer.review(context, evidence, self._recorder)
        used = self._state.usage.get(account, Usage()).since(before)
        self._journal.append(
            events.CritiqueFinished(
                round=number,
                **critique.model_dump(),
                duration=time.monotonic() - began,
                usage=used if used != Usage() else None,
            )
        )

    def _agent_paused(self) -> AbstractContextManager[None]:
        conversation = self._parts.conversation
        return (
            conversation.paused()
            if isinstance(conversation, Pausing)
            else nullcontext()
        )

    def _begin(self, step: str, description: str) -> None:
        self._journal.append(events.StepStarted(step_id=step, description=description))

    async def _run(
        self, iteration: int, response: str, when: str
    ) -> tuple[CheckRun, Snapshot | None]:
        """Run the validators; return the results with all paths that changed meanwhile, and the workspace afterwards."""
        context = self._context(iteration, response)
        now, base, checker = self._tracker.last, self._state.base, self._parts.checker
        if checker is None or now is None or base is None:
            visible = [
                validator
                for validator in self._parts.validators
                if not is_hidden(validator)
            ]
            ran = check_run(await run_validators(visible, context))
        else:
            now = await self._tracker.take("validators") or now
            with self._agent_paused():
                check = partial(
                    checker.check,
                    base,
                    now,
                    context,
                    when=when,
                    approved=self._state.approved_checks,
                )
                try:
                    ran = await check()
                except EnvironmentFailed as error:
                    if error.permanent:
                        raise
                    note = (
                        f"the check could not run: {error.message}; it runs once more"
                    )
                    self._journal.append(events.NoteAdded(note=note))
                    ran = await check()
        after = await self._tracker.take("validators")
        if checker is None:
            return ran, after
        leaked = (*await self._tracker.changed(now, after), *ran.finished.leaked)
        return replace(
            ran, finished=ran.finished.model_copy(update={"leaked": leaked})
        ), after

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
            criteria=(
                *self._state.goal.success_criteria,
                *self._state.goal.constraints,
            ),
        )

    async def _request(self, number: int) -> AuditRequest:
        state = self._state
        trail = self._journal.trail()
        paths = await self._tracker.changed(state.base, state.snapshot)
        changed = (
            f"{path} ({OUTSIDE})" if path in state.outside else path for path in paths
        )
        request = request_of_state(
            state, number, trail, await self._tracker.stale(trail.items, state.snapshot)
        )
        shown = tuple(map(self._parts.redact, (*state.protected_changes, *changed)))
        return replace(request, left=state.lingering, changed=shown)


def _allowing(labels: Sequence[str], paths: Sequence[str]) -> str:
    """Return the line of the goal file with which the next run has no such labels; empty if there is none."""
    about_paths = (
        Label.RESTS_ON_FILES,
        Label.RESTS_ON_TESTS,
        Label.CHECKS_DIFFER,
        Label.TESTS_REMOVED,
    )
    is_about_paths = all(
        any(begins_with(label, name) for name in about_paths) for label in labels
    )
    return (
        f"allow = {json.dumps(paths, ensure_ascii=False)}"
        if is_about_paths and paths
        else ""
    )


def _is_proof(finished: events.ValidatorsFinished) -> bool:
    """Return whether the results are green and count."""
    passed = bool(finished.results) and all(
        result.passed for result in finished.results
    )
    return passed and not (
        finished.refusal or finished.leaked or finished.changed_checks
    )


def _standing(finished: events.ValidatorsFinished) -> tuple[events.Standing, str]:
    """Return the status of the validators before any work is done, and why they cannot run."""
    results = finished.results
    if obstacle := obstacle_of(results):
        return "cannot_run", obstacle
    if finished.leaked:
        return (
            "differs",
            f"the workspace changed while it was checked: {some(finished.leaked)}",
        )
    if finished.refusal:
        return "differs", f"{finished.refusal}\n{finished.hint}".strip()
    return (
        "green" if results and all(result.passed for result in results) else "red"
    ), ""


def request_of_state(
    state: RunState, number: int, trail: Trail, stale: Mapping[str, str]
) -> AuditRequest:
    """Return the request for the judge of a run about one round, without the fields that only the run itself can fill in."""
    return AuditRequest(
        objective=state.goal.description,
        success_criteria=state.criteria,
        constraints=state.goal.constraints,
        deliverable=state.plan.deliverable,
        round=number,
        trail=trail,
        minimum_score=state.plan.minimum_score,
        require=state.plan.require,
        stale=stale,
        unread=state.unread_answer,
    )
