"""What is known of the simple commands of a shell line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goalrunner.shell.words import Word


@dataclass(frozen=True)
class Lost:
    """An exit code that does not count: what took it (`|`, `||`, `;`, `&`), and the text of what counts instead."""

    how: Literal["|", "||", ";", "&"]
    whole: str
    instead: str = ""


@dataclass(frozen=True)
class Command:
    """One simple command. `words` are without quotes, assignments and redirections."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    text: str = ""
    lost: Lost | None = None
    negated: bool = False
    """Behind `!`: its failure is what is wanted."""
    fallback: bool = False
    """Behind `||`: it only runs when something else failed."""
    optional: bool = False
    """Within if, while, for, case or a function: it may not run."""
    detached: bool = False
    """Whether its exit code is used elsewhere: it is a condition, or in the body of a function."""
    last: bool = True
    """Nothing runs after it."""
    piped: bool = False
    """Whether it reads the output of another command."""
    stdin: str | None = None
    """The here-document or here-string that it reads."""


@dataclass(frozen=True)
class Line:
    """What a line holds. `nested` are the commands in its substitutions; `problem` says why it could not be read."""

    commands: tuple[Command, ...] = ()
    nested: tuple[Command, ...] = ()
    functions: frozenset[str] = frozenset()
    """Names of the functions that the line defines."""
    problem: str = ""
