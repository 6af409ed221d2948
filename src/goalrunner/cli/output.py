"""Writing to stdout, stderr and the files that options name, and asking a person."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import re
import shutil
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.core.errors import GoalError, UsageError

if TYPE_CHECKING:
    from goalrunner.reports.layout import ReportLine

_PLAIN = {
    "✅": "ok",
    "❌": "no",
    **dict(zip("✓✗·−…—→’“”│─┐►◄▲▼", '+x--~->\'""|-+><^v', strict=True)),
}
"""Our own signs in ASCII, with the same width."""
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_ANOTHER = "choose another path"


class ReaderGone(Exception):
    """The reader of stdout has closed it."""


class Unwritable(GoalError):
    """Stdout cannot be written: the disk is full, for example."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"cannot write to stdout: {getattr(error, 'strerror', None) or error}"
        )


def prepare() -> None:
    """Replace closed standard streams, and let characters that an encoding lacks be written in ASCII."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(
                os.devnull, os.O_RDWR
            )  # the descriptor `number`, which the next opened file would get otherwise
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before the interpreter started
            setattr(
                sys,
                name,
                open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"),  # noqa: PTH123, SIM115
            )
    codecs.register_error("goal", _in_plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="goal")


def _in_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(
        _PLAIN.get(character, "?")
        for character in error.object[error.start : error.end]
    ), error.end


def say(content: Any) -> None:
    """Write a text, bytes, or any other value as indented JSON to stdout, and flush it. Raise ReaderGone or Unwritable.

    In a step of GitHub Actions, no line of a text is printed as a command: texts may come from agents and tests.
    """
    if not isinstance(content, str | bytes):
        from goalrunner.reports.ci_log import json_text

        content = json_text(content)
    try:
        if isinstance(content, bytes):
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
    """Write text to stdout; on a terminal that is too small for it, through PAGER or else `less`."""
    import signal
    import subprocess

    command = os.environ.get("PAGER", "less")
    is_long = (
        columns() is not None and text.count("\n") >= shutil.get_terminal_size().lines
    )
    if not (
        pager
        and is_long
        and sys.stdin.isatty()
        and _is_capable()
        and shutil.which(command.partition(" ")[0])
    ):
        say(text)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
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


def is_interactive() -> bool:
    """Return whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask on stderr and return whether the answer on stdin is a yes; an empty one is if the question ends with [Y/n]."""
    complain(question)
    answer = sys.stdin.readline().strip().lower()
    return answer in ("y", "yes") or (not answer and question.endswith("[Y/n]"))


def confirmed(
    question: str,
    what: str,
    hint: str = "add --yes",
    otherwise: str = "nothing was changed",
) -> bool:
    """Return whether a person agrees; if not, print `otherwise`. Raise UsageError with `what` if stdin is not a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"{what}, and stdin is not a terminal", hint)
    is_agreed = agreed(question)
    if not is_agreed:
        complain(otherwise)
    return is_agreed


def typed(
    question: str, default: str = "", accepts: Callable[[str], bool] = bool
) -> str:
    """Ask until an answer is accepted, and return it; an empty one is the default. Raise UsageError at the end of input."""
    while True:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise UsageError(
                "the question was not answered",
                "give the answer as an option; see --help",
            )
        if accepts(answer := line.strip() or default):
            return answer


def settle() -> None:
    """Flush stdout and stderr. Discard what cannot be written, or the interpreter's own flush would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            try:
                stream.flush()
            except OSError:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def terminal_text(lines: Iterable[ReportLine]) -> str:
    """Return lines as text for stdout."""
    from goalrunner.reports.layout import laid_out

    return laid_out(lines, columns())


def columns(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal behind a stream (default: stdout); None for a pipe or a file."""
    try:
        return (
            shutil.get_terminal_size().columns
            if (stream or sys.stdout).isatty()
            else None
        )
    except ValueError:  # closed
        return None


class ResultFile:
    """A file, pipe, device or open file that gets a result; checked and opened before the run that makes it."""

    def __init__(
        self,
        path: Path,
        taken: Mapping[str, Path] | None = None,
        option: str = "--output",
        workspaces: Iterable[Path] = (),
    ) -> None:
        """Raise UsageError if nothing can be written there.

        `taken` are files that must not be replaced, by description: "the goal file". Errors name `option`. A link that leads
        out of the `workspaces` or the current folder is an error: an agent could have made it, to replace another file.
        """
        self._name = name = f"{option} {path}"
        self.path = path
        self._target = Path(os.path.realpath(path))
        for what, other in (taken or {}).items():
            if os.path.realpath(other) == str(self._target):
                raise UsageError(
                    f"{name} is {what}; the outcome would replace it",
                    "give another path",
                )
        self._handle = _open_stream(path, name)
        if self._handle is not None:
            weakref.finalize(self, os.close, self._handle)
            return
        named = (
            Path(os.path.realpath(path.parent), path.name),
            Path(os.path.abspath(path)),  # noqa: PTH100
        )
        for folder in (Path.cwd(), *(workspace.resolve() for workspace in workspaces)):
            if any(
                one.is_relative_to(folder) for one in named
            ) and not self._target.is_relative_to(folder):
                raise UsageError(
                    f"{name} leads out of {folder} through a link",
                    f"name its target: {self._target}",
                )
        folder = self._target.parent
        if not os.path.isdir(folder):  # noqa: PTH112 - never raises
            raise UsageError(
                f"{name}: {folder} is not a folder",
                f"choose another path, or: mkdir -p {folder}",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(
                f"{name}: the folder {folder} may not be written to", _ANOTHER
            )

    @property
    def is_stream(self) -> bool:
        """Whether the text goes to a reader, as with `/dev/stdout`, and is no file afterwards."""
        return self._handle is not None

    def write(self, content: str | bytes) -> None:
        """Write a text or bytes there. Raise GoalError if that is not possible."""
        from goalrunner.records.files import write_whole

        data = (
            content.encode("utf-8", errors="replace")
            if isinstance(content, str)
            else content
        )
        try:
            if self._handle is None:
                if os.path.realpath(self._target.parent) != str(self._target.parent):
                    raise GoalError(
                        f"{self._name} could not be written: a folder of its path became a link"
                    )
                write_whole(
                    self._target, data, mode=0o666
                )  # with the permissions of any new file of the user
            else:
                with open(self._handle, "wb", closefd=False) as stream:
                    stream.write(data)
        except OSError as error:
            raise GoalError(
                f"{self._name} could not be written: {error.strerror or error}"
            ) from error


def _open_stream(path: Path, name: str) -> int | None:
    """Open a pipe, a device, or an open file of this process (`/dev/fd/63`). Return None for a file. Raise UsageError."""
    descriptor = _DESCRIPTOR.fullmatch(str(path))
    number = int(descriptor[1]) if descriptor else _STANDARD.get(str(path))
    try:
        if number is not None:
            return os.dup(number)
        if path.is_file() or not path.exists():
            return None
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        os.set_blocking(
            handle, True
        )  # only opening a pipe must not wait for its reader
        return handle
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(
                f"{name}: no process reads it",
                f"start its reader first, such as: cat {path} &",
            ) from None
        raise UsageError(
            f"{name}: {(error.strerror or str(error)).lower()}", _ANOTHER
        ) from None
