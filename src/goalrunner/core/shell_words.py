"""Words of a shell line, from their syntax nodes, with what is known of those with expansions; options of a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tree_sitter import Node

EXPANSION = "\0"
_EXPANSIONS = frozenset(
    """
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion brace_expression
    translated_string $
    """.split()  # noqa: SIM905 - a table, to be read
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')


class Word(str):
    """A word. `shape` is the word with a null character in the place of each expansion."""

    shape: str
    __slots__ = ("shape",)

    def __new__(cls, text: str, shape: str | None = None) -> Self:
        """Return a word without expansions, unless `shape` says otherwise."""
        word = super().__new__(cls, text)
        word.shape = text if shape is None else shape
        return word

    @property
    def known(self) -> bool:
        """Whether the word has no expansion."""
        return EXPANSION not in self.shape

    @property
    def head(self) -> str:
        """What is known of its beginning."""
        return self.shape.partition(EXPANSION)[0]

    @property
    def program(self) -> str:
        """The file name at the end of the word; empty if an expansion decides it."""
        tail = self.shape.rpartition(EXPANSION)[2]
        return tail.rpartition("/")[2] if self.known or "/" in tail else ""

    def replaced(self, placeholder: str, head: str = "") -> Word:
        """Return the word with an expansion in the place of a placeholder, such as `{}` of find."""
        return Word(self.replace(placeholder, "$@"), self.shape.replace(placeholder, head + EXPANSION))


def text_of(source: bytes, node: Node) -> str:
    return _slice(source, node.start_byte, node.end_byte)


def _slice(source: bytes, begin: int, end: int) -> str:
    return source[begin:end].decode(errors="replace")


def words_of(source: bytes, nodes: Sequence[Node]) -> list[Word]:
    """Return the words that nodes make; nothing but escaped characters is between the nodes of one word."""
    groups: list[list[Node]] = []
    for node in nodes:
        between = source[groups[-1][-1].end_byte : node.start_byte] if groups else b" "
        if re.fullmatch(rb"(?:\\.)*", between, re.DOTALL):
            groups[-1].append(node)
        else:
            groups.append([node])
    return [_word(source, group) for group in groups]


def _word(source: bytes, group: Sequence[Node]) -> Word:
    pieces = [*_between(source, group, group[0].start_byte, group[-1].end_byte)]
    return Word("".join(text for text, _ in pieces), "".join(shape for _, shape in pieces))


def _between(
    source: bytes, nodes: Iterable[Node], begin: int, end: int, *, quoted: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield text and shape of the pieces from `begin` to `end`: of the nodes, and of the text between them."""
    for node in nodes:
        yield _plain(_slice(source, begin, node.start_byte), quoted=quoted)
        yield from _pieces(source, node, quoted=quoted)
        begin = node.end_byte
    yield _plain(_slice(source, begin, end), quoted=quoted)


def _pieces(source: bytes, node: Node, *, quoted: bool) -> Iterator[tuple[str, str]]:
    text = text_of(source, node)
    if node.type in _EXPANSIONS or (node.type == "ansi_c_string" and "\\" in text):
        yield text, EXPANSION
    elif node.type in ("raw_string", "ansi_c_string"):
        inner = text.removeprefix("$")[1:-1]
        yield inner, inner
    elif node.type == "string":
        inside = [child for child in node.children if child.type != '"']
        yield from _between(source, inside, node.start_byte + 1, node.end_byte - 1, quoted=True)
    elif node.type in ("concatenation", "command_name"):
        yield from _between(source, node.children, node.start_byte, node.end_byte)
    else:
        yield _plain(text, quoted=quoted)


def _plain(text: str, *, quoted: bool) -> tuple[str, str]:
    """Return a text without its backslashes, twice: it is its own shape."""
    plain = (_ESCAPED_IN_QUOTES if quoted else _ESCAPED).sub(lambda match: match[1].replace("\n", ""), text)
    return plain, plain


def options(words: Sequence[Word], valued: frozenset[str], last: tuple[str, ...] = ()) -> tuple[int, dict[str, Word]]:
    """Return where the operands of a command begin, and its options with their values. Options of `last` end them.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood.
    """
    at = 1
    found: dict[str, Word] = {}
    while at < len(words) and words[at].startswith("-") and words[at] != "-" and found.keys().isdisjoint(last):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else Word("")
        name, equals, value = word.partition("=")
        at += 1
        if word == "--":
            break
        if name.startswith("--") or name in valued:
            found[name] = following if name in valued and not equals else Word(value)
            at += name in valued and not equals
            continue
        for position, letter in enumerate(word[1:], 2):
            attached = Word(word[position:])
            found[f"-{letter}"] = attached or following
            if f"-{letter}" in valued:
                at += not attached
                break
    return min(at, len(words)), found
