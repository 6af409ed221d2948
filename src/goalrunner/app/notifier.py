"""Notifying a person of the end of a run, or that it waits."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from goalrunner.core.activity import Activity, ActivityObserver, PersonNeeded, Remark
from goalrunner.core.agent_ports import Observer
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
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import SHELL

WAITING = "waiting"  # GOAL_STATUS while the run waits for a person
_TIMEOUT = 20.0  # seconds that the command may take
# Seconds of active time. A person still watches the end of a shorter run.
_WORTH_A_BELL = 10.0
_LONGEST = 200  # characters of the command's output in a remark


@dataclass
class Notifier:
    """Signals the end of a run to a person.

    If the run `asks` a person at a terminal, it also signals that the run waits for a
    decision. A command that fails is only a note.
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
            is_long = record.elapsed - self._began >= _WORTH_A_BELL
            title = f"goal: {event.status} {self.run_id}"
            self._tell(PersonNeeded(title, self.config.bell and is_long))
            self._run(str(event.status), self._commands)
        elif self.asks and isinstance(event, ApprovalRequested | QuestionOpened):
            self._tell(PersonNeeded(f"goal: {WAITING} {self.run_id}", self.config.bell))
            # In a thread: the person may answer while the command runs.
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
        variables = {
            "GOAL_RUN_ID": self.run_id,
            "GOAL_STATUS": status,
            "GOAL_COMMANDS": commands,
        }
        try:
            completed = subprocess.run(
                [SHELL, "-c", self.config.command],
                env=child_environment(self.environ, extra=variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                # It is in the session of this program, whose processes are not taken
                # for
                # the agent's.
                process_group=0,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            reason = one_line(str(error), _LONGEST)
            self._tell(Remark(f"[notify] command failed: {reason}"))
            return
        if completed.returncode:
            remark = f"[notify] command failed with exit code {completed.returncode}"
            output = one_line(completed.stdout.decode(errors="replace"), _LONGEST)
            self._tell(Remark(f"{remark}: {output}" if output else remark))
