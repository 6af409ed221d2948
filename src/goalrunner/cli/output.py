"""Writing to stdout and stderr. Owns encoding trouble, a reader that has gone, and the width of the terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TextIO


class ReaderGone(Exception):
    """Whoever read our output has closed it."""


def prepare() -> None:
    """Let no character that the streams' encoding lacks end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(text: str) -> None:
    """Write text to stdout, now. Raises ReaderGone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error


def complain(text: str) -> None:
    """Write a line to stderr; a stderr that is closed is no reason to fail."""
    try:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def silence() -> None:
    """Send stdout nowhere, so that the interpreter's last flush does not trip over a closed pipe."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def columns(stream: TextIO) -> int | None:
    """The width of the terminal behind a stream; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
