"""The Stop hook of Claude Code: a session is the agent of a run, which is checked each time that the session wants to stop.

The process of a hook ends after each event, so the run is closed and resumed. GOAL_HOME/hooks names the run of a session.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from goalrunner.app.controller import GoalContinue, GoalController, GoalDone
from goalrunner.app.library import run_blocking
from goalrunner.app.previous_run import file_hash, load_state
from goalrunner.app.session import HostedRun
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import (
    GoalError,
    UsageError,
    WorkspaceBusy,
    one_line,
    record_errors,
    shortened,
)
from goalrunner.core.field_types import first_problem
from goalrunner.core.goal import Goal
from goalrunner.core.labels import Label
from goalrunner.core.messages import TIMESTAMP, refuse_no_chat
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.run_state import Phase, RunState
from goalrunner.goalfile.loading import load_goal
from goalrunner.goalfile.place import project_of
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import RunFolder
from goalrunner.transcripts.source import TranscriptSource

_MOST_ROUNDS = 10  # rounds of a goal without any limit
_TIMEOUTS = {"UserPromptSubmit": 30.0, "Stop": 900.0}
"""Seconds for which a check waits until another one in the same workspace has ended."""
_POLL = 0.2
_LONGEST = 9_000  # characters of a reason. Claude Code cuts what hooks print at 10,000.
_OPEN = (GoalStatus.RUNNING, GoalStatus.BLOCKED)
"""Statuses of a run that is resumed at the next stop: a person may have decided meanwhile."""

HookReply = dict[str, str]  # what the hook prints as JSON; nothing if it is empty


class HookEvent(BaseModel):
    """The JSON that an agent passes to a hook; null is the same as no value."""

    session_id: str = Field(min_length=1)
    hook_event_name: str | None = None
    cwd: str | None = None
    transcript_path: str | None = None
    last_assistant_message: str | None = None

    @classmethod
    def parsed(cls, data: bytes) -> Self:
        """Read the JSON of a hook. Raise UsageError if it is invalid."""
        # Half of a surrogate pair, where a text was cut, is replaced.
        with contextlib.suppress(ValueError, RecursionError):
            data = json.dumps(json.loads(data), ensure_ascii=False).encode(
                errors="replace"
            )
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise UsageError(
                f"the JSON on stdin is no event of a hook: {first_problem(error)}"
            ) from None


def answer_hook(
    event: HookEvent, goal_file: Path | None, home: Path, environ: Mapping[str, str]
) -> HookReply:
    """Answer an event: at a prompt record the start, at a stop check and block it, or say why it is not blocked.

    The workspace is the project of the goal file if the current folder is in it, else the current folder, unless the goal
    names another. Without a goal file, only an open run of the session is checked, by
    the goal that it began with: the agent may have removed the file. Never raise GoalError.
    """
    try:
        session = _Session(event, goal_file, home, environ)
        actions = {"UserPromptSubmit": session.prompt, "Stop": session.stop}
        name = event.hook_event_name or "Stop"
        if name not in actions or (goal_file is None and not session.kept.goal):
            return {}
        until = time.monotonic() + _TIMEOUTS[name]
        with _turn(home, until):
            while True:
                try:
                    return actions[name]()
                except WorkspaceBusy:  # another run is active there
                    if time.monotonic() > until:
                        raise
                    time.sleep(_POLL)
    except GoalError as error:
        return {"systemMessage": f"goal did not check this session: {error}"}


@contextlib.contextmanager
def _turn(home: Path, until: float) -> Iterator[None]:
    """Wait until no other session in the current folder is being checked, at most `until` (by the monotonic clock).

    A check that finds the workspace busy in its middle would end the run of its session.
    """
    name = hashlib.sha256(os.fsencode(Path.cwd())).hexdigest()[:32]
    with record_errors(
        f"{home} cannot be written", "set GOAL_HOME to a folder of yours"
    ):
        (home / "hooks").mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (home / "hooks" / f"{name}.lock").open("w")
    with lock:
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_POLL)
        yield


class _SessionController(GoalController):
    """The controller of a session: its agent is alive during checks, and works while no process of `goal` runs."""

    caller = "the session"
    live = True

    @classmethod
    def of(
        cls, goal: Goal, home: Path, goal_file: Path, labels: tuple[str, ...]
    ) -> Self:
        self = cls(goal, home=home)
        self._options = replace(self._options, goal_file=goal_file, labels=labels)
        return self

    async def check(
        self, messages: Sequence[Message], worked: float
    ) -> GoalContinue | GoalDone:
        """Check the turn that has ended; `worked` are its seconds. The controller must be one of `resume`."""
        assert self._earlier is not None, "it was resumed"
        end = self._earlier.loaded.end
        timed = replace(
            self._earlier.loaded, end=replace(end, elapsed=end.elapsed + worked)
        )
        prepared = await replace(self._earlier, loaded=timed).resume()
        self._host = HostedRun(prepared, prepared.run.state.round, records=True)
        if prepared.run.state.phase is Phase.WORKING:
            return await self.aon_run_finished(messages)
        return await self._next()  # an earlier process was ended during the checks


class _Kept(BaseModel, allow_inf_nan=False):
    """The file in GOAL_HOME/hooks about a session in a folder: its run, when the agent began to work, its first goal's hash."""

    run: str = ""
    since: float
    goal: str = ""


