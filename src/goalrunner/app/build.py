"""Starting a run, or opening one again, with its files and its first events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from goalrunner.app.critic import critic_rule
from goalrunner.app.external_agent import Finding
from goalrunner.app.goal_files import goal_file_began, goal_file_ended
from goalrunner.app.goal_models import programs_in
from goalrunner.app.memory import recall
from goalrunner.app.parts import Notifier, make_parts
from goalrunner.app.preflight import checks_line, undo_interrupted
from goalrunner.app.previous_run import LoadedRun, chat_to_continue, file_hash
from goalrunner.app.readiness import ask_before, readiness, refuse_unready, run_notes
from goalrunner.app.resolve import RunConfig, resolve_new
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import TEMPORARY, clear_leftovers, clear_own, runner_outputs
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import UsageError
from goalrunner.core.events import (
    Account,
    GoalCreated,
    GoalRecord,
    RunRules,
    RunStarted,
)
from goalrunner.core.goal import Goal
from goalrunner.core.labels import Label
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.resumption import Resumption, cut_calls
from goalrunner.engine.run import Run
from goalrunner.engine.validator_runs import is_hidden
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.llm import ProviderModel, warm_up
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder
from goalrunner.records.run_search import new_run_id
from goalrunner.records.run_summaries import (
    RunPlace,
    summary_writer,
    write_first_summary,
)
from goalrunner.records.transcript_file import TranscriptFile
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher


@dataclass(frozen=True)
class PreparedRun:
    """A run that can be driven, with its configuration, its folder and its open files;
    `close` closes them.
    """

    run: Run
    config: RunConfig
    folder: RunFolder
    close: Callable[[], None]
    # For people: about recalled facts, and interrupted in-place checks that were
    # undone.
    notes: tuple[str, ...] = ()

    def write_outcome(self) -> dict[str, Any]:
        """Write outcome.json from the present state, and return its content."""
        outcome = self.run.outcome().model_dump(mode="json")
        self.folder.write_outcome(outcome)
        if goal_file := self.config.options.goal_file:
            goal_file_ended(self.config.home, goal_file, self.folder.run_id)
        return outcome


def open_run(
    config: RunConfig,
    findings: Sequence[Finding],
    folder: RunFolder,
    loaded: LoadedRun | None = None,
) -> PreparedRun:
    """Open the run's files and make its parts.

    A `loaded` run continues from its log. Raise GoalError.

    `findings` are those of `readiness`; an error among them ends the run before its
    first round.
    """
    goal, options = config.goal, config.options
    launcher = ProcessLauncher()
    for kept in ("stores", TEMPORARY):
        (config.home / kept).mkdir(mode=0o700, parents=True, exist_ok=True)
    clear_leftovers(config.home)
    notes = undo_interrupted(config.workspace, config.home)
    log = EventLog(
        folder.events, SystemClock(), config.redactor, loaded.end if loaded else None
    )
    transcript = TranscriptFile(folder.transcript, config.redactor, log)
    store = None
    if goal.deliverable == "workspace":
        outputs = (
            *goal.workspace.outputs,
            *runner_outputs(config.workspace, options.record),
        )
        store = SnapshotStore(
            config.workspace,
            config.home,
            outputs=outputs,
            start=folder.start,
            folder=options.copy.store if options.copy else None,
            prepare=options.copy.hide_new_files if options.copy else None,
        )

    def close() -> None:
        log.close()
        transcript.close()
        if store is not None:
            store.close()
        launcher.close()
        clear_own(config.home, folder.run_id)
        folder.clear_scratch()

    parts = make_parts(config, folder, launcher, store, log, transcript)
    asks = options.approver is not None
    notifier = Notifier(
        goal.notify, folder.run_id, options.observers, options.environ, asks
    )
    observers = (*options.observers, notifier)
    save = summary_writer(folder, _place_of(config))
    journal = RunJournal(
        log, transcript, parts.artifacts, observers, save, str(folder.path)
    )
    facts, recalled = (
        recall(config.home, goal.owner, parts.clock.now())
        if goal.memory.recall
        else ((), ())
    )
    left = Resumption(fresh_rounds=not goal.preserve_context)
    if loaded is not None:
        journal.resume_from(loaded.state, loaded.evidence)
        for record in read_records(folder.events):
            left.add(record)
        left.read(transcript.read, parts.artifacts)
    protected = parts.checker.protected if parts.checker is not None else tuple
    run = Run(
        parts,
        journal,
        Prompts(goal, options.resume_prompt, options.prompt, facts, protected).render,
        fresh_rounds=not goal.preserve_context,
        preflight=partial(ask_before, config, findings),
        resumption=left,
        longest_turn=goal.agent.turn_timeout,
        cut_usage=partial(cut_usage, config),
    )
    for account, llm in config.models.items():
        llm.skip(left.taken.get(account, 0))
    for account, program in programs_in(config.models).items():
        if loaded is not None and account in loaded.started.programs:
            program.keep(loaded.started.programs[account])
    return PreparedRun(run, config, folder, close, (*notes, *recalled))


def cut_usage(
    config: RunConfig, state: RunState, chat: Sequence[Message], has_session: bool
) -> dict[Account, Usage]:
    """Return by account the estimated usage of a call that was cut.

    `has_session`: an external agent can resume its session.
    """
    totals = (
        config.agents[state.agent].totals
        if config.agents and has_session
        else frozenset()
    )
    calls = cut_calls(state, chat, totals)
    for account, usage in calls.items():
        if usage.cost_usd is None and account in config.models:
            # An estimate without dollars would make the cost of the run unknown.
            cost = config.models[account].cost_of(usage)
            calls[account] = usage.model_copy(
                update={"cost_usd": cost, "known_cost_usd": cost or 0.0}
            )
    return calls


def _place_of(config: RunConfig) -> RunPlace:
    goal_file = config.options.goal_file
    return RunPlace(
        str(config.workspace), str(goal_file.resolve()) if goal_file else ""
    )


def prepare_run(goal: Goal, options: RunOptions) -> PreparedRun:
    """Resolve a goal, make the run's folder and resources, and write the first events.

    Raise GoalError.
    """
    config = resolve_new(goal, options)
    goal = config.goal
    findings = readiness(config)
    refuse_unready(config, findings)
    # Else the run ends before it asks a model.
    if all(finding.error is None for finding in findings):
        warm_up(
            [
                llm.model
                for llm in config.models.values()
                if isinstance(llm, ProviderModel)
            ]
        )
    earlier: tuple[Message, ...] = ()
    if options.continues is not None:
        earlier = chat_to_continue(
            options.continues, goal, has_own_agent=options.conversation is not None
        )
    config.refuse_shared_workspace()
    frozen = dump_goal(goal, config.redactor.text)
    if options.copy is not None and options.keeps_run:
        folder = options.copy.folder
    else:
        run_id = new_run_id(config.home, config.redactor.text(goal.objective))
        kind = RUNS if options.keeps_run else CHECKS
        folder = RunFolder.create(config.home, run_id, kind)
    try:
        folder.write_text(folder.goal_file, frozen)
        write_first_summary(
            folder,
            _place_of(config),
            config.redactor.text(goal.objective),
            SystemClock().now(),
        )
        prepared = open_run(config, findings, folder)
        try:
            now = prepared.run.parts.clock.now()
            changed = _goal_file_changed(config, folder.run_id)
            copied = options.copy.notes if options.copy is not None else ()
            started = _run_started(
                prepared,
                now,
                (*copied, *run_notes(findings, config), *changed),
                bool(changed),
            )
            prepared.run.start(
                _goal_created(prepared, now),
                started,
                earlier,
                asked=options.prompt or "",
            )
        except BaseException:
            prepared.close()
            raise
    except BaseException:
        with contextlib.suppress(UsageError):  # the first error says more
            folder.remove()  # the run never began
        raise
    return prepared


def _goal_created(prepared: PreparedRun, now: datetime) -> GoalCreated:
    """Return the first event: the goal record, and the plan, which is all that the
    policy needs of the goal.
    """
    config, parts, run_id = prepared.config, prepared.run.parts, prepared.folder.run_id
    goal, options = config.goal, config.options
    hidden = tuple(
        validator.name for validator in parts.validators if is_hidden(validator)
    )
    commands = [spec for spec in goal.validators if spec.run is not None]
    checks_response = len(commands) < len(parts.validators)
    # Only a judge can see that the work is done already: checks that pass before it do
    # not show it.
    may_end_at_baseline = parts.judge is not None or goal.baseline == "complete"
    may_be_unknown = (
        bool(config.agents or programs_in(config.models))
        or options.conversation is not None
    )
    record = GoalRecord(
        goal_id=run_id,
        run_id=run_id,
        description=goal.objective,
        **goal.model_dump(
            include={"parent", "owner", "success_criteria", "constraints", "risk_class"}
        ),
        created_at=now.isoformat(),
        updated_at=now.isoformat(),
    )
    plan = RunRules(
        **goal.model_dump(
            include={"max_iterations", "timeout", "wait", "stall_rounds", "deliverable"}
        ),
        **goal.budget.model_dump(include={"tokens", "cost_usd"}),
        **goal.judge.model_dump(include={"minimum_score", "require"}),
        unenforced=goal.budget.unenforced if may_be_unknown else (),
        validators=tuple(
            validator.name for validator in parts.validators if not is_hidden(validator)
        ),
        has_judge=parts.judge is not None,
        critic=critic_rule(config),
        # Only commands can be run before there is a response; a callable checks one.
        takes_baseline=goal.deliverable == "workspace"
        and any(not spec.hidden for spec in commands),
        wants_red=goal.baseline == "red",
        needs_round=options.needs_round or checks_response or not may_end_at_baseline,
        hidden=hidden if parts.checker is not None else (),
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        checks_response=checks_response,
        agents=tuple(agent.name for agent in config.agents)
        if len(config.agents) > 1
        else (),
        self_judging=config.self_judging if len(config.agents) > 1 else (),
        approvals=goal.approvals.model_copy(update={"checks": config.check_policy}),
    )
    return GoalCreated(goal=record, plan=plan)


def _goal_file_changed(config: RunConfig, run_id: str) -> tuple[str, ...]:
    """Return a note if the goal file was changed while the last run with it worked;
    record the start of this run.
    """
    options = config.options
    if options.goal_file is None or not options.keeps_run:
        return ()
    before = goal_file_began(config.home, options.goal_file, run_id)
    return (
        (
            (
                f"{options.goal_file.name} was changed while run {before} worked; check "
                f"it: goal diff {before}"
            ),
        )
        if before
        else ()
    )


def _run_started(
    prepared: PreparedRun,
    now: datetime,
    notes: tuple[str, ...],
    goal_changed: bool = False,
) -> RunStarted:
    config = prepared.config
    labels = (*config.labels, Label.GOAL_CHANGED) if goal_changed else config.labels
    goal, options = config.goal, config.options
    return RunStarted(
        **asdict(_place_of(config)),
        models=config.model_names,
        isolated=options.copy is not None,
        agent_command=config.agent_command,
        version=VERSION,
        labels=tuple(dict.fromkeys(labels)),
        check_environment=config.check.kind if config.check else "",
        checks=checks_line(goal, config.check) if config.check else "",
        notes=(
            *notes,
            *config.sandbox.notes(has_own_agent=options.conversation is not None),
            *prepared.notes,
        ),
        sandbox=config.sandbox_name,
        deadline_at=deadline_at(now, goal.timeout),
        handed=options.handed(goal),
        goal_sha256=file_hash(prepared.folder.goal_file),
        continues=options.continues.run_id if options.continues else "",
        programs={
            account: program.record
            for account, program in programs_in(config.models).items()
        },
    )


def deadline_at(now: datetime, seconds: float | None) -> str | None:
    """Return when a limit with `seconds` left is reached, in ISO 8601, if the run does
    not wait for a person.
    """
    return None if seconds is None else (now + timedelta(seconds=seconds)).isoformat()
