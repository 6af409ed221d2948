"""Resuming a run from its folder, with raised limits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from goalrunner import __version__
from goalrunner.app.build import PreparedRun, deadline_at
from goalrunner.app.check_environment import needs_environment
from goalrunner.app.goal_secrets import NEW_RUN
from goalrunner.app.previous_run import LoadedRun, file_hash, frozen_goal, goal_file_of, goal_hash
from goalrunner.app.resolve import Models, resolve
from goalrunner.app.resources import RunResources, open_resources
from goalrunner.app.run_options import RunOptions
from goalrunner.core.agent_ports import Resumable
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import Account, Plan, RunResumed
from goalrunner.core.goal import Goal
from goalrunner.core.limits import Shortfall, lifting, shortfall
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.ports import Rejoining
from goalrunner.core.progress import FINAL, with_cut
from goalrunner.core.run_state import RunState
from goalrunner.engine.resumption import Resumption, ResumptionReader, cut_calls
from goalrunner.engine.run import Run
from goalrunner.records.reading import TornTail, read_records
from goalrunner.records.run_folder import RunFolder

Limits = Mapping[str, float | tuple[str, ...] | None]
"""New limits by the names of `Plan`; None lifts one. `allow_unenforced` names budgets that count only what is known."""

UNCERTAIN = "this log has an older schema, which does not list the files in start/: some of them may be missing"

_OPTIONS = {"max_iterations": "--max-iterations", "timeout": "--timeout", "tokens": "--tokens", "cost_usd": "--cost"}


async def resume_run(
    folder: RunFolder,
    loaded: LoadedRun,
    options: RunOptions,
    limits: Limits,
    *,
    note: str = "",
    on_torn: Callable[[TornTail], None] | None = None,
) -> PreparedRun:
    """Open a run's folder, make its resources again from the loaded log, and record that the run goes on.

    Raise GoalError if it cannot go on.
    """
    state = loaded.state
    refuse_final(state)
    plan = raised(state.plan, limits)
    refuse_low_limits(state, plan)
    _refuse_other_start(folder, loaded)
    goal_file = goal_file_of(loaded.started)
    goal = frozen_goal(folder, options.environ, goal_file)
    _refuse_earlier_version(state, goal)
    config = resolve(goal, replace(options, goal_file=goal_file))
    resources = open_resources(config, folder, on_torn, loaded.end)
    try:
        config.refuse_shared_workspace()
        run, left = _replayed(resources, folder, loaded)
        totals = config.agent.totals if config.agent and left.unfinished.session is not None else frozenset()
        cut = cut_calls(run.state, left.chat, totals)
        in_flight = {account: _priced(account, usage, config.models) for account, usage in cut.items()}
        refuse_unknown_spend(run.state, plan, in_flight)
        for observer in options.observers:
            if isinstance(observer, Rejoining):
                observer.on_state(run.state)
        seconds = None if plan.timeout is None else max(0.0, plan.timeout - run.state.elapsed)
        uncertain = (UNCERTAIN,) if state.base is not None and state.round and not state.kept else ()
        sandbox = config.sandbox.notes() if config.sandbox_name != state.sandbox else ()
        await run.resume(
            RunResumed(
                plan=plan,
                version=__version__,
                note=note,
                in_flight=in_flight,
                deadline_at=deadline_at(resources.parts.clock.now(), seconds),
                notes=(*uncertain, *sandbox, *resources.notes),
                sandbox=config.sandbox_name,
            )
        )
        with contextlib.suppress(OSError):
            folder.outcome.unlink()
    except BaseException:
        resources.close()
        raise
    return PreparedRun(run=run, folder=folder, close=resources.close)


def _replayed(resources: RunResources, folder: RunFolder, loaded: LoadedRun) -> tuple[Run, Resumption]:
    """Return the driver over the loaded log, with conversation, workspace and models as they were.

    The log is read once more for what the goal says of it: no other process can have written since.
    """
    parts, models = resources.parts, resources.config.models
    resources.journal.resume_from(loaded.state, loaded.evidence)
    reader = ResumptionReader(fresh_rounds=not resources.config.goal.preserve_context)
    for record in read_records(folder.events):
        reader.add(record)
    left = reader.read(parts.transcript.read, parts.artifacts)
    run = resources.run(left)
    run.tracker.recall(left.snapshots, left.ends, left.round_start)
    if isinstance(run.conversation, Resumable) and left.chat:
        run.conversation.load(left.chat, left.unfinished, run.recorder)
    for llm in models.all:
        llm.skip(left.taken.get(llm.account, 0))
    return run, left


def _priced(account: Account, usage: Usage, models: Models) -> Usage:
    """Return an estimate with its dollars, if the model has a price: without them it would count as unknown for ever."""
    llm = models.agent if account == "agent" else models.judge
    if usage.cost_usd is not None or llm is None:
        return usage
    cost = llm.cost_of(usage)
    return usage.model_copy(update={"cost_usd": cost, "known_cost_usd": cost or 0.0})


def raised(plan: Plan, limits: Limits) -> Plan:
    """Return the plan with other limits."""
    values = dict(limits)
    allowed = values.pop("allow_unenforced", None)
    if isinstance(allowed, tuple):
        values["unenforced"] = tuple(dict.fromkeys((*plan.unenforced, *allowed)))
    return plan.model_copy(update=values)


def refuse_final(state: RunState) -> None:
    """Raise UsageError for a run that is over for good."""
    run = state.goal.run_id
    if state.status is GoalStatus.COMPLETE:
        raise UsageError(f"run {run} is already complete", "goal show " + run)
    if state.stop_reason in FINAL:
        raise UsageError(f"run {run} was cancelled, which is final", NEW_RUN)


def refuse_low_limits(state: RunState, plan: Plan) -> None:
    """Raise UsageError if a limit would stop the run at once, naming the option that raises it."""
    rounds = plan.max_iterations
    if state.stop_reason is StopReason.MAX_ITERATIONS and rounds is not None and rounds <= state.iterations:
        raise _used_up(
            state, "max_iterations", f"{state.iterations} of {rounds} rounds are used", state.iterations + 10
        )
    if plan.timeout is not None and plan.timeout <= state.elapsed:
        raise _used_up(state, "timeout", f"{state.elapsed:.0f} s of {plan.timeout:g} s are used", 2 * plan.timeout)
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
    raise _used_up(state, found.budget, found.words, enough)


def refuse_unknown_spend(state: RunState, plan: Plan, in_flight: Mapping[Account, Usage]) -> None:
    """Raise UsageError if the interrupted turn of the agent leaves a budget that can no longer be kept."""
    state = with_cut(state.model_copy(update={"plan": plan}), in_flight)
    found = shortfall(state)
    if found is not None and found.unknown and state.external:
        raise _unknown(state, found)


def _unknown(state: RunState, found: Shortfall) -> UsageError:
    return UsageError(f"run {state.goal.run_id} is capped: {found.words}", lifting(state))


def _used_up(state: RunState, name: str, why: str, enough: float) -> UsageError:
    run = state.goal.run_id
    number = str(int(enough)) if enough == enough // 1 and enough < math.inf else f"{enough:.4g}"
    return UsageError(f"run {run} is capped: {why}", f"raise it: goal resume {run} {_OPTIONS[name]} {number}")


def _refuse_other_start(folder: RunFolder, loaded: LoadedRun) -> None:
    """Refuse a run that only its program can make again, or whose record of the start is not what it was."""
    started = loaded.started
    if started.handed:
        raise UsageError(
            f"this run was started by a program that passed its {', '.join(started.handed)}; nothing else can make it"
            " again",
            f"start it again from that program, or {NEW_RUN}",
        )
    # Logs of schema 1.0 have no hash.
    if started.goal_sha256 and goal_hash(folder) != started.goal_sha256:
        raise RecordError(f"{folder.goal_file} was changed after the run began", "start a new run")
    for name, digest in loaded.state.kept.items():
        path = folder.start / name
        if not path.is_file():
            raise RecordError(f"{path} is missing; it recorded the start of the run", "start a new run")
        if file_hash(path) != digest:
            raise RecordError(
                f"{path} is damaged; it differs from what was recorded at the start of the run", "start a new run"
            )


def _refuse_earlier_version(state: RunState, goal: Goal) -> None:
    """Refuse a run of an earlier version, which did not record what its checks rest on."""
    if needs_environment(goal) and state.base is not None and not state.check_environment:
        raise RecordError(
            "this run was started by an earlier version of goalrunner, without a check environment, and cannot be continued",
            NEW_RUN,
        )
