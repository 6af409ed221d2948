"""Where an agent is put through the suite: workspace, home, an environment of its own, and runs in this process or another."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import drive_to_end
from goalrunner.core import events
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Observation
from goalrunner.records.event_log import read_records
from tests.conformance.moves import AgentUnderTest, Move, Prepared, Told
from tests.support import command_line, forking
from tests.support.arena import Ending
from tests.support.command_line import Ended

SECONDS = 5.0
"""Seconds within which every process must be gone."""

GREEN = [{"name": "done", "run": "test -e done"}]
"""A goal is reached when there is a file of that name."""


@dataclass(frozen=True)
class Ran(Ending):
    """How a run ended, and what its agent did."""

    @property
    def observations(self) -> list[Observation]:
        """What tools gave, as it was recorded."""
        return [
            item.event.observation
            for item in self.records
            if isinstance(item.event, events.ToolResultRecorded)
        ]

    @property
    def left(self) -> list[tuple[str, ...]]:
        """By round: the processes that were left."""
        return [
            item.event.left
            for item in self.records
            if isinstance(item.event, events.RoundFinished)
        ]


@dataclass
class Place:
    """A folder of a test, in which one agent plays."""

    root: Path
    agent: AgentUnderTest
    records: list[Record] = field(default_factory=list)
    watchers: list[Callable[[Record], None]] = field(default_factory=list)
    """Called with each record as it is written."""
    assembly: PreparedRun | None = None

    def __post_init__(self) -> None:
        self.workspace, self.home, self._user = (
            self.root / "work",
            self.root / "home",
            self.root / "user",
        )
        self._mark = f"g{secrets.token_hex(4)}"
        for folder in (self.workspace, self._user):
            folder.mkdir(parents=True)

    @property
    def environ(self) -> dict[str, str]:
        """A machine without keys and logins."""
        path = os.pathsep.join(
            [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
        )
        home = {"HOME": str(self._user), "GOAL_HOME": str(self.home)}
        return {"PATH": path, "LANG": "C.UTF-8", **home, **self._prepared.environ}

    def prepare(self, *rounds: Sequence[Move], **settings: Any) -> None:
        """Tell the agent what to do."""
        self._prepared: Prepared = self.agent.prepare(self._user, rounds, **settings)

    @property
    def told(self) -> list[Told]:
        """What the agent was told so far."""
        return self.agent.told()

    def on_record(self, record: Record) -> None:
        """The port `Observer`."""
        self.records.append(record)
        for watcher in self.watchers:
            watcher(record)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that this agent does. Raises AssertionError when it never comes."""
        await until(condition, 20 * self.agent.patience)

    async def run(self, **goal: Any) -> Ran:
        """Run the goal in this process to its end; GREEN unless it says otherwise."""
        keys: dict[str, Any] = {
            "objective": "Make the file done.",
            "max_iterations": 3,
            "validators": GREEN,
            **goal,
        }
        keys["agent"] = {**self._prepared.agent, **keys.get("agent", {})}
        keys["workspace"] = {"path": str(self.workspace), **self._prepared.workspace}
        self.assembly = prepare_run(
            Goal.model_validate(keys),
            RunOptions(home=self.home, environ=self.environ, observers=[self]),
        )
        outcome = await drive_to_end(self.assembly)
        return Ran(outcome, tuple(self.records))

    def goal_file(self, **changes: Any) -> Path:
        """The same goal as a file."""
        workspace = {"path": str(self.workspace), **self._prepared.workspace}
        keys = {
            "objective": "Make the file done.",
            "validator": "test -e done",
            "max_iterations": 3,
            **changes,
        }
        path = self.root / "goal.toml"
        path.write_text(
            f"{toml(keys)}\n[agent]\n{toml(self._prepared.agent)}\n[workspace]\n{toml(workspace)}\n"
        )
        return path

    def goal(self, *arguments: str | Path) -> Ended:
        """`goal` in a process of its own, to its end."""
        return forking.goal(*arguments, cwd=self.workspace, env=self.environ)

    def start(self, *arguments: str | Path) -> Any:
        """The same, and go on."""
        return command_line.start(*arguments, cwd=self.workspace, env=self.environ)

    @property
    def user(self) -> str:
        """A word in the environment of every process that was started here, unless the process removed it."""
        return f"HOME={self._user}"

    def called(self, name: str) -> str:
        """A name that no other process on this machine has."""
        return f"{self._mark}-{name}"

    def log(self) -> list[Record]:
        """Of the only run in the home."""
        (folder,) = (self.home / "runs").iterdir()
        return list(read_records(folder / "events.jsonl"))


def toml(keys: Mapping[str, Any]) -> str:
    """Strings, numbers, truths and lists of them, a line each."""
    return "\n".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in keys.items()
    )


def living(word: str) -> list[int]:
    """Processes whose command line or environment holds the word; zombies live no more."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes() + (
                    folder / "environ"
                ).read_bytes()
                if (
                    word.encode() in words
                    and (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    not in "ZX"
                ):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


async def until(condition: Callable[[], object], seconds: float = 20.0) -> float:
    """Wait for something; gives how long that took in seconds. Raises AssertionError when it never comes."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began
