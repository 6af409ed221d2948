"""Answers to the events of a session: its work is checked each time that it stops.

The session is the agent of a run. The process of a hook ends after each event, so the
run is closed and resumed. GOAL_HOME/hooks names the run of a session.
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
from goalrunner.core.messages import refuse_no_chat
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.run_state import Phase, RunState
from goalrunner.goalfile.loading import load_goal
from goalrunner.goalfile.place import project_of
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import RunFolder
from goalrunner.transcripts.claude_code import ClaudeCodeReader
from goalrunner.transcripts.source import TranscriptSource

# Rounds of a goal without any limit.
_MOST_ROUNDS = 10
# Seconds for which a check waits until another one in the same workspace has ended.
_TIMEOUTS = {"UserPromptSubmit": 30.0, "Stop": 900.0}
_POLL = 0.2
# Characters of a reason. Claude Code cuts what hooks print at 10,000.
_LONGEST_REASON = 9_000
# Statuses of a run that is resumed at the next stop: a person may have decided
# meanwhile.
_OPEN = (GoalStatus.RUNNING, GoalStatus.BLOCKED)
_HOME_HINT = "set GOAL_HOME to a folder of yours"

HookReply = dict[str, str]
"""What the hook prints as JSON; nothing if it is empty."""


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
            text = json.dumps(json.loads(data), ensure_ascii=False)
            data = text.encode(errors="replace")
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise UsageError(
                f"the JSON on stdin is no event of a hook: {first_problem(error)}"
            ) from None


def answer_hook(
    event: HookEvent, goal_file: Path | None, home: Path, environ: Mapping[str, str]
) -> HookReply:
    """Answer an event: at a prompt record the start, at a stop check the work.

    A stop is blocked, or the reply says why it is not. The workspace is the project of
    the goal file if the current folder is in it, else the current folder, unless the
    goal names another. Without a goal file, only an open run of the session is checked,
    by the goal that it began with: the agent may have removed the file. Never raise
    GoalError.
    """
    try:
        session = _Session(event, goal_file, home, environ)
        actions = {"UserPromptSubmit": session.prompt, "Stop": session.stop}
        name = event.hook_event_name or "Stop"
        has_goal = goal_file is not None or session.has_goal
        if name not in actions or not has_goal:
            return {}
        until = time.monotonic() + _TIMEOUTS[name]
        with _turn(home, until):
            while True:
                try:
                    return actions[name]()
                except WorkspaceBusy:
                    # Another run is active there.
                    if time.monotonic() > until:
                        raise
                    time.sleep(_POLL)
    except GoalError as error:
        return {"systemMessage": f"goal did not check this session: {error}"}


@contextlib.contextmanager
def _turn(home: Path, until: float) -> Iterator[None]:
    """Wait until no other session in the current folder is being checked.

    Wait at most `until`, by the monotonic clock.
    """
    # A check that finds the workspace busy in its middle would end the run of its
    # session.
    folder = home / "hooks"
    name = _short_hash(os.fsencode(Path.cwd()))
    with record_errors(f"{home} cannot be written", _HOME_HINT):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / f"{name}.lock").open("w")
    with lock:
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_POLL)
        yield


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class _SessionController(GoalController):
    """The controller of a session.

    Its agent is alive during checks, and works while no process of `goal` runs.
    """

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
        """Check the turn that has ended; `worked` are its seconds.

        The controller must be one of `resume`.
        """
        assert self._earlier is not None, "it was resumed"
        loaded = self._earlier.loaded
        # The time in which the session worked counts as active time of the run.
        end = replace(loaded.end, elapsed=loaded.end.elapsed + worked)
        earlier = replace(self._earlier, loaded=replace(loaded, end=end))
        prepared = await earlier.resume()
        self._host = HostedRun(prepared, prepared.run.state.round, records=True)
        if prepared.run.state.phase is Phase.WORKING:
            return await self.aon_run_finished(messages)
        # An earlier process was ended during the checks.
        return await self._next()


class _SessionFile(BaseModel, allow_inf_nan=False):
    """The file in GOAL_HOME/hooks about a session in a folder."""

    run: str = ""
    since: float
    """When the agent began to work, in seconds since 1970."""
    goal: str = ""
    """The hash of its first goal file."""


class _Session:
    def __init__(
        self,
        event: HookEvent,
        goal_file: Path | None,
        home: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._event = event
        self._goal_file = goal_file
        self._home = home
        self._environ = environ
        identity = f"{event.session_id}\0{Path.cwd()}"
        name = _short_hash(identity.encode(errors="replace"))
        self._path = home / "hooks" / f"{name}.json"
        self._arrived = time.time()
        self._notice = ""
        """What the user should know about the transcript; empty: nothing."""
        self._file = _SessionFile(since=self._arrived)
        with contextlib.suppress(OSError, ValidationError):
            self._file = _SessionFile.model_validate_json(self._path.read_bytes())

    @property
    def has_goal(self) -> bool:
        """Whether the session has had a run."""
        return bool(self._file.goal)

    def prompt(self) -> HookReply:
        """Begin a run with the workspace as it is now.

        Do nothing if one is open or the limits of the session are used up.
        """
        state = self._state()
        if state is None or state.status not in (*_OPEN, GoalStatus.CAPPED):
            self._begin()
        else:
            self._write_file()
        return {}

    def stop(self) -> HookReply:
        """Check what the agent did since the prompt or the last block."""
        state = self._state()
        if state is not None and state.status is GoalStatus.CAPPED:
            return _allowed(
                "not checked: the goal's limits for this session are used up: "
                f"{one_line(state.message)} (goal show {self._file.run})"
            )
        if state is None or state.status not in _OPEN:
            self._begin(Label.START_UNKNOWN)
            state = self._state()
            assert state is not None, "it has just begun"
        # Of a response, only the last message is judged.
        is_workspace = state.plan.deliverable == "workspace"
        messages = self._messages(with_history=state.plan.has_judge and is_workspace)
        # The clock of the machine may have been set back.
        worked = max(0.0, self._arrived - self._file.since)
        resumed = _SessionController.resume(self._file.run, home=self._home)
        with contextlib.closing(resumed) as controller:
            step = run_blocking(controller.check(messages, worked), "goal hook", "")
        if isinstance(step, GoalDone):
            return _allowed(
                "; ".join(filter(None, [_ending(step.outcome), self._notice]))
            )
        self._write_file()
        reason = shortened(step.followup, _LONGEST_REASON)
        reply = {"decision": "block", "reason": reason}
        return {**reply, **_allowed(self._notice)} if self._notice else reply

    def _state(self) -> RunState | None:
        """Return the state of the session's run.

        None if there is none, or none any more.
        """
        if not self._file.run:
            return None
        folder = RunFolder(self._home / "runs" / self._file.run)
        return load_state(folder) if folder.events.exists() else None

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
        # A session reports no usage, so no budget can be enforced.
        unenforced = {"allow_unenforced": goal.budget.limited}
        update: dict[str, Any] = {"budget": goal.budget.model_copy(update=unenforced)}
        if goal.max_iterations is None and goal.timeout is None:
            update["max_iterations"] = _MOST_ROUNDS
        goal = goal.model_copy(update=update)
        digest = file_hash(self._goal_file)
        self._file.goal = self._file.goal or digest
        # The user or the agent has changed it.
        if digest != self._file.goal:
            labels = (*labels, Label.GOAL_CHANGED)
        new = _SessionController.of(goal, self._home, self._goal_file, labels)
        with contextlib.closing(new) as controller:
            controller.start()
            self._file.run = Path(controller.run_path).name
        self._write_file()

    def _write_file(self) -> None:
        """Write the run, and that the agent works from now on."""
        self._file.since = time.time()
        with record_errors(f"{self._path} cannot be written", _HOME_HINT):
            write_whole(self._path, self._file.model_dump_json().encode())

    def _messages(self, *, with_history: bool) -> list[dict[str, Any]]:
        """Return the messages of the session, or only its last one."""
        if with_history:
            try:
                return self._history()
            # ValueError: a NUL in the path.
            except (UsageError, ValueError) as error:
                reason = one_line(str(error))
                self._notice = (
                    f"the session's transcript cannot be read ({reason}), "
                    "so only the last message was judged"
                )
        text = self._event.last_assistant_message or ""
        return [{"role": "assistant", "content": text}]

    def _history(self) -> list[dict[str, Any]]:
        """Return the messages of the transcript. Raise UsageError or ValueError."""
        path = Path(self._event.transcript_path or "")
        # Reading a pipe could block.
        if not path.is_file():
            raise UsageError(f"{path} is no file")
        source = TranscriptSource(path)
        messages = list(ClaudeCodeReader().messages(source))
        refuse_no_chat(messages)
        if source.partial:
            self._notice = f"the session's transcript is damaged: {source.partial}"
        return messages


def _workspace(goal_file: Path) -> Path:
    """Return the workspace of a session in the current folder.

    It is the project of the goal file, if that contains the folder.
    """
    folder = Path.cwd().resolve()
    project = project_of(goal_file)
    if project is not None and folder.is_relative_to(project):
        return project
    return folder


def _allowed(text: str) -> HookReply:
    return {"systemMessage": f"goal: {text}"}


def _ending(outcome: GoalOutcome) -> str:
    """Return how the run of a session ended, in a line for the user."""
    labels = f" [{', '.join(outcome.labels)}]" if outcome.labels else ""
    run = outcome.run_id
    if outcome.passed:
        rounds = outcome.iterations
        return f"complete, verified in round {rounds}{labels} (goal show {run})"
    missing = outcome.verdict.missing if outcome.verdict else ""
    reason = one_line((outcome.message or missing).partition("\n")[0])
    parts = [f"{outcome.status}, {reason}{labels}", *_decisions(outcome)]
    return f"not verified: {'; '.join(parts)} (goal status {run})"


def _decisions(outcome: GoalOutcome) -> Iterator[str]:
    """Yield what a person does if the run waits for one."""
    run = outcome.run_id
    waiting = [item.id for item in outcome.approvals if item.decision == "waiting"]
    for identifier in waiting:
        about = f"{run} {identifier}"
        yield f"goal approve {about}, or goal deny {about} --reason TEXT"
    if outcome.questions:
        yield f'goal answer {run} "..."'
    if waiting or outcome.questions:
        yield "the next stop of the session then goes on"
