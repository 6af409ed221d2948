"""The command `goal`: the process and its error boundary.

A plain `list` or `status` does not import Typer.
"""

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

READER_GONE = 141
"""The exit code if the reader of stdout has closed it: 128 + SIGPIPE."""

COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("COMMAND_LINE", default=())
"""The arguments of the command line that is run, without the name of the program."""

T = TypeVar("T")


def program(work: Callable[[], int] | None = None) -> NoReturn:
    """Run the command line of the process, or other work, and end the process.

    The exit code is what `work` returns, or that of the error that it raises.
    """
    # Nearly all objects of a start stay. Looking for garbage among them less often
    # saves a thirtieth of it.
    gc.set_threshold(50_000)
    code = main() if work is None else guarded(work)
    # After an import of LiteLLM, even a partial one, finalizers of the interpreter
    # import modules, and can wait forever for the lock of an interrupted import. All
    # output is flushed by then.
    if "litellm" in sys.modules:
        os._exit(code)
    sys.exit(code)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result."""
    import asyncio

    return asyncio.run(work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code. Print expected errors on stderr.

    The default is the command line of the process.
    """
    return guarded(lambda: _run(list(sys.argv[1:] if arguments is None else arguments)))


def guarded(work: Callable[[], int]) -> int:
    """Return the exit code of some work. Print expected errors on stderr."""
    take_process()
    output.prepare()
    try:
        return work()
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
        # Typer prints a help page itself, and the disk may be full.
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            output.complain(error_text(output.Unwritable(error)))
        else:
            output.complain(_crash_text(error))
        return int(ExitCode.FAILED)
    finally:
        output.settle()


def _run(arguments: list[str]) -> int:
    COMMAND_LINE.set(tuple(arguments))
    command = fast_path(arguments)
    if command is not None:
        return command()
    from goalrunner.cli import runs
    from goalrunner.cli.app import app

    # `goal resume` must not continue an older run if this one fails to start.
    if arguments[:1] == ["run"] and not {"--dry-run", "--help", "-h"} & {*arguments}:
        runs.note_goal_run()
    # pathlib is not needed for anything else here.
    program_name = os.path.basename(sys.argv[0])  # noqa: PTH119
    # The program may be started as a module, whose name is not to be typed.
    if program_name != "goalrunner":
        program_name = "goal"
    app(args=arguments, prog_name=program_name)
    return int(ExitCode.COMPLETE)


def fast_path(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return a function that performs a plain `list` or `status` without Typer.

    Return None for any other command line.
    """
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
    """Return the text of an error for a terminal.

    Each problem of a goal file is an error of its own.
    """
    from goalrunner.reports.terminal_text import printable

    text = f"Error: {printable(str(error))}"
    if isinstance(error, GoalFileError):
        return text.replace("\n", "\nError: ")
    return text


def _crash_text(error: Exception) -> str:
    """Return the traceback without secrets, and a last line that names the error."""
    import traceback

    from goalrunner.records.redaction import Redactor
    from goalrunner.reports.terminal_text import printable

    lines = "".join(traceback.format_exception(error))
    text = printable(Redactor(os.environ).text(lines))
    return (
        f"{text}Error: internal error, a defect of goal {VERSION}; please report it"
        " with the lines above"
    )
