"""Resuming a run from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from goalrunner.app.build import PreparedRun, cut_usage, open_run, open_stores
from goalrunner.app.first_events import deadline_at
from goalrunner.app.previous_run import LoadedRun, file_hash, finalize, refuse_final
from goalrunner.app.readiness import readiness, refuse_unready
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions
from goalrunner.app.stored_goal import NEW_RUN, frozen_goal
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import Loading, Rejoining
from goalrunner.core.budgets import options_to_lift, shortfall, shortfalls
from goalrunner.core.errors import RecordError, UsageError, ways_on
from goalrunner.core.events import Account, RunResumed, RunRules
from goalrunner.core.fold.usage import with_more_usage
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.writer_lock import has_writer

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
    """The goal of a calling program, with the parts that it passed.

    None: the goal is read from the run's folder.
    """
    note: str = ""

    def completed(self) -> GoalOutcome | None:
        """Return the outcome if the run is complete, else None.

        The outcome is written first if the process was killed before it wrote it.
        """
        finalize(self.folder, self.loaded, self.options.observers)
        if self.loaded.state.status is not GoalStatus.COMPLETE:
            return None
        # Its process has not closed it yet, so `resume` has to raise an error.
        if has_writer(self.folder.events):
            return None
        return self.loaded.outcome(self.folder)

    async def resume(self) -> PreparedRun:
        """Open the run again, and record that it was resumed. Raise GoalError."""
        loaded, options = self.loaded, self.options
        refuse_final(loaded.state)
        self._refuse_without_copy()
        rules = self._rules()
        # Before anything is opened: a refused run stays as it is.
        _refuse_low_limits(loaded.state, rules)
        passed_parts = options.handed(self.goal) if self.goal else ()
        _refuse_missing_parts(loaded, passed_parts)
        _refuse_changed_start(self.folder, loaded)
        goal = self.goal or frozen_goal(self.folder, options.environ, loaded.goal_file)
        resolved = resolve(goal, replace(options, goal_file=loaded.goal_file))
        # The agents before this place have given up.
        config = replace(resolved, at_work=loaded.state.agent)
        findings = readiness(config)
        refuse_unready(config, findings)
        stores = open_stores(config, self.folder, loaded)
        prepared = open_run(config, findings, stores, loaded)
        try:
            config.refuse_shared_workspace()
            await self._continue_run(prepared, rules)
        except BaseException:
            prepared.close()
            raise
        return prepared

    def _refuse_without_copy(self) -> None:
        """Raise UsageError for a run in a copy, if this process is not in it.

        It would go on in the workspace itself, which it may not change.
        """
        run_id = self.folder.run_id
        if self.loaded.started.isolated and self.options.copy is None:
            raise UsageError(
                f"run {run_id} worked in a copy, which was removed or is not entered",
                f"goal resume {run_id} enters a copy that exists; goal apply {run_id} "
                "--incomplete brings what was done into the workspace",
            )

    def _rules(self) -> RunRules:
        """Return the rules of the run with the new limits."""
        rules = self.loaded.state.plan
        limits = dict(self.limits)
        allowed = limits.pop("allow_unenforced", None)
        if isinstance(allowed, tuple):
            limits["unenforced"] = tuple(dict.fromkeys((*rules.unenforced, *allowed)))
        return rules.model_copy(update=limits)

    async def _continue_run(self, prepared: PreparedRun, rules: RunRules) -> None:
        """Give the conversation its chat, and record that the run was resumed."""
        run, folder = prepared.run, self.folder
        resumption = run.resumption
        if isinstance(run.conversation, Loading) and resumption.chat:
            run.conversation.load(resumption.chat, resumption.unfinished, run.recorder)
        estimates = self._estimates(prepared)
        if self.loaded.state.external:
            # The usage of an external agent's turn that was cut may be unknown, and
            # then a budget would stop the run at once. It takes the opened run to
            # estimate it, so the limits are compared again.
            _refuse_low_limits(with_more_usage(run.state, estimates), rules)
        for observer in self.options.observers:
            if isinstance(observer, Rejoining):
                observer.on_state(run.state)
        resumed = self._resumed_event(prepared, rules, estimates)
        try:
            await run.resume(resumed)
        finally:
            # The old outcome does not count from here on, even if resuming failed.
            if run.state.status is GoalStatus.RUNNING and folder.outcome.exists():
                folder.outcome.replace(folder.earlier_outcome)

    def _estimates(self, prepared: PreparedRun) -> dict[Account, Usage]:
        """Return by account the estimated usage of a call that was cut."""
        if self.options.live:
            # The agent of the program was not cut: it works on its own.
            return {}
        run = prepared.run
        lost_usage = self.options.lost_usage
        if lost_usage:
            # What was in flight when the log ended is part of it.
            return dict(lost_usage)
        has_session = run.resumption.unfinished.session is not None
        return cut_usage(prepared.config, run.state, run.resumption.chat, has_session)

    def _resumed_event(
        self, prepared: PreparedRun, rules: RunRules, estimates: dict[Account, Usage]
    ) -> RunResumed:
        """Return the event, still without what changed in the workspace.

        `estimates` is the usage of the call that was cut, by account.
        """
        run, config = prepared.run, prepared.config
        seconds_left = None
        if rules.timeout is not None:
            seconds_left = max(0.0, rules.timeout - run.state.elapsed)
        notes = prepared.notes
        if config.sandbox_name != self.loaded.state.sandbox:
            notes = (*config.sandbox.notes(), *notes)
        return RunResumed(
            plan=rules,
            version=VERSION,
            note=self.note,
            abandoned=self.options.abandoned_calls,
            in_flight=estimates,
            deadline_at=deadline_at(run.parts.clock.now(), seconds_left),
            notes=notes,
            sandbox=config.sandbox_name,
        )


def _refuse_low_limits(state: RunState, rules: RunRules) -> None:
    """Raise UsageError if a limit of these rules would stop the run at once.

    It names the options that raise all such limits.
    """
    state = state.replace(plan=rules)
    run_id = state.goal.run_id
    problem = _used_rounds_or_time(state)
    if not problem:
        budget = shortfall(state)
        if budget is None:
            return
        problem = budget.words
        if budget.unknown:
            # No higher limit helps.
            raise UsageError(
                f"run {run_id} is capped: {problem}", options_to_lift(state)
            )
    options = _options_to_raise(state)
    raise UsageError(
        f"run {run_id} is capped: {problem}",
        f"raise it: goal resume {run_id} {options}",
    )


def _used_rounds_or_time(state: RunState) -> str:
    """Return that all rounds or the whole time are used; empty if they are not."""
    rounds, timeout = state.plan.max_iterations, state.plan.timeout
    if _has_used_rounds(state):
        if rounds == 1:
            return "the only round is used"
        return f"{state.iterations} of {rounds} rounds are used"
    if timeout is not None and timeout <= state.elapsed:
        return f"{state.elapsed:.0f} s of {timeout:g} s are used"
    return ""


def _has_used_rounds(state: RunState) -> bool:
    """Return whether the run ended after its last round, and may begin no other one."""
    limit = state.plan.max_iterations
    if state.stop_reason is not StopReason.MAX_ITERATIONS or limit is None:
        return False
    return limit <= state.iterations


def _options_to_raise(state: RunState) -> str:
    """Return the options of `goal resume` that raise all limits that are used up."""
    total = state.total
    used = {
        "max_iterations": state.iterations,
        "timeout": state.elapsed,
        "tokens": total.tokens,
        "cost_usd": total.known_cost_usd,
    }
    unknown = [budget.budget for budget in shortfalls(state) if budget.unknown]
    reason = "max_iterations" if _has_used_rounds(state) else ""
    return ways_on(vars(state.plan), used, reason, unknown)[-1]


def _refuse_missing_parts(loaded: LoadedRun, passed_parts: Sequence[str]) -> None:
    """Raise UsageError if a part is missing that a program passed to the run."""
    missing = [name for name in loaded.started.handed if name not in passed_parts]
    if missing:
        raise UsageError(
            f"this run was started by a program that passed its {', '.join(missing)}; "
            "only that program can resume it",
            f"resume it there: goalrunner.resume(run, conversation), or {NEW_RUN}",
        )


def _refuse_changed_start(folder: RunFolder, loaded: LoadedRun) -> None:
    """Raise RecordError if the goal or the files of the start were changed."""
    # An agent without a sandbox could have changed its own goal.
    if file_hash(folder.goal_file) != loaded.started.goal_sha256:
        raise RecordError(
            f"{folder.goal_file} was changed after the run began", NEW_RUN
        )
    for name, digest in loaded.state.kept.items():
        if file_hash(folder.start / name) != digest:
            raise RecordError(
                f"{folder.start / name} differs from what was recorded at the start of "
                "the run",
                NEW_RUN,
            )
