"""What a run works with: its files, agent, validators, judge and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.toolbox import Toolbox
from goalrunner.app.check_environment import undo_interrupted
from goalrunner.app.checker import CheckRunner
from goalrunner.app.external_agent import external_conversation
from goalrunner.app.location import CHECKOUTS, SystemClock, runner_outputs
from goalrunner.app.memory import Recalled, recall
from goalrunner.app.previous_run import kept_files, summary_writer
from goalrunner.app.pruning import clear_leftovers, clear_own
from goalrunner.app.resolve import RunConfig
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.check_ports import Validator
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.process_ports import Launcher
from goalrunner.engine.journal import Journal, Parts
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.run import Run
from goalrunner.judge import LLMJudge
from goalrunner.llm import LLM
from goalrunner.records.artifacts import ArtifactStore, TranscriptFile
from goalrunner.records.event_log import EventLog
from goalrunner.records.reading import LogEnd, TornTail
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.environment import child_environment
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators import build_validators, with_variables


@dataclass(frozen=True)
class RunResources:
    """The open files and parts of a run; `close` closes them."""

    config: RunConfig
    parts: Parts
    journal: Journal
    prompts: Prompts
    close: Callable[[], None]
    notes: tuple[str, ...] = ()
    """What a person should know of recalled facts, and of checks that were undone."""

    def run(self, resumption: Resumption | None = None) -> Run:
        """Return the driver; `resumption` is what an earlier process left."""
        return Run(
            self.parts,
            self.journal,
            self.prompts.render,
            fresh_rounds=not self.config.goal.preserve_context,
            check_models=self.config.preflight,
            preflight_models=self.config.foresee,
            resumption=resumption,
        )


def open_resources(
    config: RunConfig,
    folder: RunFolder,
    on_torn: Callable[[TornTail], None] | None = None,
    end: LogEnd | None = None,
) -> RunResources:
    """Open the run's files and make its parts. Raise GoalError; RecordError if another process has the run.

    `end` is where the log was seen to end, which saves reading it again.
    """
    goal, options, workspace, redactor = config.goal, config.options, config.workspace, config.redactor
    launcher, clock = ProcessLauncher(), SystemClock()
    log = EventLog(folder.events, clock, redactor, end, on_torn)
    transcript = TranscriptFile(folder.transcript, redactor, log)
    artifacts = ArtifactStore(folder.artifacts, redactor, log)
    for kept in ("stores", CHECKOUTS):
        (config.home / kept).mkdir(mode=0o700, parents=True, exist_ok=True)
    clear_leftovers(config.home)
    undone = undo_interrupted(workspace, config.home)
    store = None
    if goal.deliverable == "workspace":
        outputs = (*goal.workspace.outputs, *runner_outputs(workspace, options.record))
        store = SnapshotStore(workspace, config.home, outputs=outputs, start=folder.start)
    checker = None
    if store is not None and config.check is not None:
        checker = CheckRunner(config, config.check, store, folder, launcher)
    parts = Parts(
        conversation=options.conversation or _conversation(config, folder.run_id, launcher),
        validators=(
            *goal_validators(config, config.sandbox.launcher(launcher, folder.run_id, checks=True)),
            *options.validators,
        ),
        judge=None if config.models.judge is None else LLMJudge(config.models.judge, goal.judge, redact=redactor.text),
        log=log,
        transcript=transcript,
        artifacts=artifacts,
        clock=clock,
        workspace=workspace,
        scratch=folder.scratch_file,
        watch=store,
        checker=checker,
        redact=redactor.text,
        replaced=redactor.take_counts,
        kept=partial(kept_files, folder),
        approver=options.approver,
    )

    def close() -> None:
        log.close()
        transcript.close()
        if store is not None:
            store.close()
        launcher.close()
        clear_own(config.home, folder.run_id)
        folder.clear_scratch()

    journal = Journal(log, transcript, artifacts, options.observers, summary_writer(folder))
    recalled = recall(config.home, goal.owner, clock.now()) if goal.memory.recall else Recalled()
    prompts = Prompts(goal, options.resume_prompt, options.prompt, recalled.lines)
    return RunResources(config, parts, journal, prompts, close, (*undone, *recalled.notes))


def goal_validators(config: RunConfig, launcher: Launcher) -> tuple[Validator, ...]:
    """Return the goal's own validators, started by `launcher`. Raise UsageError for one that cannot be made."""
    env = child_environment(config.sandbox.environ, withhold=config.withheld)
    return tuple(build_validators(with_variables(config.goal.validators, config.workspace), launcher, env))


def _conversation(config: RunConfig, run_id: str, launcher: ProcessLauncher) -> Conversation:
    goal, sandbox = config.goal, config.sandbox
    if config.agent is not None:
        policy = sandbox.agent_policy(sandbox.own_folder(run_id), config.agent.preset.home)
        return external_conversation(config.agent, config.workspace, launcher, sandbox.environ, config.withheld, policy)
    if config.models.agent is None:
        raise UsageError("the goal names no agent model", 'add model = "provider/model"')
    return built_in_conversation(
        goal,
        config.models.agent,
        config.workspace,
        sandbox.launcher(launcher, run_id, checks=False),
        child_environment(sandbox.environ, extra=goal.agent.env, withhold=config.withheld),
        config.location.secret,
    )


def built_in_conversation(
    goal: Goal, llm: LLM, workspace: Path, launcher: Launcher, env: Mapping[str, str], secret: Path | None = None
) -> ChatConversation:
    """Return the built-in agent of a goal; its file tools do not open the file `secret`."""
    response_only = goal.deliverable == "response" and not goal.validators
    return ChatConversation(
        llm,
        toolbox=None if response_only else Toolbox(workspace, launcher, env, secret=secret),
        system_prompt=goal.agent.system_prompt,
        max_steps=goal.agent.max_steps,
    )
