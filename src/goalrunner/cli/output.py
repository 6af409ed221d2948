"""Writing to stdout and stderr."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
from typing import TextIO

from goalrunner.core.errors import GoalError

_PLAIN = {"✓": "+", "✗": "x", "·": "-", "−": "-", "…": "~", "—": "-", "’": "'"}
"""Our own signs in ASCII, each as wide."""


class ReaderGone(Exception):
    """Whoever read our output has closed it."""


class Unwritable(GoalError):
    """Our output cannot be written: the disk is full, for example."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to stdout: {error.strerror or error}")


def prepare() -> None:
    """Let neither a closed stream nor a character that its encoding lacks end the program."""
    _open_closed()
    codecs.register_error("goal", _in_plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="goal")


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks: a green mark and a red one must not look alike."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(character, "?") for character in error.object[error.start : error.end]), error.end


def _open_closed() -> None:
    """Let a stream that was closed (`>&-`) lead nowhere: the next file to be opened would get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    # The interpreter has None in place of a stream that was closed when it began.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def say(text: str) -> None:
    """Write text to stdout, now. Raises ReaderGone and Unwritable."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise Unwritable(error) from error


def complain(text: str) -> None:
    """Write a line to stderr; a stderr that is closed is no reason to fail."""
    try:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def settle() -> None:
    """Let what could not be written end nothing: the interpreter's last flush would take the exit code away."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _silence(stream)
        except ValueError:
            continue


def _silence(stream: TextIO) -> None:
    """Send a stream nowhere, and what is pending in it."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def columns(stream: TextIO) -> int | None:
    """The width of the terminal behind a stream; None for a pipe or a file."""
    try:
        return shutil.get_terminal_size().columns if stream.isatty() else None
    except ValueError:  # it was closed
        return None
