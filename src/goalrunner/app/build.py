"""Opening a run: its files, its parts and its driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from goalrunner.app.agent_findings import Finding
from goalrunner.app.first_events import created_event, run_place, started_event
from goalrunner.app.goal_files import goal_file_began, goal_file_ended
from goalrunner.app.goal_models import programs_in
from goalrunner.app.memory import recall
from goalrunner.app.notifier import Notifier
from goalrunner.app.parts import RunStores, make_parts
from goalrunner.app.preflight import undo_interrupted
from goalrunner.app.previous_run import LoadedRun, chat_to_continue, kept_files
from goalrunner.app.readiness import (
    check_before_run,
    readiness,
    refuse_unready,
    run_notes,
)
from goalrunner.app.resolve import RunConfig, resolve_new, with_workspace
from goalrunner.app.retention import NewestRuns, Retention
from goalrunner.app.run_log import RunLog
from goalrunner.app.run_options import RunOptions
from goalrunner.app.run_telemetry import open_telemetry
from goalrunner.app.sandbox import (
    TEMPORARY,
    clear_leftovers,
    clear_temporary,
    runner_outputs,
)
from goalrunner.core.agent_ports import Message, Observer
from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Account
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.resumption import Resumption, usage_of_cut_call
from goalrunner.engine.run import Run
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.llm import ProviderModel, warm_up
from goalrunner.records.event_log import SystemClock, read_records
from goalrunner.records.memory_records import MemoryRecords
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder
from goalrunner.records.run_records import FolderRecords, RunRecords
from goalrunner.records.run_search import new_run_id
from goalrunner.records.run_summaries import write_first_summary
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher

if TYPE_CHECKING:
    from goalrunner.telemetry.observer import Telemetry


@dataclass(frozen=True)
class PreparedRun:
    """A run that can be driven, with its configuration and its open records.

    `close` closes them.
    """

    run: Run
    config: RunConfig
    records: RunRecords
    close: Callable[[], None]
    notes: tuple[str, ...] = ()
    """For people: about recalled facts, and interrupted checks that were undone."""

    def write_outcome(self) -> dict[str, Any]:
        """Write outcome.json from the present state, and return its content."""
        outcome = self.run.outcome().model_dump(mode="json")
        self.records.write_outcome(outcome)
        # The next run with the file says if it was changed meanwhile.
        if goal_file := self.config.options.goal_file:
            known_path = self.config.outside(goal_file)
            run_id = self.records.run_id
            goal_file_ended(self.config.home, known_path, run_id, goal_file)
        return outcome


def open_run(
    config: RunConfig,
    findings: Sequence[Finding],
    stores: RunStores,
    loaded: LoadedRun | None = None,
) -> PreparedRun:
    """Make the parts of a run with its open stores. Raise GoalError.

    A `loaded` run continues from its log. `findings` are those of `readiness`; an error
    among them ends the run before its first round.
    """
    goal, options = config.goal, config.options
    launcher = ProcessLauncher()
    records, notes = stores.records, stores.notes

    def close() -> None:
        # Its processes may still write into the run's folder.
        launcher.close()
        if telemetry is not None:
            telemetry.close()
        stores.close()
        clear_temporary(config.home, records.run_id)
        if options.keeps_newest is not None:
            NewestRuns(config.home, options.keeps_newest).remove_others()

    parts = make_parts(config, stores, launcher)
    facts: tuple[str, ...] = ()
    if goal.memory.recall:
        facts, recall_notes = recall(config.home, goal.owner, parts.clock.now())
        notes = (*notes, *recall_notes)
    telemetry = open_telemetry(config, records)
    journal = _journal(config, records, telemetry)
    if loaded is not None:
        journal.resume_from(loaded.state, loaded.evidence)
    resumption = _resumption(config, parts, loaded)
    prompts = Prompts(
        goal,
        resume_prompt=options.resume_prompt,
        first=options.prompt,
        remembered=facts,
        # Without a checker no file is protected: `tuple()` is empty.
        protected=parts.checker.protected if parts.checker is not None else tuple,
    )
    run = Run(
        parts,
        journal,
        prompts.render,
        fresh_rounds=not goal.preserve_context,
        preflight=partial(check_before_run, config, findings),
        resumption=resumption,
        longest_turn=goal.agent.turn_timeout,
        cut_usage=partial(cut_usage, config),
    )
    return PreparedRun(run, config, records, close, notes)


def open_stores(
    config: RunConfig, folder: RunFolder, loaded: LoadedRun | None = None
) -> RunStores:
    """Open the files of a run in its folder, and the snapshots of its workspace.

    Undo what an interrupted check left in the workspace. Raise GoalError.
    """
    for name in ("stores", TEMPORARY):
        # Mode 700: other users must not read what commands write.
        (config.home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    # A process that was killed leaves the folder of its temporary files.
    clear_leftovers(config.home)
    notes = undo_interrupted(config.workspace, config.home, config.options.copy_store)
    records = FolderRecords(
        folder,
        config.redactor,
        run_place(config),
        loaded.end if loaded else None,
        partial(kept_files, folder),
        config.options.log_mirror,
    )
    return RunStores(records, _snapshot_store(config, folder), notes)


def _snapshot_store(config: RunConfig, folder: RunFolder) -> SnapshotStore | None:
    """Return the snapshots of the workspace.

    None if the run delivers a response, or the files are not on this machine.
    """
    options = config.options
    if config.goal.deliverable != "workspace" or not options.sees_files:
        return None
    # Files that the runner itself writes are no work of the agent.
    runner_patterns = runner_outputs(config.workspace, config.options.record)
    return SnapshotStore(
        config.workspace,
        config.home,
        outputs=(*config.goal.workspace.outputs, *runner_patterns),
        start=folder.start,
        folder=options.copy_store,
        prepare=options.copy.hide_new_files if options.copy else None,
    )


def _journal(
    config: RunConfig, records: RunRecords, telemetry: Telemetry | None
) -> RunJournal:
    """Return the journal of a run, with its observers."""
    options = config.options
    notifier = Notifier(
        config.goal.notify,
        records.run_id,
        options.observers,
        options.environ,
        asks=options.approver is not None,
    )
    log = RunLog(records.run_id, records.folder)
    observers: list[Observer] = [*options.observers, notifier, log]
    if telemetry is not None:
        # The last one: at the end of the run it waits for the collector.
        observers.append(telemetry)
    return RunJournal(
        records.log,
        records.transcript,
        records.artifacts,
        observers,
        records.save,
        records.folder.path if records.folder is not None else None,
    )


def _resumption(
    config: RunConfig, parts: Parts, loaded: LoadedRun | None
) -> Resumption:
    """Return what an earlier process recorded of the run; nothing for a new run."""
    resumption = Resumption(fresh_rounds=not config.goal.preserve_context)
    if loaded is None:
        return resumption
    # `load_run` has kept only the state, because most of its callers need no chat.
    for record in read_records(loaded.log):
        resumption.add(record)
    # The chat is read once, when all its places in the transcript are known.
    resumption.read(parts.transcript.read, parts.artifacts)
    _continue_models(config, loaded, resumption)
    return resumption


def _continue_models(
    config: RunConfig, loaded: LoadedRun, resumption: Resumption
) -> None:
    """Let the models go on where the earlier process ended."""
    for account, llm in config.models.items():
        # Only a recording has replies to skip.
        llm.skip(resumption.used_answers.get(account, 0))
    for account, program in programs_in(config.models).items():
        # A program that was installed since the run began must not judge it.
        if account in loaded.started.programs:
            program.keep(loaded.started.programs[account])


def cut_usage(
    config: RunConfig, state: RunState, chat: Sequence[Message], has_session: bool
) -> dict[Account, Usage]:
    """Return by account the estimated usage of a call that was cut, with its dollars.

    `has_session`: an external agent can resume its session.
    """
    totals: frozenset[BudgetName] = frozenset()
    if config.agents and has_session:
        # The next report of the session counts what was cut.
        totals = config.agents[state.agent].totals
    calls = usage_of_cut_call(state, chat, totals)
    for account, usage in calls.items():
        if usage.cost_usd is None and account in config.models:
            # An estimate without dollars would make the cost of the run unknown.
            cost = config.models[account].cost_of(usage)
            calls[account] = usage.model_copy(
                update={"cost_usd": cost, "known_cost_usd": cost or 0.0}
            )
    return calls


def prepare_run(goal: Goal, options: RunOptions) -> PreparedRun:
    """Resolve a goal, make the run's folder and resources, and write the first events.

    Raise GoalError.
    """
    if options.in_memory and options.conversation is None:
        raise UsageError(
            'records="none" needs a conversation of your program: the output and the '
            "session of an agent that the goal names are files",
            'keep records: records="last:20"; or call run_goal with a conversation',
        )
    config = resolve_new(goal, options)
    goal = config.goal
    findings = readiness(config)
    refuse_unready(config, findings)
    if not any(finding.error for finding in findings):
        # A run with an error ends before it asks a model.
        _warm_up(config)
    earlier: tuple[Message, ...] = ()
    if options.continues is not None:
        earlier = chat_to_continue(
            options.continues, goal, has_own_agent=options.conversation is not None
        )
    # Before a folder is made: a refused run leaves nothing behind.
    config.refuse_shared_workspace()
    if options.in_memory:
        stores = RunStores(MemoryRecords(config.redactor))
        return _started(config, findings, stores, earlier)
    removals = _remove_old_runs(config)
    folder = _new_folder(config)
    try:
        _describe(config, folder)
        stores = open_stores(config, folder)
        if options.keeps_newest is not None:
            NewestRuns(config.home, options.keeps_newest).add(folder.run_id)
        stores = replace(stores, notes=(*stores.notes, *removals))
        return _started(config, findings, stores, earlier)
    except BaseException:
        # The run never began. An error about the folder must not hide the first one.
        with contextlib.suppress(UsageError):
            folder.remove()
        raise


def _remove_old_runs(config: RunConfig) -> tuple[str, ...]:
    """Remove the runs of the workspace that the goal does not keep; return notes."""
    goal, options = config.goal, config.options
    if not options.keeps_run:
        return ()
    needed = {goal.parent}
    if options.continues is not None:
        needed.add(options.continues.run_id)
    retention = Retention(
        config.home,
        config.outside(config.workspace),
        goal.records,
        options.environ,
        needed,
    )
    return retention.apply(SystemClock().now())


def _describe(config: RunConfig, folder: RunFolder) -> None:
    """Write the goal and a first summary into the folder of a new run."""
    redact = config.redactor.text
    # It names the workspace itself: each copy of it has another path.
    stored_goal = with_workspace(config.goal, config.outside(config.workspace))
    # A secret must never reach the disk, so it is replaced before.
    text = dump_goal(stored_goal, redact)
    # The first event, which names its hash, syncs its name.
    folder.write_text(folder.goal_file, text, sync_name=False)
    # `goal list` shows the run even if its process is killed before the first event.
    now = SystemClock().now()
    objective = redact(config.goal.objective)
    write_first_summary(folder, run_place(config), objective, now)


def _started(
    config: RunConfig,
    findings: Sequence[Finding],
    stores: RunStores,
    earlier: Sequence[Message],
) -> PreparedRun:
    """Return a new run with its first events. `earlier` is the chat it continues."""
    prepared = open_run(config, findings, stores)
    try:
        _start(prepared, findings, earlier)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _warm_up(config: RunConfig) -> None:
    """Load the library of the providers in the background, which takes seconds."""
    names: list[str] = []
    for llm in config.models.values():
        if isinstance(llm, ProviderModel):
            names.append(llm.model)
    warm_up(names)


def _new_folder(config: RunConfig) -> RunFolder:
    """Return the folder of a new run, or of a check, whose records are removed."""
    options = config.options
    if options.copy is not None and options.keeps_run:
        return options.copy.folder
    run_id = options.run_id
    if not run_id:
        objective = config.redactor.text(config.goal.objective)
        run_id = new_run_id(config.home, objective)
    kind = RUNS if options.keeps_run else CHECKS
    return RunFolder.create(config.home, run_id, kind)


def _start(
    prepared: PreparedRun, findings: Sequence[Finding], earlier: Sequence[Message]
) -> None:
    """Record the first events. `earlier` is the chat that the run continues."""
    config, run, records = prepared.config, prepared.run, prepared.records
    options = config.options
    # One moment for both events: the deadline is counted from the recorded start.
    now = run.parts.clock.now()
    changed = _goal_file_changed(config, records.run_id)
    notes = (
        *(options.copy.notes if options.copy is not None else ()),
        *run_notes(findings, config),
        *changed,
        *config.sandbox.notes(has_own_agent=options.conversation is not None),
        *prepared.notes,
    )
    started = started_event(
        config, records.folder, now, notes, goal_changed=bool(changed)
    )
    # An id by which nothing can be found would only mislead.
    run_id = records.run_id if records.folder is not None else ""
    created = created_event(config, run.parts, run_id, now)
    run.start(created, started, earlier, first_message=options.prompt or "")


def _goal_file_changed(config: RunConfig, run_id: str) -> tuple[str, ...]:
    """Record that a run with the goal file begins.

    Return a note if the file was changed while the last run with it worked.
    """
    options = config.options
    if options.goal_file is None or not options.keeps_run or options.in_memory:
        return ()
    known_path = config.outside(options.goal_file)
    before = goal_file_began(config.home, known_path, run_id, options.goal_file)
    if not before:
        return ()
    note = (
        f"{options.goal_file.name} was changed while run {before} worked; check it: "
        f"goal diff {before}"
    )
    return (note,)