class _Session:
    def __init__(
        self,
        event: HookEvent,
        goal_file: Path | None,
        home: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._event, self._goal_file, self._home, self._environ = (
            event,
            goal_file,
            home,
            environ,
        )
        name = f"{event.session_id}\0{Path.cwd()}"
        self._file = (
            home
            / "hooks"
            / f"{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}.json"
        )
        self._arrived = time.time()
        self.kept = _Kept(since=self._arrived)
        with contextlib.suppress(OSError, ValidationError):
            self.kept = _Kept.model_validate_json(self._file.read_bytes())

    def prompt(self) -> HookReply:
        """Begin a run with the workspace as it is now, unless one is open or the limits of the session are used up."""
        state = self._state()
        if state is None or state.status not in (*_OPEN, GoalStatus.CAPPED):
            self._begin()
        else:
            self._keep()
        return {}

    def stop(self) -> HookReply:
        """Check what the agent did since the prompt or the last block."""
        state = self._state()
        if state is not None and state.status is GoalStatus.CAPPED:
            said = f"the goal's limits for this session are used up: {one_line(state.message)}"
            return _allowed(f"not checked: {said} (goal show {self.kept.run})")
        if state is None or state.status not in _OPEN:
            self._begin(Label.START_UNKNOWN)
            state = self._state()
            assert state is not None, "it has just begun"
        messages = self._messages(
            judged=state.plan.has_judge and state.plan.deliverable == "workspace"
        )
        worked = max(0.0, self._arrived - self.kept.since)
        with contextlib.closing(
            _SessionController.resume(self.kept.run, home=self._home)
        ) as controller:
            step = run_blocking(controller.check(messages, worked), "goal hook", "")
        if isinstance(step, GoalDone):
            return _allowed(_ending(step.outcome))
        self._keep()
        return {"decision": "block", "reason": shortened(step.followup, _LONGEST)}

    def _state(self) -> RunState | None:
        """Return the state of the session's run; None if there is none, or none any more."""
        folder = RunFolder(self._home / "runs" / self.kept.run)
        return load_state(folder) if self.kept.run and folder.events.exists() else None

    def _begin(self, *labels: str) -> None:
        if self._goal_file is None:
            raise UsageError("the folder has no goal any more")
        goal = load_goal(
            self._goal_file,
            {},
            self._environ,
            runnable=False,
            workspace=_workspace(self._goal_file),
        )
        budget = goal.budget.model_copy(
            update={"allow_unenforced": goal.budget.limited}
        )  # a session reports no usage
        limits = (
            {"max_iterations": _MOST_ROUNDS}
            if goal.max_iterations is goal.timeout is None
            else {}
        )
        goal = goal.model_copy(update={"budget": budget, **limits})
        digest = file_hash(self._goal_file)
        self.kept.goal = self.kept.goal or digest
        if digest != self.kept.goal:  # by the user or by the agent
            labels = (*labels, Label.GOAL_CHANGED)
        with contextlib.closing(
            _SessionController.of(goal, self._home, self._goal_file, labels)
        ) as controller:
            controller.start()
            self.kept.run = Path(controller.run_path).name
        self._keep()

    def _keep(self) -> None:
        """Note the run, and that the agent works from now on."""
        self.kept.since = time.time()
        with record_errors(
            f"{self._file} cannot be written", "set GOAL_HOME to a folder of yours"
        ):
            write_whole(self._file, self.kept.model_dump_json().encode())

    def _messages(self, *, judged: bool) -> list[dict[str, Any]]:
        """Return the messages of the session: its transcript for a judge, else only its last message."""
        if judged:
            with contextlib.suppress(UsageError, ValueError):  # a NUL in the path
                path = Path(self._event.transcript_path or "")
                messages = (
                    list(_transcript(path)) if path.is_file() else []
                )  # reading a pipe could block
                refuse_no_chat(messages)
                return messages
        return [
            {"role": "assistant", "content": self._event.last_assistant_message or ""}
        ]


def _workspace(goal_file: Path) -> Path:
    """Return where a session works in the current folder: in the project of its goal file, if that contains the folder."""
    here, project = Path.cwd().resolve(), project_of(goal_file)
    return project if project is not None and here.is_relative_to(project) else here


def _transcript(path: Path) -> Iterator[Any]:
    """Yield the chat messages of a session's JSON Lines, without those of subagents and of the program. Raise UsageError."""
    for record in TranscriptSource(path).records():
        row = record.value
        is_message = isinstance(row, dict) and row.get("type") in ("user", "assistant")
        if is_message and not any(
            map(row.get, ("isSidechain", "isMeta", "isCompactSummary"))
        ):
            message = row.get("message")
            yield (
                {**message, TIMESTAMP: row.get(TIMESTAMP)}
                if isinstance(message, dict)
                else message
            )


def _allowed(text: str) -> HookReply:
    return {"systemMessage": f"goal: {text}"}


def _ending(outcome: GoalOutcome) -> str:
    """Return how the run of a session ended, in a line for the user."""
    labels = f" [{', '.join(outcome.labels)}]" if outcome.labels else ""
    if outcome.passed:
        return f"complete, verified in round {outcome.iterations}{labels} (goal show {outcome.run_id})"
    missing = outcome.verdict.missing if outcome.verdict else ""
    said = one_line((outcome.message or missing).partition("\n")[0])
    decide = "".join(f"; {command}" for command in _decisions(outcome))
    return (
        f"not verified: {outcome.status}, {said}{labels}{decide}"
        f" (goal status {outcome.run_id})"
    )


def _decisions(outcome: GoalOutcome) -> Iterator[str]:
    """Yield what a person does if the run waits for one; the next stop of the session then continues it."""
    run = outcome.run_id
    waiting = [item.id for item in outcome.approvals if item.decision == "waiting"]
    for identifier in waiting:
        about = f"{run} {identifier}"
        yield f"goal approve {about}, or goal deny {about} --reason TEXT"
    if outcome.questions:
        yield f'goal answer {run} "..."'
    if waiting or outcome.questions:
        yield "the next stop of the session then goes on"
