"""Reading a recording from the folder of a run and the snapshots of its workspace."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tomli_w

from goalrunner.app.previous_run import LoadedRun, load_run
from goalrunner.app.stored_goal import frozen_table
from goalrunner.core import events
from goalrunner.core.errors import UsageError
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.transcript_file import read_message
from goalrunner.records.writer_lock import has_writer
from goalrunner.testing.recording import (
    CallBegun,
    MessageAdded,
    OtherObservation,
    RecordedApproval,
    RecordedStep,
    RecordedTurn,
    Recording,
    ResultRecorded,
    UsageAdded,
    UserWrote,
)
from goalrunner.testing.run_files import RunFiles, time_of

# Tables of a goal that name programs, models and places of one machine.
_OF_MACHINE = (
    *("agent", "agents", "model", "critic", "notify", "memory", "redact"),
    *("parent", "after", "owner", "resume_prompt", "wait"),
)
_OF_WORKSPACE = ("path", "check", "sandbox", "isolate", "network")
_JUDGE_POLICY = ("system_prompt", "minimum_score", "require")


def read_run(folder: RunFolder, home: Path) -> Recording:
    """Return the recording of a run that is over.

    Raise UsageError if it still runs, RecordError if its folder is damaged, and
    WorkspaceError if its snapshots are gone.
    """
    loaded = load_run(folder)
    run_id = folder.run_id
    if has_writer(folder.events):
        raise UsageError(
            f"run {run_id} is still active, so it has no decision to replay",
            f"wait for its end, or cancel it: goal cancel {run_id}",
        )
    if loaded.state.status is GoalStatus.RUNNING:
        raise UsageError(
            f"run {run_id} was killed before its end, so it has no decision to replay",
            f"continue it first: goal resume {run_id}",
        )
    # In a thread of its own, because a caller may be in an event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _read(folder, loaded, home)).result()


async def _read(folder: RunFolder, loaded: LoadedRun, home: Path) -> Recording:
    state = loaded.state
    files = RunFiles(loaded, home, Redactor(os.environ).text)
    turns = _TurnReader(folder, files)
    recorded_start = await files.start()
    decisions = _Decisions()
    for record in read_records(folder.events):
        await turns.add(record.event)
        decisions.add(record.event)
    assert state.stop_reason is not None, "the run has ended"
    return Recording(
        format="goalrunner recording 1",
        run_id=folder.run_id,
        status=state.status,
        stop_reason=state.stop_reason,
        workspace=loaded.started.workspace,
        goal=portable_goal(frozen_table(folder)),
        has_judge=state.plan.has_judge,
        critic=state.plan.critic,
        callables=tuple(part for part in loaded.started.handed if part == "validators"),
        start=recorded_start,
        left_out=tuple(sorted(files.left_out)),
        turns=turns.finished(state),
        **decisions.fields,
    )


class _Decisions:
    """The decisions of judge, critic and people in a run."""

    def __init__(self) -> None:
        self.fields: dict[str, list[Any]] = {
            "verdicts": [],
            "opinions": [],
            "reviews": [],
            "critiques": [],
            "approvals": [],
            "answers": [],
            "observations": [],
        }
        """The fields of the recording."""
        # The ids of approvals of actions, whose results are replayed.
        self._actions: set[str] = set()

    def add(self, event: events.Event) -> None:
        """Process one event."""
        match event:
            case events.VerdictRecorded():
                self.fields["verdicts"].append(event)
            case events.ConfirmationRecorded():
                self.fields["opinions"].append(event)
            case events.ChecksReviewed() if event.asked:
                self.fields["reviews"].append(event)
            case events.CritiqueFinished():
                critique = events.Critique(score=event.score, feedback=event.feedback)
                self.fields["critiques"].append(critique)
            case events.QuestionAnswered() if event.observation is not None:
                self.fields["answers"].append(event.answer)
            case events.ApprovalRequested() if event.tool_call_id:
                self._actions.add(event.approval_id)
            case events.ApprovalRecorded() if event.approval_id not in self._actions:
                decision = RecordedApproval(
                    approved=event.decision == "approved", reason=event.reason
                )
                self.fields["approvals"].append(decision)
        if isinstance(event, events.ToolResultRecorded):
            return
        for item in events.observations_of(event):
            self.fields["observations"].append(
                OtherObservation(id=item.id, source=item.source, round=item.round)
            )


class _TurnReader:
    """Collects the turns of the agent from the events of a run."""

    def __init__(self, folder: RunFolder, files: RunFiles) -> None:
        self._folder = folder
        self._files = files
        # Reading artifacts replaces no secrets.
        self._artifacts = ArtifactStore(folder.artifacts, Redactor({}))
        self._turns: list[RecordedTurn] = []
        self._steps: list[RecordedStep] | None = None
        # The start of the tool of each call in the turn, in nanoseconds since 1970.
        self._starts: dict[str, int | None] = {}
        self._text = ""
        self._round = 0

    async def add(self, event: events.Event) -> None:
        """Process one event."""
        match event:
            case events.RoundStarted(round=number):
                self._round = number
                self._begin()
                start = self._files.history.starts.get(number)
                await self._add_changes(start.id if start else None)
            case events.RefinementStarted():
                self._begin()
            case events.CritiqueStarted() if self._steps is not None:
                self._end(self._text)
            case events.RoundFinished():
                await self._finish(event)
        if self._steps is not None:
            await self._add_step(self._steps, event)

    async def _add_step(self, steps: list[RecordedStep], event: events.Event) -> None:
        match event:
            case events.ToolCalled():
                call = CallBegun(
                    type="call",
                    id=event.tool_call_id,
                    tool=event.tool,
                    summary=event.summary,
                )
                steps.append(call)
            case events.ToolResultRecorded():
                await self._add_result(steps, event)
            case events.BlockReported() if isinstance(steps[-1], ResultRecorded):
                steps[-1] = steps[-1].model_copy(update={"is_block": True})
            case events.UserSaid():
                steps.append(UserWrote(type="user", text=event.text))
            case events.UsageRecorded(account="agent"):
                steps.append(UsageAdded(type="usage", usage=event.usage))
            case events.MessageRecorded(role="assistant" | "tool"):
                message = dict(read_message(self._folder.transcript, event.text))
                steps.append(MessageAdded(type="message", message=message))
                if event.role == "assistant" and event.has_text:
                    self._text = text_of(message.get("content"))

    async def _add_result(
        self, steps: list[RecordedStep], event: events.ToolResultRecorded
    ) -> None:
        item = event.observation
        # Only the runner takes a snapshot after each of its tools.
        if not item.reported_by:
            await self._add_changes(item.after)
        self._starts[event.tool_call_id] = item.started
        output = self._artifacts.read(item.output) if item.output else b""
        steps.append(
            ResultRecorded(
                type="result",
                observation=item.id,
                id=event.tool_call_id,
                tool=item.source,
                command=item.command,
                facts=item.facts,
                output=output.decode("utf-8", "replace"),
                summary=event.summary,
                duration=event.duration,
                path=item.path,
                writes=item.before != item.after,
                has_start=item.started is not None,
                reported_by=item.reported_by,
            )
        )

    async def _add_changes(self, snapshot_id: str | None) -> None:
        changed = await self._files.change_to(snapshot_id)
        if changed is not None and self._steps is not None:
            self._steps.append(changed)

    async def _finish(self, event: events.RoundFinished) -> None:
        """End a turn, with its changes of files where they belong.

        What an external agent changed is known at the end of its round only. Each file
        is put before the first tool that was started after the file had changed, so
        that the same results are outdated.
        """
        steps = self._steps or []
        snapshot_id = event.snapshot.id if event.snapshot is not None else None
        changed = await self._files.change_to(snapshot_id)
        for change in changed.each() if changed is not None else ():
            changed_at = time_of(change.path, event.touched)
            steps.insert(self._place_of(changed_at, steps), change)
        text = self._text
        if event.response is not None and event.response.output is not None:
            text = self._artifacts.read(event.response.output).decode(
                "utf-8", "replace"
            )
        self._end(text, reason=event.reason, ending=event.ending)

    def _place_of(self, changed_at: int | None, steps: list[RecordedStep]) -> int:
        for place, step in enumerate(steps):
            started = self._starts.get(step.id) if isinstance(step, CallBegun) else None
            if changed_at is not None and started is not None and started > changed_at:
                return place
        return len(steps)

    def _begin(self) -> None:
        # A turn that was interrupted and sent again goes on with its steps.
        if self._steps is None:
            self._steps, self._starts, self._text = [], {}, ""

    def _end(self, text: str, **ending: Any) -> None:
        turn = RecordedTurn(
            round=self._round, steps=tuple(self._steps or ()), text=text, **ending
        )
        self._turns.append(turn)
        self._steps = None

    def finished(self, state: RunState) -> tuple[RecordedTurn, ...]:
        """Return the turns, with one that ended together with the run at their end."""
        reason = state.stop_reason
        if self._steps is not None and reason is not None:
            failure = reason if reason.status is GoalStatus.FAILED else None
            if failure or self._steps:
                self._end(
                    self._text,
                    reason="interrupted",
                    failure=failure,
                    message=state.message,
                )
        return tuple(self._turns)


def portable_goal(table: dict[str, Any]) -> str:
    """Return what of a stored goal holds on every machine, as a goal file."""
    goal = {key: value for key, value in table.items() if key not in _OF_MACHINE}
    workspace = goal.pop("workspace", {})
    # A text is a path.
    workspace = dict(workspace) if isinstance(workspace, dict) else {}
    for key in _OF_WORKSPACE:
        workspace.pop(key, None)
    judge = goal.pop("judge", {})
    policy = {}
    if isinstance(judge, dict):
        policy = {key: judge[key] for key in _JUDGE_POLICY if key in judge}
    # An empty table of the judge would be one without a model.
    goal |= {"workspace": workspace} if workspace else {}
    goal |= {"judge": policy} if policy else {}
    return tomli_w.dumps(goal)
