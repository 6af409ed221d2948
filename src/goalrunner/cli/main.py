"""The command `goal`: the process, the error boundary, and the fast path of `list` and `status`."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from goalrunner.cli import output
from goalrunner.core import VERSION
from goalrunner.core.errors import ExitCode, GoalError, GoalFileError
from goalrunner.system import take_process

READER_GONE = 141  # exit code if the reader of stdout has closed it: 128 + SIGPIPE

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("COMMAND_LINE", default=())
"""The arguments of the command line that is run, without the name of the program."""

T = TypeVar("T")


def program() -> NoReturn:
    """Run the command line of the process and end it.

    After an import of LiteLLM, even a partial one, the interpreter is not finalized: its finalizers import modules and can
    wait forever for the lock of an interrupted import. All output is flushed by then.
    """
    # Nearly all objects of a start stay. Looking for garbage among them less often saves a thirtieth of it.
    gc.set_threshold(50_000)
    code = main()
    if "litellm" in sys.modules:
        os._exit(code)
    sys.exit(code)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result."""
    import asyncio

    return asyncio.run(work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process) and return the exit code. Print expected errors on stderr."""
    take_process()
    output.prepare()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except GoalError as error:
        output.complain(error_text(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except output.ReaderGone:
        return READER_GONE
    except Exception as error:
        is_full = (
            isinstance(error, OSError) and error.errno == errno.ENOSPC
        )  # as Typer prints a help page
        output.complain(
            error_text(output.Unwritable(error)) if is_full else _crash_text(error)
        )
        return int(ExitCode.FAILED)
    finally:
        output.settle()


def _run(arguments: list[str]) -> int:
    COMMAND_LINE.set(tuple(arguments))
    if answer := fast_path(arguments):
        return answer()
    from goalrunner.cli import runs
    from goalrunner.cli.app import app

    if arguments[:1] == ["run"] and not {"--dry-run", "--help", "-h"} & {*arguments}:
        runs.note_attempt()
    called = os.path.basename(sys.argv[0])  # noqa: PTH119  pathlib is not needed for anything else here
    app(args=arguments, prog_name=called if called == "goalrunner" else "goal")
    return int(ExitCode.COMPLETE)


def fast_path(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return a function that performs a plain `list` or `status` without Typer; None for any other command line."""
    command, *rest = arguments or [""]
    words = [word for word in rest if not word.startswith("-")]
    flags = [word for word in rest if word.startswith("-")]
    json = "--json" in flags
    from goalrunner.cli import runs

    if command == "list" and not words and set(flags) <= {"--json", "--all"}:
        return lambda: runs.list_runs(json=json, everywhere="--all" in flags)
    if command == "status" and len(words) <= 1 and set(flags) <= {"--json"}:
        return lambda: runs.print_status(*words, json=json)
    return None


def error_text(error: GoalError) -> str:
    """Return the text of an error for a terminal. Each problem of a goal file is an error of its own."""
    from goalrunner.reports.terminal_text import printable

    text = f"Error: {printable(str(error))}"
    return text.replace("\n", "\nError: ") if isinstance(error, GoalFileError) else text


def _crash_text(error: Exception) -> str:
    """Return the traceback without secrets, and a last line that names the error."""
    import traceback

    from goalrunner.records.redaction import Redactor
    from goalrunner.reports.terminal_text import printable

    text = printable(
        Redactor(os.environ).text("".join(traceback.format_exception(error)))
    )
    return f"{text}Error: internal error, a defect of goal {VERSION}; please report it with the lines above"
