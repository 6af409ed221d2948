"""The words of a shell line: quotes, expansions, redirections, here-documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, Self

_DEEPEST = 50
SYNTAX = "its syntax cannot be parsed"
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_TOKEN = re.compile(r";;&|;;|;&|&&|\|\||\|&|[|&;()\n<>]|[^ \t\n|&;()<>]+")
_PIECE = re.compile(
    r"\\(?P<escaped>.?)|'(?P<raw>[^']*)'|\$'(?P<ansi>(?:[^'\\]|\\.)*)'|(?P<plain>[^ \t\n|&;()<>\\'\"$`]+)", re.DOTALL
)
_QUOTED_PIECE = re.compile(r'\\(?P<escaped>[$`"\\\n])|(?P<plain>\\|[^\\$`"]+|")')
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
REDIRECTION = re.compile(r"\d*(?:<<<|<<-?|<>|[<>]&|>>|>\||[<>](?!\())|&>>?")
_PATTERN = re.compile(r"[*?]|\[.+\]|\{.*,.*\}")
_RANGE = re.compile(r"\{\w+\.\.\w+")
_Pieces = list[tuple[str, bool]]
"""Parts of a word, and whether each is known: it is no expansion."""


class Word(str):
    """A word. `head` and `tail` are what is known of its beginning and end; both are the word if it has no expansion."""

    head: str
    tail: str
    __slots__ = ("head", "tail")

    def __new__(cls, text: str, head: str | None = None, tail: str | None = None) -> Self:
        """Return a word that is known as a whole, unless `head` and `tail` say otherwise."""
        word = super().__new__(cls, text)
        word.head = text if head is None else head
        word.tail = text if tail is None else tail
        return word

    @property
    def known(self) -> bool:
        """Whether the word has no expansion."""
        return self.head == str(self)

    @property
    def program(self) -> str:
        """The file name at the end of the word; empty if an expansion decides it."""
        return self.tail.rpartition("/")[2] if self.known or "/" in self.tail else ""

    def replaced(self, placeholder: str) -> Word:
        """Return the word with an expansion in the place of a placeholder, such as `{}` of find."""
        if not placeholder or placeholder not in self:
            return self
        head = self.head.partition(placeholder)[0]
        tail = self.tail.rpartition(placeholder)[2]
        return Word(self.replace(placeholder, "$@"), head, tail)


class UnreadableError(Exception):
    """A line that cannot be read."""


@dataclass(frozen=True)
class Lost:
    """An exit code that does not count: what took it (`|`, `||`, `;`, `&`), and the text of what counts instead."""

    how: Literal["|", "||", ";", "&"]
    whole: str
    instead: str = ""


@dataclass
class Document:
    """A here-document or here-string; its text is known once the lines behind the command were read."""

    end: str = ""
    literal: bool = True
    tabs: str = ""
    text: str = ""


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
    document: Document | None = None
    """The here-document or here-string that it reads."""

    @property
    def stdin(self) -> str | None:
        """The text of the document."""
        return self.document.text if self.document else None


@dataclass(frozen=True)
class Line:
    """What a line holds. `nested` are the commands in its substitutions; `problem` says why it could not be read."""

    commands: tuple[Command, ...] = ()
    nested: tuple[Command, ...] = ()
    functions: frozenset[str] = frozenset()
    """Names of the functions that the line defines."""
    problem: str = ""


class WordReader:
    """Reads the words of a text once, from its beginning on."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self._text, self._at, self._depth = text, 0, depth
        self._pending: list[Document] = []
        self.nested: list[Command] = []
        """The commands in substitutions."""

    def sequence(self, *ends: str) -> list[Command]:
        """Return the commands up to one of these tokens, or to the end of the text if there is none."""
        raise NotImplementedError

    def _deeper(self, levels: int = 1) -> None:
        self._depth += levels
        if self._depth > _DEEPEST:
            raise UnreadableError("it is nested too deeply")

    def _follows(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _char(self) -> str:
        """Return the next character. Raise UnreadableError at the end of the text."""
        if self._at >= len(self._text):
            raise UnreadableError(SYNTAX)
        return self._text[self._at]

    def _next(self) -> str:
        """Skip blanks and return the next operator or unquoted word, without taking it; empty at the end."""
        blanks = _BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at
        found = _TOKEN.match(self._text, self._at)
        return found[0] if found else ""

    def _next_line(self) -> str:
        """Skip blanks and newlines, with the here-documents behind them, and return the next token."""
        while (token := self._next()) == "\n":
            self._at += 1
            for document in self._pending:
                self._read_document(document)
            self._pending.clear()
        return token

    def _expect(self, token: str) -> None:
        if self._next_line() != token:
            raise UnreadableError(SYNTAX)
        self._at += len(token)

    def _read_document(self, document: Document) -> None:
        while True:
            line, newline, _ = self._text[self._at :].partition("\n")
            self._at += len(line + newline)
            line = line.lstrip(document.tabs)
            if line == document.end:
                break
            if not newline:
                raise UnreadableError("a here-document in it has no end")
            document.text += f"{line}\n"
        if not document.literal:
            inner = type(self)(document.text, self._depth)
            inner.quoted("")
            self.nested += inner.nested

    def _redirection(self, operator: str) -> Document | None:
        """Take an operator and its target; return what it gives to the command as its input, if that is known."""
        self._at += len(operator)
        self._next()
        begin = self._at
        target = self._word()
        if "<<" not in operator:
            return None
        if "<<<" in operator:
            return Document(text=str(target))
        literal = not set("'\"\\").isdisjoint(self._text[begin : self._at])
        self._pending.append(Document(str(target), literal, "\t" if operator.endswith("-") else ""))
        return self._pending[-1]

    def _word(self, *, program: bool = False) -> Word:
        """Take a word. A pattern is an expansion in the name of a program."""
        pieces: _Pieces = []
        unquoted, begin = "", self._at
        while self._at < len(self._text) and (not self._follows(*" \t\n|&;()<>") or self._follows("<(", ">(")):
            if found := _PIECE.match(self._text, self._at):
                kind, text = str(found.lastgroup), found[str(found.lastgroup)]
                pieces.append(
                    (text.replace("\n", "") if kind == "escaped" else text, kind != "ansi" or "\\" not in text)
                )
                unquoted += text if kind == "plain" else ""
                self._at = found.end()
            elif self._follows('"'):
                self._at += 1
                pieces += self.quoted('"')
            else:
                pieces.append(self._expansion())
            if self._follows("(") and ASSIGNMENT.fullmatch(self._text, begin, self._at):
                self._at += 1
                while self._next_line() != ")":
                    self._word()
                self._at += 1
        if self._at == begin:
            raise UnreadableError(SYNTAX)
        text = "".join(piece for piece, _ in pieces)
        if _RANGE.search(unquoted) or (program and _PATTERN.search(unquoted)):
            return Word(text, "", "")
        head = "".join(piece for piece, _ in takewhile(lambda one: one[1], pieces))
        tail = [piece for piece, _ in takewhile(lambda one: one[1], reversed(pieces))]
        return Word(text, head, "".join(reversed(tail)))

    def quoted(self, end: str) -> _Pieces:
        """Take a text in double quotes, and the end of it. Without one, take the whole text."""
        pieces: _Pieces = []
        while self._at < len(self._text) if not end else self._char() != end:
            if found := _QUOTED_PIECE.match(self._text, self._at):
                pieces.append((found["plain"] or found["escaped"].replace("\n", ""), True))
                self._at = found.end()
            else:
                pieces.append(self._expansion(quoted=True))
        self._at += len(end)
        return pieces

    def _expansion(self, *, quoted: bool = False) -> tuple[str, bool]:
        """Take an expansion and read the commands in it; return its text, and whether it is a `$` that is only itself."""
        begin, literal = self._at, False
        if self._follows("$(("):
            self._at += 1
            self._parentheses()
        elif self._follows("$(", "<(", ">("):
            self._at += 2
            self.nested += self.sequence(")")
            self._expect(")")
        elif self._follows("${"):
            self._braces(quoted=quoted)
        elif self._follows('$"') and not quoted:
            self._at += 2
            self.quoted('"')
        elif found := _BACKQUOTED.match(self._text, begin):
            self._at = found.end()
            self._deeper()
            inner = type(self)(re.sub(r"\\([$`\\])", r"\1", found[1]), self._depth)
            self.nested += (*inner.sequence(), *inner.nested)
            self._deeper(-1)
        elif found := _VARIABLE.match(self._text, begin):
            self._at = found.end()
        elif self._follows("$"):
            literal = True
            self._at += 1
        else:
            raise UnreadableError(SYNTAX)
        return self._text[begin : self._at], literal

    def _braces(self, *, quoted: bool) -> None:
        """Take `${...}`."""
        self._deeper()
        self._at += 2
        while (char := self._char()) != "}":
            if char in "$`":
                self._expansion(quoted=quoted)
            elif char == '"' or (char == "'" and not quoted):
                self._word()
            else:
                self._at += 1 + (char == "\\")
        self._at += 1
        self._deeper(-1)

    def _parentheses(self) -> None:
        """Take `((...))`. Raise UnreadableError if it is two subshells instead."""
        level = 0
        while (char := self._char()) != ")" or level != 2 or self._text[self._at + 1 : self._at + 2] != ")":
            if char in "$`":
                self._expansion()
                continue
            level += (char == "(") - (char == ")")
            self._at += 1
            if level < 2 and char == ")":
                raise UnreadableError(SYNTAX)
        self._at += 2
