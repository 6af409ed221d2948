"""The checks of a run: baseline, validators, critique, audit and second opinion."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256

from goalrunner.core import events
from goalrunner.core.agent_ports import Pausing
from goalrunner.core.errors import EnvironmentFailed, some
from goalrunner.core.labels import Label, begins_with
from goalrunner.core.observation import ArtifactRef, Snapshot, Trail
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import (
    AuditRequest,
    Checker,
    CheckRun,
    ChecksReviewRequest,
    ValidationContext,
)
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.verdict import obstacle_of
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.recorder import RunRecorder
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.validator_results import check_run, observe
from goalrunner.engine.validator_runs import is_hidden, run_validators

OUTSIDE = "changed while the run was interrupted"


@dataclass(frozen=True)
class _Checked:
    """A run of the validators, and the workspace afterwards."""

    ran: CheckRun
    after: Snapshot | None


class Checks:
    """Performs the checks of a run."""

    def __init__(
        self,
        parts: Parts,
        journal: RunJournal,
        tracker: SnapshotTracker,
        recorder: RunRecorder,
        resumption: Resumption,
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._tracker = tracker
        self._recorder = recorder
        if parts.checker is not None:
            parts.checker.recall(resumption.contents)

    @property
    def _state(self) -> RunState:
        return self._journal.state

    async def record_start(self, *, baseline_ran: bool = False) -> None:
        """Write and record the files that describe the start; only before round 1."""
        state = self._state
        if state.round:
            return
        checker, base = self._parts.checker, state.base
        # A baseline that follows writes these files itself.
        is_written_here = (
            baseline_ran
            or state.phase is not Phase.READY
            or not state.plan.takes_baseline
        )
        if checker is not None and base is not None and is_written_here:
            await checker.remember(base)
        files = self._parts.start_files()
        if files and files != self._state.kept:
            self._journal.append(events.StartKept(files=files))

    async def baseline(self) -> None:
        """Run the validators once before round 1."""
        self._begin("baseline", "run the validators before any work is done")
        checked = await self._run(0, "", "the baseline")
        # The first run may have built something in the workspace; only what changes
        # at each run is a difference.
        if checked.ran.finished.leaked:
            checked = await self._run(0, "", "the baseline")
        ran, after = checked.ran, checked.after
        finished = await observe(ran, self._journal, after)
        standing, reason = _standing(finished)
        checker = self._parts.checker
        if standing in ("red", "cannot_run") and checker is not None:
            red = [result for result in finished.results if not result.passed]
            fault = await checker.environment_fault(red, self._context(0, ""))
            if fault:
                standing, reason = "differs", fault
        notes: tuple[str, ...] = ()
        if standing in ("red", "green") and checker is not None:
            notes = checker.warnings(finished.results)
            self._keep_baseline(checker, finished, after)
        await self.record_start(baseline_ran=True)
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
        self,
        checker: Checker,
        finished: events.ValidatorsFinished,
        now: Snapshot | None,
    ) -> None:
        """Let the checker keep the results for the commands that follow."""
        if now is None:
            return
        outputs: dict[str, ArtifactRef] = {}
        for result in finished.results:
            if result.output is not None:
                outputs[result.name] = result.output
        checker.keep_baseline(now, outputs, self._journal.artifacts.read)

    async def validate(self, number: int, response: str) -> None:
        """Run the validators after a round."""
        count = len(self._parts.validators)
        plural = "" if count == 1 else "s"
        self._begin(f"validate-{number}", f"run {count} validator{plural}")
        before = self._state.snapshot
        iteration = self._state.iterations + 1
        checked = await self._run(iteration, response, f"round {number}")
        ran, after = checked.ran, checked.after
        finished = await observe(ran, self._journal, after)
        more_labels = await self._labels_without_work(finished, after, response)
        labels = (*finished.labels, *more_labels)
        changed = finished.changed_checks
        if changed is not None and ran.diff:
            changed = changed.model_copy(update={"diff": self._store(ran.diff)})
        # Results that are a proof have no changed checks, but the goal may let their
        # labels be reviewed.
        if _is_proof(finished):
            labels, changed = await self._reviewed_labels(
                finished, labels, ran.changed, after
            )
        update = {
            "round": number,
            # A log of many rounds stays short if equal snapshots are left out.
            "snapshot": None if after == before else after,
            "changed_checks": changed,
            "labels": labels,
        }
        self._journal.append(finished.model_copy(update=update))

    def _store(self, text: str) -> ArtifactRef:
        return self._journal.artifacts.put(text.encode(errors="replace"))

    async def _reviewed_labels(
        self,
        finished: events.ValidatorsFinished,
        labels: tuple[str, ...],
        paths: tuple[str, ...],
        after: Snapshot | None,
    ) -> tuple[tuple[str, ...], events.ChangedChecks | None]:
        """Return the labels of green results, and what has to be reviewed for them.

        The goal says which labels are reviewed. `paths` are changed files that are not
        source.
        """
        state = self._state
        names = state.plan.approvals.labels
        reviewed = tuple(label for label in labels if _begins_with_any(label, names))
        if not reviewed:
            return labels, None
        # Suppressions may be in any file, so all changes are reviewed.
        suppresses = any(
            begins_with(label, Label.SUPPRESSIONS_ADDED) for label in reviewed
        )
        if suppresses or not paths:
            paths = await self._tracker.changed(state.base, after)
        diff = await self._tracker.patch(state.base, after, paths) if paths else ""
        # A review counts for this change alone, so its key is the content.
        content = "\n".join((*reviewed, diff))
        key = sha256(content.encode(errors="replace")).hexdigest()
        reviewer = state.approved_checks.get(key)
        if reviewer is not None:
            return _with_reviewer(labels, reviewed, reviewer), None
        reviewed_labels = ", ".join(reviewed)
        changed = events.ChangedChecks(
            key=key,
            paths=paths,
            diff=self._store(diff) if diff else None,
            results=finished.results,
            why=f"the goal lets results with this label be reviewed: {reviewed_labels}",
            labels=reviewed,
            hint=_allowing(reviewed, paths),
        )
        return labels, changed

    async def _labels_without_work(
        self, finished: events.ValidatorsFinished, after: Snapshot | None, response: str
    ) -> tuple[str, ...]:
        """Return the label of green results that show no work; none for others.

        Such results are green although nothing changed, or are green without the
        changes as well.
        """
        state, checker = self._state, self._parts.checker
        # Validators in Python may check the response, which is work as well.
        if state.plan.checks_response or not _is_proof(finished):
            return ()
        if state.base is None or after is None:
            return ()
        if not await self._tracker.changed(state.base, after):
            # Work in files that git ignores, or in packages, has a label of its own.
            others = (Label.RESTS_ON_FILES, Label.DEPENDENCIES_CHANGED)
            if any(_begins_with_any(label, others) for label in finished.labels):
                return ()
            return (Label.NOTHING_CHANGED.value,)
        was_green = state.baseline is not None and state.baseline.standing == "green"
        if not was_green or state.plan.has_judge or checker is None:
            return ()
        context = self._context(state.iterations + 1, response)
        # Processes of the agent could change files while checks run.
        with self._agent_paused():
            added_fails = await checker.added_test_fails_on_start(
                state.base, after, context
            )
        return (Label.PASSED_BEFORE.value,) if added_fails is False else ()

    async def review(self, number: int) -> None:
        """Let the judge review the agent's changes of the checks."""
        state, judge = self._state, self._parts.judge
        changed = state.changed_checks
        assert judge is not None, "the plan has a judge"
        assert changed is not None, "only changed checks are reviewed"
        self._journal.append(events.ChecksReviewStarted(round=number, key=changed.key))
        diff = b""
        if changed.diff:
            diff = self._journal.artifacts.read(changed.diff)
        request = ChecksReviewRequest(
            objective=state.goal.description,
            success_criteria=state.goal.success_criteria,
            constraints=state.goal.constraints,
            round=number,
            changed=changed,
            diff=diff.decode(errors="replace"),
            refused=state.refused_hunks,
            reviews=sum(review.asked for review in state.reviews),
        )
        reviewed = await judge.review(request, self._recorder)
        update = {"round": number, "key": changed.key}
        self._journal.append(reviewed.model_copy(update=update))

    async def unchanged(self) -> bool:
        """Return whether the workspace is unchanged since the check.

        Record the changes.
        """
        # A process that the agent left may write after the check.
        checked, now = self._state.snapshot, await self._tracker.take("complete")
        changed = await self._tracker.changed(checked, now)
        if changed and now is not None:
            self._journal.append(events.WorkspaceChanged(paths=changed, snapshot=now))
        return not changed

    async def audit(self, number: int) -> None:
        """Let the judge audit the recorded evidence, with outdated items marked."""
        self._journal.append(events.AuditStarted(round=number))
        request = await self._request(number)
        assert self._parts.judge is not None, "the plan has a judge"
        verdict = await self._parts.judge.audit(request, self._recorder)
        cited = verdict.verdict.cited
        # A long run has thousands of observations; only the cited ones matter later.
        stale = {name: why for name, why in request.stale.items() if name in cited}
        update = {"round": number, "stale": stale}
        self._journal.append(verdict.model_copy(update=update))

    async def confirm(self, claim: str) -> None:
        """Ask for a second opinion on a claim that the goal is blocked.

        The judge answers in a new context.
        """
        number = self._state.round
        self._begin(
            f"confirm-{number}",
            "ask for a second opinion on whether the goal is blocked",
        )
        assert self._parts.judge is not None, "the plan has a judge"
        request = await self._request(number)
        opinion = await self._parts.judge.confirm(request, claim, self._recorder)
        self._journal.append(opinion)

    async def score(self, number: int, response: str) -> None:
        """Ask once for a critique of `response`, and record it.

        `response` is the text of the agent's last message.
        """
        reviewer = self._parts.reviewer
        assert reviewer is not None, "the plan has a critic"
        account = events.CritiqueStarted.account
        self._journal.append(events.CritiqueStarted(round=number))
        # The recorder counts the usage of the calls; the event repeats it for reports.
        before, began = self._state.usage.get(account, Usage()), time.monotonic()
        context = self._context(self._state.iterations + 1, response)
        evidence = await self._request(number)
        with self._agent_paused():
            critique = await reviewer.review(context, evidence, self._recorder)
        usage = self._state.usage.get(account, Usage()).since(before)
        self._journal.append(
            events.CritiqueFinished(
                round=number,
                **critique.model_dump(),
                duration=time.monotonic() - began,
                usage=usage if usage != Usage() else None,
            )
        )

    def _agent_paused(self) -> AbstractContextManager[None]:
        conversation = self._parts.conversation
        if isinstance(conversation, Pausing):
            return conversation.paused()
        return nullcontext()

    def _begin(self, step: str, description: str) -> None:
        self._journal.append(events.StepStarted(step_id=step, description=description))
        # Checks may take long, and the summary says what the run does meanwhile.
        self._journal.save()

    async def _run(self, iteration: int, response: str, when: str) -> _Checked:
        """Run the validators, and note all paths that changed meanwhile."""
        context = self._context(iteration, response)
        now, checker = self._tracker.last, self._parts.checker
        if checker is None or now is None or self._state.base is None:
            # Hidden validators run only in a check environment.
            visible = [item for item in self._parts.validators if not is_hidden(item)]
            ran = check_run(await run_validators(visible, context))
        else:
            # People and programs may have changed files since the end of the round.
            now = await self._tracker.take("validators") or now
            with self._agent_paused():
                ran = await self._check(checker, now, context, when)
        after = await self._tracker.take("validators")
        if checker is None:
            return _Checked(ran, after)
        leaked = (*await self._tracker.changed(now, after), *ran.finished.leaked)
        finished = ran.finished.model_copy(update={"leaked": leaked})
        return _Checked(replace(ran, finished=finished), after)

    async def _check(
        self, checker: Checker, now: Snapshot, context: ValidationContext, when: str
    ) -> CheckRun:
        """Run the validators in the check environment; once more if that failed."""
        base, approved = self._state.base, self._state.approved_checks
        assert base is not None, "the workspace has a snapshot"
        try:
            return await checker.check(base, now, context, when=when, approved=approved)
        except EnvironmentFailed as error:
            # Other causes may pass, such as a full disk or too many processes.
            if error.permanent:
                raise
            note = f"the check could not run: {error.message}; it runs once more"
        self._journal.append(events.NoteAdded(note=note))
        return await checker.check(base, now, context, when=when, approved=approved)

    def _context(self, iteration: int, response: str) -> ValidationContext:
        parts, goal = self._parts, self._state.goal
        return ValidationContext(
            run_id=goal.run_id,
            iteration=iteration,
            objective=goal.description,
            workspace=parts.workspace,
            response=response,
            conversation=parts.conversation,
            scratch=parts.scratch,
            criteria=(*goal.success_criteria, *goal.constraints),
        )

    async def _request(self, number: int) -> AuditRequest:
        state = self._state
        trail = self._journal.trail()
        changed: list[str] = []
        for path in await self._tracker.changed(state.base, state.snapshot):
            changed.append(f"{path} ({OUTSIDE})" if path in state.outside else path)
        stale = await self._tracker.stale(trail.items, state.snapshot)
        request = request_of_state(state, number, trail, stale)
        names = map(self._parts.redact, (*state.protected_changes, *changed))
        return replace(request, left=state.lingering, changed=tuple(names))


