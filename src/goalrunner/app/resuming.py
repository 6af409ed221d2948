"""Resuming a run from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from goalrunner.app.build import PreparedRun, cut_usage, open_run
from goalrunner.app.first_events import deadline_at
from goalrunner.app.previous_run import LoadedRun, file_hash, finalize, refuse_final
from goalrunner.app.readiness import readiness, refuse_unready
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions
from goalrunner.app.stored_goal import NEW_RUN, frozen_goal
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import Rejoining, Resumable
from goalrunner.core.budgets import options_to_lift, shortfall, shortfalls
from goalrunner.core.errors import RecordError, UsageError, ways_on
from goalrunner.core.events import Account, RunResumed, RunRules
from goalrunner.core.fold.usage import with_more_usage
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.writer_lock import is_written

Limits = Mapping[str, float | tuple[str, ...] | None]
"""New limits by the names of `RunRules`; None lifts one.

`allow_unenforced` names budgets that count only what is known.
"""


@dataclass(frozen=True)
class EarlierRun:
    """A run that is resumed."""

    folder: RunFolder
    loaded: LoadedRun
    options: RunOptions
    limits: Limits
    goal: Goal | None = None
    """It has the parts that a calling program passed.

    None: it is read from the run's folder.
    """
    note: str = ""

    def completed(self) -> GoalOutcome | None:
        """Return the outcome if the run is complete, else None.

        Write it if the process was killed before it did.
        """
        finalize(self.folder, self.loaded, self.options.observers)
        if self.loaded.state.status is not GoalStatus.COMPLETE:
            return None
        # Another process still ends it; `resume` says so.
        if is_written(self.folder.events):
            return None
        return self.loaded.outcome(self.folder)

    async def resume(self) -> PreparedRun:
        """Open the run again, and record that it was resumed. Raise GoalError."""
        loaded, options = self.loaded, self.options
        refuse_final(loaded.state)
        plan = self._plan()
        # Before anything is opened: a refused run stays as it is.
        _refuse_low_limits(loaded.state, plan)
        handed = options.handed(self.goal) if self.goal else ()
        _refuse_other_start(self.folder, loaded, handed)
        goal = self.goal or frozen_goal(self.folder, options.environ, loaded.goal_file)
        resolved = resolve(goal, replace(options, goal_file=loaded.goal_file))
        # The agents before this one have given up.
        config = replace(resolved, at_work=loaded.state.agent)
        findings = readiness(config)
        refuse_unready(config, findings)
        prepared = open_run(config, findings, self.folder, loaded)
        try:
            config.refuse_shared_workspace()
            await self._go_on(prepared, plan)
        except BaseException:
            prepared.close()
            raise
        return prepared

    def _plan(self) -> RunRules:
        """Return the rules of the run with the new limits."""
        plan = self.loaded.state.plan
        limits = dict(self.limits)
        allowed = limits.pop("allow_unenforced", None)
        if isinstance(allowed, tuple):
            limits["unenforced"] = tuple(dict.fromkeys((*plan.unenforced, *allowed)))
        return plan.model_copy(update=limits)

    async def _go_on(self, prepared: PreparedRun, plan: RunRules) -> None:
        """Give the conversation its chat, and record that the run was resumed."""
        run, folder = prepared.run, self.folder
        resumption = run.resumption
        if isinstance(run.conversation, Resumable) and resumption.chat:
            run.conversation.load(resumption.chat, resumption.unfinished, run.recorder)
        cut = self._cut_usage(prepared)
        if self.loaded.state.external:
            # Only the models of the opened run can estimate the call that was cut, so
            # the limits are compared once more.
            _refuse_low_limits(with_more_usage(run.state, cut), plan)
        for observer in self.options.observers:
            if isinstance(observer, Rejoining):
                observer.on_state(run.state)
        resumed = self._run_resumed(prepared, plan, cut)
        try:
            await run.resume(resumed)
        finally:
            # The old outcome does not count from here on, even if resuming failed.
            if run.state.status is GoalStatus.RUNNING and folder.outcome.exists():
                folder.outcome.replace(folder.earlier_outcome)

    def _cut_usage(self, prepared: PreparedRun) -> dict[Account, Usage]:
        """Return the estimated usage of a call that was cut."""
        if self.options.live:
            # The agent of the program was not cut: it works on its own.
            return {}
        run = prepared.run
        has_session = run.resumption.unfinished.session is not None
        return cut_usage(prepared.config, run.state, run.resumption.chat, has_session)

    def _run_resumed(
        self, prepared: PreparedRun, plan: RunRules, cut: dict[Account, Usage]
    ) -> RunResumed:
        run, config = prepared.run, prepared.config
        seconds = None
        if plan.timeout is not None:
            seconds = max(0.0, plan.timeout - run.state.elapsed)
        notes = prepared.notes
        if config.sandbox_name != self.loaded.state.sandbox:
            notes = (*config.sandbox.notes(), *notes)
        return RunResumed(
            plan=plan,
            version=VERSION,
            note=self.note,
            in_flight=cut,
            deadline_at=deadline_at(run.parts.clock.now(), seconds),
            notes=notes,
            sandbox=config.sandbox_name,
        )


def _refuse_low_limits(state: RunState, plan: RunRules) -> None:
    """Raise UsageError if a limit would stop the run at once.

    It names the options that raise all such limits.
    """
    run, rounds, total = state.goal.run_id, plan.max_iterations, state.total
    planned = state.replace(plan=plan)
    ended_by_rounds = state.stop_reason is StopReason.MAX_ITERATIONS
    reason = ""
    if ended_by_rounds and rounds is not None and rounds <= state.iterations:
        reason = "max_iterations"
        why = f"{state.iterations} of {rounds} rounds are used"
        if rounds == 1:
            why = "the only round is used"
    elif plan.timeout is not None and plan.timeout <= state.elapsed:
        why = f"{state.elapsed:.0f} s of {plan.timeout:g} s are used"
    else:
        lack = shortfall(planned)
        if lack is None:
            return
        why = lack.words
        if lack.unknown:
            # No higher limit helps.
            raise UsageError(f"run {run} is capped: {why}", options_to_lift(planned))
    used = {
        "max_iterations": state.iterations,
        "timeout": state.elapsed,
        "tokens": total.tokens,
        "cost_usd": total.known_cost_usd,
    }
    unknown = [lack.budget for lack in shortfalls(planned) if lack.unknown]
    option = ways_on(vars(plan), used, reason, unknown)[-1]
    raise UsageError(
        f"run {run} is capped: {why}", f"raise it: goal resume {run} {option}"
    )


def _refuse_other_start(
    folder: RunFolder, loaded: LoadedRun, handed: Sequence[str]
) -> None:
    """Raise UsageError if a part that a program passed is missing.

    Raise RecordError if the record of the start was changed.
    """
    started, state = loaded.started, loaded.state
    missing = [name for name in started.handed if name not in handed]
    if missing:
        raise UsageError(
            f"this run was started by a program that passed its {', '.join(missing)}; "
            "only that program can resume it",
            f"resume it there: goalrunner.resume(run, conversation), or {NEW_RUN}",
        )
    # An agent without a sandbox could have changed its own goal.
    if file_hash(folder.goal_file) != started.goal_sha256:
        raise RecordError(
            f"{folder.goal_file} was changed after the run began", NEW_RUN
        )
    for name, digest in state.kept.items():
        if file_hash(folder.start / name) != digest:
            raise RecordError(
                f"{folder.start / name} differs from what was recorded at the start of "
                "the run",
                NEW_RUN,
            )
