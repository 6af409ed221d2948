"""What a goal calls a secret beside what looks like one: `$NAME` and `/pattern/`. Owns their notation.

A plain value is refused: the goal file is read by the agent and kept with the run, so no secret may stand in it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping

from goalrunner.errors import UsageError

_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def pattern_of(entry: str) -> re.Pattern[str] | None:
    """The pattern between slashes; None where none stands there. Raises ValueError that says what is wrong with it."""
    if len(entry) < 2 or not (entry.startswith("/") and entry.endswith("/")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(entry[1:-1])
    except re.error as error:
        where = f" at its character {error.pos + 1}" if error.pos is not None else ""
        raise ValueError(f"is no regular expression: {error.msg}{where}") from error
    except (OverflowError, RecursionError) as error:
        raise ValueError("is no regular expression that can be run: it is too large") from error
    if pattern.search(""):
        raise ValueError("matches the empty text; say what is to be replaced")
    return pattern


def variable_of(entry: str) -> str | None:
    """The variable that `$NAME` or `${NAME}` stands for; None for anything else."""
    match = _VARIABLE.fullmatch(entry)
    return match[1] if match else None


def check_extra(entry: str) -> None:
    """Raises ValueError for what is neither a pattern nor a variable. Its text is not in the message."""
    if pattern_of(entry) is None and variable_of(entry) is None:
        raise ValueError(
            'must be "$NAME", a variable that holds the secret, or "/pattern/"; a secret itself has no place in a goal file'
        )


def forced_values(extra: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values that `$NAME` stands for, by name. Raises UsageError where a variable is not set: nobody would be warned."""
    forced: dict[str, str] = {}
    for name in filter(None, map(variable_of, extra)):
        value = environ.get(name, "").strip()
        if not value:
            raise UsageError(
                f"[redact] extra names ${name}, which is not set, so its value could not be kept out of the run",
                f"export {name}=..., or take it out of [redact] extra",
            )
        forced[name] = value
    return forced
