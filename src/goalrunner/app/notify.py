"""Notifications at the end of a run and when a person is needed: the terminal's bell, and a command of the goal file."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from goalrunner.core.activity import Activity, ActivityObserver, PersonNeeded, Remark
from goalrunner.core.agent_ports import Observer
from goalrunner.core.errors import one_line
from goalrunner.core.events import ApprovalRequested, QuestionOpened, Record, RunEnded, RunResumed
from goalrunner.core.goal_tables import NotifyConfig
from goalrunner.system.launcher import SHELL, child_environment

WAITING = "waiting"  # GOAL_STATUS while the run waits for a person
_TIMEOUT = 20.0  # seconds that the command may take
_WORTH_A_BELL = 10.0  # seconds of active time from which the end of a run is signalled by the bell
_LONGEST = 200


@dataclass
class Notifier:
    """Signals that the run has ended, or, if a person `asks` for it at a terminal, that it waits for a decision.

    A command that fails is only a note.
    """

    config: NotifyConfig
    run_id: str
    observers: Sequence[Observer]
    environ: Mapping[str, str]
    asks: bool
    _began: float = 0.0

    def on_record(self, record: Record) -> None:
        """Notify at the end, and when the run waits for a person."""
        event = record.event
        if isinstance(event, RunResumed):
            self._began = record.elapsed
        elif isinstance(event, RunEnded):
            long = record.elapsed - self._began >= _WORTH_A_BELL
            self._tell(PersonNeeded(f"goal: {event.status} {self.run_id}", self.config.bell and long))
            self._run(str(event.status))
        elif self.asks and isinstance(event, ApprovalRequested | QuestionOpened):
            self._tell(PersonNeeded(f"goal: {WAITING} {self.run_id}", self.config.bell))
            # The person may answer while the command runs.
            threading.Thread(target=self._run, args=(WAITING,), name="goal-notify", daemon=True).start()

    def _tell(self, activity: Activity) -> None:
        for observer in self.observers:
            if isinstance(observer, ActivityObserver):
                observer.on_activity(activity)

    def _run(self, status: str) -> None:
        if not self.config.command:
            return
        try:
            done = subprocess.run(
                [SHELL, "-c", self.config.command],
                env=child_environment(self.environ, extra={"GOAL_RUN_ID": self.run_id, "GOAL_STATUS": status}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                process_group=0,  # in the session of this program, whose processes are not taken for the agent's
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self._tell(Remark(f"[notify] command failed: {one_line(str(error), _LONGEST)}"))
            return
        if done.returncode:
            said = one_line(done.stdout.decode(errors="replace"), _LONGEST)
            words = f"[notify] command failed with exit code {done.returncode}"
            self._tell(Remark(f"{words}: {said}" if said else words))
