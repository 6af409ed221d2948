"""Questions to the person at the terminal of a command, on stderr and stdin."""

from __future__ import annotations

import sys
from collections.abc import Callable

from goalrunner.cli import output
from goalrunner.core.errors import UsageError


def is_interactive() -> bool:
    """Return whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask, and return whether the answer is a yes.

    An empty answer is a yes if the question ends with [Y/n].
    """
    # Stdout may be a pipe that gets only the result.
    output.complain(question)
    answer = sys.stdin.readline().strip().lower()
    return answer in ("y", "yes") or (not answer and question.endswith("[Y/n]"))


def confirmed(
    question: str,
    what: str,
    hint: str = "add --yes",
    otherwise: str = "nothing was changed",
) -> bool:
    """Return whether a person agrees; if not, print `otherwise`.

    Raise UsageError with `what` if stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{what}, and stdin is not a terminal", hint)
    is_agreed = agreed(question)
    if not is_agreed:
        output.complain(otherwise)
    return is_agreed


def typed(
    question: str, default: str = "", accepts: Callable[[str], bool] = bool
) -> str:
    """Ask until an answer is accepted, and return it; an empty one is the default.

    Raise UsageError at the end of input.
    """
    while True:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise UsageError(
                "the question was not answered",
                "give the answer as an option; see --help",
            )
        answer = line.strip() or default
        if accepts(answer):
            return answer
