"""The parts of a run, made from its configuration: agent, validators, judge, reviewer
and notifications.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from goalrunner.agents.agent_chain import AgentChain
from goalrunner.app.checker import CheckRunner
from goalrunner.app.critic import make_critic
from goalrunner.app.external_agent import built_in_conversation, external_conversation
from goalrunner.app.previous_run import kept_files
from goalrunner.app.resolve import RunConfig
from goalrunner.core.activity import Activity, ActivityObserver, PersonNeeded, Remark
from goalrunner.core.agent_ports import Conversation, Observer
from goalrunner.core.errors import one_line
from goalrunner.core.events import (
    ApprovalRecorded,
    ApprovalRequested,
    Event,
    QuestionAnswered,
    QuestionOpened,
    Record,
    RunEnded,
    RunResumed,
)
from goalrunner.core.goal_tables import NotifyConfig
from goalrunner.core.ports import Launcher, Validator
from goalrunner.engine.parts import Parts
from goalrunner.judge.audit import LLMJudge
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.decision_files import DecisionFiles
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.transcript_file import TranscriptFile
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.child_environment import child_environment
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import SHELL, ProcessLauncher
from goalrunner.validators.shell_validator import build_validators
from goalrunner.validators.started_checks import started_checks


def make_parts(
    config: RunConfig,
    folder: RunFolder,
    launcher: ProcessLauncher,
    store: SnapshotStore | None,
    log: EventLog,
    transcript: TranscriptFile,
) -> Parts:
    """Return the parts of a run that are not its files. Raise GoalError."""
    checker = None
    if store is not None and config.check is not None:
        checker = CheckRunner(config, config.check, store, folder, launcher)
    own = goal_validators(
        config, config.sandbox.launcher(launcher, folder.run_id, checks=True)
    )
    return Parts(
        conversation=config.options.conversation
        or _conversation(config, folder.run_id, launcher),
        validators=(*own, *config.options.validators),
        judge=make_judge(config),
        reviewer=make_critic(config, store, folder, launcher),
        log=log,
        transcript=transcript,
        artifacts=ArtifactStore(folder.artifacts, config.redactor, log),
        clock=SystemClock(),
        workspace=config.workspace,
        scratch=folder.scratch_file,
        snapshots=store,
        checker=checker,
        redact=config.redactor.text,
        replaced=config.redactor.take_counts,
        start_files=partial(kept_files, folder),
        in_thread=in_thread,
        approver=config.options.approver,
        decision_files=DecisionFiles(folder.decisions),
    )


def goal_validators(config: RunConfig, launcher: Launcher) -> tuple[Validator, ...]:
    """Return the goal's own validators, started by `launcher`.

    Raise UsageError for one that cannot be made.
    """
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
        own_folder, is_chain = sandbox.own_folder(run_id), len(config.agents) > 1
        conversations = [
            external_conversation(
                agent,
                config.workspace,
                launcher,
                sandbox.environ,
                config.withheld,
                # In a sandbox, an agent does not see what another one wrote into its
                # HOME.
                sandbox.agent_policy(
                    own_folder / agent.name if is_chain else own_folder,
                    agent.preset.home,
                ),
            )
            for agent in config.agents
        ]
        return (
            AgentChain(conversations, config.at_work) if is_chain else conversations[0]
        )
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


def make_judge(config: RunConfig) -> LLMJudge | None:
    """Return the judge of a run; None if it has none."""
    if "judge" not in config.models:
        return None
    return LLMJudge(
        config.models["judge"], config.goal.judge, redact=config.redactor.text
    )


WAITING = "waiting"  # GOAL_STATUS while the run waits for a person
_TIMEOUT = 20.0  # seconds that the command may take
_WORTH_A_BELL = (
    10.0  # seconds of active time from which the end of a run is signalled by the bell
)
_LONGEST = 200


@dataclass
class Notifier:
    """Signals the end of a run, and, if the run `asks` a person at a terminal, that it
    waits for a decision.

    A command that fails is only a note.
    """

    config: NotifyConfig
    run_id: str
    observers: Sequence[Observer]
    environ: Mapping[str, str]
    asks: bool
    _began: float = 0.0
    _commands: str = ""
    """The commands that decide what waits for a person, a line each."""

    def on_record(self, record: Record) -> None:
        """Notify at the end, and when the run waits for a person."""
        event = record.event
        self._commands = self._commands_after(event)
        if isinstance(event, RunResumed):
            self._began = record.elapsed
        elif isinstance(event, RunEnded):
            long = record.elapsed - self._began >= _WORTH_A_BELL
            self._tell(
                PersonNeeded(
                    f"goal: {event.status} {self.run_id}", self.config.bell and long
                )
            )
            self._run(str(event.status), self._commands)
        elif self.asks and isinstance(event, ApprovalRequested | QuestionOpened):
            self._tell(PersonNeeded(f"goal: {WAITING} {self.run_id}", self.config.bell))
            # The person may answer while the command runs.
            threading.Thread(
                target=self._run,
                args=(WAITING, self._commands),
                name="goal-notify",
                daemon=True,
            ).start()

    def _commands_after(self, event: Event) -> str:
        match event:
            case ApprovalRequested():
                about = f"{self.run_id} {event.approval_id}"
                return f"goal approve {about}\ngoal deny {about}"
            case QuestionOpened():
                return f'goal answer {self.run_id} "..."'
            case ApprovalRecorded() | QuestionAnswered():
                return ""
            case _:
                return self._commands

    def _tell(self, activity: Activity) -> None:
        for observer in self.observers:
            if isinstance(observer, ActivityObserver):
                observer.on_activity(activity)

    def _run(self, status: str, commands: str) -> None:
        if not self.config.command:
            return
        about = {
            "GOAL_RUN_ID": self.run_id,
            "GOAL_STATUS": status,
            "GOAL_COMMANDS": commands,
        }
        try:
            # In the session of this program, whose processes are not taken for the
            # agent's.
            done = subprocess.run(
                [SHELL, "-c", self.config.command],
                env=child_environment(self.environ, extra=about),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                process_group=0,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self._tell(
                Remark(f"[notify] command failed: {one_line(str(error), _LONGEST)}")
            )
            return
        if done.returncode:
            said = one_line(done.stdout.decode(errors="replace"), _LONGEST)
            words = f"[notify] command failed with exit code {done.returncode}"
            self._tell(Remark(f"{words}: {said}" if said else words))
