"""A goal of two rounds whose every command leaves a trace outside the workspace, and what must hold after any kill."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.app.verification import verify_run
from goalrunner.core.events import Record, ToolResultRecorded
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder
from tests.support.command_line import Ended
from tests.support.forking import Forks
from tests.support.logs import read_messages
from tests.support.recordings import agent, judge, quote, recording, shell

CRITERION = "the greeting is friendly"

GOAL = """\
objective = "Write a friendly greeting."
success_criteria = ["{criterion}"]
model = "{model}"
judge = "{model}"
validator = "cat hello.txt"
max_iterations = 5
[workspace]
path = "."
"""


@dataclass(frozen=True)
class Place:
    """Where it happens: workspace, home, and the file in which each command leaves its name."""

    root: Path
    forks: Forks
    other_home: Path | None = None

    @property
    def workspace(self) -> Path:
        """The agent's folder."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """GOAL_HOME."""
        return self.other_home or self.root / "home"

    @property
    def effects(self) -> Path:
        """One line for each command that ran."""
        return self.root / "effects"

    def goal(
        self, *arguments: str | Path, kill: tuple[str, float] | None = None
    ) -> Ended:
        """`goal` with these arguments."""
        return self.forks.goal(
            *arguments, cwd=self.workspace, env={"GOAL_HOME": str(self.home)}, kill=kill
        )

    @property
    def folder(self) -> Path | None:
        """The only run's folder; None where it was never made."""
        return (
            next(iter((self.home / "runs").glob("*")), None)
            if self.home.exists()
            else None
        )

    def records(self) -> list[Record]:
        """The log."""
        assert self.folder is not None
        return list(read_records(self.folder / "events.jsonl"))

    def outcome(self) -> dict[str, Any]:
        """outcome.json."""
        assert self.folder is not None
        result: dict[str, Any] = json.loads((self.folder / "outcome.json").read_text())
        return result


def prepare(root: Path, forks: Forks) -> Place:
    """The goal and its recording: a red round, then a green one. No single lost command keeps it from its end."""
    place = Place(root, forks)
    place.workspace.mkdir(parents=True)

    def leave(name: str, command: str) -> dict[str, Any]:
        return shell(f"echo {name} >> {place.effects}; {command}")

    greet = "echo hello, dear friend > hello.txt"
    model = recording(
        root / "models.jsonl",
        agent("", leave("one", "echo thinking > notes.txt")),
        agent("I thought about it."),
        agent("", leave("two", greet), leave("three", f"test -s hello.txt || {greet}")),
        agent("Now it is written."),
        judge((CRITERION, [quote("o6", "hello, dear friend")])),
    )
    (place.workspace / "goal.toml").write_text(
        GOAL.format(criterion=CRITERION, model=model)
    )
    return place


def without_a_result(place: Place) -> None:
    """Let the judge quote what it can where the first command has no result: it was cut in good order."""
    path = place.root / "models.jsonl"
    path.write_text(path.read_text().replace("o6", "o5"))


def same_end(place: Place, ended: Ended, *, results: int = 3, kills: int = 1) -> None:
    """The outcome of the run as if it had not been killed; nothing was done twice; the records are intact.

    `results`: of so many commands a result is recorded. `kills`: how often it was killed, each of which cuts one at most.
    """
    assert ended.code == 0, (
        ended,
        [str(record.event) for record in place.records()[-25:]],
    )
    outcome = place.outcome()
    assert (outcome["status"], outcome["stop_reason"], outcome["iterations"]) == (
        "complete",
        "satisfied",
        2,
    )
    assert outcome["verdict"]["complete"]
    cited = [
        (item["observation"], item["quote"])
        for item in outcome["verdict"]["criteria"][0]["evidence"]
    ]
    assert cited == [(f"o{results + 3}", "hello, dear friend")]
    _nothing_done_twice(place, results, kills)
    _replays(place.records())
    assert place.folder is not None
    verified = asyncio.run(verify_run(RunFolder(place.folder), place.home, os.environ))
    assert verified.broken is None, verified


def _nothing_done_twice(place: Place, number: int, kills: int) -> None:
    ran = Counter(place.effects.read_text().split())
    assert set(ran.values()) <= {1}, ran
    results = [
        record.event
        for record in place.records()
        if isinstance(record.event, ToolResultRecorded)
    ]
    assert len(results) == len({result.tool_call_id for result in results}) == number
    cut = [result for result in results if "interrupted" in result.observation.facts]
    whole = [
        result.observation.command.split()[1] for result in results if result not in cut
    ]
    assert set(whole) <= set(ran)
    assert len(cut) <= kills
    assert place.folder is not None
    messages = [dict(one) for one in read_messages(place.folder / "transcript.jsonl")]
    told = [
        one
        for one in messages
        if one["role"] == "tool"
        and "was interrupted while this was running" in one["content"]
    ]
    assert len({one["tool_call_id"] for one in told}) == len(cut)


def _replays(records: list[Record]) -> None:
    state: RunState | None = None
    for record in records:
        state = apply(state, record)
        assert apply(state, record) == state
