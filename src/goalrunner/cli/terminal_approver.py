"""Approvals and answers at the terminal of a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

from goalrunner.app.location import person
from goalrunner.cli import output
from goalrunner.core.ports import ApprovalAnswer, QuestionReply
from goalrunner.reports import asking
from goalrunner.system.launcher import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from goalrunner.core.ports import ApprovalRequest

_ALL_LINES = 1 << 30
_MAX_BYTES = 1 << 16
"""Bytes of a typed line that are read."""


def terminal_approver(stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> TerminalApprover | None:
    """Return an approver, or None unless both stdin and `stream` are a terminal. `suspended` stops the live progress."""
    try:
        interactive = sys.stdin.isatty() and stream.isatty()
    except (AttributeError, ValueError):  # closed
        return None
    return TerminalApprover(sys.stdin.fileno(), stream, suspended) if interactive else None


class TerminalApprover:
    """Asks on `stream` and reads from `handle`. Ctrl-C ends the question and the run; Ctrl-D leaves the question open."""

    def __init__(self, handle: int, stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> None:
        self._handle = handle
        self._stream = stream
        self._suspended = suspended

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Show the request and ask until the answer is a yes or a no."""
        with self._suspended():
            self._say(asking.approval_text(request, columns=output.columns(self._stream)))
            while (line := await self._ask(asking.prompt_text(request))) is not None:
                typed = asking.read_typed(line)
                if typed.decision is not None:
                    decision = "approved" if typed.decision else "denied"
                    return ApprovalAnswer(decision, person(), typed.reason, typed=True)  # type: ignore[arg-type]
                if typed.everything:
                    columns = output.columns(self._stream)
                    self._say(asking.approval_text(request, most=_ALL_LINES, columns=columns))
                elif line.strip():
                    self._say(asking.choices_text(output.columns(self._stream)))
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask until something is typed."""
        with self._suspended():
            self._say(asking.question_text(question, output.columns(self._stream)))
            while (line := await self._ask(asking.ANSWER)) is not None:
                if line.strip():
                    return QuestionReply(line.strip(), person())
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return the line that is typed after the prompt; None on Ctrl-D, and in the background."""
        if not self._in_foreground():
            return None
        self._discard_input()
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
                line.set_result(_read_line(self._handle))

        try:
            loop.add_reader(self._handle, readable)
        except OSError:  # macOS cannot wait for a terminal that was opened as /dev/tty
            return bytes(await in_thread(_read_line, self._handle))
        try:
            return await line
        finally:
            loop.remove_reader(self._handle)

    def _in_foreground(self) -> bool:
        """Return whether this process may read: the terminal stops a background job that does."""
        try:
            return os.tcgetpgrp(self._handle) == os.getpgrp()
        except OSError:
            return False

    def _discard_input(self) -> None:
        """Discard what was typed before the question was shown."""
        import termios  # only needed with a terminal

        with contextlib.suppress(termios.error):
            termios.tcflush(self._handle, termios.TCIFLUSH)

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _read_line(handle: int) -> bytes:
    """Return the typed line; empty if the terminal is gone."""
    try:
        return os.read(handle, _MAX_BYTES)
    except OSError:
        return b""
