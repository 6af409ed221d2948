"""The parts of a run, made from its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from goalrunner.agents.agent_chain import AgentChain
from goalrunner.agents.external_chat import ExternalConversation
from goalrunner.app.checker import CheckRunner
from goalrunner.app.critic import make_critic
from goalrunner.app.external_agent import built_in_conversation, external_conversation
from goalrunner.app.resolve import RunConfig
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.ports import Launcher, Validator
from goalrunner.engine.parts import Parts
from goalrunner.judge.audit import LLMJudge
from goalrunner.records.decision_files import DecisionFiles
from goalrunner.records.event_log import SystemClock
from goalrunner.records.run_records import RunRecords
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.child_environment import child_environment
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.shell_validator import build_validators
from goalrunner.validators.started_checks import started_checks


@dataclass(frozen=True)
class RunStores:
    """Where a run records what it does, and the content of its workspace."""

    records: RunRecords
    snapshots: SnapshotStore | None = None
    """None if the workspace is not what the run delivers, or nothing is kept."""
    notes: tuple[str, ...] = ()
    """For people: about interrupted checks that were undone, and runs removed."""

    def close(self) -> None:
        self.records.close()
        if self.snapshots is not None:
            self.snapshots.close()


def make_parts(
    config: RunConfig, stores: RunStores, launcher: ProcessLauncher
) -> Parts:
    """Return the parts of a run. Raise GoalError."""
    records, snapshots, checker = stores.records, stores.snapshots, None
    folder, run_id = records.folder, records.run_id
    if snapshots is not None and config.check is not None and folder is not None:
        checker = CheckRunner(config, config.check, snapshots, folder, launcher)
    # Validators that check a response run outside of a check environment.
    checks_launcher = config.sandbox.launcher(launcher, run_id, checks=True)
    from_goal = goal_validators(config, checks_launcher)
    conversation = config.options.conversation
    judge = make_judge(config)
    return Parts(
        conversation=conversation or _conversation(config, run_id, launcher),
        validators=(*from_goal, *config.options.validators),
        judge=config.options.adapt_judge(judge) if judge is not None else None,
        reviewer=make_critic(config, records, snapshots, launcher),
        log=records.log,
        transcript=records.transcript,
        artifacts=records.artifacts,
        clock=SystemClock(),
        workspace=config.workspace,
        scratch=records.scratch,
        snapshots=snapshots,
        checker=checker,
        redact=config.redactor.text,
        take_secret_counts=config.redactor.take_counts,
        store_traceback=records.store_traceback,
        start_files=records.start_files,
        in_thread=in_thread,
        approver=config.options.approver,
        decision_files=DecisionFiles(folder.decisions) if folder else None,
        refuse_call=config.options.refuse_call,
    )


def goal_validators(config: RunConfig, launcher: Launcher) -> tuple[Validator, ...]:
    """Return the goal's own validators, started by `launcher`.

    Raise UsageError for one that cannot be made.
    """
    # They have the variables that the scripts of the validators need.
    specs = started_checks(config.goal.validators, config.workspace).specs
    return tuple(
        build_validators(
            specs,
            launcher,
            config.command_environ,
            goal_folder=config.options.goal_folder,
        )
    )


def _conversation(
    config: RunConfig, run_id: str, launcher: ProcessLauncher
) -> Conversation:
    goal, sandbox = config.goal, config.sandbox
    if config.agents:
        return _external_conversation(config, run_id, launcher)
    return built_in_conversation(
        goal,
        config.models["agent"],
        config.workspace,
        sandbox.launcher(launcher, run_id, checks=False),
        child_environment(
            sandbox.environ, extra=goal.agent.env, withhold=config.withheld
        ),
        sandbox.secret,
    )


def _external_conversation(
    config: RunConfig, run_id: str, launcher: ProcessLauncher
) -> Conversation:
    sandbox = config.sandbox
    is_chain = len(config.agents) > 1
    conversations: list[ExternalConversation] = []
    for agent in config.agents:
        folder = sandbox.own_folder(run_id)
        if is_chain:
            # An agent does not see what another one wrote into its HOME.
            folder = folder / agent.name
        policy = sandbox.agent_policy(folder, agent.preset.home)
        # Of the keys that are withheld, an agent gets its own ones.
        env = agent.environment(
            sandbox.environ, config.withheld, sandboxed=policy is not None
        )
        conversations.append(
            external_conversation(agent, config.workspace, launcher, env, policy)
        )
    if is_chain:
        return AgentChain(conversations, config.at_work)
    return conversations[0]


def make_judge(config: RunConfig) -> LLMJudge | None:
    """Return the judge of a run; None if it has none."""
    if "judge" not in config.models:
        return None
    return LLMJudge(
        config.models["judge"], config.goal.judge, redact=config.redactor.text
    )
