"""Writing to stdout and stderr."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.core.errors import GoalError

if TYPE_CHECKING:
    from goalrunner.reports.layout import ReportLine

_PLAIN = {
    "✅": "ok",
    "❌": "no",
    **dict(zip("✓✗·−…—→’“”│─┐►◄▲▼", '+x--~->\'""|-+><^v', strict=True)),
}
"""Our own signs in ASCII, with the same width."""


class ReaderGone(Exception):
    """The reader of stdout has closed it."""


class Unwritable(GoalError):
    """Stdout cannot be written: the disk is full, for example."""

    def __init__(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or error
        super().__init__(f"cannot write to stdout: {reason}")


def prepare() -> None:
    """Replace closed standard streams.

    Characters that an encoding lacks are then written in ASCII.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # This opens the descriptor `number`. The next file that is opened would get
            # it otherwise, and with it all output.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdin", "stdout", "stderr"):
        # Python sets a stream to None if it was closed before the interpreter started.
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, stream)
    codecs.register_error("goal", _in_plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="goal")


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    text = "".join(_PLAIN.get(character, "?") for character in characters)
    return text, error.end


def say(content: Any) -> None:
    """Write a text, bytes, or any other value as indented JSON to stdout.

    Stdout is flushed. Raise ReaderGone or Unwritable.
    """
    if not isinstance(content, str | bytes):
        from goalrunner.reports.ci_log import json_text

        content = json_text(content)
    try:
        if isinstance(content, bytes):
            # Text that is still buffered comes first.
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(_for_log(content))
            sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise Unwritable(error) from error


def _for_log(text: str) -> str:
    """Return a text of which GitHub Actions performs no line as a command.

    Texts may come from agents and tests.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    from goalrunner.reports.ci_log import neutral

    return neutral(text)


def has_colours() -> bool:
    """Return whether text on stdout may have colours."""
    return not os.environ.get("NO_COLOR") and _is_capable() and columns() is not None


def _is_capable() -> bool:
    return os.environ.get("TERM", "") not in ("dumb", "unknown")


def page(text: str, *, pager: bool = True) -> None:
    """Write text to stdout.

    On a terminal that is too small for it, PAGER or else `less` shows it.
    """
    import signal
    import subprocess

    command = os.environ.get("PAGER", "less")
    lines = text.count("\n")
    is_long = columns() is not None and lines >= shutil.get_terminal_size().lines
    can_page = sys.stdin.isatty() and _is_capable()
    if not (pager and is_long and can_page and shutil.which(command.partition(" ")[0])):
        say(text)
        return
    # Ctrl-C is for the pager.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # As git does: quit if it fits, keep colours and the screen.
        environ = {"LESS": "FRX", "LV": "-c", **os.environ}
        subprocess.run(  # noqa: S602
            command,
            shell=True,
            input=text.encode(errors="replace"),
            env=environ,
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def complain(text: str) -> None:
    """Write a line to stderr; ignore a stderr that is closed."""
    try:
        sys.stderr.write(_for_log(text.rstrip("\n")) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def settle() -> None:
    """Flush stdout and stderr, and discard what cannot be written."""
    # The interpreter's own flush would fail again, and change the exit code.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            try:
                stream.flush()
            except OSError:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)


def terminal_text(lines: Iterable[ReportLine]) -> str:
    """Return lines as text for stdout."""
    from goalrunner.reports.layout import laid_out

    return laid_out(lines, columns())


def columns(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal behind a stream (default: stdout).

    Return None for a pipe or a file.
    """
    try:
        is_terminal = (stream or sys.stdout).isatty()
    except ValueError:
        # The stream is closed.
        return None
    return shutil.get_terminal_size().columns if is_terminal else None
