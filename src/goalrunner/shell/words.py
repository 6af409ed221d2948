"""Words of a shell line, without their quotes. Expansions are not carried out: `$HOME` stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Self

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
