from __future__ import annotations

import os
import time
from pathlib import Path

from goalrunner.app.notifier import Notifier
from goalrunner.core import events
from goalrunner.core.activity import Activity, PersonNeeded, Remark
from goalrunner.core.events import Event, Record
from goalrunner.core.goal_tables import NotifyConfig
from goalrunner.core.outcome import StopReason

ENDED = events.RunEnded(stop_reason=StopReason.SATISFIED)
QUESTION = events.QuestionOpened(question="Which one?")


class Seen:
    """An observer that keeps the activities."""

    def __init__(self) -> None:
        self.activities: list[Activity] = []

    def on_record(self, record: Record) -> None:
        """Do nothing."""

    def on_activity(self, activity: Activity) -> None:
        """Keep it."""
        self.activities.append(activity)


def told(
    event: Event,
    command: str = "",
    *,
    bell: bool = True,
    elapsed: float = 60,
    asks: bool = True,
) -> list[Activity]:
    seen = Seen()
    config = NotifyConfig(bell=bell, command=command)
    environ = {**os.environ, "OPENAI_API_KEY": "sk-secret"}
    Notifier(config, "k3f9-make", [seen], environ, asks).on_record(
        Record(seq=1, at="", elapsed=elapsed, event=event)
    )
    return seen.activities


def test_the_command_gets_the_run_and_its_status_and_no_key(tmp_path: Path) -> None:
    path = tmp_path / "told"
    told(
        ENDED, f'echo "$GOAL_RUN_ID $GOAL_STATUS ${{OPENAI_API_KEY:-no key}}" > {path}'
    )
    assert path.read_text() == "k3f9-make complete no key\n"


def test_the_command_gets_the_commands_that_decide_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "told"
    requested = events.ApprovalRequested(
        approval_id="a1", kind="shell", action="make", rule="because"
    )
    recorded = events.ApprovalRecorded(approval_id="a1", decision="approved")
    command = NotifyConfig(command=f'echo "$GOAL_COMMANDS" > {path}')
    for happened, commands in (
        ((requested, ENDED), "goal approve k3f9-make a1\ngoal deny k3f9-make a1\n"),
        ((QUESTION, ENDED), 'goal answer k3f9-make "..."\n'),
        ((requested, recorded, ENDED), "\n"),
    ):
        notifier = Notifier(command, "k3f9-make", [Seen()], os.environ, asks=False)
        for event in happened:
            notifier.on_record(Record(seq=1, at="", elapsed=60, event=event))
        assert path.read_text() == commands


def test_a_command_that_fails_is_a_note() -> None:
    remarks = [
        item
        for item in told(ENDED, "echo no such host; exit 6")
        if isinstance(item, Remark)
    ]
    assert remarks == [Remark("[notify] command failed with exit code 6: no such host")]


def test_a_question_at_a_terminal_is_announced_while_the_person_may_answer(
    tmp_path: Path,
) -> None:
    path, answered = tmp_path / "told", tmp_path / "answered"
    command = (
        f"until [ -e {answered} ]; do sleep 0.01; done; echo $GOAL_STATUS > {path}"
    )
    assert told(QUESTION, command) == [PersonNeeded("goal: waiting k3f9-make")]
    assert not path.exists()
    answered.touch()
    deadline = time.monotonic() + 20
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert path.read_text() == "waiting\n"


def test_without_a_person_at_a_terminal_only_the_end_is_announced() -> None:
    assert told(QUESTION, asks=False) == []


def test_the_bell_is_for_long_runs_and_can_be_switched_off() -> None:
    assert told(ENDED) == [PersonNeeded("goal: complete k3f9-make", bell=True)]
    assert told(ENDED, elapsed=2) == [
        PersonNeeded("goal: complete k3f9-make", bell=False)
    ]
    assert told(ENDED, bell=False) == [
        PersonNeeded("goal: complete k3f9-make", bell=False)
    ]


def test_the_command_is_not_ended_with_the_commands_of_the_agent(
    tmp_path: Path,
) -> None:
    """A process in another session is taken for one that the agent left behind."""
    path = tmp_path / "told"
    told(ENDED, f"ps -o sid= -p $$ > {path}")
    assert int(path.read_text()) == os.getsid(0)
