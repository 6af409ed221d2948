"""Running and recording baseline, validators, audit and second opinion; detection of flaky validators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial

from goalrunner.core import events
from goalrunner.core.agent_ports import Pausing
from goalrunner.core.base import Snapshot
from goalrunner.core.check_ports import AuditRequest, CheckRun, Judge, ValidationContext
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.events import Colour, Content
from goalrunner.core.round_state import obstacle_of
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.summary import cited_stale
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.journal import Journal, Parts
from goalrunner.engine.recorder import RunRecorder
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.validation import is_hidden, observe, run_validators

OUTSIDE = "changed while the run was interrupted"


class Checks:
    """Performs the checks of a run."""

    def __init__(
        self, parts: Parts, journal: Journal, tracker: SnapshotTracker, recorder: RunRecorder, left: Resumption
    ) -> None:
        """`left` is what an earlier process recorded of the run."""
        self._parts = parts
        self._journal = journal
        self._tracker = tracker
        self._recorder = recorder
        self._failures: set[str] = set()  # of the check environment; after each, the check ran once more
        if parts.checker is not None:
            parts.checker.recall(left.contents)

    @property
    def _state(self) -> RunState:
        return self._journal.state

    @property
    def _judge(self) -> Judge:
        if self._parts.judge is None:
            raise RuntimeError("an audit was decided for a run without a judge")
        return self._parts.judge

    async def keep_start(self, *, checked: bool = False) -> None:
        """Record what the run's folder holds about the start, so that a resumed run knows what must be there.

        Only before round 1. `checked`: the validators of the baseline ran.
        """
        if self._state.round:
            return
        checker, base = self._parts.checker, self._state.base
        before_baseline = self._state.phase is Phase.READY and self._state.plan.takes_baseline
        # The baseline itself records the start, while validators run.
        if checker is not None and base is not None and (checked or not before_baseline):
            await checker.remember(base)
        files = self._parts.kept()
        if files and files != self._state.kept:
            self._journal.append(events.StartKept(files=files))

    async def baseline(self) -> None:
        """Run the validators once before round 1."""
        self._begin("baseline", "run the validators before any work is done")
        ran, after, leaked = await self._run(0, "", "the baseline")
        if leaked:
            ran, after, leaked = await self._run(0, "", "the baseline")
        results, observations, concealed = await observe(ran.results, self._journal, self._parts.redact, after)
        standing, reason = baseline_standing(results, ran, leaked)
        checker = self._parts.checker
        if standing in ("red", "cannot_run") and checker is not None and after is not None:
            red = [result for result in results if not result.passed]
            if found := await checker.compare(after, red, self._context(0, "")):
                standing, reason = "differs", found
        await self.keep_start(checked=True)
        self._journal.append(
            events.BaselineTaken(
                standing=standing,
                results=results,
                observations=observations,
                concealed=concealed,
                reason=reason,
                snapshot=None if after == self._state.base else after,
                content=ran.content,
            )
        )

    async def validate(self, number: int, response: str) -> None:
        """Run the validators after a round."""
        count = len(self._parts.validators)
        self._begin(f"validate-{number}", f"run {count} validator{'' if count == 1 else 's'}")
        before = self._state.snapshot
        ran, after, leaked = await self._run(self._state.iterations + 1, response, f"round {number}")
        results, observations, concealed = await observe(ran.results, self._journal, self._parts.redact, after)
        kept = self._parts.redact(ran.diff)
        diff = self._journal.artifacts.put(kept.encode(errors="replace")) if kept else None
        changed = ran.changed_checks.model_copy(update={"diff": diff}) if ran.changed_checks else None
        self._journal.append(
            events.ValidatorsFinished(
                round=number,
                results=results,
                observations=observations,
                concealed=concealed,
                refusal=ran.refusal,
                hint=ran.hint,
                leaked=leaked,
                snapshot=None if after == before else after,
                protected_changes=ran.protected_changes,
                differing=ran.differing,
                labels=ran.labels,
                changed_checks=changed,
                content=ran.content,
            )
        )

    async def unchanged(self) -> bool:
        """Return whether the workspace is still as it was checked; record what changed."""
        checked = self._state.snapshot
        now = await self._tracker.take("complete")
        changed = await self._tracker.changed(checked, now)
        if changed and now is not None:
            self._journal.append(events.WorkspaceChanged(paths=changed, snapshot=now))
        return not changed

    async def audit(self, number: int) -> None:
        """Let the judge audit the recorded evidence, with outdated observations marked."""
        self._journal.append(events.AuditStarted(round=number))
        request = await self._request(number)
        audit = await self._judge.audit(request, self._recorder)
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
        """Ask for a second opinion on a claim that the goal is blocked, in a new context."""
        self._begin(f"confirm-{self._state.round}", "ask for a second opinion on whether the goal is blocked")
        opinion = await self._judge.confirm(await self._request(self._state.round), claim, self._recorder)
        self._journal.append(
            events.ConfirmationRecorded(claim=claim, confirmed=opinion.confirmed, reason=opinion.reason)
        )

    def _begin(self, step: str, description: str) -> None:
        self._journal.append(events.StepStarted(step_id=step, description=description))

    async def _run(self, iteration: int, response: str, when: str) -> tuple[CheckRun, Snapshot | None, tuple[str, ...]]:
        """Run the validators; return the results, the workspace afterwards, and the paths that changed meanwhile."""
        context = self._context(iteration, response)
        now, base, checker = self._tracker.last, self._state.base, self._parts.checker
        if checker is None or now is None or base is None:
            visible = [validator for validator in self._parts.validators if not is_hidden(validator)]
            ran = CheckRun(tuple(await run_validators(visible, context)))
        else:
            now = await self._tracker.take("validators") or now
            conversation = self._parts.conversation
            with conversation.paused() if isinstance(conversation, Pausing) else nullcontext():
                check = partial(checker.check, base, now, context, when=when, approved=self._state.approved_checks)
                try:
                    ran = await check()
                except EnvironmentFailed as error:
                    self._note_failure(error)
                    ran = await check()
        after = await self._tracker.take("validators")
        leaked = (*await self._tracker.changed(now, after), *ran.leaked) if checker is not None else ()
        return ran, after, leaked

    def _note_failure(self, error: EnvironmentFailed) -> None:
        """Record that the check runs once more. Raise the error if it is permanent or occurred before."""
        if error.permanent or error.message in self._failures:
            raise error
        self._failures.add(error.message)
        said = f"the check could not run: {error.message}; it runs once more"
        self._journal.append(events.NoteAdded(note=self._parts.redact(said)))

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

    async def _request(self, number: int) -> AuditRequest:
        state = self._state
        trail = self._journal.trail()
        changed = map(self._told, await self._tracker.changed(state.base, state.snapshot))
        return AuditRequest(
            objective=state.goal.description,
            success_criteria=state.criteria,
            constraints=state.goal.constraints,
            deliverable=state.plan.deliverable,
            round=number,
            trail=trail,
            minimum_score=state.plan.minimum_score,
            require=state.plan.require,
            stale=await self._tracker.stale(trail.items, state.snapshot),
            left=state.lingering,
            changed=tuple(map(self._parts.redact, (*state.protected_changes, *changed))),
        )

    def _told(self, path: str) -> str:
        """Return a changed path in the form that the judge sees."""
        return f"{path} ({OUTSIDE})" if path in self._state.outside else path


def baseline_standing(
    results: Sequence[ValidatorResult], ran: CheckRun, leaked: Sequence[str]
) -> tuple[events.Standing, str]:
    """Return the status of the validators before any work is done, and why they cannot run."""
    if obstacle := obstacle_of(results):
        return "cannot_run", obstacle
    if leaked:
        return "differs", f"the workspace changed while it was checked: {', '.join(leaked[:5])}"
    if ran.refusal:
        return "differs", f"{ran.refusal}\n{ran.hint}".strip()
    return ("green" if results and all(result.passed for result in results) else "red"), ""


class Flakiness:
    """The results of one run by content. A content is a snapshot with the ignored files and the plan of the check."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, bool, str], str] = {}
        """(validator, passed, content) -> when it was seen first."""
        self._key = self._when = ""
        self._new: list[Colour] = []

    def recall(self, contents: Iterable[Content]) -> None:
        """Take over what an earlier process recorded, oldest first."""
        for content in contents:
            for colour in content.said:
                self._said.setdefault((colour.name, colour.passed, content.key), content.when)

    def begin(self, key: str, when: str) -> None:
        """Start a check of a content; `when` is for people ("round 2")."""
        self._key, self._when, self._new = key, when, []

    def contradicted(self, result: ValidatorResult, where: str = "") -> str:
        """Return when the validator had the other colour on this content; empty if never, or if it may differ.

        `where` separates environments: what one makes red and the other green is no contradiction.
        """
        # The result of a missing program does not depend on the content.
        if not result.steady or result.reason == "not_found":
            return ""
        return self._said.get((f"{result.name}{where}", not result.passed, self._key), "")

    def note(self, result: ValidatorResult, where: str = "") -> None:
        """Remember a result on the content at hand."""
        if result.steady and result.reason not in ("not_found", "flaky"):
            name = f"{result.name}{where}"
            self._new.append(Colour(name=name, passed=result.passed))
            self._said.setdefault((name, result.passed, self._key), self._when)

    def content(self) -> Content:
        """Return what was noted since `begin`, for the log."""
        return Content(key=self._key, when=self._when, said=tuple(self._new))


def flaky_red(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return a result that contradicts an earlier one as red."""
    was, now = ("red", "green") if result.passed else ("green", "red")
    said = f"it was {was} in {earlier} and is {now} now on the same files; [[validators]] retries = 0 makes that red"
    update = {"passed": False, "reason": "flaky", "summary": f"flaky: {now} now, {was} in {earlier} on the same files"}
    return result.model_copy(update={**update, "feedback": f"{said}\n\n{result.feedback}".strip()})


def third_run(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return the result of the run that decided, marked as such."""
    return result.model_copy(update={"summary": f"{result.summary} (flaky: a third run decided; see {earlier})"})
