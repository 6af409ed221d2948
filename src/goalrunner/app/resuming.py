"""Making a run again from its folder, with raised limits."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner import __version__
from goalrunner.app.build import Assembly, chosen_models, deadline_at, sandbox_of
from goalrunner.app.check_environment import needs_environment
from goalrunner.app.external_agent import external_named
from goalrunner.app.models import (
    Models,
    refuse_earlier,
    refuse_other_start,
    refuse_shared_workspace,
    refuse_unfit,
    start_notes,
)
from goalrunner.app.preflight import before_the_run
from goalrunner.app.previous_run import Past, frozen_goal, goal_hash
from goalrunner.app.resources import Equipment, Setting, equip, goal_redactor
from goalrunner.app.sandbox import refuse_unfenced, sandbox_notes
from goalrunner.core.agent_ports import Resumable
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import Account, Plan, RunResumed, RunStarted
from goalrunner.core.goal import Goal
from goalrunner.core.limits import Shortfall, lifting, shortfall
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.ports import Approver
from goalrunner.core.progress import FINAL, with_cut
from goalrunner.core.run_parts import Observer, Rejoining
from goalrunner.core.run_state import RunState
from goalrunner.engine.resumption import Resumption, ResumptionReader, cut_calls
from goalrunner.engine.run import Run
from goalrunner.records.reading import TornTail, read_records
from goalrunner.records.run_folder import RunFolder

Limit = float | tuple[str, ...] | None
"""The value of a limit; None: no limit."""

_OPTIONS = {
    "max_iterations": "--max-iterations",
    "timeout": "--timeout",
    "tokens": "--tokens",
    "cost_usd": "--cost",
}


def raised(plan: Plan, limits: Mapping[str, Limit]) -> Plan:
    """The plan with other limits; None lifts one. `allow_unenforced` names budgets that count what is known alone."""
    values = dict(limits)
    allowed = values.pop("allow_unenforced", None)
    if isinstance(allowed, tuple):
        values["unenforced"] = tuple(dict.fromkeys((*plan.unenforced, *allowed)))
    return plan.model_copy(update=values)


def refuse_final(state: RunState) -> None:
    """Raises UsageError for a run that is over for good."""
    run = state.goal.run_id
    if state.status is GoalStatus.COMPLETE:
        raise UsageError(f"run {run} is complete; there is nothing to go on with", "goal show " + run)
    if state.stop_reason in FINAL:
        raise UsageError(f"run {run} was cancelled, which is final", "start a new run: goal run GOAL_FILE")


def refuse_low_limits(state: RunState, plan: Plan) -> None:
    """Raises UsageError where a limit would stop the run at once, naming the option that raises it."""
    rounds = plan.max_iterations
    if state.stop_reason is StopReason.MAX_ITERATIONS and rounds is not None and rounds <= state.iterations:
        raise _spent(state, "max_iterations", f"{state.iterations} of {rounds} rounds are used", state.iterations + 10)
    if plan.timeout is not None and plan.timeout <= state.elapsed:
        raise _spent(state, "timeout", f"{state.elapsed:.0f} s of {plan.timeout:g} s are used", 2 * plan.timeout)
    state = state.model_copy(update={"plan": plan})
    found = shortfall(state)
    if found is None:
        return
    if found.unknown and state.external:
        raise _unknown(state, found)
    total = state.total
    used, limit = (total.tokens, plan.tokens) if found.budget == "tokens" else (total.cost_usd, plan.cost_usd)
    # Dollars that are unknown are within no limit.
    enough = math.inf if found.unknown or used is None else 2 * max(used, limit or 0)
    raise _spent(state, found.budget, found.words, enough)


def refuse_unknown_spend(state: RunState, plan: Plan, in_flight: Mapping[Account, Usage]) -> None:
    """Raises UsageError where the agent's turn that was cut leaves a budget that can no longer be kept."""
    state = with_cut(state.model_copy(update={"plan": plan}), in_flight)
    found = shortfall(state)
    if found is not None and found.unknown and state.external:
        raise _unknown(state, found)


def _unknown(state: RunState, found: Shortfall) -> UsageError:
    return UsageError(f"run {state.goal.run_id} is capped: {found.words}", lifting(state))


def _spent(state: RunState, name: str, why: str, enough: float) -> UsageError:
    hint = f"raise it: goal resume {state.goal.run_id} {_OPTIONS[name]} {_typed(enough)}"
    return UsageError(f"run {state.goal.run_id} is capped: {why}", hint)


def _typed(number: float) -> str:
    """As a person types it: 2000000, 0.25, inf."""
    return str(int(number)) if number == number // 1 and number < math.inf else f"{number:.4g}"


@dataclass(frozen=True)
class Resumed:
    """A run that can be driven on, and what its first event is to say."""

    assembly: Assembly
    begun: RunResumed
    observers: Sequence[Observer]

    async def begin(self) -> None:
        """See what changed meanwhile, and write that the run goes on. Raises GoalError."""
        run = self.assembly.run
        for observer in self.observers:
            if isinstance(observer, Rejoining):
                observer.on_state(run.state)
        await run.resume(self.begun)
        # It said how the run had ended, which it has not.
        with contextlib.suppress(OSError):
            self.assembly.folder.outcome.unlink()


