"""Runs that stop and go on, in process, with the real driver, log, store and tools; only the model's words are scripted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.app.previous_run import load_state
from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun, resume_run
from goalrunner.core import events
from goalrunner.core.agent_ports import Approver
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, StopReason
from goalrunner.core.run_state import RunState
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder
from tests.support.recordings import recording

When = Callable[[events.Event], bool]
EFFECTS = "effects.log"
"""File of the workspace to which a command adds a line for each time it runs."""


def effect(word: str, more: str = "true") -> dict[str, Any]:
    """A call of the shell tool that leaves a trace of each time it runs."""
    return {
        "name": "shell",
        "arguments": {"command": f"echo {word} >> {EFFECTS}; {more}"},
    }


@dataclass
class Course:
    """A workspace and a home. `ends` holds how each stretch of the run ended, in order, `expected` how it should have."""

    folder: Path
    records: list[Record] = field(default_factory=list)
    ends: list[GoalOutcome] = field(default_factory=list)
    expected: list[tuple[str, str]] = field(default_factory=list)
    resumes: list[bool] = field(default_factory=list)
    """For each resume, whether it went on where it was."""
    promotions: list[bool] = field(default_factory=list)
    """For each wish to promote, whether it ended as the policy says."""
    _interrupts: When | None = None
    _after: float = 0.0
    _task: asyncio.Task[GoalOutcome] | None = None

    def __post_init__(self) -> None:
        self.workspace, self.home = self.folder / "work", self.folder / "home"
        self.workspace.mkdir(parents=True)
        self.home.mkdir()

    def write(self, files: Mapping[str, str]) -> None:
        """Files of the workspace."""
        for name, content in files.items():
            (self.workspace / name).write_text(content)

    def interrupt(self, when: When, after: float = 0.0) -> None:
        """Cancel the run, as Ctrl-C does, when such an event is written, or so many seconds after it."""
        self._interrupts, self._after = when, after

    def on_record(self, record: Record) -> None:
        """The port `Observer`."""
        self.records.append(record)
        if (
            self._interrupts is not None
            and self._interrupts(record.event)
            and self._task is not None
        ):
            self._interrupts = None
            if self._after:
                asyncio.get_running_loop().call_later(self._after, self._task.cancel)
            else:
                self._task.cancel()

    async def run(
        self,
        *replies: dict[str, Any],
        approver: Approver | None = None,
        ends: str,
        **goal: Any,
    ) -> GoalOutcome:
        """A run of these replies. `ends` is the expected status and stop reason: "capped/timeout"."""
        model = recording(self.folder / "models.jsonl", *replies)
        keys = {"objective": "Do the work.", "agent": {"model": model}, **goal}
        if keys.pop("judged", False):
            keys["judge"] = {"model": model}
        keys["workspace"] = {"path": str(self.workspace), **keys.get("workspace", {})}
        return await self.drive(Goal.model_validate(keys), approver=approver, ends=ends)

    async def drive(
        self, goal: Goal, *, approver: Approver | None = None, ends: str
    ) -> GoalOutcome:
        """A run of a goal as it is; `ends` as for `run`."""
        return await self._await(
            arun(goal, RunOptions(home=self.home, observers=[self], approver=approver)),
            ends,
        )

    async def resume(
        self,
        *,
        ends: str,
        approver: Approver | None = None,
        note: str = "",
        **limits: float | None,
    ) -> GoalOutcome:
        """Go on; `ends` as for `run`. Whether nothing of what was known is lost is noted."""
        before = load_state(self.run_folder)
        work = resume_run(
            self.run_folder,
            RunOptions(home=self.home, observers=[self], approver=approver),
            limits,
            note=note,
        )
        outcome = await self._await(work, ends)
        self.resumes.append(_continues(before, self.state) and self.ended_as_expected)
        return outcome

    async def _await(self, work: Any, ends: str) -> GoalOutcome:
        status, _, reason = ends.partition("/")
        self._task = asyncio.ensure_future(work)
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None
        outcome = GoalOutcome.model_validate_json(
            (self.run_folder.outcome).read_text(encoding="utf-8")
        )
        self.ends.append(outcome)
        self.expected.append((status, reason or StopReason.SATISFIED.value))
        return outcome

    @property
    def run_folder(self) -> RunFolder:
        """The folder of the run."""
        (path,) = (self.home / "runs").iterdir()
        return RunFolder(path)

    @property
    def state(self) -> RunState:
        """The fold of the log on disk."""
        return load_state(self.run_folder)

    @property
    def log(self) -> list[Record]:
        """The log on disk."""
        return list(read_records(self.run_folder.events))

    @property
    def told(self) -> str:
        """The transcript."""
        return self.run_folder.transcript.read_text(encoding="utf-8")

    @property
    def effects(self) -> list[str]:
        """What really ran, in order."""
        path = self.workspace / EFFECTS
        return path.read_text().split() if path.exists() else []

    @property
    def ended_as_expected(self) -> bool:
        """Whether the last stretch ended as it should have."""
        return how(self.ends[-1]) == self.expected[-1]


def how(outcome: GoalOutcome) -> tuple[str, str]:
    """Status and stop reason."""
    return (
        outcome.status.value,
        outcome.stop_reason.value if outcome.stop_reason else "",
    )


def _continues(before: RunState, after: RunState) -> bool:
    """Whether counters, spend and evidence are those of before, and what came since."""
    old, new = before.memory, after.memory
    return (
        new.evidence_refs[: len(old.evidence_refs)] == old.evidence_refs
        and new.tool_result_refs[: len(old.tool_result_refs)] == old.tool_result_refs
        and after.observations >= before.observations
        and after.iterations >= before.iterations
        and after.total.tokens >= before.total.tokens
        and after.elapsed >= before.elapsed
        and new.version > old.version
        and after.goal.success_criteria == before.goal.success_criteria
        and after.resumes == before.resumes + 1
    )
