"""`goal approve`, `goal deny` and `goal answer`, and decisions at the terminal of a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TextIO

from goalrunner.app.sandbox import person
from goalrunner.cli import output
from goalrunner.core.ports import ApprovalAnswer, QuestionReply
from goalrunner.reports import asking
from goalrunner.system.launcher import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from goalrunner.core.observation import ArtifactRef
    from goalrunner.core.ports import ApprovalRequest
    from goalrunner.core.run_state import Approval, RunState
    from goalrunner.records.reading import TornTail
    from goalrunner.records.run_folder import RunFolder


def decide(
    run: str,
    approval_id: str | None,
    decision: Literal["approved", "denied"],
    *,
    reason: str = "",
    json: bool = False,
) -> int:
    """Approve or deny what waits; gives exit code 0. Raises UsageError where there is nothing to decide."""
    from goalrunner.app import decisions
    from goalrunner.app.sandbox import person

    folder = _folder(run)
    approval, state = decisions.decide(
        folder,
        decision,
        approval_id=approval_id,
        by=person(),
        reason=reason,
        environ=os.environ,
        on_torn=_torn,
    )
    if json:
        _say_json(state, approval=approval.model_dump(mode="json"))
    else:
        output.say(_decided_text(folder, approval, state))
    return 0


def answer(run: str, text: str, *, number: int | None = None, json: bool = False) -> int:
    """Answer an open question; gives exit code 0. Raises UsageError where there is none."""
    from goalrunner.app import decisions
    from goalrunner.app.sandbox import person
    from goalrunner.reports.figures import one_line

    folder = _folder(run)
    question, evidence, state = decisions.reply(
        folder, text, number=number, by=person(), environ=os.environ, on_torn=_torn
    )
    if json:
        _say_json(state, question=question, evidence_ref=evidence)
    else:
        output.say(f"answered: {one_line(question)}\nthe answer is kept as {evidence}\n{_next(state)}")
    return 0


def _decided_text(folder: RunFolder, approval: Approval, state: RunState) -> str:
    from goalrunner.reports.figures import clean

    said = f"{approval.id} {approval.decision}: {approval.action}\n"
    if approval.preview is not None:
        said += _diff(folder, approval.preview)
    return clean(said) + _next(state)


def _diff(folder: RunFolder, ref: ArtifactRef) -> str:
    """What was decided on; where it is gone, that is no reason to fail."""
    from goalrunner.core.errors import RecordError
    from goalrunner.records.artifacts import ArtifactStore
    from goalrunner.records.redaction import Redactor

    try:
        store = ArtifactStore(folder.artifacts, Redactor({}))
        return store.read(ref).decode(errors="replace")
    except RecordError:
        return ""


def _next(state: RunState) -> str:
    run = state.goal.run_id
    if state.waiting:
        return f"still waiting: {', '.join(item.id for item in state.waiting)}\n"
    if state.memory.open_questions:
        return f'questions still open: {len(state.memory.open_questions)}\ngoal answer {run} "..."\n'
    return f"To continue:\ngoal resume {run}\n"


def _say_json(state: RunState, **said: Any) -> None:
    from goalrunner.reports.summary import json_text

    values = {
        "run_id": state.goal.run_id,
        "status": str(state.status),
        **said,
        "waiting": [item.id for item in state.waiting],
        "open_questions": list(state.memory.open_questions),
    }
    output.say(json_text(values))


def _folder(run: str) -> RunFolder:
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    return find_run(goal_home(os.environ), run)


def _torn(torn: TornTail) -> None:
    output.complain(f"Warning: {torn}; they are removed")


_EVERYTHING = 1 << 30
_LINE = 1 << 16
"""Bytes of a line that are read."""


def terminal_approver(stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> TerminalApprover | None:
    """Return an approver, or None unless both stdin and `stream` are a terminal. `suspended` stops the live progress."""
    try:
        there = sys.stdin.isatty() and stream.isatty()
    except (AttributeError, ValueError):  # closed, or none at all
        return None
    return TerminalApprover(sys.stdin.fileno(), stream, suspended) if there else None


class TerminalApprover:
    """Asks on `stream` and reads what is typed on `handle`. Ctrl-C ends the question with the run; Ctrl-D leaves it open."""

    def __init__(self, handle: int, stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> None:
        self._handle = handle
        self._stream = stream
        self._suspended = suspended

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Show the request and ask until the answer is a yes or a no."""
        with self._suspended():
            self._say(asking.approval_text(request, columns=self._columns()))
            while True:
                line = await self._ask(asking.prompt_text(request))
                if line is None:
                    return None
                typed = asking.read_typed(line)
                if typed.decision is not None:
                    decision: Literal["approved", "denied"] = "approved" if typed.decision else "denied"
                    return ApprovalAnswer(decision, person(), typed.reason, typed=True)
                if typed.everything:
                    self._say(asking.approval_text(request, most=_EVERYTHING, columns=self._columns()))
                elif line.strip():
                    self._say(asking.choices_text(self._columns()))

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask until something is typed."""
        with self._suspended():
            self._say(asking.question_text(question, self._columns()))
            while (line := await self._ask(asking.ANSWER)) is not None:
                if line.strip():
                    return QuestionReply(line.strip(), person())
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return the line that is typed after the prompt; None on Ctrl-D, and if we are not in the foreground."""
        if not self._is_ours():
            return None
        self._forget_typed()
        self._say(prompt)
        try:
            data = await self._read()
        except asyncio.CancelledError:
            self._say("\n")
            raise
        if not data:
            self._say("\n")
            return None
        return data.decode(errors="replace")

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()

        def readable() -> None:
            if not line.done():
                line.set_result(_typed(self._handle))

        try:
            loop.add_reader(self._handle, readable)
        except OSError:  # no file that can be waited for: on macOS, a terminal that was opened as /dev/tty
            return bytes(await in_thread(_typed, self._handle))
        try:
            return await line
        finally:
            loop.remove_reader(self._handle)

    def _columns(self) -> int | None:
        return output.columns(self._stream)

    def _is_ours(self) -> bool:
        """Return whether we are in the foreground: the terminal stops a background job that reads."""
        try:
            return os.tcgetpgrp(self._handle) == os.getpgrp()
        except OSError:
            return False

    def _forget_typed(self) -> None:
        """Discard what was typed before the question was shown."""
        import termios  # not at the top: only a terminal has it

        with contextlib.suppress(termios.error):
            termios.tcflush(self._handle, termios.TCIFLUSH)

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _typed(handle: int) -> bytes:
    """Return what was typed; nothing if the terminal is gone."""
    try:
        return os.read(handle, _LINE)
    except OSError:
        return b""
