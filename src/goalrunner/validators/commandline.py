"""A command line as `sh` reads it: its simple commands, and what becomes of the exit code of each. Runs nothing.

It need not know all of the shell's language: a line that it cannot read holds no commands, and nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from goalrunner.validators.words import Token, Unreadable, tokens

_RESERVED = frozenset({"if", "then", "else", "elif", "fi", "while", "until", "do", "done"})
_HEADS = frozenset({"for", "select"})
"""Reserved words whose line names a variable and words, no command."""
_UNKNOWN = frozenset({"case", "esac", "function", "coproc", "[["})
_ENDS = frozenset({";", "&", "\n"})
_DEEPEST = 50
_LONGEST = 20_000
"""Characters of a line that is read; longer ones are programs, not commands."""


@dataclass(frozen=True)
class Lost:
    """An exit code that does not count: what took it (`|`, `||`, `;`, `&`), and the text of what counts instead."""

    how: Literal["|", "||", ";", "&"]
    whole: str
    instead: str = ""


@dataclass(frozen=True)
class Command:
    """One simple command. `words` are without quotes, assignments and redirections."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    text: str = ""
    lost: Lost | None = None
    negated: bool = False
    """Behind `!`: its failure is what is wanted."""
    fallback: bool = False
    """Behind `||`: it only runs when something else failed."""
    optional: bool = False
    """Within if, while, for or case: nobody can say whether it runs."""
    last: bool = True
    """Nothing runs after it."""


def read(line: str) -> tuple[Command, ...]:
    """The simple commands of a line, in their order; empty when it cannot be read."""
    if len(line) > _LONGEST:
        return ()
    try:
        reader = _Reader(line)
        found = tuple(reader.sequence(Command(words=()), 0))
        return found if reader.done else ()
    except Unreadable:
        return ()


def takes_options(commands: tuple[Command, ...], letter: str, name: str) -> bool:
    """Whether the line turns on an option of the shell: `set -e`, `set -euo pipefail`."""
    for command in commands:
        if command.words[:1] == ("set",):
            rest = command.words[1:]
            flags = "".join(word[1:] for word in rest if word.startswith("-") and not word.startswith("--"))
            if (letter and letter in flags) or name in rest:
                return True
    return False


@dataclass
class _Pipeline:
    """One pipeline: its parts, each with the commands in it."""

    parts: list[list[Command]]
    texts: list[str]

    @property
    def text(self) -> str:
        return " | ".join(self.texts)


class _Reader:
    """A recursive descent through lists, and-or lists, pipelines and groups."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._tokens = list(tokens(line))
        self._at = 0
        self._optional = False

    @property
    def done(self) -> bool:
        """Whether all was read."""
        return self._at == len(self._tokens)

    def sequence(self, around: Command, depth: int) -> Iterator[Command]:
        """Commands up to the end or a closing bracket. `around` holds what is known of the group that they are in."""
        if depth > _DEEPEST:
            raise Unreadable
        lines: list[tuple[list[Command], str, str]] = []
        while (token := self._peek()) and token.text not in (")", "}"):
            if token.kind == "operator" and token.text in _ENDS:
                self._at += 1
                continue
            commands, text = self._and_or(depth)
            end = self._peek()
            closes = end is None or end.text in (")", "}")
            if end is not None and not closes and end.text not in _ENDS:
                raise Unreadable
            lines.append((commands, text, ";" if closes or end is None else end.text))
        for number, (commands, text, end_text) in enumerate(lines):
            last = number == len(lines) - 1
            lost: Lost | None = None
            if end_text == "&":
                lost = Lost("&", f"{text} &")
            elif not last:
                lost = Lost(";", f"{text}; {lines[-1][1]}", lines[-1][1])
            for command in commands:
                # Within if and for, what follows may be its end, or never run.
                kept = None if command.optional and lost and lost.how == ";" else lost
                yield _within(command, around, kept, last=last or command.optional)

    def _and_or(self, depth: int) -> tuple[list[Command], str]:
        pipelines = [("", self._pipeline(depth))]
        while (token := self._peek()) and token.kind == "operator" and token.text in ("&&", "||"):
            self._at += 1
            while (blank := self._peek()) and blank.text == "\n":
                self._at += 1
            pipelines.append((token.text, self._pipeline(depth)))
        text = " ".join(f"{operator} {pipeline.text}".strip() for operator, pipeline in pipelines)
        found: list[Command] = []
        for number, (operator, pipeline) in enumerate(pipelines):
            after = [later for how, later in pipelines[number + 1 :] if how == "||"]
            lost = Lost("||", f"{pipeline.text} || {after[0].text}", after[0].text) if after else None
            around = Command(words=(), fallback=operator == "||")
            final = number == len(pipelines) - 1
            for part in pipeline.parts:
                found += [_within(command, around, lost, last=final) for command in part]
        return found, text

    def _pipeline(self, depth: int) -> _Pipeline:
        negated = False
        while (token := self._peek()) and token.kind == "word" and token.text == "!":
            self._at += 1
            negated = not negated
        pipeline = _Pipeline([], [])
        while True:
            begin = self._at
            pipeline.parts.append(self._part(depth))
            pipeline.texts.append(self._text(begin))
            following = self._peek()
            if following is None or following.text not in ("|", "|&"):
                break
            self._at += 1
        around = Command(words=(), negated=negated)
        for number, part in enumerate(pipeline.parts):
            lost = Lost("|", pipeline.text, pipeline.texts[-1]) if number < len(pipeline.parts) - 1 else None
            pipeline.parts[number] = [_within(command, around, lost) for command in part]
        return pipeline

    def _part(self, depth: int) -> list[Command]:
        token = self._peek()
        if token is not None and token.text in ("(", "{") and token.kind in ("operator", "bracket"):
            self._at += 1
            inside = list(self.sequence(Command(words=()), depth + 1))
            closing = self._peek()
            if closing is None or closing.text != {"(": ")", "{": "}"}[token.text]:
                raise Unreadable
            self._at += 1
            return inside
        return self._simple()

    def _simple(self) -> list[Command]:
        begin = self._at
        words: list[str] = []
        assignments: list[str] = []
        while (token := self._peek()) and token.kind in ("word", "assignment"):
            self._at += 1
            if words or (token.kind == "word" and token.text not in _RESERVED):
                words.append(token.text)
            elif token.kind == "assignment":
                assignments.append(token.text)
            else:
                self._optional = True
        if self._at == begin:
            raise Unreadable
        if words and words[0] in _UNKNOWN:
            raise Unreadable
        if words and words[0] in _HEADS:
            self._optional = True
            return []
        command = Command(tuple(words), tuple(assignments), self._text(begin), optional=self._optional)
        return [command] if words or assignments else []

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _text(self, begin: int) -> str:
        if begin == self._at:
            return ""
        return self._line[self._tokens[begin].begin : self._tokens[self._at - 1].end]


def _within(command: Command, around: Command, lost: Lost | None, *, last: bool = True) -> Command:
    """The command, with what its surroundings add to it; what is lost inside is lost."""
    return replace(
        command,
        lost=command.lost or lost,
        negated=command.negated != around.negated,
        fallback=command.fallback or around.fallback,
        optional=command.optional or around.optional,
        last=command.last and last,
    )
