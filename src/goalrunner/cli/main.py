"""The command `goal`: the process, the error boundary, and the fast path of `list` and `status`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from goalrunner.cli import output
from goalrunner.core.errors import ExitCode, GoalError, GoalFileError

READER_GONE = 141
"""Exit code if the reader of stdout has closed it: 128 + SIGPIPE."""

is_program = False
"""Whether this process is the program `goal`, and all of its children belong to the run."""


def program() -> NoReturn:
    """Run the command line of the process and end it.

    After an import of LiteLLM, even a partial one, the interpreter is not finalized: its finalizers import modules and can
    wait forever for the lock of an interrupted import. All output is flushed by then.
    """
    global is_program
    is_program = True
    gc.disable()  # until `collect_garbage`: little of what is loaded at the start is garbage
    code = main()
    if "litellm" in sys.modules:
        os._exit(code)
    sys.exit(code)


def collect_garbage() -> None:
    """Turn the garbage collector on again, for objects that are made from now on."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process) and return the exit code. Print expected errors on stderr."""
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
        return _unexpected(error)
    finally:
        output.settle()


def _run(arguments: list[str]) -> int:
    answer = fast_path(arguments)
    if answer is not None:
        return answer()
    from goalrunner.cli.app import app

    app(args=arguments, prog_name="goal")
    return int(ExitCode.COMPLETE)


def fast_path(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return what performs a plain `list` or `status` without Typer; None for any other command line."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    json = "--json" in rest
    words = [word for word in rest if word != "--json"]
    if any(word.startswith("-") for word in words) or len(rest) - len(words) > 1:
        return None
    if command == "list" and not words:
        from goalrunner.cli.run_status import list_runs

        return lambda: list_runs(json=json)
    if command == "status" and len(words) <= 1:
        from goalrunner.cli.run_status import print_status

        return lambda: print_status(words[0] if words else None, json=json)
    return None


def error_text(error: GoalError) -> str:
    """Return the text of an error for a terminal. Each problem of a goal file is an error of its own."""
    from goalrunner.reports.text import clean

    text = f"Error: {clean(str(error))}"
    return text.replace("\n", "\nError: ") if isinstance(error, GoalFileError) else text


def _unexpected(error: Exception) -> int:
    """Report a defect, unless Typer failed to print a help page or an error of its own."""
    if isinstance(error, OSError) and _is_typers(error):
        code = getattr(error.__context__, "exit_code", None)
        if isinstance(code, int):
            return code
        output.complain(error_text(output.Unwritable(error)))
        return int(ExitCode.FAILED)
    from goalrunner.cli.crash import crash_text

    output.complain(crash_text(error))
    return int(ExitCode.FAILED)


def _is_typers(error: Exception) -> bool:
    """Return whether an error was raised in Typer's own code, which opens no files but prints."""
    import traceback

    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1]).startswith("typer.")


if __name__ == "__main__":
    sys.exit(main())
