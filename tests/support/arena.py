"""Whole runs in process, with real `sh`, pytest and git: a scripted agent works in a project and the runner checks it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.app.build import prepare_run
from goalrunner.app.run_options import RunOptions, judge_of
from goalrunner.app.session import drive_to_end
from goalrunner.core import events
from goalrunner.core.agent_ports import Approver
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from tests.support.recordings import agent, recording
from tests.support.workspaces import git

Round = Sequence[Mapping[str, Any] | str]
"""What the agent does in one round: calls of its tools in order; a text is what it says at the end."""

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = (
    "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "def test_nothing():\n    assert add(5, 0) == 5\n"
)
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["src"]\n'
_LONG_AGO = 1_700_000_000
"""A file of the same size that is written within the same second would find its old compiled module."""

CALC: Mapping[str, str] = {
    "src/calc.py": WRONG,
    "tests/test_calc.py": TESTS,
    "pyproject.toml": CONFIG,
}
"""A project whose code is wrong and whose tests say so: one of two is red."""


@dataclass(frozen=True)
class Ending:
    """How a run ended, and everything that it wrote on the way."""

    outcome: GoalOutcome
    records: tuple[Record, ...] = ()
    run: Path = Path()

    @property
    def how(self) -> tuple[str, str, int]:
        """Status, stop reason and the number of the round."""
        reason = self.outcome.stop_reason
        return (
            self.outcome.status.value,
            reason.value if reason else "",
            self.outcome.iterations,
        )

    @property
    def rounds(self) -> int:
        """How often the agent was called."""
        return sum(
            isinstance(record.event, events.RoundStarted) for record in self.records
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason that the run gave for not being complete, in order, one line each."""
        lines = [line for record in self.records for line in _reasons(record.event)] + [
            self.outcome.message
        ]
        return tuple(
            line.strip() for text in lines for line in text.splitlines() if line.strip()
        )

    def why(self, words: str) -> str:
        """The first reason that holds these words; empty when none does."""
        return next((line for line in self.reasons if words in line), "")

    def told(self) -> str:
        """All that the agent was ever told by the runner, as text."""
        return (self.run / "transcript.jsonl").read_text(encoding="utf-8")


@dataclass
class Arena:
    """A workspace, a home and a machine of one's own. `folder` must be empty."""

    folder: Path
    name: str = "calc"
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workspace = self.folder / self.name
        self.workspace.mkdir(parents=True)
        self.home = self.folder / "home"
        (self.folder / "user").mkdir()
        self.environ = {
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
            ),
            "HOME": str(self.folder / "user"),
            "LANG": "C.UTF-8",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            # Identities for a git that the agent calls itself.
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@x",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@x",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Files of the workspace; those that begin with `#!` can be run."""
        for name, content in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
            os.utime(path, (_LONG_AGO, _LONG_AGO))
            if data.startswith(b"#!"):
                path.chmod(0o755)

    def on_record(self, record: Record) -> None:
        """The port `Observer`."""
        self.records.append(record)

    async def fight(
        self,
        *rounds: Round,
        judge_llm: Any = None,
        goal_file: str | None = None,
        conversation: Any = None,
        approver: Approver | None = None,
        **goal: Any,
    ) -> Ending:
        """Run to the end: the agent plays `rounds`, and there are no more than these unless the goal says otherwise.

        A `conversation` plays in its place. Without an `approver` there is no person to ask.
        """
        model = recording(self.folder / "agent.jsonl", *_replies(rounds))
        keys: dict[str, Any] = {
            "objective": "Make add() right.",
            "max_iterations": max(1, len(rounds)),
            **goal,
        }
        keys["agent"] = {"model": model, **keys.get("agent", {})}
        keys["workspace"] = {"path": str(self.workspace), **keys.get("workspace", {})}
        wanted = Goal.model_validate(keys)
        options = RunOptions(
            home=self.home,
            environ=self.environ,
            observers=[self],
            conversation=conversation,
            goal_file=self.workspace / goal_file if goal_file else None,
            approver=approver,
        )
        assembly = prepare_run(
            wanted.model_copy(update={"judge": judge_of(wanted, judge_llm)}), options
        )
        outcome = await drive_to_end(assembly)
        return Ending(outcome, tuple(self.records), Path(outcome.run_path))


def committed(arena: Arena) -> None:
    """Make the workspace a repository with one commit."""
    git(arena.workspace, "init", "-q", "-b", "main")
    git(arena.workspace, "add", "-A")
    git(arena.workspace, "commit", "-q", "-m", "start")


def _replies(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    replies: list[dict[str, Any]] = []
    for steps in rounds:
        calls = [dict(step) for step in steps if not isinstance(step, str)]
        said = [step for step in steps if isinstance(step, str)]
        replies += [agent("", call) for call in calls]
        replies.append(agent(said[-1] if said else "I am done: everything works."))
    return replies or [agent("No prompt is expected.")]


def _reasons(event: events.Event) -> list[str]:
    match event:
        case events.BaselineTaken():
            return [event.reason]
        case events.ValidatorsFinished():
            red = [
                f"{item.name}: {item.summary}"
                for item in event.results
                if not item.passed
            ]
            leaked = [f"{path} changed while it was checked" for path in event.leaked]
            return [*red, event.refusal, event.hint, *leaked, *event.protected_changes]
        case events.AuditFailed():
            return [f"{event.kind}: {event.detail}"]
        case events.VerdictRecorded() if not event.verdict.complete:
            return [*event.refusals, event.verdict.missing]
        case events.ConfirmationRecorded():
            return [event.reason]
        case _:
            return []