@dataclass(frozen=True)
class NewLimits:
    """Limits as they are to be from now on, by the names of `Plan`; what is not named stays.

    `allow_unenforced` names budgets that count from now on what is known alone.
    """

    values: Mapping[str, Limit]


def reassemble(
    folder: RunFolder,
    past: Past,
    *,
    home: Path,
    limits: NewLimits,
    note: str = "",
    environ: Mapping[str, str] = os.environ,
    observers: Sequence[Observer] = (),
    approver: Approver | None = None,
    on_torn: Callable[[TornTail], None] | None = None,
) -> Resumed:
    """Open a run's folder, fold its log, and make its parts again. Raises GoalError where it cannot go on, and says why.

    `past` is what the log said a moment ago: one that says more now is another's, and refused.
    """
    state, started = past.state, past.started
    refuse_final(state)
    plan = raised(state.plan, limits.values)
    refuse_low_limits(state, plan)
    _refuse_handed(started)
    _refuse_other_goal(folder, started)
    refuse_other_start(folder, state)
    goal = frozen_goal(folder, environ, started)
    refuse_earlier(state, needs_environment=needs_environment(goal))
    goal_file = Path(started.goal_file) if started.goal_file else None
    setting = Setting(home, environ, observers, goal_file=goal_file, approver=approver)
    redactor = goal_redactor(goal, environ)
    models = chosen_models(goal, setting.extras, None)
    named = external_named(goal, environ)
    refuse_unfit(goal, models, home, named)
    refuse_unfenced(goal, setting.place(goal))
    equipment = equip(goal, models, folder, setting, redactor, on_torn, past.end)
    try:
        refuse_shared_workspace(goal, home)
        check = before_the_run(goal, models, named, setting.place(goal))
        run, left = _replayed(goal, models, folder, past, equipment, check)
        totals = named.totals if named and left.unfinished.session is not None else frozenset()
        cut = cut_calls(run.state, left.chat, totals)
        in_flight = {name: _priced(name, usage, models) for name, usage in cut.items()}
        refuse_unknown_spend(run.state, plan, in_flight)
    except BaseException:
        equipment.close()
        raise
    seconds = None if plan.timeout is None else max(0.0, plan.timeout - run.state.elapsed)
    deadline = deadline_at(equipment.parts.clock.now(), seconds)
    assembly = Assembly(run=run, folder=folder, close=equipment.close)
    sandbox = sandbox_of(goal, setting)
    other = () if sandbox == state.sandbox else sandbox_notes(goal, setting.place(goal))
    begun = RunResumed(
        plan=plan,
        version=__version__,
        note=note,
        in_flight=in_flight,
        deadline_at=deadline,
        notes=(*start_notes(state), *other, *equipment.notes),
        sandbox=sandbox,
    )
    return Resumed(assembly, begun, observers)


def _replayed(
    goal: Goal, models: Models, folder: RunFolder, past: Past, equipment: Equipment, check: Callable[[], None]
) -> tuple[Run, Resumption]:
    """The driver over the folded log; conversation, workspace and models are where they were.

    The log is read once more, for what the goal says of it, and not folded again: nobody else can have written since.
    """
    parts, journal = equipment.parts, equipment.journal
    journal.take_up(past.state, past.trail, past.evidence)
    reader = ResumptionReader(fresh_rounds=not goal.preserve_context)
    for record in read_records(folder.events):
        reader.add(record)
    left = reader.read(parts.transcript.read, parts.artifacts)
    run = Run(
        parts,
        journal,
        equipment.prompts.render,
        fresh_rounds=not goal.preserve_context,
        check_models=check,
        foresee_models=models.foresee,
        resumption=left,
    )
    run.watch.recall(left.snapshots, left.ends, left.round_start)
    _load(run, left)
    for llm in (models.agent, models.judge):
        if llm is not None:
            llm.skip(left.taken.get(llm.account, 0))
    return run, left


def _priced(account: Account, usage: Usage, models: Models) -> Usage:
    """With its dollars, where the model has a price: an estimate without them would count as unknown for ever."""
    llm = models.agent if account == "agent" else models.judge
    if usage.cost_usd is not None or llm is None:
        return usage
    cost = llm.cost_of(usage)
    return usage.model_copy(update={"cost_usd": cost, "known_cost_usd": cost or 0.0})


def _load(run: Run, left: Resumption) -> None:
    conversation = run.conversation
    if isinstance(conversation, Resumable) and left.chat:
        conversation.load(left.chat, left.unfinished, run.recorder)


def _refuse_handed(started: RunStarted) -> None:
    if started.handed:
        parts = ", ".join(started.handed)
        raise UsageError(
            f"this run was driven by a program that handed in its {parts}; nothing else can make it again",
            "drive it from that program, or start a new run: goal run GOAL_FILE",
        )


def _refuse_other_goal(folder: RunFolder, started: RunStarted) -> None:
    """What counts as done was fixed at the start. (Logs of schema 1.0 do not say what it was.)"""
    if started.goal_sha256 and goal_hash(folder) != started.goal_sha256:
        raise RecordError(f"{folder.goal_file} is not what it was when the run began", "start a new run")
