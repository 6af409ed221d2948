"""One real agent on its stage: a home of its own, a workspace, and a scripted server for its model."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner import api
from goalrunner.compose.external import external_conversation, external_named
from goalrunner.eventlog import read_records
from goalrunner.model.goal import AgentConfig, Goal, ValidatorSpec, WorkspaceConfig
from goalrunner.model.outcome import GoalOutcome
from goalrunner.model.preset import Preset, Protocol
from goalrunner.ports import Conversation
from goalrunner.presets import find
from goalrunner.process import ProcessLauncher
from goalrunner.rehearsal import Rehearsal, pointed


@dataclass(frozen=True)
class Stage:
    """Where the agent `name` is driven. Everything that it writes is below `root`."""

    name: str
    root: Path
    protocol: Protocol = "command"

    @property
    def workspace(self) -> Path:
        """Where it works."""
        return self.root / "work"

    @property
    def preset(self) -> Preset:
        """As it comes along."""
        return find(self.name, {}, {})

    def goal(self, server: Rehearsal, **more: Any) -> Goal:
        """To make the file `done` hold a 3, by this agent at that server."""
        point = pointed(self.preset, server)
        assert point is not None
        # The tests run in a place that is theirs alone; as root claude wants to be told so.
        config = AgentConfig(
            use=self.name, protocol=self.protocol, args=point.args, env={**point.env, "IS_SANDBOX": "1"}
        )
        checks = (ValidatorSpec(name="done", run="grep -q 3 done"),)
        given = {
            "objective": "make done hold a 3",
            "validators": checks,
            "workspace": WorkspaceConfig(path=str(self.workspace)),
            "agent": config,
            **more,
        }
        return Goal.model_validate(given)

    def conversation(self, server: Rehearsal) -> Conversation:
        """The agent alone, without a run around it."""
        named = external_named(self.goal(server), os.environ)
        assert named is not None
        return external_conversation(named, self.workspace, ProcessLauncher(), os.environ, ())

    async def run(self, server: Rehearsal, **more: Any) -> tuple[GoalOutcome, list[Any]]:
        """A whole run: outcome and events."""
        outcome = await api.arun(self.goal(server, **more), home=self.root / "goal-home")
        return outcome, [record.event for record in read_records(Path(outcome.run_path) / "events.jsonl")]


@dataclass(frozen=True)
class Sleepers:
    """Two processes that an agent is told to start, one of them in a session of its own; known by a number of theirs."""

    number: str

    @classmethod
    def new(cls) -> Sleepers:
        """With a number that nobody else has."""
        return cls(f"3{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}")

    @property
    def command(self) -> str:
        """What starts them, and waits."""
        return f"setsid sleep {self.number} & sleep {self.number}"

    def alive(self) -> list[str]:
        """Command lines of those that live. A shell that has yet to start them is none."""
        listed = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True)
        return [line for line in listed.stdout.splitlines() if line.strip() == f"sleep {self.number}"]

    async def until(self, number: int) -> None:
        """Wait until so many live."""
        while len(self.alive()) != number:
            await asyncio.sleep(0.1)


def bodies(server: Rehearsal) -> str:
    """All that was sent to the model, as one text."""
    return json.dumps([request.body for request in server.requests])
