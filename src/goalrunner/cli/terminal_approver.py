"""Asking a person at the terminal of a run."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from goalrunner.cli import output
from goalrunner.core.agent_ports import ApprovalAnswer, ApprovalRequest, QuestionReply
from goalrunner.reports import questions

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_MAX_BYTES = 1 << 16
"""Bytes of a typed line that are read."""


def terminal_approver(
    stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]
) -> TerminalApprover | None:
    """Return an approver, or None unless both stdin and `stream` are a terminal.

    `suspended` stops the live progress.
    """
    if not (sys.stdin.isatty() and stream.isatty()):
        return None
    return TerminalApprover(sys.stdin.fileno(), stream, suspended)


class TerminalApprover:
    """Asks on `stream` and reads from `handle`.

    Ctrl-C ends the question and the run; Ctrl-D leaves the question open.
    """

    def __init__(
        self,
        handle: int,
        stream: TextIO,
        suspended: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._handle = handle
        self._stream = stream
        self._suspended = suspended

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Print the request and ask until the answer is a yes or a no."""
        from goalrunner.app.sandbox import person

        columns = output.columns(self._stream)
        prompt = questions.prompt_text(request)
        with self._suspended():
            self._say(questions.approval_text(request, columns=columns))
            while (line := await self._ask(prompt)) is not None:
                decision, reason = questions.read_typed(line)
                if decision in ("approved", "denied"):
                    return ApprovalAnswer(decision, person(), reason, typed=True)
                if decision == "all":
                    whole = questions.approval_text(
                        request, most=sys.maxsize, columns=columns
                    )
                    self._say(whole)
                elif line.strip():
                    self._say(questions.choices_text(columns))
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask until something is typed."""
        from goalrunner.app.sandbox import person

        with self._suspended():
            self._say(questions.question_text(question, output.columns(self._stream)))
            while (line := await self._ask(questions.ANSWER)) is not None:
                if line.strip():
                    return QuestionReply(line.strip(), person())
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return the line that is typed after the prompt.

        Return None on Ctrl-D, and in the background.
        """
        import termios

        from goalrunner.system.event_loop import in_thread

        try:
            # The terminal stops a background job that reads.
            if os.tcgetpgrp(self._handle) != os.getpgrp():
                return None
            # A line that was typed before the question is no answer to it.
            termios.tcflush(self._handle, termios.TCIFLUSH)
        except (OSError, termios.error):
            return None
        self._say(prompt)
        data = b""
        # A thread cannot be cancelled. When the question is withdrawn, the pipe ends
        # it, so that it does not read what is typed later.
        withdrawn, withdraw = os.pipe()
        try:
            data = await in_thread(_typed, self._handle, withdrawn)
        finally:
            os.close(withdraw)
            if not data:
                self._say("\n")
        return data.decode(errors="replace") if data else None

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _typed(handle: int, withdrawn: int) -> bytes:
    """Return the line that is typed.

    Return nothing at the end of input, or when the other end of `withdrawn` is closed.
    """
    try:
        # The terminal may disappear.
        with contextlib.suppress(OSError):
            ready, _, _ = select.select([handle, withdrawn], [], [])
            return b"" if withdrawn in ready else os.read(handle, _MAX_BYTES)
    finally:
        os.close(withdrawn)
    return b""
