"""The command `goal`: the only error boundary, and a short way for `list` and `status`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from goalrunner.cli import output
from goalrunner.core.errors import ExitCode, GoalError


def put_off() -> None:
    """Look for no cycles until `look_again`. For the process `goal` alone: the whole process is its own."""
    gc.disable()


def look_again() -> None:
    """Look for the cycles of what comes from now on. Does nothing where nobody has put it off."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def shortcut(arguments: Sequence[str]) -> Callable[[], int] | None:
    """What answers this command line, where it is a plain `list` or `status`; else None."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    json = "--json" in rest
    words = [word for word in rest if word != "--json"]
    if any(word.startswith("-") for word in words) or len(rest) - len(words) > 1:
        return None
    if command == "list" and not words:
        from goalrunner.cli.status import list_runs

        return lambda: list_runs(json=json)
    if command == "status" and len(words) <= 1:
        from goalrunner.cli.status import print_status

        return lambda: print_status(words[0] if words else None, json=json)
    return None


READER_GONE = 141
"""Exit code when the reader of our output has closed it: 128 + SIGPIPE, as of every other tool."""

is_program = False
"""Whether this process is the program `goal`, so that no other code starts children in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own); gives the exit code. Expected failures are said on stderr."""
    output.prepare()
    try:
        return _code(list(sys.argv[1:] if arguments is None else arguments))
    finally:
        output.settle()


def program() -> NoReturn:
    """The process `goal`: run the command line, then end.

    Where LiteLLM was imported, or half of it, the interpreter is not taken down: its finalizers import modules, and wait
    for ever on the lock of an import that the end has cut. Everything of ours is written and flushed by then.
    """
    global is_program
    is_program = True
    put_off()
    code = main()
    if "litellm" in sys.modules:
        os._exit(code)
    sys.exit(code)


def _code(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except GoalError as error:
        output.complain(_said(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except output.ReaderGone:
        return READER_GONE
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """A failure that nobody foresaw; but for what Typer met while it printed a help page or a complaint of its own."""
    if isinstance(error, OSError) and _is_typers(error):
        complaint = getattr(error.__context__, "exit_code", None)
        if isinstance(complaint, int):
            return complaint
        output.complain(str(output.Unwritable(error)))
        return int(ExitCode.FAILED)
    from goalrunner.cli.crash import crash_line

    output.complain(crash_line(error))
    return int(ExitCode.FAILED)


def _is_typers(error: Exception) -> bool:
    """Whether an error came up in Typer's own code: it opens nothing, so it was printing."""
    import traceback  # not at the top: `goal list` meets no error

    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1]).startswith("typer.")


def _run(arguments: list[str]) -> int:

    answer = shortcut(arguments)
    if answer is not None:
        return answer()
    from goalrunner.cli.app import app

    app(args=arguments, prog_name="goal")
    return int(ExitCode.COMPLETE)


def _said(error: GoalError) -> str:
    """What a person reads; a provider's words in it must not reach the terminal raw."""
    from goalrunner.reports.figures import clean

    return clean(str(error))


if __name__ == "__main__":
    sys.exit(main())
