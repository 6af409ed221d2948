"""Words and commands of a shell line, and its here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from tree_sitter import Node


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_EXPANSIONS = frozenset(
    """
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion brace_expression
    translated_string $
    """.split()  # noqa: SIM905 - a table, to be read
)
_PIECES = tuple[str, bool]


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


def word_of(nodes: Sequence[Node], source: bytes) -> Word:
    """Return the word that adjacent nodes make."""
    pieces = list(_between(nodes, source, nodes[0].start_byte, nodes[-1].end_byte))
    text = "".join(piece for piece, _ in pieces)
    head = "".join(piece for piece, _ in takewhile(lambda one: one[1], pieces))
    tail = [piece for piece, _ in takewhile(lambda one: one[1], reversed(pieces))]
    return Word(text, head, "".join(reversed(tail)))


def program_word(nodes: Sequence[Node], source: bytes) -> Word:
    """Return the word of a program. A pattern (`gi?`, `{git,hg}`) is an expansion here."""
    word = word_of(nodes, source)
    plain = re.sub(
        r"'[^']*'|\"[^\"]*\"|\\.", "", _text(source, nodes[0].start_byte, nodes[-1].end_byte), flags=re.DOTALL
    )
    return Word(word, "", "") if re.search(r"[*?]|\[.+\]|\{.*,.*\}", plain) else word


def adjacent(first: Node, second: Node, source: bytes) -> bool:
    """Return whether two nodes are parts of one word: nothing but escaped characters is between them."""
    return re.fullmatch(rb"(?:\\.)*", source[first.end_byte : second.start_byte], re.DOTALL) is not None


def _between(nodes: Sequence[Node], source: bytes, begin: int, end: int, *, quoted: bool = False) -> Iterator[_PIECES]:
    """Yield the pieces from `begin` to `end`: those of the nodes, and the text between them."""
    for node in nodes:
        yield _plain(_text(source, begin, node.start_byte), quoted=quoted), True
        yield from _pieces(node, source, quoted=quoted)
        begin = node.end_byte
    yield _plain(_text(source, begin, end), quoted=quoted), True


def _pieces(node: Node, source: bytes, *, quoted: bool) -> Iterator[_PIECES]:
    text = _text(source, node.start_byte, node.end_byte)
    if node.type in _EXPANSIONS:
        yield text, False
    elif node.type == "raw_string":
        yield text[1:-1], True
    elif node.type == "ansi_c_string":
        yield text[2:-1], "\\" not in text
    elif node.type == "string":
        inner = [child for child in node.children if child.type != '"']
        yield from _between(inner, source, node.start_byte + 1, node.end_byte - 1, quoted=True)
    elif node.type in ("concatenation", "command_name"):
        yield from _between(node.children, source, node.start_byte, node.end_byte)
    else:
        yield _plain(text, quoted=quoted), True


def _plain(text: str, *, quoted: bool) -> str:
    """Return a text without its backslashes."""
    found = _ESCAPED_IN_QUOTES if quoted else _ESCAPED
    return found.sub(lambda match: match[1].replace("\n", ""), text)


def _text(source: bytes, begin: int, end: int) -> str:
    return source[begin:end].decode(errors="replace")


_START = re.compile(r"(?<![<\d$(])(\d?)<<(-?)[ \t]*(['\"\\]?)(\w+)(['\"]?)(?!<)")
_NAME = "here_document_"


@dataclass(frozen=True)
class Document:
    """A here-document. It is `literal` if nothing is expanded in it."""

    text: str
    literal: bool


def taken_out(line: str) -> tuple[str, dict[str, Document]]:
    """Return a line with a here-string in the place of each here-document, and the documents by the word there."""
    rows = line.split("\n")
    kept: list[str] = []
    found: dict[str, Document] = {}
    at = 0
    while at < len(rows):
        row = rows[at]
        at += 1
        for start in list(_START.finditer(row)):
            before = row[: start.start()]
            end = next((end for end in range(at, len(rows)) if _is_end(rows[end], start)), None)
            if end is None or before.count("'") % 2 or before.count('"') % 2:
                continue
            name = f"{_NAME}{len(found)}"
            body = [text.lstrip("\t") if start[2] else text for text in rows[at:end]]
            found[name] = Document("".join(f"{text}\n" for text in body), bool(start[3]))
            row = row.replace(start[0], f"<<<{name} ", 1)
            at = end + 1
        kept.append(row)
    return "\n".join(kept), found


def _is_end(row: str, start: re.Match[str]) -> bool:
    return (row.lstrip("\t") if start[2] else row) == start[4]


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
