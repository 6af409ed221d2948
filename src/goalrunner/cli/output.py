"""Writing to stdout and stderr, and asking a person."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.core.errors import GoalError, UsageError

if TYPE_CHECKING:
    from goalrunner.reports.layout import Line

_PLAIN = {"✓": "+", "✗": "x", "·": "-", "−": "-", "…": "~", "—": "-", "’": "'"}
"""Our own signs in ASCII, with the same width."""


class ReaderGone(Exception):
    """The reader of stdout has closed it."""


class Unwritable(GoalError):
    """Stdout cannot be written: the disk is full, for example."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"cannot write to stdout: {getattr(error, 'strerror', None) or error}")


def prepare() -> None:
    """Make closed streams and characters that an encoding lacks harmless."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets this number; else the next file that is opened would get it
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before the interpreter started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    codecs.register_error("goal", _in_plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="goal")


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end


def say(content: Any) -> None:
    """Write a text, bytes, or any other value as indented JSON to stdout, and flush it. Raise ReaderGone or Unwritable.

    In a step of GitHub Actions no line of a text is a command: texts of agents and of tests are printed here.
    """
    binary = getattr(sys.stdout, "buffer", None)
    if not isinstance(content, str | bytes):
        from goalrunner.reports.figures import json_text

        content = json_text(content)
    try:
        if isinstance(content, bytes) and binary is not None:  # there is none in a stream of a test or of a program
            sys.stdout.flush()
            binary.write(content)
            binary.flush()
        else:
            sys.stdout.write(_for_log(content if isinstance(content, str) else content.decode(errors="replace")))
            sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise Unwritable(error) from error


def _for_log(text: str) -> str:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    from goalrunner.reports.ci import neutral

    return neutral(text)


def has_colours() -> bool:
    """Return whether text on stdout may have colours."""
    return not os.environ.get("NO_COLOR") and _is_capable() and columns() is not None


def _is_capable() -> bool:
    return os.environ.get("TERM", "") not in ("dumb", "unknown")


def page(text: str, *, pager: bool = True) -> None:
    """Write text to stdout; on a terminal that is too small for it, through PAGER or else `less`."""
    import signal
    import subprocess

    command = os.environ.get("PAGER", "less")
    is_long = columns() is not None and text.count("\n") >= shutil.get_terminal_size().lines
    if not (pager and is_long and sys.stdin.isatty() and _is_capable() and shutil.which(command.partition(" ")[0])):
        say(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        environ = {"LESS": "FRX", "LV": "-c", **os.environ}
        subprocess.run(command, shell=True, input=text.encode(errors="replace"), env=environ, check=False)  # noqa: S602
    finally:
        signal.signal(signal.SIGINT, before)


def complain(text: str) -> None:
    """Write a line to stderr; ignore a stderr that is closed."""
    try:
        sys.stderr.write(_for_log(text.rstrip("\n")) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def is_interactive() -> bool:
    """Return whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask on stderr and return whether the answer on stdin is a yes; none is one if the question ends with [Y/n]."""
    complain(question)
    answer = sys.stdin.readline().strip().lower()
    return answer in ("y", "yes") or (not answer and question.endswith("[Y/n]"))


def refuse_unasked(what: str, hint: str = "add --yes") -> None:
    """Raise UsageError if no terminal is there at which a person can agree."""
    if not sys.stdin.isatty():
        raise UsageError(f"{what}, and stdin is not a terminal", hint)


def typed(question: str, default: str = "", accepts: Callable[[str], bool] = bool) -> str:
    """Ask until an answer is accepted, and return it; an empty one is the default. Raise UsageError at the end of input."""
    while True:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise UsageError("the question was not answered", "give the answer as an option; see --help")
        if accepts(answer := line.strip() or default):
            return answer


def settle() -> None:
    """Discard what cannot be written: the flush at the end of the interpreter would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            try:
                stream.flush()
            except OSError:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def laid_out(lines: Iterable[Line]) -> str:
    """Return lines as text for stdout."""
    from goalrunner.reports.layout import laid_out

    return laid_out(lines, columns())


def columns(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal behind a stream (default: stdout); None for a pipe or a file."""
    try:
        return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None
    except ValueError:  # closed
        return None