def _begins_with_any(label: str, names: Sequence[str]) -> bool:
    return any(begins_with(label, name) for name in names)


def _with_reviewer(
    labels: Sequence[str], reviewed: Sequence[str], reviewer: str
) -> tuple[str, ...]:
    """Return the labels, those that were `reviewed` with the name of the reviewer."""
    suffix = f" ({reviewer})" if reviewer else ""
    return tuple(f"{label}{suffix}" if label in reviewed else label for label in labels)


def _allowing(labels: Sequence[str], paths: Sequence[str]) -> str:
    """Return the line of the goal file with which the next run has no such labels.

    It is empty if there is no such line.
    """
    path_labels = (
        Label.RESTS_ON_FILES,
        Label.RESTS_ON_TESTS,
        Label.CHECKS_DIFFER,
        Label.TESTS_REMOVED,
    )
    if not paths or not all(_begins_with_any(label, path_labels) for label in labels):
        return ""
    return f"allow = {json.dumps(paths, ensure_ascii=False)}"


def _is_proof(finished: events.ValidatorsFinished) -> bool:
    """Return whether the results are green and count."""
    if finished.refusal or finished.leaked or finished.changed_checks:
        return False
    results = finished.results
    return bool(results) and all(result.passed for result in results)


def _standing(finished: events.ValidatorsFinished) -> tuple[events.Standing, str]:
    """Return the status of the validators before any work is done.

    The text is why they cannot run, or what differs.
    """
    results = finished.results
    obstacle = obstacle_of(results)
    if obstacle:
        return "cannot_run", obstacle
    if finished.leaked:
        paths = some(finished.leaked)
        return "differs", f"the workspace changed while it was checked: {paths}"
    if finished.refusal:
        return "differs", f"{finished.refusal}\n{finished.hint}".strip()
    is_green = bool(results) and all(result.passed for result in results)
    return ("green" if is_green else "red"), ""


def request_of_state(
    state: RunState, number: int, trail: Trail, stale: Mapping[str, str]
) -> AuditRequest:
    """Return the request for the judge of a run about one round.

    Only the run itself can fill in the other fields.
    """
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
