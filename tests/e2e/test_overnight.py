"""Whole runs that nobody watches: limits that reset, overloads, agents that stop early or fall silent."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core import events
from goalrunner.core.events import Record
from goalrunner.records.event_log import read_records
from tests.support.command_line import Ended, only_run, start
from tests.support.forking import goal
from tests.support.programs import Programs
from tests.support.transitions import faults
from tests.support.unlucky_agent import FIXED, Turn, UnluckyAgent, ending, limit, work

FIX = work("sed -i 's/a - b/a + b/' calc.py")

WEEK = 7 * 24 * 3600
"""Seconds."""


@dataclass
class Night:
    """A small project with a red test, a goal of three lines, and the agents that are installed."""

    place: Path
    home: Path
    programs: Programs

    @classmethod
    def new(cls, place: Path, home: Path) -> Night:
        """The project is green once `calc.py` adds."""
        (place / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        (place / "test_calc.py").write_text(
            "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
        )
        return cls(place, home, Programs.new(place.parent / "machine"))

    def agent(self, *turns: Turn, name: str = "claude") -> UnluckyAgent:
        """Install an agent that plays these turns."""
        return UnluckyAgent.install(self.programs, name, turns)

    def write(self, extra: str = "", agent: str = 'agent = "claude"') -> None:
        """The goal file."""
        text = 'objective = "Make add() in calc.py add."\nvalidator = "pytest -q"\n'
        (self.place / "goal.toml").write_text(f"{text}{extra}\n{agent}\n")

    @property
    def environ(self) -> dict[str, str]:
        """Its machine, on which the validator finds pytest."""
        path = f"{self.programs.bin}:{Path(sys.executable).parent}:/usr/bin:/bin"
        return {**self.programs.environ, "PATH": path}

    def goal(self, *arguments: str | Path) -> Ended:
        """`goal` in the project, to its end."""
        return goal(*arguments, cwd=self.place, env=self.environ)

    def start(self, *arguments: str | Path) -> Any:
        """The same, and go on."""
        return start(*arguments, cwd=self.place, env=self.environ)

    @property
    def log(self) -> list[Record]:
        """Of the only run; empty before it."""
        paths = list((self.home / "runs").glob("*/events.jsonl"))
        return list(read_records(paths[0])) if paths else []

    def events(self, *kinds: type[Any]) -> Sequence[Any]:
        """Those of the log, in their order."""
        return [record.event for record in self.log if isinstance(record.event, kinds)]

    def await_event(self, kind: type[Any], seconds: float = 30) -> None:
        """Until the log has such an event."""
        deadline = time.monotonic() + seconds
        while not self.events(kind):
            assert time.monotonic() < deadline, f"no {kind.__name__} within {seconds} s"
            time.sleep(0.05)

    @property
    def outcome(self) -> dict[str, Any]:
        """Of the only run."""
        result: dict[str, Any] = json.loads(
            (only_run(self.home) / "outcome.json").read_text()
        )
        return result

    @property
    def how(self) -> tuple[str, str, int]:
        """Its status, stop reason and rounds; the log is in order."""
        assert not any(faults(self.log)), [fault for fault in faults(self.log) if fault]
        return (
            self.outcome["status"],
            self.outcome["stop_reason"],
            self.outcome["iterations"],
        )


@pytest.fixture
def night(place: Path, own_home: Path) -> Night:
    """The project and its machine."""
    return Night.new(place, own_home)


def test_a_run_waits_until_a_usage_limit_resets_and_completes_its_round(
    night: Night,
) -> None:
    claude = night.agent([limit(3)], [FIX, FIXED])
    night.write('timeout = "1m"')
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    (began,) = night.events(events.WaitStarted)
    assert (began.account, began.kind, began.number) == ("agent", "limit", 1)
    assert len(claude.asked) == 2
    assert claude.asked[0]["prompt"] == claude.asked[1]["prompt"]
    assert claude.asked[1]["at"] - claude.asked[0]["at"] > 2
    assert "waiting usage limit, five hours, until" in ended.out
    _waited(night, 1.5)


def test_an_overload_is_tried_again_within_the_round(night: Night) -> None:
    claude = night.agent([ending("overloaded")], [ending("overloaded")], [FIX, FIXED])
    night.write()
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    assert [(wait.kind, wait.number) for wait in night.events(events.WaitStarted)] == [
        ("retry", 1),
        ("retry", 2),
    ]
    assert len(claude.asked) == 3
    assert "retry 2 after 5 s (529 overloaded)" in ended.out


@pytest.mark.parametrize("early", ["max_turns", "execution_error", "interrupted"])
def test_a_turn_that_ends_early_is_checked(night: Night, early: Any) -> None:
    night.agent([FIX, ending(early)])
    night.write()
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    (finished,) = night.events(events.RoundFinished)
    assert finished.reason == "interrupted"
    assert finished.ending


def test_the_next_prompt_says_why_the_turn_before_it_ended(night: Night) -> None:
    claude = night.agent(
        [work("echo note > notes.txt"), ending("max_turns")], [FIX, FIXED]
    )
    night.write()
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 2)
    (first, _) = night.events(events.RoundFinished)
    assert first.ending in claude.asked[1]["prompt"]


def test_an_agent_that_falls_silent_after_its_work_completes_within_idle_timeout(
    night: Night,
) -> None:
    night.agent([FIX, ending("silent")])
    night.write(agent='[agent]\nuse = "claude"\nidle_timeout = "2s"')
    began = time.monotonic()
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    assert time.monotonic() - began < 20


def test_a_limit_beyond_the_longest_wait_ends_the_run_with_its_time_and_what_to_type(
    night: Night,
) -> None:
    claude = night.agent([limit(WEEK, "seven_day")])
    night.write()
    ended = night.goal("run")
    assert ended.code == 4, ended
    assert night.how[0] == "failed"
    assert "goal resume" in ended.out
    assert len(claude.asked) == 1


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        (limit(WEEK, "seven_day"), "usage limit, seven days"),
        (ending("signed_out"), "has no valid key or login"),
        (ending("no_credit"), "Credit balance is too low"),
    ],
)
def test_work_that_is_done_when_an_agent_cannot_go_on_is_checked(
    night: Night, obstacle: Any, words: str
) -> None:
    claude = night.agent([FIX, obstacle])
    night.write()
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    assert len(claude.asked) == 1
    assert words in night.events(events.RoundFinished)[0].ending


def test_work_that_is_not_done_when_a_long_limit_is_reached_can_be_continued(
    night: Night,
) -> None:
    claude = night.agent(
        [work("echo note > notes.txt"), limit(WEEK, "seven_day")], [FIX, FIXED]
    )
    night.write()
    ended = night.goal("run")
    assert ended.code == 4, ended
    assert night.how == ("failed", "agent_failed", 1)
    assert "try again" in ended.out
    assert night.goal("resume").code == 0
    assert night.how == ("complete", "satisfied", 2)
    assert "usage limit, seven days" in claude.asked[1]["prompt"]


def test_without_a_wait_a_limit_ends_the_run_at_once(night: Night) -> None:
    claude = night.agent([limit(2)], [FIX, FIXED])
    night.write("wait = 0")
    ended = night.goal("run")
    assert ended.code == 4, ended
    assert not night.events(events.WaitStarted)
    assert night.goal("resume").code == 0
    assert night.how == ("complete", "satisfied", 1)
    assert len(claude.asked) == 2


def test_a_signed_out_agent_ends_the_run_without_a_wait(night: Night) -> None:
    claude = night.agent([ending("signed_out")])
    night.write()
    ended = night.goal("run")
    assert ended.code == 4, ended
    assert night.how[0] == "failed"
    assert "sign in" in ended.out
    assert (len(claude.asked), night.events(events.WaitStarted)) == (1, [])


@pytest.mark.parametrize(
    "reason", [limit(WEEK, "seven_day"), ending("signed_out"), ending("no_credit")]
)
def test_the_next_agent_takes_over_where_waiting_cannot_help(
    night: Night, reason: Any
) -> None:
    claude = night.agent([reason])
    codex = night.agent([FIX, FIXED], name="codex")
    night.write(agent='agent = ["claude", "codex"]')
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    (switched,) = night.events(events.AgentSwitched)
    assert (switched.round, switched.index, switched.agent) == (1, 1, "codex")
    assert (len(claude.asked), len(codex.asked)) == (1, 1)
    assert "agents: claude, codex" in night.outcome["labels"]


def test_the_agent_that_took_over_waits_for_its_own_limit(night: Night) -> None:
    night.agent([limit(WEEK, "seven_day")])
    codex = night.agent([limit(3)], [FIX, FIXED], name="codex")
    night.write(agent='agent = ["claude", "codex"]')
    ended = night.goal("run")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    assert [wait.kind for wait in night.events(events.WaitStarted)] == ["limit"]
    assert len(codex.asked) == 2


def test_a_run_killed_while_it_waits_waits_on_and_counts_nothing_twice(
    night: Night,
) -> None:
    claude = night.agent([limit(8)], [FIX, FIXED])
    night.write('timeout = "1m"', agent='agent = "claude"\n[budget]\ntokens = 500')
    running = night.start("run")
    night.await_event(events.WaitStarted)
    seen = night.goal("status")
    told = json.loads(night.goal("status", "--json").out)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert "status     waiting: usage limit, five hours, until" in seen.out
    assert told["resume_at"] == night.events(events.WaitStarted)[0].until

    ended = night.goal("resume")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)
    assert len(claude.asked) == 2
    assert claude.asked[1]["at"] - claude.asked[0]["at"] > 6.5
    assert (
        len(night.events(events.WaitStarted))
        == len(night.events(events.WaitEnded))
        == 1
    )
    assert len(night.events(events.RoundStarted)) == 1
    _waited(night, 6)


def test_an_interrupted_wait_is_cancelled_and_can_be_resumed(night: Night) -> None:
    night.agent([limit(5)], [FIX, FIXED])
    night.write()
    running = night.start("run")
    night.await_event(events.WaitStarted)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 130, (out, err)
    assert night.how[:2] == ("cancelled", "interrupted")
    assert "goal resume" in out

    ended = night.goal("resume")
    assert ended.code == 0, ended
    assert night.how == ("complete", "satisfied", 1)


def _waited(night: Night, seconds: float) -> None:
    """The run waited at least so long; its active time is what is left, and its usage that of one turn."""
    began, ended = night.log[0].at, night.log[-1].at
    whole = (
        datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    ).total_seconds()
    outcome = night.outcome
    assert outcome["waited"] > seconds
    assert outcome["duration"] <= whole - seconds
    assert outcome["usage"]["agent"]["input_tokens"] == 100
